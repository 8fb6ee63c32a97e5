"""The reports of checks, rehearsals and comparisons as plain data, for JSON output, XCom and the page."""

from __future__ import annotations

from typing import Any

from ..core.compatibility.report import CompatibilityReport
from ..core.difference.report import DifferenceReport
from ..core.serde import to_dict
from ..core.snapshots.rehearsal import RehearsalReport

Report = CompatibilityReport | RehearsalReport | DifferenceReport


def report_data(report: Report) -> dict[str, Any]:
    """Return a report with its outcome and problems, and whether it passed (``compatible`` or ``passed``).

    A compatibility report has its picture in place of its graph.
    """
    data: dict[str, Any] = {**to_dict(report), "outcome": report.outcome, "problems": list(report.problems)}
    if isinstance(report, CompatibilityReport):
        del data["graph"]
        return {**data, "picture": to_dict(report.picture), "compatible": report.compatible}
    if isinstance(report, RehearsalReport):
        data["compatibility"] = report_data(report.compatibility)
    return {**data, "passed": report.passed}
