"""What both versions of an update have made of the same batches, before the new one takes over."""

from __future__ import annotations

import attrs

from ....core.difference.difference import QueryDifference, compare
from ....core.difference.figures import BatchFigures
from ....core.difference.report import DifferenceError, DifferenceReport
from ....core.errors import WaitTimeoutError
from ....core.registry.deployment import QueryStatus
from ....core.serde import to_json
from ...waiting import wait_for
from ..update import Update

COLD_BATCHES = 3  # the first ones of a driver, which take longer than later ones: not compared
COMPARED_BATCHES = 5  # of each query, at least, where a difference may end the update
SECONDS = 120.0  # for a comparison to come about; more where the new version may take longer to catch up


def batches_again(update: Update) -> int:
    """How many of the old version's last batches the new one begins with: enough for a comparison where one was asked
    for, so that it does not have to wait for input."""
    return COLD_BATCHES + COMPARED_BATCHES if update.options.compares else 1


def check_difference(update: Update) -> DifferenceReport:
    """Compare the versions, store the report and return it. DifferenceError, with nothing stopped, when they differ too
    much, or when a limit was asked for and there is nothing to hold it to."""
    report = _compared(update)
    if update.options.compares:
        report = _enough(update)
    folder = update.registry.folder
    folder.write(f"differences/{update.record.new}.json", to_json(report))
    folder.write(f"differences/{update.record.new}.md", report.to_markdown().encode())
    if not report.passed:
        raise DifferenceError(
            f"{update.record.new} of {update.app} differs too much from {update.record.old}; nothing was stopped or "
            f"changed, and {update.record.old} keeps running:\n  " + "\n  ".join(report.problems),
            report,
        )
    if any(query.batches for query in report.queries):
        update.progress(f"{update.record.new} and {update.record.old} have run the same batches: {_told(report)}")
    return report


def _enough(update: Update) -> DifferenceReport:
    """The report as soon as enough batches were compared; as it is when that does not come about."""
    found: list[DifferenceReport] = []

    def poll() -> bool | None:
        found[:] = [_compared(update)]
        return True if all(len(query.batches) >= COMPARED_BATCHES for query in found[0].queries) else None

    try:
        wait_for(poll, "a comparison", max(SECONDS, update.options.catch_up_timeout or 0.0), 1.0)
    except WaitTimeoutError:
        update.progress(f"fewer than {COMPARED_BATCHES} batches could be compared")
    return found[0]


def _compared(update: Update) -> DifferenceReport:
    registry, old, new = update.registry, str(update.record.old), update.record.new
    before, now = registry.status(old), registry.status(new)
    known = before.queries if before else {}
    queries = now.queries if now else {}
    return DifferenceReport(
        app=update.app,
        queries=tuple(
            compare(_renamed(known[name], update), query.figures, name, update.options.limits)
            for name, query in queries.items()
            if name in known
        ),
    )


def _renamed(query: QueryStatus, update: Update) -> tuple[BatchFigures, ...]:
    """The old version's figures, with the names that stages have in the new one."""
    renames = update.options.renames or {}
    return tuple(
        attrs.evolve(f, state_rows={renames.get(stage, stage): rows for stage, rows in f.state_rows.items()})
        if f.state_rows is not None
        else f
        for f in query.figures
    )


def _told(report: DifferenceReport) -> str:
    return "; ".join(_query(query) for query in report.queries if query.batches)


def _query(query: QueryDifference) -> str:
    changes = [f"{figure.name} {figure.changed}" for figure in query.figures if figure.change]
    return f"query {query.query}, {len(query.batches)} batches, {', '.join(changes) or 'no difference'}"
