"""What both versions of an update have made of the same batches, before the new one takes over."""

from __future__ import annotations

import attrs

from ....core.difference.comparison import Comparison
from ....core.difference.difference import QueryDifference, compare
from ....core.difference.figures import COLD_BATCHES, BatchFigures
from ....core.difference.report import DifferenceError, DifferenceReport
from ....core.difference.row_difference import RowDifference
from ....core.errors import DriverError, InvalidInputError, WaitTimeoutError
from ....core.registry.deployment import FINAL_STATES, NEW, QueryStatus
from ...operations.stop import stop_deployment
from ...operations.version import store_copy
from ...waiting import wait_for
from ..update import Update

COMPARED_BATCHES = 5  # of each query, at least, where a difference may end the update


def batches_again(update: Update) -> int:
    """How many of the old version's last batches the new one begins with: enough for a comparison where one was asked
    for, so that it does not have to wait for input."""
    return COLD_BATCHES + COMPARED_BATCHES if update.options.compares else 1


def start_comparison(update: Update) -> None:
    """Ask for the rows to be compared, before the new version's driver is started; nothing where that was not asked
    for."""
    if update.options.diff:
        Comparison(update.registry.deployment_folder(update.record.new)).ask(update.options.diff_keys)


def start_witness(update: Update) -> None:
    """Start the driver that runs the old version's code along and compares, unless it runs."""
    if not update.options.diff:
        return
    registry, drivers, name = update.registry, update.drivers, witness_of(update)
    old, epoch = registry.running()
    if name not in registry.deployment_ids():
        store_copy(registry, drivers, old, name, owner=_owner(update))
    if drivers.state(name) in (*FINAL_STATES, NEW):
        drivers.start_witness(registry.spec(name), epoch + 1, batches_again(update), update.record.new)
        update.progress(f"{name}: driver started, to compare the rows of {update.record.new} with those of {old}")


def check_witness_name(update: Update) -> None:
    """InvalidInputError when a deployment of another origin has the name of the driver that is to compare rows."""
    name = witness_of(update)
    known = name in update.registry.deployment_ids()
    if update.options.diff and known and update.registry.spec(name).owner != _owner(update):
        raise InvalidInputError(
            f"rows cannot be compared (--diff): the driver for it would be deployment {name}, and {update.app} has a "
            "deployment of that name; give the new version another id (--deployment)"
        )


def _owner(update: Update) -> str:
    return f"witness of {update.record.new}"


def end_comparison(update: Update) -> None:
    """End the driver that compares, once the versions were compared: it takes the processors that the hand-over
    needs."""
    if update.options.diff and witness_of(update) in update.registry.deployment_ids():
        stop_deployment(update.context, update.app, witness_of(update))


def remove_rows(update: Update) -> None:
    """Remove the rows that were compared, once the new version records none any more."""
    Comparison(update.registry.deployment_folder(update.record.new)).remove_rows()


def witness_of(update: Update) -> str:
    return f"{update.record.new}-witness"


def check_difference(update: Update) -> DifferenceReport:
    """Compare the versions, store the report and return it. DifferenceError, with nothing stopped, when they differ too
    much, or when a limit was asked for and there is nothing to hold it to."""
    report = _enough(update) if update.options.compares else _compared(update)
    update.registry.set_difference(update.record.new, report)
    problems = [*report.problems, *_uncompared(report)]
    if problems:
        ended = update.drivers.state(str(update.record.old)) in FINAL_STATES
        raise DifferenceError(
            f"{update.record.new} of {update.app} differs too much from {update.record.old}; nothing was stopped or "
            f"changed, and {update.record.old} {'has ended by itself' if ended else 'keeps running'}:\n  "
            + "\n  ".join(problems),
            report,
        )
    if any(query.batches for query in report.queries):
        update.progress(f"{update.record.new} and {update.record.old} have run the same batches: {_told(report)}")
    return report


def _enough(update: Update) -> DifferenceReport:
    """The report as soon as enough batches were compared; as it is when that does not come about while a driver may
    start, or the new version catch up."""
    found: list[DifferenceReport] = []

    def poll() -> bool | None:
        found[:] = [_compared(update)]
        compared = Comparison(update.registry.deployment_folder(update.record.new)).found().batches
        counts = [len(query.batches) for query in found[0].queries] if update.options.limits.any else []
        counts += [len(compared.get(query, ())) for query in update.options.diff_keys]
        if all(count >= COMPARED_BATCHES for count in counts):
            return True
        _check_witness(update)  # it was ended once enough was compared, should this be a rerun
        return True if update.drivers.state(str(update.record.old)) in FINAL_STATES else None  # no batch comes any more

    try:
        wait_for(poll, "a comparison", max(update.options.submit_timeout, update.options.catch_up_timeout or 0.0), 1.0)
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
        rows=_rows(update),
    )


def _rows(update: Update) -> tuple[RowDifference, ...]:
    """What was found of each query whose rows were to be compared; of none that was not is it said that it is equal."""
    found = Comparison(update.registry.deployment_folder(update.record.new)).found()
    known = {rows.query: rows for rows in found.rows}
    return tuple(
        known.get(query, RowDifference(query=query, keys=keys)) for query, keys in update.options.diff_keys.items()
    )


def _uncompared(report: DifferenceReport) -> list[str]:
    """What was asked for and did not come about."""
    return [
        f"query {rows.query}: no batch's rows were compared, though that was asked for (--diff)"
        for rows in report.rows
        if rows.batches is None
    ]


def _check_witness(update: Update) -> None:
    if update.options.diff and (state := update.drivers.state(witness_of(update))) in FINAL_STATES:
        raise DriverError(
            f"the rows of {update.record.new} and {update.record.old} cannot be compared: "
            f"{update.drivers.death(witness_of(update), state)}"
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
