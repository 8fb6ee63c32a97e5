"""The requests that replace a running deployment by one that ran beside it: until it has taken over, the new one holds
no epoch of the app, and either can be dropped without touching the other."""

from __future__ import annotations

import time
from contextlib import suppress

import attrs

from ..state import clock
from ..state.application import Application
from ..state.checkpoint import Checkpoint
from ..state.deployment import FAILED, FINAL_STATES, LOST, RUNNING, Current
from ..state.errors import (
    CorruptError,
    DriverError,
    FencedError,
    InvalidInputError,
    WaitTimeoutError,
)
from ..state.parallel import Position, behind, check_side_by_side, positions
from ..state.plan import AppPlan
from ..state.registry import AppRegistry
from ..state.rename import rename
from ..state.shared import check_shared
from ..state.snapshot import Snapshot
from .drivers import NEW, Drivers
from .health import assess
from .holding import holding, keep
from .requests import quiet
from .snapshotting import SnapshotRequests
from .stopping import StopRequests
from .verifying import uncounted
from .version import NewVersion, store_spec, stored_spec
from .waiting import Progress, wait_for

CLOSE_SECONDS = 30.0  # the new version may be so far behind the old one, which goes on reading
CATCH_UP_SECONDS = 3600.0  # unless told otherwise
POLL_SECONDS = 1.0  # a file source's log is read every time


@attrs.frozen(kw_only=True)
class SideBySide:
    """How long both versions run. seconds: at least so long; then until the new one has caught up, for which it gets
    `catch_up_timeout` seconds more."""

    seconds: float = 0.0
    catch_up_timeout: float = CATCH_UP_SECONDS


class ParallelRequests(SnapshotRequests, StopRequests):
    """The client's requests to run two deployments side by side."""

    def check_side_by_side(self, application: Application, plan: AppPlan) -> None:
        """RefusedError when `application`, whose plan is given, cannot run beside the current deployment: the same
        sink, or a source that only one can read."""
        registry = self.registry.existing(plan.app)
        spec = registry.spec(self._current(registry)[0])
        running = registry.plan(spec.deployment)
        if running is not None:
            check_side_by_side(running, plan, spec.application.params, application.params)

    def run_beside(
        self,
        app: str,
        version: NewVersion,
        timeout: float = 180.0,
        progress: Progress = quiet,
    ) -> None:
        """Start the new version beside the running one, from its snapshot under query ids of its own, and wait until
        its queries run. The running deployment goes on; at most it takes the (`fresh`) snapshot, while it runs.

        A rerun finds the driver of an earlier one, or starts it again on its own checkpoint. The caller has begun the
        update to it: the driver ends when that ends without it.
        """
        deployment, snapshot = version.deployment, version.snapshot
        self._need_launcher().check()
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        with holding(registry, deployment):
            parent, epoch = self._current(registry)
            if parent == deployment:
                return
            spec = stored_spec(registry, version)
            if spec is None:
                if version.fresh:
                    check_shared(registry, parent, progress)
                    self.save_snapshot(app, snapshot, timeout=timeout, progress=progress, again=True)
                else:
                    self.verify_snapshot(app, snapshot, progress)
                spec = store_spec(registry, version, parent, fork=True)
            if drivers.state(deployment) in (*FINAL_STATES, NEW):
                # Every start has a number of its own, later than the app's epoch: it becomes the app's when it is
                # promoted. A driver that sees a later one of its deployment ends.
                launch = registry.launch(deployment)
                drivers.start_beside(spec, max(epoch, launch.epoch if launch else 0) + 1)
                progress(f"deployment {deployment} of {app}: driver started beside {parent}")
            drivers.wait_running(deployment, timeout)
            progress(f"deployment {deployment} of {app} runs beside {parent}, from snapshot {snapshot}")

    def pursuit(self, app: str, new: str, snapshot: str, side: SideBySide) -> Pursuit:
        """To look whether `new`, which runs beside the current deployment, has caught up with it."""
        registry = self.registry.existing(app)
        record = registry.update(new)
        since = record.step_times.get("beside") if record else None
        baseline = self.snapshot(app, snapshot)
        return Pursuit(registry, self._drivers(registry), new, baseline, since or clock.now(), side)

    def wait_caught_up(self, app: str, new: str, snapshot: str, side: SideBySide, progress: Progress = quiet) -> None:
        """Until `new` has caught up (see Pursuit). DriverError when one of the two died, WaitTimeoutError when it does
        not catch up in time; both go on as they are."""
        pursuit = self.pursuit(app, new, snapshot, side)
        told: list[str] = []

        def poll() -> bool | None:
            missing = pursuit.missing()
            if not told or told[-1] != missing:
                progress(missing or f"{new} has caught up with {pursuit.old}")
                told.append(missing)
            return None if missing else True

        try:
            wait_for(poll, f"{new} of {app} to catch up", pursuit.left(), POLL_SECONDS)
        except WaitTimeoutError as error:
            raise WaitTimeoutError(pursuit.late(told[-1])) from error

    def take_over(self, app: str, new: str, timeout: float = 300.0, progress: Progress = quiet) -> None:
        """Drain the current deployment, and make `new`, which runs beside it, current in its place. Nothing is done
        twice. DriverError when one of them died."""
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        with holding(registry, new):
            old, epoch = self._current(registry)
            if old == new:
                return
            if not _ended(drivers, old):
                self.cancel(app, drain=True, timeout=timeout, progress=progress)
                _ended(drivers, old)
            launch = registry.launch(new)
            if launch is None or drivers.state(new) != RUNNING:
                raise DriverError(drivers.death(new, drivers.state(new)))
            if not registry.claim(Current(deployment=new, epoch=launch.epoch), after=epoch):
                raise FencedError(f"the epoch of {app} passed to {registry.current_id()} a moment ago; try again")
            progress(f"{new} has taken over; {old} was drained")


