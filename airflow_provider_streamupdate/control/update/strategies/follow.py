"""Strategy ``follow``: the new version runs along, muted, and takes over without a restore or a start."""

from __future__ import annotations

from ....core import clock
from ....core.checkpoint.checkpoint import Checkpoint
from ....core.compatibility.successors import app_under_new_names
from ....core.coordination.following import unfollowable
from ....core.difference.report import DifferenceReport
from ....core.errors import InvalidInputError, RefusedError, StreamUpdateError, WaitTimeoutError
from ....core.plan.plan import AppPlan
from ....core.registry.deployment import FINAL_STATES, STANDBY
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ...app_lease import holding
from ...operations.context import Context
from ...operations.plan import Planned
from ...waiting import Phase, wait_for
from ..options import CATCH_UP_SECONDS, UpdateOptions
from ..update import Update
from .comparison import Witness, check_difference, clear_comparison, first_batches, start_comparison, start_witness
from .standby import Standby, note_ready
from .strategy import Strategy

REPORT_SECONDS = 10.0  # between messages of how far the new version is behind
CLOSE_BATCHES = 1  # that the new version may be behind: the one that the old version works on


class Follow(Standby):
    """A standby whose queries run already: on their own copy of the state, one batch behind the old version's, into
    nothing. The pause is that between two batches, whatever the size of the state."""

    name = "follow"
    catches_up = True
    compares = True

    def accept(self, options: UpdateOptions) -> Strategy:
        if options.diff_tolerance and not options.diff:
            raise InvalidInputError(
                f"diff_tolerance={options.diff_tolerance!r} is for rows that are compared: give --diff (diff), too"
            )
        return super().accept(options)

    def plan(self, update: Update) -> Planned:
        """Plan with the driver that will run it; RefusedError before its start where the running version's own plan
        tells that it cannot be followed."""
        old = update.registry.plan(update.registry.running()[0])
        if old is not None and (problems := unfollowable(old, old)):
            raise RefusedError(f"strategy follow cannot be used: {'; '.join(problems)}; use strategy standby")
        return super().plan(update)

    def first_batches(self, update: Update) -> int:
        return first_batches(update)

    def start(self, update: Update) -> bool:
        if update.pending:
            start_comparison(update)
        return super().start(update)

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        old = update.registry.plan(update.registry.running()[0])
        old = old and app_under_new_names(old, plan, update.options.renames)
        for query in update.options.diff_keys:
            if plan.query(query) is None or (old is not None and old.query(query) is None):
                raise InvalidInputError(
                    f"the rows of query {query!r} cannot be compared (--diff): both versions must have it; this one "
                    f"has {', '.join(q.name for q in plan.queries)}"
                )
        _check_comparable(update, plan, old)
        if update.options.diff:
            Witness.of(update).check_name()
        if problems := unfollowable(plan, old):
            raise RefusedError(f"strategy follow cannot be used: {'; '.join(problems)}; use strategy standby")

    def getting_ready(self, context: Context, record: UpdateRecord) -> str:
        missing = super().getting_ready(context, record)
        registry = context.registry.app(record.app)
        if missing or context.drivers(registry).state(record.new) != STANDBY:
            return missing
        left = max((logged - committed for logged, committed in _positions(registry, record)), default=0)
        return f"{record.new} to catch up ({left} batches)" if left > CLOSE_BATCHES else ""

    def get_ready(self, update: Update) -> DifferenceReport | None:
        deployment, report = update.record.new, None
        with holding(update.registry, deployment):
            if self.start(update):
                wait_caught_up(update)
                start_witness(update)
                report = check_difference(update)
                note_ready(update)
        return report

    def stop_old(self, update: Update) -> None:
        if update.pending and update.drivers.state(str(update.record.old)) not in FINAL_STATES:
            start_witness(update)  # it may have died, or have been ended by an earlier try of this step
            wait_caught_up(update)
            check_difference(update)
            Witness.of(update).end()
        super().stop_old(update)
        try:
            self.clear(update.context, update.registry, update.record.new)
        except StreamUpdateError as error:  # the hand-over is done
            update.progress(f"the rows that were compared are not all removed: {error}")

    def drop(self, update: Update) -> None:
        if update.pending:
            self.clear(update.context, update.registry, update.record.new)
        super().drop(update)

    def clear(self, context: Context, registry: AppRegistry, new: str) -> None:
        clear_comparison(context, registry, new)


