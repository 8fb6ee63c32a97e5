"""The comparison of both versions of an update on the same batches, before the new one takes over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import attrs

from ....core.compatibility.rules.sinks import is_function
from ....core.compatibility.successors import new_names
from ....core.difference.comparison import Comparison
from ....core.difference.difference import compare
from ....core.difference.figures import COLD_BATCHES, BatchFigures
from ....core.difference.report import DifferenceError, DifferenceReport
from ....core.difference.row_difference import RowDifference
from ....core.errors import DriverError, InvalidInputError, WaitTimeoutError
from ....core.registry.deployment import FINAL_STATES, NEW, DriverRole, DriverState, QueryStatus
from ....core.registry.registry import AppRegistry
from ...operations.context import Context
from ...operations.stop import stop_deployment
from ...operations.version import store_copy
from ...waiting import wait_for
from ..update import Update

COMPARED_BATCHES = 5  # of each query, at least, where a difference may end the update
REST_SECONDS = 60.0  # for batches that were recorded by then; a comparison takes seconds


class Witness:
    """The driver that runs the old version's code along with the new version's, to compare their rows. It is a
    deployment of its own, `name`.

    new: the deployment that the update brings in
    """

    def __init__(self, context: Context, registry: AppRegistry, new: str) -> None:
        self.name = f"{new}-witness"
        self._context, self._registry, self._new = context, registry, new
        self._owner = f"witness of {new}"

    @classmethod
    def of(cls, update: Update) -> Witness:
        return cls(update.context, update.registry, update.record.new)

    def check_name(self) -> None:
        """Raise InvalidInputError when another deployment has its name."""
        if self.name in self._registry.deployment_ids() and self._registry.spec(self.name).owner != self._owner:
            raise InvalidInputError(
                f"rows cannot be compared (--diff): the driver for it would be deployment {self.name}, and "
                f"{self._registry.name} has a deployment of that name; give the new version another id (--deployment)"
            )

    def start(self, update: Update, batches: int) -> None:
        """Start the witness unless it runs. batches: how many of the running version's last batches it begins with"""
        registry, drivers = self._registry, update.drivers
        old, epoch = registry.running()
        if self.name not in registry.deployment_ids():
            store_copy(registry, old, self.name, owner=self._owner)
        if not self.lives:
            drivers.start_beside(registry.spec(self.name), epoch + 1, DriverRole.WITNESS, batches, self._new)
            update.progress(f"{self.name}: driver started, to compare the rows of {self._new} with those of {old}")

    def end(self) -> None:
        """End the witness if it was started: the hand-over needs its processors."""
        if self._registry.launch(self.name) is not None and self._registry.spec(self.name).owner == self._owner:
            stop_deployment(self._context, self._registry.name, self.name)

    @property
    def state(self) -> DriverState:
        return self._context.drivers(self._registry).state(self.name)

    @property
    def lives(self) -> bool:
        return self.state not in (*FINAL_STATES, NEW)

    def check(self, update: Update) -> None:
        """Raise DriverError when the witness has ended."""
        if (state := self.state) in FINAL_STATES:
            raise DriverError(
                f"the rows of {self._new} and {update.record.old} cannot be compared: "
                f"{update.drivers.death(self.name, state)}"
            )


def first_batches(update: Update) -> int:
    """Return how many of the old version's last batches the new one begins with: where a comparison was asked for,
    enough for it without new input."""
    return COLD_BATCHES + COMPARED_BATCHES if update.options.compares else 1


def start_comparison(update: Update) -> None:
    """Store which rows to compare, before the new version's driver is started. Drivers of an earlier try that was asked
    for something else are ended: they record other queries."""
    comparison = _comparison(update)
    request = update.options.comparison_request if update.options.diff else None
    if comparison.replaces(request):
        update.progress(f"other rows are to be compared than before: {update.record.new} starts again")
        Witness.of(update).end()
        stop_deployment(update.context, update.app, update.record.new)
    comparison.ask(request)


def start_witness(update: Update) -> None:
    """Start the driver that compares rows, unless it runs or none are to be compared. Call it once the new version has
    caught up: three drivers that catch up slow each other down, and the running one, too."""
    if update.options.diff and not _old_has_ended(update):
        Witness.of(update).start(update, first_batches(update))


def clear_comparison(context: Context, registry: AppRegistry, new: str) -> None:
    """End the driver that compares, and remove the rows of both versions. The new version records none any more."""
    Witness(context, registry, new).end()
    if new in registry.deployment_ids():
        Comparison(registry.deployment_folder(new)).remove_rows()


