"""The operator that rolls back to the previous deployment."""

from __future__ import annotations

from typing import Any

from ..control.update.rollback import RollbackOptions
from ..core.names import check_name
from ..hooks.templated_values import optional_text, seconds, text_list
from ..hooks.xcom import plain
from .base import StreamUpdateOperator, owner_of
from .update_task import counting


class StreamRollbackOperator(StreamUpdateOperator):
    """Rolls back to the previous deployment, which runs again from the state it was stopped with.

    Running it again changes nothing. Returns what runs now, or None when there was nothing to roll back.

    app: the app
    deployment_id: the deployment to roll back from; None: the new one of an update under way, else the current one
    to: the deployment to go back to; None: the one before, which is refused when it failed or was lost
    later_ids: queries whose foreachBatch function skips batch ids it has seen, and whose app does not declare that
        (seen_batch): a list, or text with commas. Batches they compute again get ids after those of the newer
        deployment
    timeout: seconds (or a timedelta, or ISO 8601 text) until the previous one must run; None: the
        connection's
    """

    template_fields = (*StreamUpdateOperator.template_fields, "app", "deployment_id", "to", "later_ids", "timeout")
    ui_color = "#f5d9b8"

    def __init__(
        self,
        *,
        app: str,
        deployment_id: str | None = None,
        to: str | None = None,
        later_ids: Any = (),
        timeout: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.deployment_id = deployment_id
        self.to = to
        self.later_ids = later_ids
        self.timeout = timeout

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            check_name("app", self.app)
            self.touch(self.app)
            timeout = self.hook.settings.submit_timeout if self.timeout is None else seconds(self.timeout, "timeout")
            deployment = optional_text(self.deployment_id)
            with counting(self.client, self.app, deployment):
                deployed = self.client.rollback(
                    self.app,
                    deployment=deployment,
                    timeout=timeout,
                    progress=self.log.info,
                    options=RollbackOptions(
                        to=optional_text(self.to),
                        later_ids=text_list(self.later_ids, "later_ids"),
                        asked_by=owner_of(context["ti"]),
                    ),
                )
            if deployed is None:
                self.log.info("app %s: nothing to roll back", self.app)
                return None
            self.touch(self.app, deployed.deployment)
            self.log.info("app %s: deployment %s runs again", deployed.app, deployed.deployment)
            result: dict[str, Any] = plain(deployed)
            return result