def _check_comparable(update: Update, plan: AppPlan, old: AppPlan | None) -> None:
    """Raise InvalidInputError when rows are to be compared of a query with a new stage: it gives none yet."""
    options = update.options
    for query in plan.queries:
        before = old.query(query.name) if old is not None else None
        asked = query.name in options.diff_keys or options.limits.max_rows_changed is not None
        if not asked or before is None:
            continue
        if new := [stage.name for stage in query.stages if before.stage(stage.name) is None]:
            raise InvalidInputError(
                f"the rows of query {query.name} cannot be compared (--diff, --max-rows-changed): stage {new[0]} is "
                "new, and gives none before the new version takes over; leave the comparison out"
            )


def wait_caught_up(update: Update) -> None:
    """Wait until the new version has committed all but the last of the batches that the old one has logged.

    DriverError when its driver died; WaitTimeoutError, with how fast both are, when that takes too long. The old
    version keeps running then.
    """
    timeout = update.options.catch_up_timeout or CATCH_UP_SECONDS
    chase, new, old = Chase(update), update.record.new, str(update.record.old)

    def poll() -> bool | None:
        state = update.drivers.living_state(new)
        if update.drivers.state(old) in FINAL_STATES:
            return True  # what comes next says what becomes of it
        return True if chase.batches_left() <= CLOSE_BATCHES and state == STANDBY else None

    try:
        wait_for(poll, f"{new} of {update.app} to catch up", timeout)
    except WaitTimeoutError as error:
        raise WaitTimeoutError(
            f"{new} of {update.app} has not caught up with {update.record.old} within {timeout:g} s: {chase.summary}; "
            "give it more time (--catch-up-timeout, catch_up_timeout) or more resources, or use strategy standby"
        ) from error


class Chase:
    """How far the new version is behind the old one, over repeated polls.

    summary: the last finding in words
    """

    def __init__(self, update: Update) -> None:
        self.summary = "its driver starts"
        self._update = update
        self._first: tuple[float, int, int] | None = None  # when, and how many batches there were and had committed
        self._reported_at = clock.monotonic()

    def batches_left(self) -> int:
        """Return the number of batches that are left, and report progress from time to time."""
        there, done, left = 0, 0, 0
        for logged, committed in _positions(self._update.registry, self._update.record):
            there, done, left = there + logged, done + committed, max(left, logged - committed)
        now = clock.monotonic()
        if done and self._first is None:
            self._first = (now, there, done)
        if self._first is not None and now > self._first[0]:
            since, there_before, done_before = self._first
            rates = ((there - there_before) / (now - since), (done - done_before) / (now - since))
            batches = f"{left} {'batch' if left == 1 else 'batches'}"
            self.summary = (
                f"it is {batches} behind; {self._update.record.old} runs {rates[0]:.2g} batches a second, "
                f"{self._update.record.new} {rates[1]:.2g}"
            )
        if now - self._reported_at >= REPORT_SECONDS and left > CLOSE_BATCHES:
            self._update.progress(Phase(f"{self._update.record.new} catches up", self.summary))
            self._reported_at = now
        return left


def _positions(registry: AppRegistry, record: UpdateRecord) -> list[tuple[int, int]]:
    """Return the last logged batch, and the last one that the new version committed, for each query of both."""
    found = []
    for there, here in registry.checkpoints_of_both(str(record.old), record.new).values():
        logged, committed = Checkpoint(there).logged_batch(), Checkpoint(here).committed_batch()
        if logged is not None and committed is not None:
            found.append((logged, committed))
    return found
