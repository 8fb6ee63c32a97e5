"""The rehearsal of a new version."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from ..control.operations.rehearse import BATCHES, check_batches
from ..hooks.templated_values import seconds
from ..hooks.update_options import count
from ..hooks.xcom import plain, rehearsal_dict
from .application import VersionOperator


class StreamRehearseOperator(VersionOperator):
    """Runs a new version's first batches from a snapshot, on the input that follows it, with muted sinks; then the
    same batches of the version the snapshot is of. Fails, for good, when the new version cannot go on from the
    snapshot or dies. Nothing of the running app is touched.

    The report is returned, and on a failure too it is in XCom as plain data under ``report`` and as text under
    ``report_markdown``. With 0 batches, or none, it does nothing.

    application ..., agree, renames: see VersionOperator
    from_snapshot: the snapshot; None: the app's newest
    batches: of each query, at most
    deployment_id: the deployment the application is to become; its report is then kept under the root
    timeout: seconds (or a timedelta, or ISO 8601 text), for each of the two versions
    """

    template_fields = (*VersionOperator.template_fields, "batches", "timeout")
    ui_color = "#fdf3d8"

    def __init__(self, *, app: str, batches: int | str | None = BATCHES, timeout: Any = 600.0, **kwargs: Any) -> None:
        super().__init__(app=app, **kwargs)
        self.batches = batches
        self.timeout = timeout

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            if not (batches := count(self.batches, "batches")):
                self.log.info("no rehearsal was asked for")
                return None
            report = self.client.rehearse(
                self.described(),
                batches=check_batches(batches),
                timeout=seconds(self.timeout, "timeout"),
                progress=self.log.info,
                **self.version(),
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
