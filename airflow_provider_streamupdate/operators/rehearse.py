"""The operator that rehearses a new version."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from ..control.operations.rehearse import BATCHES, check_batches
from ..hooks.templated_values import seconds
from ..hooks.update_options import count
from ..hooks.xcom import push_report
from .application import VersionOperator


class StreamRehearseOperator(VersionOperator):
    """Runs a new version's first batches from a snapshot with muted sinks, and compares with the snapshot's version.

    Both versions read the input that follows the snapshot. Fails, without retries, when the new version cannot continue
    from the snapshot, or its driver dies. The running app is not touched. With 0 batches, or none, it does nothing.

    Returns the report. It is also in XCom, even after a failure: as plain data under ``report`` and as text under
    ``report_markdown``.

    application ..., agree, renames: see VersionOperator
    from_snapshot: the snapshot; None: the app's newest
    batches: how many batches of each query to run at most
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
            result = push_report(context["ti"], report, self.log.info)
            if not report.passed:
                problems = "\n".join(f"- {line}" for line in report.problems)
                raise AirflowFailException(
                    f"the new version of {report.app} failed its rehearsal on snapshot {report.snapshot}; nothing was "
                    f"stopped or changed:\n{problems}"
                )
            return result
