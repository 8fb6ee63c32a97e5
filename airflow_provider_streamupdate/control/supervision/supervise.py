"""The door: watch apps, and start their drivers again when they are lost, failed or stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.errors import InvalidInputError, LeaseHeldError, StreamUpdateError, cut
from ...core.registry import supervision
from ...core.registry.deployment import (
    DEAD_STATES,
    FAILED,
    RUNNING,
    STANDBY,
    STOPPED,
    Current,
    DriverState,
    Status,
)
from ...core.registry.registry import AppRegistry
from ...core.registry.supervision import EVICTED, Supervision
from ..attention import asked_to_end
from ..drivers.orphans import orphans
from ..operations import hot_standby
from ..operations.context import Context
from ..operations.hot_standby import StandsBy
from ..operations.restart import restart
from ..waiting import Progress, discard_progress
from . import watch
from .decision import Action, Backoff, Decision, Observation, decide, starts_in_a_row

STARTS_AT_ONCE = 4  # drivers; each waits for Spark
SEARCH_SECONDS = 60.0  # between two searches for an app's orphans
REASON = 2000  # characters
TAKEOVER_SECONDS = 30.0  # for a hot standby to take over; then the dead driver is started again


@attrs.frozen(kw_only=True)
class GaveUp:
    """An app that is left alone, and why."""

    app: str
    reason: str


@attrs.frozen
class SuperviseOptions:
    """The apps that are supervised, and how."""

    apps: Collection[str] = ()  # none: all under the root, later ones included
    backoff: Backoff = Backoff()  # noqa: RUF009 (frozen)
    interval: float = 5.0  # seconds between two checks
    timeout: float = 300.0  # seconds that a driver may take to start
    progress: Progress = discard_progress
    on_give_up: Callable[[GaveUp], None] = lambda _: None  # called once for each app in a crash loop
    once: bool = False  # check once, and wait for what was started
    end: threading.Event | None = None  # set to stop; starts that have begun are waited for


def supervise(context: Context, options: SuperviseOptions) -> tuple[GaveUp, ...]:
    """Start lost, failed and stopped drivers again, each from its own checkpoint and in a new epoch.

    Left alone are apps that were cancelled, suspended, or finished, that are being updated, or that are switched off
    (`switch`). An app is watched by one supervisor; others stand by for it.

    Returns the apps that were given up meanwhile; with `once` all that are dead and were not started.
    """
    if options.interval <= 0:
        raise InvalidInputError(f"the interval must be a positive duration, not {options.interval:g} s")
    context.need_launcher().check()
    for app in options.apps:
        context.registry.existing(app)
    working = _Supervisor(context, options)
    over = options.end or threading.Event()
    try:
        working.check_apps()
        while not options.once and not over.wait(options.interval):
            working.check_apps()
    finally:
        working.close()
    return tuple(working.gave_up.values())


def switch(context: Context, app: str, off: str | None) -> None:
    """Switch the supervision of an app off, for a reason, or on again (None): then one that was given up is tried
    again."""
    folder = context.registry.existing(app).folder
    supervision.switch(folder, off)
    if off is None:
        supervision.write(folder, Supervision())


class NotNow(StreamUpdateError):
    """A start that is not made after all: the app is in another state than when it was looked at."""


class _Supervisor:
    def __init__(self, context: Context, options: SuperviseOptions) -> None:
        self._context, self._options, self._backoff = context, options, options.backoff
        self._progress, self._once = options.progress, options.once
        self._pool = ThreadPoolExecutor(STARTS_AT_ONCE, thread_name_prefix="supervise")
        self._starting: dict[str, Future[None]] = {}
        self._told: dict[str, str] = {}
        self._watched: set[str] = set()
        self._over = threading.Event()
        self._stand_by_at: dict[str, float] = {}  # when the next hot standby is started at the earliest
        self._failed_standbys: dict[str, int] = {}  # in a row
        self._searched: set[str] = set()
        self._told_orphans: set[str] = set()
        self._searched_at: dict[str, float] = {}  # for orphans, by this process's clock
        self._dead_since: dict[str, tuple[int, float]] = {}  # in which epoch, and since when by this process's clock
        self.gave_up: dict[str, GaveUp] = {}

    def check_apps(self) -> None:
        """Check all apps once. A problem with one is reported and does not stop the others."""
        try:
            apps = self._options.apps or tuple(self._context.registry.apps())
        except StreamUpdateError as error:
            self._report_once("", f"the apps cannot be listed: {error}")
            return
        for app in apps:
            registry, started = self._context.registry.app(app), self._starting.get(app)
            try:
                watch.take(registry)
                self._watched.add(app)
                if started is None or started.done():
                    self._look_at(registry)
                    self._end_orphans(registry)
            except LeaseHeldError as error:
                self._watched.discard(app)
                self._report_once(app, str(error))
            except StreamUpdateError as error:
                self._failed(app, f"{app} cannot be looked at: {error}")

    def close(self) -> None:
        """Wait for starts that have begun; drop those that are still queued."""
        starting = [app for app, started in self._starting.items() if not started.done()]
        if starting and not self._once:
            self._progress(f"ending, once these are started: {', '.join(starting)}")
        if not self._once:
            self._over.set()
        self._pool.shutdown(wait=True, cancel_futures=not self._once)
        for app in self._watched:
            with contextlib.suppress(StreamUpdateError):
                watch.leave(self._context.registry.app(app))

    def _look_at(self, app: AppRegistry) -> None:
        found, known, decision = self._decide(app)
        if decision.action is Action.START:
            assert found.current is not None
            self._report_once(app.name, f"{app.name}: {decision.reason}; starting it again")
            self._starting[app.name] = self._pool.submit(self._restart, app, found.current.deployment)
        elif decision.action is Action.STAND_BY and clock.monotonic() >= self._stand_by_at.get(app.name, 0.0):
            self._report_once(app.name, f"{app.name}: {decision.reason}; starting another one")
            self._starting[app.name] = self._pool.submit(self._stand_by, app)
        elif decision.action is Action.GIVE_UP:
            self._give_up(app, found, known, decision)
        elif decision.action is Action.RECOVERED:
            supervision.write(app.folder, Supervision())
            boundary("recovery-noted")
            self._report_once(app.name, f"{app.name} has recovered: {decision.reason}")
        elif decision.action is Action.WAIT:
            text = f"{app.name}: {decision.reason}; it is started again {self._backoff.delay(known.attempts):g} s after"
            self._failed(app.name, f"{text} the last start ({known.attempts} of {self._backoff.attempts})")
        elif decision.reason:
            self._failed(app.name, f"{app.name} is left alone: {decision.reason}")
        elif known.gave_up and found.current and found.off is None and found.state in DEAD_STATES:
            self._failed(app.name, f"{app.name} is left alone, in a crash loop: {known.gave_up}")

    def _end_orphans(self, app: AppRegistry) -> None:
        if clock.monotonic() - self._searched_at.get(app.name, float("-inf")) < SEARCH_SECONDS:
            return
        self._searched_at[app.name] = clock.monotonic()
        everywhere = app.name not in self._searched  # once: it reads all that the app has had
        self._searched.add(app.name)
        found = orphans(self._context.drivers(app, watch=False), everywhere)
        problems = list(found.problems)
        for orphan in found.found:
            line = f"{app.name}: {orphan.driver.name} runs and should not: {orphan.why}; ending it"
            if line not in self._told_orphans:
                self._told_orphans.add(line)
                self._progress(line)
            try:
                orphan.driver.end()
            except StreamUpdateError as error:
                problems.append(str(error))
        if problems:
            self._report_once(app.name, f"orphans of {app.name} cannot be looked for or ended: {'; '.join(problems)}")

    def _decide(self, app: AppRegistry) -> tuple[Observation, Supervision, Decision]:
        known, found = supervision.read(app.folder), self._find(app)
        age = clock.age(known.started_at) if known.started_at else -1.0
        # A start in the future is of a clock that was set: nothing is known of how long ago it was.
        return found, known, decide(found, known, self._backoff, age if age >= 0 else float("inf"))

    def _failed(self, app: str, line: str) -> None:
        self._report_once(app, line)
        if self._once:
            self.gave_up[app] = GaveUp(app=app, reason=line)

    def _find(self, app: AppRegistry) -> Observation:
        current, update = app.current(), app.update_under_way()
        if current is None:
            return Observation(current=None)
        # One look alone has to watch a silent driver; many looks see for themselves whether it gives a sign of life.
        state, status = self._context.drivers(app, watch=self._once).state_and_status(current.deployment)
        standby = hot_standby.wanted_standby(app, self._context.drivers(app, watch=False))
        committed = status is not None and _committed(status)
        return Observation(
            current=current,
            state=state,
            error=status.error if status else None,
            committed=committed,
            evicted=committed and status is not None and (state == STOPPED or _evicted(state, status)),
            taking_over=self._taking_over(app, current, state, standby),
            needs_standby=standby is not None and not standby.alive and state == RUNNING and committed,
            updating=update.new if update else None,
            off=off.reason if (off := supervision.off(app.folder)) else None,
            asked_to_end=state in DEAD_STATES and asked_to_end(app, current, status),
        )

    def _taking_over(
        self, app: AppRegistry, current: Current, state: DriverState, standby: StandsBy | None
    ) -> str | None:
        """Return the hot standby that is still expected to take over from a dead driver."""
        if state not in DEAD_STATES or standby is None or standby.state != STANDBY:
            self._dead_since.pop(app.name, None)
            return None
        epoch, since = self._dead_since.setdefault(app.name, (current.epoch, clock.monotonic()))
        if epoch != current.epoch:
            epoch, since = self._dead_since[app.name] = (current.epoch, clock.monotonic())
        return standby.deployment if clock.monotonic() - since < TAKEOVER_SECONDS else None

    def _stand_by(self, app: AppRegistry) -> None:
        def still() -> None:
            if self._over.is_set() or self._decide(app)[2].action is not Action.STAND_BY:
                raise NotNow("nothing is to be started any more")

        try:
            found = hot_standby.stand_by(self._context, app.name, self._options.timeout, before=still)
            self._failed_standbys.pop(app.name, None)
            self._report_once(app.name, f"{found.deployment} stands by for {app.name}")
        except NotNow:
            pass
        except StreamUpdateError as error:
            failed = self._failed_standbys[app.name] = self._failed_standbys.get(app.name, 0) + 1
            delay = self._backoff.delay(failed)
            self._stand_by_at[app.name] = clock.monotonic() + delay
            self._report_once(
                app.name, f"{app.name} has no hot standby: {error}. The next one is started in {delay:g} s"
            )

    def _restart(self, app: AppRegistry, deployment: str) -> None:
        boundary("start-decided")
        before: Supervision | None = None  # the start was counted

        def count() -> None:
            """Under the app's lease: what was seen before may not hold any more. A supervisor that dies after it has
            counted the start."""
            nonlocal before
            found, known, decision = self._decide(app)
            if self._over.is_set() or decision.action is not Action.START or found.current is None:
                raise NotNow(decision.reason or "nothing is to be started any more")
            before = known
            row = 0 if found.evicted else starts_in_a_row(found.current, known)
            attempts, epoch = 1 + row, found.current.epoch + 1
            now, delay = clock.now(), timedelta(seconds=self._backoff.delay(attempts))
            counted = Supervision(
                attempts=attempts,
                epoch=epoch,
                started_at=now,
                next_start_at=(clock.parse(now) + delay).isoformat(),
                limit=self._backoff.attempts,
            )
            supervision.write(app.folder, counted)
            boundary("start-counted")

        try:
            deployed = restart(
                self._context, app.name, deployment, self._options.timeout, before=count, asked_by="a supervisor"
            )
            self._report_once(app.name, f"{app.name} runs again as {deployed.deployment} (epoch {deployed.epoch})")
        except NotNow as error:
            self._report_once(app.name, f"{app.name} was not started: {error}")
        except StreamUpdateError as error:
            self._failed(app.name, f"{app.name} was not started: {error}")
            with contextlib.suppress(StreamUpdateError):
                current, counted = app.current(), supervision.read(app.folder)
                if before and current and counted.epoch is not None and current.epoch < counted.epoch:
                    supervision.write(app.folder, before)  # no driver was started

    def _give_up(self, app: AppRegistry, found: Observation, known: Supervision, decision: Decision) -> None:
        assert found.current is not None
        drivers = self._context.drivers(app, watch=False)
        log = drivers.last_lines(found.current.deployment)
        reason = cut(decision.reason, REASON)
        supervision.write(app.folder, attrs.evolve(known, gave_up=reason, gave_up_at=clock.now()))
        told = GaveUp(app=app.name, reason=reason)
        self.gave_up[app.name] = told
        self._report_once(
            app.name,
            f"{app.name} is in a crash loop and is left alone: {reason}. Mend the cause, then run streamupdate restart "
            f"{app.name}, or update it to a version that works. {log}",
        )
        self._options.on_give_up(told)

    def _report_once(self, app: str, line: str) -> None:
        """Report a line unless it repeats the app's last one."""
        if self._told.get(app) != line:
            self._told[app] = line
            self._progress(line)


def _evicted(state: DriverState, status: Status) -> bool:
    return state == FAILED and status.reason == EVICTED


def _committed(status: Status) -> bool:
    return bool(status.queries) and all(q.first_batch is not None or q.idle for q in status.queries.values())
