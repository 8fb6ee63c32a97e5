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

    A compatibility report has its picture in place of its graph, and the ways on of each item with the agreements, as
    data and as texts.
    """
    data: dict[str, Any] = {**to_dict(report), "outcome": report.outcome, "problems": list(report.problems)}
    if isinstance(report, CompatibilityReport):
        del data["graph"]
        items = zip(data["items"], report.items, strict=True)
        data["items"] = [{**item, "ways": to_dict(each.ways_on), "next_steps": each.next_steps} for item, each in items]
        return {**data, "picture": to_dict(report.picture), "compatible": report.compatible}
    if isinstance(report, RehearsalReport):
        data["compatibility"] = report_data(report.compatibility)
    return {**data, "passed": report.passed}
