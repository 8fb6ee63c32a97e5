"""The operator that checks compatibility."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from ..hooks.xcom import push_report
from ..links.streamupdate import CompatibilityReportLink, push_link
from .application import VersionOperator


class StreamCompatibilityCheckOperator(VersionOperator):
    """Fails, without retries, when the application cannot continue from the saved state; stops and changes nothing.

    Returns the report. It is also in XCom, even after a refusal: as plain data under ``report`` and as text under
    ``report_markdown``.

    application ..., agree, renames: see VersionOperator
    from_snapshot: the snapshot to compare with; None: what the app's current deployment has committed
    deployment_id: the deployment the application is to become; its report is then kept under the root
    """

    operator_extra_links = (CompatibilityReportLink(),)
    ui_color = "#fdf3d8"

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            version = self.version()
            report = self.client.check(self.described(), **version)
            result = push_report(context["ti"], report, self.log.info)
            if deployment := version["deployment"]:
                folder = self.client.registry.app(report.app).folder
                push_link(context, CompatibilityReportLink, f"{folder.uri}/updates/{deployment}.report.md")
            if not report.compatible:
                problems = "\n".join(f"- {line}" for line in report.problems)
                raise AirflowFailException(
                    f"the new version of {report.app} is not compatible with {report.source}; nothing was stopped or "
                    f"changed:\n{problems}"
                )
            return result
