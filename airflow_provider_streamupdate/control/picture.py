"""Pictures for the page: what runs, with its figures, and a report's verdicts on a new version."""

from __future__ import annotations

from typing import Any

import attrs

from ..core.compatibility.picture import QUERY, Figures, picture_of
from ..core.compatibility.report import CompatibilityReport
from ..core.errors import StreamUpdateError
from ..core.plan.graph import SINK, graph, source_id, stage_id
from ..core.plan.plan import AppPlan
from ..core.registry.deployment import FINAL_STATES, SILENT, DriverState, QueryStatus, Status
from ..core.serde import from_dict, to_dict


def running_picture(plan: AppPlan | None, state: DriverState, status: Status | None) -> dict[str, Any] | None:
    """Return the picture of the version that runs; None before its plan is there."""
    picture = None if plan is None else picture_of(graph(plan), figures=figures(state, status))
    document: dict[str, Any] | None = to_dict(picture)
    return document


def report_document(report: CompatibilityReport, figures: Figures | None = None) -> dict[str, Any]:
    """Return a report with its outcome, and with its picture in place of its graph. `figures` are the old version's."""
    picture = None if report.graph is None else picture_of(report.graph, report.items, figures)
    document: dict[str, Any] = to_dict(attrs.evolve(report, graph=None))
    del document["graph"]
    return {**document, "outcome": report.outcome, "picture": to_dict(picture)}


def with_picture(report: Any) -> Any:
    """Return a report that a task left as plain data, with its picture in place of its graph.

    Another release may have left it: without a readable graph there is no picture.
    """
    if not isinstance(report, dict) or "graph" not in report:
        return report
    document = {key: value for key, value in report.items() if key != "graph"}
    try:
        return {**document, "picture": report_document(from_dict(report, CompatibilityReport))["picture"]}
    except StreamUpdateError:
        return {**document, "picture": None}


def figures(state: DriverState, status: Status | None) -> Figures:
    """Return the figures that a driver last reported. Of a driver that ended, only the state is still there."""
    alive = state not in FINAL_STATES and state != SILENT
    return {name: _figures(query, alive) for name, query in (status.queries if status else {}).items()}


def _figures(query: QueryStatus, alive: bool) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float | None]] = {QUERY: {"state_bytes": query.state_bytes}, SINK: {}}
    found |= {stage_id(name): {"state_rows": rows} for name, rows in query.state_rows.items()}
    if alive:
        found[QUERY] |= {
            "rows_per_second": query.input_rows_per_second,
            "processed_per_second": query.processed_rows_per_second,
            "lag": query.lag,
        }
        found[SINK] = {"batch_rows": query.figures[-1].rows_out if query.figures else None}
        for name in {*query.source_rates, *query.source_lag}:
            rate, lag = query.source_rates.get(name), query.source_lag.get(name)
            found[source_id(name)] = {"rows_per_second": rate, "lag": lag}
    return {name: {key: n for key, n in of_node.items() if n is not None} for name, of_node in found.items()}
