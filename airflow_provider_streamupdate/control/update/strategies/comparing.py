"""What both versions of an update have made of the same batches, before the new one takes over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import attrs

from ....core.compatibility.rules.sinks import is_function
from ....core.compatibility.successors import new_names
from ....core.difference.comparison import Comparison
from ....core.difference.difference import QueryDifference, compare
from ....core.difference.figures import COLD_BATCHES, BatchFigures
from ....core.difference.report import DifferenceError, DifferenceReport
from ....core.difference.row_difference import RowDifference
from ....core.errors import WaitTimeoutError
from ....core.registry.deployment import FINAL_STATES, QueryStatus
from ....core.registry.registry import AppRegistry
from ...operations.context import Context
from ...operations.stop import stop_deployment
from ...waiting import wait_for
from ..update import Update
from .witness import Witness

COMPARED_BATCHES = 5  # of each query, at least, where a difference may end the update
REST_SECONDS = 60.0  # for what is recorded and not compared when that is reached; a comparison takes seconds


def batches_again(update: Update) -> int:
    """How many of the old version's last batches the new one begins with: enough for a comparison where one was asked
    for, so that it does not have to wait for input."""
    return COLD_BATCHES + COMPARED_BATCHES if update.options.compares else 1


def start_comparison(update: Update) -> None:
    """Ask for the rows to be compared, before the new version's driver is started. Where an earlier try of the update
    asked for something else, the drivers of it are ended: they record other queries, and what they have recorded may be
    gone."""
    comparison = _comparison(update)
    asked = update.options.asked if update.options.diff else None
    if comparison.asks_anew(asked):
        update.progress(f"other rows are to be compared than before: {update.record.new} starts again")
        Witness.of(update).end()
        stop_deployment(update.context, update.app, update.record.new)
    comparison.ask(asked)


def start_witness(update: Update) -> None:
    """Start the driver that compares rows, unless it runs or none are to be compared. The new version has caught up by
    then: three drivers that run many batches at once slow each other down, and the running one, too."""
    if update.options.diff and update.drivers.state(str(update.record.old)) not in FINAL_STATES:
        Witness.of(update).start(update, batches_again(update))


def clear_comparison(context: Context, registry: AppRegistry, new: str) -> None:
    """End the driver that compares, and remove the rows of both versions: the deployment `new` records none any
    more."""
    Witness(context, registry, new).end()
    if new in registry.deployment_ids():
        Comparison(registry.deployment_folder(new)).remove_rows()


def check_difference(update: Update) -> DifferenceReport:
    """Compare the versions, store the report and return it. DifferenceError, with nothing stopped, when they differ too
    much, or when a limit was asked for and there is nothing to hold it to."""
    report = _enough(update) if update.options.compares else _compared(update)
    update.registry.set_difference(update.record.new, report)
    if report.problems:
        ended = update.drivers.state(str(update.record.old)) in FINAL_STATES
        differs = len(report.problems) > len(report.uncompared)
        what = "differs too much from" if differs else "could not be compared, as was asked for, with"
        raise DifferenceError(
            f"{update.record.new} of {update.app} {what} {update.record.old}; nothing was stopped or "
            f"changed, and {update.record.old} {'has ended by itself' if ended else 'keeps running'}:\n  "
            + "\n  ".join(report.problems),
            report,
        )
    if told := _told(report):
        update.progress(f"{update.record.new} and {update.record.old} have run the same batches: {told}")
    for note in (*(note for rows in report.rows for note in rows.notes()), *report.remarks):
        update.progress(note)
    return report


def _enough(update: Update) -> DifferenceReport:
    """The report as soon as enough batches were compared, and all whose rows were there by then; as it is when that
    does not come about while a driver may start, or the new version catch up."""
    found: list[DifferenceReport] = []

    def poll() -> bool | None:
        found[:] = [_compared(update)]
        compared = _comparison(update).found().batches
        counts = [len(query.batches) for query in found[0].queries] if update.options.limits.any else []
        counts += [len(compared.get(query, ())) for query in update.options.diff_keys]
        if all(count >= COMPARED_BATCHES for count in counts):
            return True
        if update.options.diff:
            Witness.of(update).check(update)  # it was ended once enough was compared, should this be a rerun
        return True if update.drivers.state(str(update.record.old)) in FINAL_STATES else None  # no batch comes any more

    try:
        wait_for(poll, "a comparison", max(update.options.submit_timeout, update.options.catch_up_timeout or 0.0), 1.0)
    except WaitTimeoutError:
        update.progress(f"fewer than {COMPARED_BATCHES} batches could be compared")
    _compare_rest(update)
    return _compared(update)


def _compare_rest(update: Update) -> None:
    """Wait a while for the batches whose rows are there and were not compared yet."""
    recorded = {query: set(_comparison(update).recorded(query)) for query in update.options.diff_keys}

    def poll() -> bool | None:
        left = any(batches.intersection(_comparison(update).recorded(query)) for query, batches in recorded.items())
        return None if left and Witness.of(update).lives else True

    with contextlib.suppress(WaitTimeoutError):
        wait_for(poll, "the rest of the comparison", REST_SECONDS, 0.5)


def _comparison(update: Update) -> Comparison:
    return Comparison(update.registry.deployment_folder(update.record.new))


def _compared(update: Update) -> DifferenceReport:
    registry, old, new = update.registry, str(update.record.old), update.record.new
    before, now = registry.status(old), registry.status(new)
    known, queries = (status.queries if status else {} for status in (before, now))
    plans = registry.plan(old), registry.plan(new)
    names = new_names(*plans, update.options.renames)
    rows = _rows(update)
    return DifferenceReport(
        app=update.app,
        queries=tuple(
            compare(
                _renamed(known[name], names.get(name, {})) if name in known else (),
                queries[name].figures if name in queries else (),
                name,
                update.options.limits,
                _timed(name, update),
            )
            for name in _in_both(update)
        ),
        rows=rows,
        uncompared=tuple(_uncompared(update, rows)),
        remarks=tuple(_remarks(update, rows)),
    )


def _in_both(update: Update) -> list[str]:
    """The queries of both versions."""
    old, new = (update.registry.plan(name) for name in (str(update.record.old), update.record.new))
    return [query.name for query in (new.queries if new else ()) if old is not None and old.query(query.name)]


def _rows(update: Update) -> tuple[RowDifference, ...]:
    """What was found of each query whose rows were to be compared; of none that was not is it said that it is equal."""
    known = {rows.query: rows for rows in _comparison(update).found().rows}
    return tuple(
        known.get(query, RowDifference(query=query, keys=keys)) for query, keys in update.options.diff_keys.items()
    )


def _uncompared(update: Update, rows: Sequence[RowDifference]) -> Iterator[str]:
    """What was asked for and did not come about."""
    if update.options.limits.any and not _in_both(update):
        yield "no query is in both versions, so that no limit can be checked"
    for found in rows:
        if found.batches is None:
            yield f"query {found.query}: no batch's rows were compared, though that was asked for (--diff)"


def _remarks(update: Update, rows: Sequence[RowDifference]) -> Iterator[str]:
    """What the comparison of rows does not cover."""
    plan = update.registry.plan(update.record.new)
    for query in (plan.query(found.query) for found in rows) if plan else ():
        if query is not None and is_function(query):
            yield (
                f"query {query.name}: the rows that its {query.sink.format} function is given were compared, not what "
                "it writes"
            )
    if rows and (witness := Witness.of(update)).ended:
        yield f"later batches' rows were not compared: {witness.name}, which compares them, has ended"


def _timed(name: str, update: Update) -> tuple[BatchFigures, ...] | None:
    """The figures of the driver that runs the old version's code along. Where the rows are compared, a batch of the new
    version's takes longer by the time that recording its rows takes: a limit for the times holds against a driver that
    records them, too. None: nobody does, or there is no limit"""
    if name not in update.options.diff_keys or update.options.limits.max_slower is None:
        return None
    told = Witness.of(update).query(name)
    return told.figures if told is not None else ()


def _renamed(query: QueryStatus, names: Mapping[str, str]) -> tuple[BatchFigures, ...]:
    """The old version's figures, with the names that stages have in the new one."""
    return tuple(
        attrs.evolve(f, state_rows={names.get(stage, stage): rows for stage, rows in f.state_rows.items()})
        if f.state_rows is not None
        else f
        for f in query.figures
    )


def _told(report: DifferenceReport) -> str:
    return "; ".join([*(_query(query) for query in report.queries if query.batches), *(r.told for r in report.rows)])


def _query(query: QueryDifference) -> str:
    changes = [f"{figure.name} {figure.changed}" for figure in query.figures if figure.change]
    return f"query {query.query}, {len(query.batches)} batches, {', '.join(changes) or 'no difference'}"
