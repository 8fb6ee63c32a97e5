"""The requests that replace a running deployment by one that ran beside it: until it has taken over, the new one holds
no epoch of the app, and either can be dropped without touching the other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
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
from .drivers import NEW, Drivers, store_spec, stored_spec
from .health import assess
from .holding import holding
from .requests import quiet
from .snapshotting import SnapshotRequests
from .stopping import StopRequests
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
        application: Application,
        deployment: str,
        snapshot: str,
        fresh: bool,
        agree: Iterable[str] = (),
        owner: str = "",
        timeout: float = 180.0,
        progress: Progress = quiet,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        """Start a new deployment beside the running one, from a snapshot under query ids of its own, and wait until its
        queries run. The running deployment goes on; at most it takes the snapshot (`fresh`), while it runs.

        A rerun finds the driver of an earlier one, or starts it again on its own checkpoint. The caller has begun an
        update to `deployment`: the driver ends when that ends without it.
        """
        self._need_launcher().check()
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        with holding(registry, deployment):
            parent, epoch = self._current(registry)
            if parent == deployment:
                return
            spec = stored_spec(registry, deployment, owner)
            if spec is None:
                if fresh:
                    check_shared(registry, parent, progress)
                    self.save_snapshot(app, snapshot, timeout=timeout, progress=progress, again=True)
                else:
                    self.verify_snapshot(app, snapshot, progress)
                spec = store_spec(registry, application, deployment, parent, snapshot, agree, renames, owner, fork=True)
            if drivers.state(deployment) in (*FINAL_STATES, NEW):
                # Every start has a number of its own, later than the app's epoch: it becomes the app's when it is
                # promoted. A driver that sees a later one of its deployment ends.
                launch = registry.launch(deployment)
                drivers.start_beside(spec, max(epoch, launch.epoch if launch else 0) + 1)
                progress(f"deployment {deployment} of {app}: driver started beside {parent}")
            drivers.wait_running(deployment, timeout)
            progress(f"deployment {deployment} of {app} runs beside {parent}, from snapshot {snapshot}")

    def wait_caught_up(
        self, app: str, new: str, snapshot: str, since: str, side: SideBySide, progress: Progress = quiet
    ) -> None:
        """Until both have run side by side for as long as they should, `new` is healthy and has caught up; at once when
        the old one was ended by somebody meanwhile.

        Caught up: all that the old one had committed CLOSE_SECONDS ago at most is in batches that the new one has
        committed, or a look for input has found none.
        since: when they began to run side by side. DriverError when one of them died, WaitTimeoutError when the new
        one does not catch up in time; both go on as they are.
        """
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        old = self._current(registry)[0]
        chase = _Chase(registry, old, new)
        baseline = self.snapshot(app, snapshot)
        told: list[str] = []

        def poll() -> bool | None:
            if drivers.state(new) in FINAL_STATES:
                raise DriverError(drivers.death(new, drivers.state(new)))
            if _ended(drivers, old):
                return True
            left = side.seconds - clock.age(since)
            reason = f"{old} and {new} run side by side for {side.seconds:g} s"
            if left <= 0:
                health = assess(new, drivers.state(new), drivers.status(new), baseline)
                reason = "; ".join((*health.reasons, *chase.reasons(drivers)))
            if not told or told[-1] != reason:
                progress(reason or f"{new} has caught up with {old}")
                told.append(reason)
            return None if reason else True

        timeout = max(side.seconds - clock.age(since), 0) + side.catch_up_timeout
        try:
            wait_for(poll, f"{new} of {app} to catch up", timeout, POLL_SECONDS)
        except WaitTimeoutError as error:
            raise WaitTimeoutError(
                f"{new} of {app} has not caught up with {old} in {side.catch_up_timeout:g} s: {told[-1]}; give it "
                "longer (--catch-up-timeout, catch_up_timeout), or more resources"
            ) from error

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
