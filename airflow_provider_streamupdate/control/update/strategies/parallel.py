"""Strategy ``parallel``: the new version runs beside the old one until it has caught up and takes over.

Until then it holds no epoch of the app, and either version can be dropped without touching the other.
"""

from __future__ import annotations

from ....core import clock
from ....core.boundaries import boundary
from ....core.checkpoint.checkpoint import Checkpoint
from ....core.compatibility.successors import app_under_new_names
from ....core.coordination import commands
from ....core.coordination.commands import CommandBox
from ....core.coordination.parallel import Position, behind, check_side_by_side, positions
from ....core.errors import CorruptError, DriverError, WaitTimeoutError
from ....core.plan.plan import AppPlan
from ....core.registry.deployment import (
    DEAD_STATES,
    FINAL_STATES,
    RUNNING,
    STANDBY,
    SUSPENDED,
    Current,
    DeploymentSpec,
    DriverRole,
)
from ....core.registry.update import Step
from ....core.snapshots.shared_objects import check_shared
from ...app_lease import holding, keep
from ...drivers.drivers import UPDATE_AGAIN, Drivers, check_not_cancelled
from ...operations.context import Context
from ...operations.snapshots.snapshot import save_snapshot, verify_snapshot
from ...operations.stop import drain
from ...operations.verification.health import assess
from ...operations.verification.verify import uncounted, under_new_names
from ...waiting import Phase, wait_for
from ..options import CATCH_UP_SECONDS
from ..update import Update
from .own_driver import OwnDriver
from .strategy import check_old_lives

CLOSE_SECONDS = 30.0  # how far the new version may be behind the old one, which continues to read
POLL_SECONDS = 1.0  # a file source's log is read every time


class Parallel(OwnDriver):
    """Two drivers until the new version has caught up. Both write, so the new one needs its own sink parameters."""

    name = "parallel"
    runs_beside = True
    catches_up = True
    has_pause = False

    def check_plan(self, update: Update, plan: AppPlan) -> None:
        """Raise RefusedError when the version cannot run beside the current deployment.

        That is so with the same sink, or with a source that only one query can read.
        """
        registry, application = update.registry, update.options.application
        spec = registry.spec(registry.running()[0])
        running = registry.plan(spec.deployment)
        if running is not None:
            check_side_by_side(running, plan, spec.application.inputs, application.inputs)

    def start_driver(self, update: Update, spec: DeploymentSpec, epoch: int) -> None:
        # Every start has its own number, greater than the app's epoch. It becomes the app's epoch on promotion. A
        # driver that sees a greater number of its deployment ends.
        launch = update.registry.launch(spec.deployment)
        update.drivers.start_beside(spec, max(epoch, launch.epoch if launch else 0) + 1, DriverRole.PARALLEL)

    def get_ready(self, update: Update) -> None:
        """Run the new version beside the current one, from its snapshot and under new query ids; wait until it runs.

        The current deployment continues; at most it takes the (`fresh`) snapshot while it runs. A rerun finds the
        driver of an earlier try, or starts it again on its own checkpoint.
        """
        app, new, timeout = update.app, update.record.new, update.options.submit_timeout
        registry, drivers, progress = update.registry, update.drivers, update.progress
        with holding(registry, new):
            parent = registry.running()[0]
            if not self.start(update):
                return
            drivers.wait_for_states(new, (STANDBY, RUNNING), timeout, lambda: check_old_lives(update))
            check_old_lives(update)
            if drivers.state(new) == STANDBY:
                if registry.deployment_folder(new).names("restored"):
                    pass  # an earlier try took the snapshot, and this driver continues from it
                elif update.fresh:
                    check_shared(registry, parent, progress)
                    save_snapshot(update.context, app, update.snapshot, timeout=timeout, progress=progress, again=True)
                else:
                    verify_snapshot(update.context, app, update.snapshot, progress)
                launch = registry.launch(new)
                assert launch is not None  # it was started
                CommandBox(registry.deployment_folder(new), launch.epoch).issue(commands.RESUME)
                boundary("beside-asked")
            drivers.wait_for_states(new, (RUNNING, SUSPENDED), timeout, lambda: check_old_lives(update))
            boundary("beside-seen")
            progress(f"deployment {new} of {app} runs beside {parent}, from snapshot {update.snapshot}")

    def pursuit(self, update: Update) -> CatchUp | None:
        return _catch_up(update) if update.pending else None

    def stop_old(self, update: Update) -> None:
        if update.pending:
            wait_caught_up(update)
            boundary("caught-up")
            take_over(update)


def wait_caught_up(update: Update) -> None:
    """Wait until the new version has caught up (see CatchUp).

    DriverError when one of the two died; WaitTimeoutError when it does not catch up in time. Both keep running then.
    """
    pursuit = _catch_up(update)
    messages: list[str] = []

    def poll() -> bool | None:
        missing = pursuit.missing()
        if not messages or messages[-1] != missing:
            update.progress(missing or f"{pursuit.new} has caught up with {pursuit.old}")
            messages.append(missing)
        return None if missing else True

    try:
        wait_for(poll, f"{pursuit.new} of {update.app} to catch up", pursuit.left(), POLL_SECONDS)
    except WaitTimeoutError as error:
        raise WaitTimeoutError(pursuit.late(messages[-1])) from error


