"""The operator that rolls back to the previous deployment."""

from __future__ import annotations

from typing import Any

from ..control.update.rollback import RollbackOptions
from ..core.names import check_name
from ..hooks.templated_values import optional_text, text_list
from ..hooks.xcom import plain_dict
from .base import AppOperator, owner_of
from .driver.links import counting


class StreamRollbackOperator(AppOperator):
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

    template_fields = (*AppOperator.template_fields, "deployment_id", "to", "later_ids", "timeout")
    ui_color = "#f5d9b8"

    def __init__(
        self,
        *,
        deployment_id: str | None = None,
        to: str | None = None,
        later_ids: Any = (),
        timeout: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment_id = deployment_id
        self.to = to
        self.later_ids = later_ids
        self.timeout = timeout

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            check_name("app", self.app)
            return self.roll_back(context, optional_text(self.deployment_id))

    def roll_back(
        self, context: Any, deployment: str | None, update: str | None = None, reason: str | None = None
    ) -> dict[str, Any] | None:
        """Roll back from a deployment. update: the one that ends with it, for lineage; reason: why, for its record"""
        self.touch(self.app, update=update)
        options = RollbackOptions(
            to=optional_text(self.to),
            later_ids=text_list(self.later_ids, "later_ids"),
            reason=reason,
            asked_by=owner_of(context["ti"]),
        )
        timeout = self.duration("timeout", "submit_timeout")
        with counting(self.client, self.app, deployment):
            deployed = self.client.rollback(self.app, deployment, timeout, self.log.info, options)
        if deployed is None:
            self.log.info("app %s: nothing to roll back", self.app)
            return None
        self.touch(self.app, deployed.deployment, update=update)
        self.log.info("app %s: deployment %s runs again", deployed.app, deployed.deployment)
        return plain_dict(deployed)
