"""The lifecycle of a driver: it claims its epoch, has its engine run the queries, writes the heartbeat, obeys commands,
hands over and takes back, and leaves a clear final state. `engine.QueryEngine` hides what runs the queries."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import attrs

from ...core.boundaries import boundary
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.fence import take_down
from ...core.compatibility.report import CompatibilityReport, IncompatibleError
from ...core.compatibility.self_update import check_updatable
from ...core.coordination import commands as words
from ...core.coordination.commands import Command, CommandBox
from ...core.coordination.lease import held_for
from ...core.coordination.successor import Successor
from ...core.errors import (
    ApplicationError,
    DriverError,
    FencedError,
    NotRunningError,
    RefusedError,
    StorageError,
    StreamUpdateError,
    describe,
)
from ...core.plan.plan import AppPlan
from ...core.registry.deployment import (
    CANCELLED,
    DRAINING,
    FAILED,
    FINISHED,
    HEARTBEAT_SECONDS,
    RESTORING,
    RUNNING,
    STANDBY,
    STARTING,
    SUSPENDED,
    Current,
)
from ...core.registry.driver_settings import DriverSettings
from ...core.registry.in_flight import ChangeRequest
from ...core.registry.output_log import OutputLog, kept_short
from ...core.registry.registry import AppRegistry
from ...core.serde import to_json
from ...core.snapshots.export import export
from ...core.snapshots.plan_answer import PlanAnswer, PlanError, write_answer
from ...core.storage.patience import Patience
from ..planning.author import told
from ..restore.saved_state import SavedState, recorded_settings
from .engine import QueryEngine
from .epoch import Epoch
from .origin import Origin
from .reporting import Reporter
from .signals import Signals

STARTS = (STARTING, STANDBY, RESTORING)  # states in which the main thread is not in the loop that looks at signals


@attrs.frozen(kw_only=True)
class Pace:
    """The intervals of a driver's recurring actions, in seconds.

    commands: between looks for commands, and at a successor
    standby: between looks, while standing by, whether its epoch has begun; a part of the pause
    heartbeat: between heartbeats, with a look whether its epoch is over
    takeover: a successor that has not committed after this time is given up

    Where each look at the storage is a request that is paid for, a running driver slows down:
    idle_after: without a command for this time; until then it is as fast as elsewhere, as an update needs it
    idle_commands, idle_heartbeat: in place of `commands` and `heartbeat` then
    """

    commands: float = 0.2
    standby: float = 0.02
    heartbeat: float = HEARTBEAT_SECONDS
    takeover: float = 300.0
    idle_after: float = 120.0
    idle_commands: float = 5.0
    idle_heartbeat: float = 10.0


class Agent:
    """One driver of a deployment. It claims its epoch exclusively, so that a second driver started for the same epoch
    ends at once, and stops when current.json shows that its epoch is over.

    standby: get ready beside the current deployment and take over from it when it hands `epoch` over
    follows: until then, run the current deployment's batches on a copy of its state, into nothing
    beside: run the queries beside the current deployment; `epoch` becomes the app's when this one is promoted
    """

    def __init__(
        self,
        app: AppRegistry,
        deployment: str,
        epoch: int,
        engine: QueryEngine,
        standby: bool = False,
        beside: bool = False,
        pace: Pace | None = None,
        follows: bool = False,
    ) -> None:
        self.app = app
        self.engine = engine
        self.follows = follows
        self.spec = app.spec(deployment)
        self.pace = pace or Pace()
        self.epoch = Epoch(app, self.spec, epoch, standby, beside)
        self.origin = Origin(app, self.spec)
        self.folder = app.deployment_folder(deployment)
        self.box = CommandBox(self.folder, epoch)
        self.reporter = Reporter(self.folder, epoch, self.pace.heartbeat)
        self.signals = Signals()
        self._settings = DriverSettings()
        self._final: tuple[str, str | None] | None = None  # state and reason to end with
        self._successor: Successor | None = None  # who may commit now, by this driver's own doing

    def run(self) -> int:
        """Run until the app ends; 0, or 1 when it failed."""
        if not self.epoch.standby and not self.epoch.claim():
            print(f"epoch {self.epoch.number} of {self.spec.app} already has a driver; this one ends", file=sys.stderr)
            return 1
        with self.signals.noted(lambda: self.reporter.state in STARTS):
            try:
                self._check_fence()
                self.reporter.report()
                self._settings = DriverSettings.of(os.environ)
                log = OutputLog.of(self.app.launch(self.spec.deployment), self._settings)
                with self.reporter.heartbeat(), kept_short(log):
                    self._work()
                state, reason = self._final or (FINISHED, "all queries ended by themselves")
                self.reporter.report(state=state, reason=reason)
            except BaseException as error:
                self._fail(error)
                _print_error()
        return 0 if self.reporter.state in (CANCELLED, FINISHED) else 1

    def _work(self) -> None:
        gets_ready = self.epoch.standby or self.epoch.beside
        queries, saved, plan = self._answered() if gets_ready else self._planned(self.origin.saved)
        beyond = True
        if self.epoch.standby:
            assert saved is not None  # a standby goes on from a deployment
            beyond = self.engine.used_beyond(str(self.spec.parent))
            if self.follows:
                self._follow(beyond)
            else:
                self.engine.practise(saved)
                self.engine.bring_ahead(self.origin.running)
            boundary("practised")
        if gets_ready:
            if not self._stand_by():
                return
            saved = self.origin.drained() if self.epoch.standby else self.origin.saved()
        if saved is not None:
            self.reporter.report(state=RESTORING)
            boundary("restoring")
            self._check(saved.compare(plan, self.spec.agree), saved)
            if self.follows:
                self.engine.catch_up(saved)
            self.engine.restore(saved)
            self.reporter.events.add("restored", source=saved.source)
        self._check_fence()
        if self._final is not None:
            return
        for query in queries:
            take_down(Checkpoint(self.app.checkpoint(self.spec.deployment, query)))
        if beyond:  # of a standby that was known before the hand-over, since every look there is part of the pause
            self._go_on_after_others()
        if saved is None:
            self.engine.check_start(self.spec.agree)
        try:
            self._start()
            self._serve()
        finally:
            self.engine.stop()
            with contextlib.suppress(Exception):
                self.reporter.report(queries=self.engine.progress())

    def _start(self) -> None:
        self.engine.start()
        boundary("queries-started")
        self.reporter.report(state=RUNNING, reason=None)
        boundary("running-reported")

    def _follow(self, beyond: bool) -> None:
        if beyond:
            raise RefusedError(
                "a sink may have batch ids of another version that the running one has not logged, so that its batches "
                "cannot be followed under their own ids; use strategy standby"
            )
        self.engine.follow(self.origin.running)

    def _planned(self, find: Callable[[], SavedState | None]) -> tuple[tuple[str, ...], SavedState | None, AppPlan]:
        """Return the queries, the saved state to continue from, and the plan made for it."""
        if self.engine.app != self.spec.app:
            raise ApplicationError(
                f"the application file defines app {self.engine.app}, not {self.spec.app}; give the file of "
                f"{self.spec.app}"
            )
        session = self.engine.open(f"{self.spec.app} {self.spec.deployment}")
        self.reporter.report(spark_ui=session.ui, spark_app_id=session.application_id, spark_version=session.version)
        queries = self.engine.build(self.spec.application.params)
        saved = find()
        return queries, saved, self._plan(queries, saved)

    def _answered(self) -> tuple[tuple[str, ...], SavedState | None, AppPlan]:
        """Like `_planned`, with an answer for the update: the plan is compared with the present state, which is
        restored into a scratch folder; the result is written before anything else is done. An update that cannot
        succeed ends here."""
        try:
            queries, saved, plan = self._planned(self.origin.at_first)
            assert saved is not None  # it goes on from a deployment or its snapshot
            report = saved.compare(plan, self.spec.agree)
            if report.compatible:
                report = self.engine.check_restorable(saved, report)
        except Exception as error:
            write_answer(self.app, self.spec.deployment, PlanAnswer(error=PlanError.of(error)))
            raise
        answer = PlanAnswer(plan=plan, report=report, warnings=self.engine.warnings)
        write_answer(self.app, self.spec.deployment, answer)
        boundary("plan-answered")
        self._check(report, saved)
        return queries, saved, plan

    def _plan(self, queries: Sequence[str], saved: SavedState | None) -> AppPlan:
        recorded = recorded_settings(self.app, self.spec.deployment, queries, saved)
        plan = self.engine.make_plan(recorded)
        if saved is None and not any(recorded.values()):  # it has no state yet
            check_updatable(plan, self.spec.agree)
        for warning in plan.warnings:
            print(f"WARNING: {warning}", file=sys.stderr)
        self._note_plan()
        return plan

    def _note_plan(self) -> None:
        self.folder.write("plan.json", to_json(self.engine.plan))
        boundary("plan-written")

    def _stand_by(self) -> bool:
        """Wait until the epoch is this driver's (it must be the only one to claim it), or it is told to run beside the
        current one. False: it is not needed any more."""
        if not self.follows:
            self._stands_by()
        next_look, patience = 0.0, Patience(self._settings.patience)
        while True:
            if self.signals.number is not None:
                raise self.signals.exit()
            try:
                if self.epoch.standby and self._begins():
                    break
                if self.follows and self.engine.keep_up() and self.reporter.state != STANDBY:
                    self._stands_by()
                for command in self.box.pending(refuse=True):
                    self.box.answer(command.name)
                    if command.kind == words.CANCEL:
                        return self._end("cancelled while it stood by")
                    if command.kind == words.RESUME and self.epoch.beside:
                        return True
                if time.monotonic() >= next_look:
                    if (update := self.app.update(self.spec.deployment)) is None or update.outcome is not None:
                        return self._end("the update it stood by for has ended")
                    if not held_for(self.app.folder, self.spec.deployment):
                        return self._end("the app's lease for the update it stood by for is no longer held")
                    next_look = time.monotonic() + self.pace.heartbeat
                patience.reached()
            except StorageError:
                if patience.over():
                    raise
            self.signals.woken.wait(self.pace.standby if self.folder.cheap_calls else self.pace.commands)
        boundary("epoch-seen")
        self._check_fence()
        if not self.epoch.claim():
            raise FencedError(f"epoch {self.epoch.number} of {self.spec.app} already has a driver")
        return True

    def _stands_by(self) -> None:
        self.reporter.report(state=STANDBY)
        boundary("stands-by")

    def _begins(self) -> bool:
        current = self.app.current()
        return current is not None and current.epoch >= self.epoch.number

    def _go_on_after_others(self) -> None:
        for query, (batch, last) in self.engine.go_on_after_others().items():
            self.reporter.events.add("renumbered", query=query, batch=batch, to=last)
            print(
                f"WARNING: the sink of query {query} has batches up to {last} from another version: the input after "
                f"batch {batch} is computed again, in batches {last + 1} and later",
                file=sys.stderr,
            )

    def _end(self, reason: str) -> bool:
        self._final = (CANCELLED, reason)
        return False

    def _check(self, report: CompatibilityReport, saved: SavedState) -> None:
        if not report.compatible:
            raise IncompatibleError(
                f"deployment {self.spec.deployment} cannot continue from {saved.source}: {'; '.join(report.problems)}",
                report,
            )

    def _serve(self) -> None:
        """Watch the queries and carry out commands, one at a time, beside the heartbeat."""
        with ThreadPoolExecutor(1) as worker:
            task: Future[None] | None = None
            next_progress, next_look, patience = 0.0, 0.0, Patience(self._settings.patience)
            busy_at = time.monotonic()
            while self._final is None:
                if self.signals.number is not None:
                    self._final = (CANCELLED, self.signals.reason)
                    break
                if task is not None and task.done():
                    task.result()
                    task = None
                now, command = time.monotonic(), None
                if task is not None:
                    busy_at = now
                idle = not self.folder.cheap_calls and now - busy_at >= self.pace.idle_after
                self.reporter.every = self.pace.idle_heartbeat if idle else self.pace.heartbeat
                try:
                    if now >= next_progress:
                        self._check_fence()
                        self.reporter.report(queries=self.engine.progress())
                        next_progress = time.monotonic() + self.reporter.every
                        patience.reached()
                    if task is None and now >= next_look:
                        command = next(iter(self.box.pending(refuse=True)), None)
                        next_look = time.monotonic() + (self.pace.idle_commands if idle else 0.0)
                        patience.reached()
                except StorageError:  # a query that can do without it goes on
                    if patience.over():
                        raise
                if command is not None:
                    busy_at, next_look = now, 0.0
                    task = worker.submit(self._obey, command)
                elif task is None and self.reporter.state == RUNNING and self.engine.ended():
                    return
                self.signals.woken.wait(self.pace.commands)

    def _obey(self, command: Command) -> None:
        self.reporter.events.add("command", name=command.name, kind=command.kind)
        boundary("command-taken")
        box = self.box  # of the epoch the command belongs to: after a take-back this driver has another
        try:
            final = self._carry_out(command)
        except FencedError:
            raise  # nothing may run here any more
        except Exception as error:
            _print_error()
            if self._successor is not None:
                raise FencedError(f"{self._successor.deployment} may commit now: {describe(error)}") from error
            if self.reporter.state == DRAINING:  # nothing was lost: go on where it stopped
                self.engine.start()
                self.reporter.report(state=RUNNING)
            box.answer(command.name, error=describe(error))
            if self.reporter.state == RESTORING:  # it took back, and what its sinks hold lets no query go on
                raise
            return
        if final is not None:
            # The answer first: who asked sees it even if this process dies before its final status.
            self.reporter.report(queries=self.engine.progress())
            box.answer(command.name)
            boundary("answered")
            self._final = final
            self.signals.woken.set()
        else:
            box.answer(command.name)

    def _carry_out(self, command: Command) -> tuple[str, str | None] | None:
        if command.kind == words.SNAPSHOT:
            name = str(command.snapshot)
            if command.successor:
                self._hand_over(Successor(self.app, command.successor, self.epoch.number + 1))
                boundary("successor-committed")
                with contextlib.suppress(StreamUpdateError):  # whoever finds it missing exports what is here
                    export(self.app, self.spec.deployment, name, self.engine.plan, True, self.engine.progress())
                return CANCELLED, f"handed over to {command.successor}"
            if command.cancel:
                self.reporter.report(state=DRAINING)
                self.engine.drain()
            export(self.app, self.spec.deployment, name, self.engine.plan, command.cancel, self.engine.progress())
            self.reporter.events.add("snapshot", name=name, cancel=command.cancel)
            return (CANCELLED, f"snapshot {name} taken with cancel") if command.cancel else None
        if command.kind == words.DRAIN:
            self.reporter.report(state=DRAINING)
            self.engine.drain()
            return CANCELLED, "drained"
        if command.kind == words.CANCEL:
            self.engine.stop()
            return CANCELLED, "cancelled"
        if command.kind == words.SUSPEND:
            self.reporter.report(state=DRAINING)
            self.engine.drain()
            self.reporter.report(state=SUSPENDED, reason="suspended")
            return None
        if command.kind == words.RESUME:
            self._start()
            return None
        if command.kind == words.CHANGE:
            assert command.change is not None
            self._change(command.change)
            return None
        raise StreamUpdateError(
            f"this driver does not know the command {command.kind!r}: it runs another version of this package"
        )

    def _change(self, request: ChangeRequest) -> None:
        """Continue with other parameters in the same session. RefusedError before anything is stopped. When a query
        fails before it has committed a batch with them, the old ones are restored and the error is raised."""
        if self.reporter.state != RUNNING:
            raise NotRunningError(f"app {self.spec.app} is {self.reporter.state}; it must be running to be changed")
        if self.app.spec(self.spec.deployment).application.params == request.params:
            return  # done by an earlier try
        self.engine.rebuild(request)
        self.reporter.report(state=DRAINING)
        self.engine.drain()
        since = self.engine.committed()
        self._check_fence()
        # From here on it counts, for a driver that is started later, too.
        change = self.app.add_change(self.spec.deployment, request)
        try:
            self.reporter.events.add("changed", id=request.id, by=request.asked_by, parameters=change.changed)
            self.engine.replace()
            self._go_on()
            while not self.engine.settled(since) and self.signals.number is None:
                self.signals.woken.wait(self.pace.commands)
            boundary("change-settled")
        except Exception as error:
            self.reporter.report(state=DRAINING)
            self.engine.stop()
            self._check_fence()
            undo = attrs.evolve(request, params=change.before, digest=change.digest_before)
            self.app.add_change(self.spec.deployment, undo, undoes=describe(error))
            self.engine.put_back()
            self._go_on()
            self.reporter.events.add("change undone", id=request.id, reason=describe(error))
            raise DriverError(
                f"{self.spec.app} failed with these parameters and continues with the old ones: {describe(error)}"
            ) from error

    def _go_on(self) -> None:
        self._note_plan()
        self._start()

    def _hand_over(self, successor: Successor) -> None:
        """Let `successor` continue from here, and wait until it has committed: until then this driver can take back.

        The point of no return is one exclusive creation: the claim of the next epoch for the successor.
        """
        successor.check_ready()
        self.reporter.report(state=DRAINING)
        self.engine.drain()
        self._successor = successor  # before the claim, which would fence this driver in the moment after it
        try:
            claimed = self.app.claim(Current(deployment=successor.deployment, epoch=successor.epoch))
        except StorageError:
            self._successor = None
            raise
        if not claimed:
            raise FencedError(
                f"another driver claimed epoch {successor.epoch} of {self.spec.app} while this one was draining"
            )
        self.reporter.events.add("handed over", to=successor.deployment, to_epoch=successor.epoch)
        boundary("handed-over")
        deadline = time.monotonic() + self.pace.takeover
        while self.signals.number is None:
            death = None
            with contextlib.suppress(StorageError):  # the next look may get through
                if successor.committed():
                    return
                death = successor.death()
            if death is None and time.monotonic() > deadline:
                death = f"it has not committed a batch in {self.pace.takeover:g} s"
            if death and self._take_back(successor):
                raise DriverError(
                    f"deployment {successor.deployment} took over and failed: {death}; {self.spec.deployment} "
                    f"continues where it was drained, in epoch {self.epoch.number}"
                )
            self.signals.woken.wait(self.pace.commands)

    def _take_back(self, successor: Successor) -> bool:
        """Take the epoch back; False when the storage failed, so that it can be tried again."""
        epoch = successor.epoch + 1
        try:
            claimed = self.app.claim(Current(deployment=self.spec.deployment, epoch=epoch, promoted=True))
        except StorageError:
            return False
        if not claimed:
            raise FencedError(
                f"another driver claimed epoch {epoch} of {self.spec.app} before this one could take back"
            )
        boundary("taken-back")
        self.epoch.number, self.box, self._successor = epoch, CommandBox(self.folder, epoch), None
        with contextlib.suppress(StorageError):  # no other driver is started for this epoch
            self.epoch.claim()
        self._report_or_later(state=RESTORING, epoch=epoch)  # no longer draining: its queries are not to start before
        while True:
            try:
                self._go_on_after_others()
                break
            except StorageError:  # it has the epoch, and no query may go on without
                if self.signals.number is not None:
                    raise self.signals.exit() from None
                self.signals.woken.wait(self.pace.commands)
        self.engine.start()
        self._report_or_later(state=RUNNING, reason=f"taken back from {successor.deployment}")
        return True

    def _report_or_later(self, **changes: Any) -> None:
        with contextlib.suppress(StorageError):  # the next heartbeat may get through
            self.reporter.report(**changes)

    def _check_fence(self) -> None:
        if self._successor is not None:
            return  # it may commit, and this driver runs no batch
        if reason := self.epoch.check():
            self._end(reason)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, FencedError):
            current = self.app.current()
            if self.epoch.replaced() or (current and current.deployment == self.spec.deployment):
                return  # the status belongs to a later driver of this deployment
        if self.signals.number is not None:
            self.reporter.report(state=CANCELLED, reason=self.signals.reason)
            return
        why = told(error)
        if gone := self.engine.gone(error):
            why = f"{gone} ({why})"
        self.reporter.report(state=FAILED, error=why, reason=type(error).__name__)


def _print_error() -> None:
    """Print the traceback for the driver's log; the log may have ended with the JVM that reads it from this process."""
    with contextlib.suppress(OSError):
        traceback.print_exc()
