"""The rehearsal of a new version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from ..control.operations.rehearse import BATCHES, check_batches
from ..hooks.templated_values import optional_text, seconds, text_list, text_map
from ..hooks.update_options import count
from ..hooks.xcom import plain, rehearsal_dict
from .application import ApplicationOperator


class StreamRehearseOperator(ApplicationOperator):
    """Runs a new version's first batches from a snapshot, on the input that follows it, with muted sinks; then the
    same batches of the version the snapshot is of. Fails, for good, when the new version cannot go on from the
    snapshot or dies. Nothing of the running app is touched.

    The report is returned, and on a failure too it is in XCom as plain data under ``report`` and as text under
    ``report_markdown``. With 0 batches, or none, it does nothing.

    application ...: see ApplicationOperator
    from_snapshot: the snapshot; None: the app's newest
    batches: of each query, at most
    agree: names of the losses that are agreed to
    renames: stages and sources that have new names, ``{"old": "new"}``
    deployment_id: the deployment the application is to become; its report is then kept under the root
    timeout: seconds (or a timedelta, or ISO 8601 text), for each of the two versions
    """

    template_fields = (
        *ApplicationOperator.template_fields,
        "from_snapshot",
        "batches",
        "agree",
        "renames",
        "deployment_id",
        "timeout",
    )
    ui_color = "#fdf3d8"

    def __init__(
        self,
        *,
        app: str,
        from_snapshot: str | None = None,
        batches: int | str | None = BATCHES,
        agree: Sequence[str] | str = (),
        renames: Mapping[str, str] | str | None = None,
        deployment_id: str | None = None,
        timeout: Any = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(app=app, **kwargs)
        self.from_snapshot = from_snapshot
        self.batches = batches
        self.agree = agree
        self.renames = renames
        self.deployment_id = deployment_id
        self.timeout = timeout

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            if not (batches := count(self.batches, "batches")):
                self.log.info("no rehearsal was asked for")
                return None
            report = self.client.rehearse(
                self.described(),
                app=self.app_name,
                snapshot=optional_text(self.from_snapshot),
                batches=check_batches(batches),
                agree=text_list(self.agree, "agree"),
                deployment=optional_text(self.deployment_id),
                renames=text_map(self.renames, "renames"),
                timeout=seconds(self.timeout, "timeout"),
                progress=self.log.info,
            )
            markdown = report.to_markdown()
            self.log.info("%s", markdown)
            result = rehearsal_dict(report)
            context["ti"].xcom_push(key="report", value=result)
            context["ti"].xcom_push(key="report_markdown", value=plain(markdown))
            if not report.passed:
                problems = "\n".join(f"- {line}" for line in report.problems)
                raise AirflowFailException(
                    f"the new version of {report.app} failed its rehearsal on snapshot {report.snapshot}; nothing was "
                    f"stopped or changed:\n{problems}"
                )
            return result