def take_over(update: Update) -> None:
    """Drain the current deployment, and make the new one, which runs beside it, the current one.

    Can be repeated: nothing is done twice. DriverError when one of the two died.
    """
    app, new, registry, drivers = update.app, update.record.new, update.registry, update.drivers
    with holding(registry, new):
        current = registry.current()
        assert current is not None  # the update has begun
        old, epoch = current.deployment, current.epoch
        if old == new:
            return
        check_not_cancelled(app, current)
        if not _ended(drivers, old):
            registry.check_writable()
            update.progress(Phase(f"draining {old}"))
            drain(update.context, app, old, update.options.drain_timeout)
            _ended(drivers, old)
        boundary("old-drained")
        launch = registry.launch(new)
        if launch is None or drivers.state(new) != RUNNING:
            raise DriverError(drivers.death(new, drivers.state(new)))
        drivers.claim(Current(deployment=new, epoch=launch.epoch), after=epoch)
        update.progress(f"{new} has taken over; {old} was drained")


def _catch_up(update: Update) -> CatchUp:
    options = update.options
    return CatchUp(update.context, update.app, update.record.new, options.run_beside, options.catch_up_timeout)


class CatchUp:
    """Watches two versions side by side, until the new one may take over.

    That is: both have run for the time asked for, and the new one is healthy and has caught up; or the old one was
    ended on request.

    Caught up: the new one has committed all input that the old one had committed at most CLOSE_SECONDS ago, or it has
    looked for input and found none.
    """

    def __init__(
        self, context: Context, app: str, new: str, run_beside: float | None, catch_up_timeout: float | None
    ) -> None:
        registry = context.registry.existing(app)
        old, noted = registry.current_id(), registry.update(new)
        assert old is not None  # an update has begun
        self.old, self.new = old, new
        self._registry, self._drivers = registry, context.drivers(registry)
        self._baseline = under_new_names(registry, new, str(registry.spec(new).from_snapshot))
        self._since = (noted.step_times.get(Step.PREPARE) if noted else None) or clock.now()
        self._seconds = run_beside or 0.0
        self._timeout = catch_up_timeout or CATCH_UP_SECONDS
        self._goal: dict[tuple[str, str], Position] = {}
        self._goal_set_at = float("-inf")

    def missing(self) -> str:
        """Return what is still missing; empty when nothing is. DriverError when one of the two died."""
        state, status = self._drivers.state_and_status(self.new)
        if state in FINAL_STATES:
            raise DriverError(self._drivers.death(self.new, state))
        if self.old == self.new or _ended(self._drivers, self.old):
            return ""
        keep(self._registry, self.new)
        if clock.age(self._since) < self._seconds:
            return f"{self.old} and {self.new} must run side by side for {self._seconds:g} s"
        apart = uncounted(self._registry, self.new)
        health = assess(self.new, state, status, self._baseline, uncounted=apart)
        idle = {name for name, query in status.queries.items() if query.idle} if status else set()
        return "; ".join((*health.reasons, *self._distance(idle)))

    def left(self) -> float:
        """Return the seconds until the timeout."""
        return max(self._seconds - clock.age(self._since), 0) + self._timeout

    def late(self, missing: str) -> str:
        """Return the message of the timeout."""
        return (
            f"{self.new} of {self._registry.name} has not caught up with {self.old} within "
            f"{self._timeout:g} s: {missing}; give it more time (--catch-up-timeout, catch_up_timeout), or "
            "more resources"
        )

    def _distance(self, idle: set[str]) -> list[str]:
        """Return what the new version has not read yet, except for queries that found no more input."""
        try:
            if clock.monotonic() - self._goal_set_at > CLOSE_SECONDS:
                self._goal, self._goal_set_at = self._positions(self.old), clock.monotonic()
            missing = behind(self._goal, self._positions(self.new))
        except CorruptError as error:  # a log that was compacted between two polls
            return [str(error)]
        return [
            f"query {query} has not yet read everything from source {source} that {self.old} has read"
            for query, source in missing
            if query not in idle
        ]

    def _positions(self, deployment: str) -> dict[tuple[str, str], Position]:
        plan, new = self._registry.plan(deployment), self._registry.plan(self.new)
        assert plan is not None  # it runs
        if deployment == self.old and new is not None:
            plan = app_under_new_names(plan, new, self._registry.spec(self.new).renames)
        found: dict[tuple[str, str], Position] = {}
        for query in plan.queries:
            checkpoint = Checkpoint(self._registry.checkpoint(deployment, query.name))
            found |= {(query.name, source): position for source, position in positions(checkpoint, query).items()}
        return found


def _ended(drivers: Drivers, old: str) -> bool:
    """Return whether the old version was ended on request. DriverError when it died: its batch may be half written."""
    state = drivers.state(old)
    if state in DEAD_STATES:
        raise DriverError(f"the old version died before it was drained: {drivers.death(old, state, UPDATE_AGAIN)}")
    return state in FINAL_STATES and drivers.has_ended(old)