def check_difference(update: Update) -> DifferenceReport:
    """Compare the versions, store the report and return it. Raise DifferenceError, with nothing stopped, when they
    differ too much or could not be compared as requested."""
    if update.options.compares:
        _wait_compared(update)
    report = _report(update)
    update.registry.set_difference(update.record.new, report)
    new, old = update.record.new, update.record.old
    if report.problems:
        what = "differs too much from" if report.differences else "could not be compared, as was asked for, with"
        state = "has ended by itself" if _old_has_ended(update) else "keeps running"
        raise DifferenceError(
            f"{new} of {update.app} {what} {old}; nothing was stopped or changed, and {old} {state}:\n  "
            + "\n  ".join(report.problems),
            report,
        )
    summaries = [query.summary for query in report.queries if query.batches]
    if summaries := [*summaries, *(rows.summary for rows in report.rows)]:
        update.progress(f"{new} and {old} have run the same batches: {'; '.join(summaries)}")
    for note in (*(note for rows in report.rows for note in rows.notes()), *report.remarks):
        update.progress(note)
    return report


def _wait_compared(update: Update) -> None:
    """Wait until enough batches were compared, and all that were recorded by then. Give up after the time in which a
    driver may start, or the new version catch up."""
    wanted = set(update.options.diff_keys)

    def poll() -> bool | None:
        findings = _comparison(update).findings()
        rows = wanted - {query for query, found in findings.items() if found.not_compared}
        counts = [len(query.batches) for query in _report(update).queries] if update.options.limits.any else []
        counts += [len(findings[query].batches) if query in findings else 0 for query in rows]
        if all(count >= COMPARED_BATCHES for count in counts):
            return True
        if wanted:
            Witness.of(update).check(update)
        return True if _old_has_ended(update) else None  # no batch comes any more

    try:
        wait_for(poll, "a comparison", max(update.options.submit_timeout, update.options.catch_up_timeout or 0.0), 1.0)
    except WaitTimeoutError:
        update.progress(f"fewer than {COMPARED_BATCHES} batches could be compared")
    recorded = {query: set(_comparison(update).recorded(query)) for query in wanted}

    def poll_rest() -> bool | None:
        left = any(batches.intersection(_comparison(update).recorded(query)) for query, batches in recorded.items())
        return None if left and Witness.of(update).lives else True

    with contextlib.suppress(WaitTimeoutError):
        wait_for(poll_rest, "the rest of the comparison", REST_SECONDS, 0.5)


def _old_has_ended(update: Update) -> bool:
    return update.drivers.state(str(update.record.old)) in FINAL_STATES


def _comparison(update: Update) -> Comparison:
    return Comparison(update.registry.deployment_folder(update.record.new))


def _report(update: Update) -> DifferenceReport:
    """Report what was compared so far."""
    registry, old, new, limits = update.registry, str(update.record.old), update.record.new, update.options.limits
    before, now = ((status.queries if status else {}) for status in (registry.status(old), registry.status(new)))
    old_plan, new_plan = registry.plan(old), registry.plan(new)
    names = new_names(old_plan, new_plan, update.options.renames)
    both = [query.name for query in (new_plan.queries if new_plan else ()) if old_plan and old_plan.query(query.name)]
    queries = tuple(
        compare(
            _renamed(before[name], names.get(name, {})) if name in before else (),
            now[name].figures if name in now else (),
            name,
            limits,
            _witness_figures(name, update),
        )
        for name in both
    )
    found, requested = _comparison(update).findings(), update.options.diff_keys.items()
    # Uncompared queries are never reported as equal.
    rows = tuple(found.get(query, RowDifference(query=query, keys=keys)) for query, keys in requested)
    uncompared = ["no query is in both versions, so that no limit can be checked"] if limits.any and not both else []
    for each in rows:
        if each.not_compared or not each.batches:
            reason = each.not_compared or "no batch was run by both versions"
            uncompared.append(
                f"query {each.query}: rows were not compared, though that was asked for (--diff): {reason}"
            )
    return DifferenceReport(
        app=update.app,
        queries=queries,
        rows=rows,
        uncompared=tuple(uncompared),
        remarks=tuple(_remarks(update, [each.query for each in rows])),
    )


def _remarks(update: Update, compared: list[str]) -> Iterator[str]:
    """Yield what the comparison of rows does not cover."""
    plan = update.registry.plan(update.record.new)
    for query in (plan.query(name) for name in compared) if plan else ():
        if query is not None and is_function(query):
            yield (
                f"query {query.name}: the rows that its {query.sink.format} function is given were compared, not what "
                "it writes"
            )
    if compared and (witness := Witness.of(update)).state in FINAL_STATES:
        yield f"later batches' rows were not compared: {witness.name}, which compares them, has ended"


def _witness_figures(query: str, update: Update) -> tuple[BatchFigures, ...] | None:
    """Return the figures of the witness, for a limit on times: like the new version's batches, and unlike the old
    one's, its batches contain the recording of their rows. None: rows are not recorded, or there is no such limit."""
    if query not in update.options.diff_keys or update.options.limits.max_slower is None:
        return None
    status = update.registry.status(Witness.of(update).name)
    return status.queries[query].figures if status is not None and query in status.queries else ()


def _renamed(query: QueryStatus, names: Mapping[str, str]) -> tuple[BatchFigures, ...]:
    """Return the old version's figures with the names that stages have in the new one."""
    return tuple(
        attrs.evolve(f, state_rows={names.get(stage, stage): rows for stage, rows in f.state_rows.items()})
        if f.state_rows is not None
        else f
        for f in query.figures
    )
