"""The compatibility check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from ..core.compatibility.report import CompatibilityReport
from ..hooks.templated_values import optional_text, text_list, text_map
from ..hooks.xcom import plain, report_dict
from ..links.streamupdate import CompatibilityReportLink, push_link
from .application import ApplicationOperator


class StreamCompatibilityCheckOperator(ApplicationOperator):
    """Fails, for good, when the application cannot go on from the saved state; nothing is stopped or changed.

    The report is returned, and on a refusal too it is in XCom as plain data under
    ``report`` and as text under ``report_markdown``.

    application ...: see ApplicationOperator
    from_snapshot: the snapshot to compare with; None: the state of what the app's current deployment has committed
    agree: names of the losses that are agreed to, as the report gives them (``query/stage``)
    renames: stages and sources that have new names, ``{"old": "new"}``
    deployment_id: the deployment the application is to become; its report is then kept under the root
    """

    template_fields = (
        *ApplicationOperator.template_fields,
        "from_snapshot",
        "agree",
        "renames",
        "deployment_id",
    )
    operator_extra_links = (CompatibilityReportLink(),)
    ui_color = "#fdf3d8"

    def __init__(
        self,
        *,
        from_snapshot: str | None = None,
        agree: Sequence[str] | str = (),
        renames: Mapping[str, str] | str | None = None,
        deployment_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.from_snapshot = from_snapshot
        self.agree = agree
        self.renames = renames
        self.deployment_id = deployment_id

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            deployment = optional_text(self.deployment_id)
            report = self.client.check(
                self.described(),
                app=self.app_name,
                snapshot=optional_text(self.from_snapshot),
                agree=text_list(self.agree, "agree"),
                renames=text_map(self.renames, "renames"),
                deployment=deployment,
            )
            result = self._show(context, report, deployment)
            if not report.compatible:
                problems = "\n".join(f"- {line}" for line in report.problems)
                raise AirflowFailException(
                    f"the new version of {report.app} is not compatible with {report.source}; nothing was "
                    "stopped or "
                    f"changed:\n{problems}"
                )
            return result

    def _show(self, context: Any, report: CompatibilityReport, deployment: str | None) -> dict[str, Any]:
        markdown = report.to_markdown()
        self.log.info("%s", markdown)
        result = report_dict(report)
        context["ti"].xcom_push(key="report", value=result)
        context["ti"].xcom_push(key="report_markdown", value=plain(markdown))
        if deployment:
            folder = self.client.registry.app(report.app).folder
            push_link(context, CompatibilityReportLink, f"{folder.uri}/updates/{deployment}.report.md")
        return result