class Pursuit:
    """Two versions side by side, looked at again and again: until both have run for as long as they should, the new one
    is healthy and has caught up, or the old one was ended by somebody.

    Caught up: all that the old one had committed CLOSE_SECONDS ago at most is in batches that the new one has
    committed, or a look for input has found none.
    since: when they began to run side by side
    """

    def __init__(
        self, registry: AppRegistry, drivers: Drivers, new: str, baseline: Snapshot, since: str, side: SideBySide
    ) -> None:
        old = registry.current_id()
        assert old is not None  # an update has begun
        self.old, self.new = old, new
        self._registry, self._drivers = registry, drivers
        self._baseline, self._since, self._side = baseline, since, side
        self._chase = _Chase(registry, old, new)

    def missing(self) -> str:
        """What is still waited for; empty when nothing is. DriverError when one of the two died."""
        state = self._drivers.state(self.new)
        if state in FINAL_STATES:
            raise DriverError(self._drivers.death(self.new, state))
        if self.old == self.new or _ended(self._drivers, self.old):
            return ""
        keep(self._registry, self.new)
        if clock.age(self._since) < self._side.seconds:
            return f"{self.old} and {self.new} run side by side for {self._side.seconds:g} s"
        apart = uncounted(self._registry, self.new)
        health = assess(self.new, state, self._drivers.status(self.new), self._baseline, uncounted=apart)
        return "; ".join((*health.reasons, *self._chase.reasons(self._drivers)))

    def left(self) -> float:
        """Seconds until it is too late."""
        return max(self._side.seconds - clock.age(self._since), 0) + self._side.catch_up_timeout

    def late(self, missing: str) -> str:
        """What is said then."""
        return (
            f"{self.new} of {self._registry.name} has not caught up with {self.old} in "
            f"{self._side.catch_up_timeout:g} s: {missing}; give it longer (--catch-up-timeout, catch_up_timeout), or "
            "more resources"
        )


class _Chase:
    """How far a deployment is behind another one, as looked at again and again."""

    def __init__(self, registry: AppRegistry, old: str, new: str) -> None:
        self._registry, self._old, self._new = registry, old, new
        self._goal: dict[tuple[str, str], Position] = {}
        self._set_at = float("-inf")

    def reasons(self, drivers: Drivers) -> list[str]:
        """What is not caught up; nothing when all is."""
        status = drivers.status(self._new)
        try:
            if time.monotonic() - self._set_at > CLOSE_SECONDS:
                self._goal, self._set_at = self._positions(self._old), time.monotonic()
            missing = behind(self._goal, self._positions(self._new))
        except CorruptError as error:  # a log that was compacted between two looks
            return [str(error)]
        idle = {name for name, query in status.queries.items() if query.idle} if status else set()
        return [
            f"query {query} has not read all of source {source} that {self._old} has read"
            for query, source in missing
            if query not in idle
        ]

    def _positions(self, deployment: str) -> dict[tuple[str, str], Position]:
        plan = self._registry.plan(deployment)
        assert plan is not None  # it runs
        if deployment == self._old:
            with suppress(InvalidInputError):  # of names that only an older snapshot has
                plan = rename(plan, self._registry.spec(self._new).renames)
        return {
            (query.name, source): position
            for query in plan.queries
            for source, position in positions(
                Checkpoint(self._registry.checkpoint(deployment, query.name)), query
            ).items()
        }


def _ended(drivers: Drivers, old: str) -> bool:
    """Whether the old version was ended, at a request. DriverError when it died: a batch of it may be half written."""
    state = drivers.state(old)
    if state in (FAILED, LOST):
        raise DriverError(f"it died before it was drained: {drivers.death(old, state)}")
    return state in FINAL_STATES and drivers.gone(old)
