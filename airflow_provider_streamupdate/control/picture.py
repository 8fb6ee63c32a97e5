"""The picture of an app's queries as JSON: what runs, with its figures, and what a report says of a new version."""

from __future__ import annotations

from typing import Any

import attrs

from ..core.compatibility.picture.picture import ALL, Figures, Picture, pictured
from ..core.compatibility.report import CompatibilityReport
from ..core.errors import StreamUpdateError
from ..core.plan.graph import SINK, graph, source_id, stage_id
from ..core.plan.plan import AppPlan
from ..core.registry.deployment import FINAL_STATES, SILENT, DriverState, QueryStatus, Status
from ..core.serde import from_dict, to_dict


def running_picture(plan: AppPlan | None, state: DriverState, status: Status | None) -> dict[str, Any] | None:
    """Return the picture of the version that runs; None before its plan is there."""
    return None if plan is None else _document(pictured(graph(plan), figures=figures(state, status)))


def report_document(report: CompatibilityReport, figures: Figures | None = None) -> dict[str, Any]:
    """Return a report with its outcome and, in place of its graph, its picture; `figures`: of the old version."""
    made = None if report.graph is None else pictured(report.graph, report.items, figures)
    told = to_dict(attrs.evolve(report, graph=None))
    del told["graph"]
    return {**told, "outcome": report.outcome, "picture": made and _document(made)}


def with_picture(report: Any) -> Any:
    """Return a report that a task left as plain data with its picture in place of its graph. Another release may have
    left it: without a graph that is understood, there is no picture."""
    if not isinstance(report, dict) or "graph" not in report:
        return report
    told = {key: value for key, value in report.items() if key != "graph"}
    try:
        found = from_dict(report, CompatibilityReport)
    except StreamUpdateError:
        return {**told, "picture": None}
    return {**told, "picture": report_document(found)["picture"]}


def figures(state: DriverState, status: Status | None) -> Figures:
    """Return what a driver last reported, for each query's nodes. What a driver that is gone reported of its rows is
    not what happens, and what it kept is still kept."""
    alive = state not in FINAL_STATES and state != SILENT
    return {name: _figures(query, alive) for name, query in (status.queries if status else {}).items()}


def _figures(query: QueryStatus, alive: bool) -> dict[str, dict[str, float]]:
    rows_out = query.figures[-1].rows_out if query.figures else None
    found: dict[str, dict[str, float | None]] = {
        ALL: {
            "rows_per_second": query.input_rows_per_second if alive else None,
            "processed_per_second": query.processed_rows_per_second if alive else None,
            "lag": query.lag if alive else None,
            "state_bytes": query.state_bytes,
        },
        SINK: {"batch_rows": rows_out if alive else None},
    }
    for name, rows in query.state_rows.items():
        found[stage_id(name)] = {"state_rows": rows}
    for name in {*query.source_rates, *query.source_lag} if alive else ():
        found[source_id(name)] = {
            "rows_per_second": query.source_rates.get(name),
            "lag": query.source_lag.get(name),
        }
    return {name: {key: n for key, n in told.items() if n is not None} for name, told in found.items()}


def _document(picture: Picture) -> dict[str, Any]:
    made: dict[str, Any] = to_dict(picture)
    return made
