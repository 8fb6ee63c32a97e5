"""The agent in the driver: starts the queries, writes the heartbeat, obeys commands, leaves a clear final state."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ..state import commands as words
from ..state.boundaries import boundary
from ..state.checkpoint import Checkpoint
from ..state.commands import Command, CommandBox
from ..state.deployment import (
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
from ..state.driver_settings import DriverSettings
from ..state.errors import (
    ApplicationError,
    DriverError,
    FencedError,
    IncompatibleError,
    NotRunningError,
    StorageError,
    StreamUpdateError,
    describe,
)
from ..state.export import export
from ..state.fence import take_down
from ..state.in_flight import ChangeRequest
from ..state.lease import held_for
from ..state.output_log import OutputLog, kept_short
from ..state.patience import Patience
from ..state.plan import AppPlan
from ..state.registry import AppRegistry
from ..state.report import CompatibilityReport
from ..state.self_update import check_updatable
from ..state.serde import to_json
from ..state.successor import Successor
from .author import told
from .epoch import Epoch
from .fresh import check_start
from .in_flight import Built, Rebuilding
from .origin import Origin
from .planner import plan_app
from .queries import RunningQueries
from .renumbering import go_on_after_others, used_beyond
from .reporting import Reporter
from .restorer import (
    MetadataAhead,
    SavedState,
    check_restorable,
    copy_ahead,
    metadata_ahead,
    recorded_settings,
    restore_app,
)
from .signals import Signals
from .spark_internals import unanswered
from .standby import scratch_folder, warm_up

if TYPE_CHECKING:
    from .app import StreamingApp

POLL_SECONDS = 0.2  # how often commands are looked for
STANDBY_POLL_SECONDS = 0.02  # how often a standby looks whether its epoch has begun; a part of the pause
STARTS = (STARTING, STANDBY, RESTORING)  # states in which the main thread is not in the loop that looks at signals
_JVM_ENDS = 10.0  # seconds that a JVM may take to end once its connections are closed
TAKEOVER_SECONDS = 300.0  # a successor that has not committed after so long will not


class Agent:
    """One driver of a deployment. It claims its epoch exclusively, so that a second driver started for the same epoch
    ends at once, and stops when current.json shows that its epoch is over.

    standby: get ready beside the current deployment and take over from it when it hands `epoch` over
    beside: run the queries beside the current deployment; `epoch` becomes the app's when this one is promoted
    """

    def __init__(
        self, app: AppRegistry, deployment: str, epoch: int, standby: bool = False, beside: bool = False
    ) -> None:
        self.app = app
        self.spec = app.spec(deployment)
        self.epoch = Epoch(app, self.spec, epoch, standby, beside)
        self.origin = Origin(app, self.spec)
        self.folder = app.deployment_folder(deployment)
        self.box = CommandBox(self.folder, epoch)
        self.reporter = Reporter(self.folder, epoch)
        self.signals = Signals()
        self._settings = DriverSettings()
        self._parent = os.getppid()  # spark-submit's JVM; when it dies, calls fail in many ways (measured)
        self._final: tuple[str, str | None] | None = None  # state and reason to end with
        self._successor: Successor | None = None  # who may commit now, by this driver's own doing
        self._rebuilding: Rebuilding | None = None

    def run(self, app: StreamingApp) -> int:
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
                    self._work(app)
                state, reason = self._final or (FINISHED, "all queries ended by themselves")
                self.reporter.report(state=state, reason=reason)
            except BaseException as error:
                self._fail(error)
                _print_error()
        return 0 if self.reporter.state in (CANCELLED, FINISHED) else 1

    def _work(self, app: StreamingApp) -> None:
        if app.name != self.spec.app:
            raise ApplicationError(
                f"the application file defines app {app.name}, not {self.spec.app}; give the file of {self.spec.app}"
            )
        spark = SparkSession.builder.appName(f"{self.spec.app} {self.spec.deployment}").getOrCreate()
        self.reporter.report(
            spark_ui=spark.sparkContext.uiWebUrl,
            spark_app_id=spark.sparkContext.applicationId,
            spark_version=spark.version,
        )
        writers = app.build(spark, self.spec.application.params)
        for warning in app.unread(self.spec.application.params):
            print(f"WARNING: {warning}", file=sys.stderr)
        # a standby starts from what there is right now
        saved = self.origin.running() if self.epoch.standby else self.origin.saved()
        plan = self._plan(app, spark, writers, saved)
        ahead: dict[str, MetadataAhead] = {}
        copied: dict[str, dict[str, int]] = {}
        beyond = True
        if self.epoch.standby:
            assert saved is not None  # a standby goes on from a deployment
            ahead = self._practise(app, spark, saved, plan, writers)
            copied = copy_ahead(self.origin.running, plan, self.app, self.spec.deployment)
            beyond = used_beyond(self.app, str(self.spec.parent), plan)
            boundary("practised")
            if not self._stand_by():
                return
            saved = self.origin.drained()
        if saved is not None:
            self.reporter.report(state=RESTORING)
            boundary("restoring")
            self._compare(saved, plan)
            restore_app(saved, plan, writers, self.app, self.spec.deployment, app.migrations, ahead, copied)
            self.reporter.events.add("restored", source=saved.source)
        self._check_fence()
        if self._final is not None:
            return
        checkpoints = {q: self.app.checkpoint(self.spec.deployment, q) for q in writers}
        for folder in checkpoints.values():
            take_down(Checkpoint(folder))
        if beyond:  # of a standby that was known before the hand-over, since every look there is part of the pause
            self._go_on_after_others(plan)
        if saved is None:
            check_start(self.app, plan, self.spec.agree, self.spec.deployment)
        queries = RunningQueries(spark, writers, checkpoints, plan)
        try:
            queries.start()
            boundary("queries-started")
            self._rebuilding = Rebuilding(app, spark, self.app, self.spec.deployment)
            self.reporter.report(state=RUNNING, reason=None)
            boundary("running-reported")
            self._serve(queries)
        finally:
            queries.stop()
            with contextlib.suppress(Exception):
                self.reporter.report(queries=queries.progress())

    def _plan(
        self, app: StreamingApp, spark: SparkSession, writers: dict[str, DataStreamWriter], saved: SavedState | None
    ) -> AppPlan:
        recorded = recorded_settings(self.app, self.spec.deployment, writers, saved)
        plan = plan_app(
            spark,
            app.name,
            writers,
            app.require_names,
            recorded,
            app.migrations,
            app.reloadable,
            app.written(),
            app.seen_batch,
        )
        if saved is None and not any(recorded.values()):  # it has no state yet
            check_updatable(plan, self.spec.agree)
        for warning in plan.warnings:
            print(f"WARNING: {warning}", file=sys.stderr)
        self.folder.write("plan.json", to_json(plan))
        boundary("plan-written")
        return plan

    def _practise(
        self,
        app: StreamingApp,
        spark: SparkSession,
        saved: SavedState,
        plan: AppPlan,
        writers: dict[str, DataStreamWriter],
    ) -> dict[str, MetadataAhead]:
        """Do what a take-over does, away from the app: an update that cannot succeed fails here, and what is slow the
        first time is not slow the second. What need not be done again then is returned."""
        report = self._compare(saved, plan)
        with tempfile.TemporaryDirectory(prefix="streamupdate-standby-") as checked:
            report = check_restorable(saved, report, plan, writers, Path(checked))
        if not report.compatible:
            raise IncompatibleError(f"{saved.source} cannot be restored: {'; '.join(report.problems)}", report)
        with scratch_folder(self.app, self.spec.deployment) as folder:
            warm_up(spark, writers, saved, plan, folder, app.migrations)
        return metadata_ahead(saved, plan, writers)

    def _stand_by(self) -> bool:
        """Until the epoch is this driver's (it must be the only one to see that), or it is not needed: False."""
        self.reporter.report(state=STANDBY)
        boundary("stands-by")
        next_look, patience = 0.0, Patience(self._settings.patience)
        while True:
            if self.signals.number is not None:
                raise self.signals.exit()
            try:
                current = self.app.current()
                if current is not None and current.epoch >= self.epoch.number:
                    break
                for command in self.box.pending(refuse=True):
                    self.box.answer(command.name)
                    if command.kind == words.CANCEL:
                        return self._end("cancelled while it stood by")
                if time.monotonic() >= next_look:
                    if (update := self.app.update(self.spec.deployment)) is None or update.outcome is not None:
                        return self._end("the update it stood by for has ended")
                    if not held_for(self.app.folder, self.spec.deployment):
                        return self._end("nobody holds the app's lease for the update it stood by for")
                    next_look = time.monotonic() + HEARTBEAT_SECONDS
                patience.reached()
            except StorageError:
                if patience.over():
                    raise
            self.signals.woken.wait(STANDBY_POLL_SECONDS if self.folder.cheap_calls else POLL_SECONDS)
        boundary("epoch-seen")
        self._check_fence()
        if not self.epoch.claim():
            raise FencedError(f"epoch {self.epoch.number} of {self.spec.app} already has a driver")
        return True

    def _go_on_after_others(self, plan: AppPlan) -> None:
        changed = go_on_after_others(self.app, self.spec.deployment, plan)
        for query, (batch, last) in changed.items():
            self.reporter.events.add("renumbered", query=query, batch=batch, to=last)
            print(
                f"WARNING: the sink of query {query} has batches up to {last} of another version: what came after "
                f"batch {batch} is computed again, from batch {last + 1} on",
                file=sys.stderr,
            )

    def _end(self, reason: str) -> bool:
        self._final = (CANCELLED, reason)
        return False

    def _compare(self, saved: SavedState, plan: AppPlan) -> CompatibilityReport:
        report = saved.compare(plan, self.spec.agree)
        if not report.compatible:
            raise IncompatibleError(
                f"{saved.source} does not fit deployment {self.spec.deployment}: {'; '.join(report.problems)}",
                report,
            )
        return report

    def _serve(self, queries: RunningQueries) -> None:
        """Watch the queries and carry out commands, one at a time, beside the heartbeat."""
        with ThreadPoolExecutor(1) as worker:
            task: Future[None] | None = None
            next_progress, patience = 0.0, Patience(self._settings.patience)
            while self._final is None:
                if self.signals.number is not None:
                    self._final = (CANCELLED, self.signals.reason)
                    break
                if task is not None and task.done():
                    task.result()
                    task = None
                try:
                    if time.monotonic() >= next_progress:
                        self._check_fence()
                        self.reporter.report(queries=queries.progress())
                        next_progress = time.monotonic() + HEARTBEAT_SECONDS
                    command = next(iter(self.box.pending(refuse=True)), None) if task is None else None
                    patience.reached()
                except StorageError:  # a query that can do without it goes on
                    if patience.over():
                        raise
                    command = None
                if command is not None:
                    task = worker.submit(self._obey, command, queries)
                elif task is None and self.reporter.state == RUNNING and queries.ended():
                    return
                self.signals.woken.wait(POLL_SECONDS)

    def _obey(self, command: Command, queries: RunningQueries) -> None:
        self.reporter.events.add("command", name=command.name, kind=command.kind)
        boundary("command-taken")
        box = self.box  # of the epoch the command belongs to: after a take-back this driver has another
        try:
            final = self._carry_out(command, queries)
        except FencedError:
            raise  # nothing may run here any more
        except Exception as error:
            _print_error()
            if self._successor is not None:
                raise FencedError(f"{self._successor.deployment} may commit now: {describe(error)}") from error
            if self.reporter.state == DRAINING:  # nothing was lost: go on where it stopped
                queries.start()
                self.reporter.report(state=RUNNING)
            box.answer(command.name, error=describe(error))
            if self.reporter.state == RESTORING:  # it took back, and what its sinks hold lets no query go on
                raise
            return
        if final is not None:
            # The answer first: who asked sees it even if this process dies before its final status.
            self.reporter.report(queries=queries.progress())
            box.answer(command.name)
            boundary("answered")
            self._final = final
            self.signals.woken.set()
        else:
            box.answer(command.name)

    def _carry_out(self, command: Command, queries: RunningQueries) -> tuple[str, str | None] | None:
        if command.kind == words.SNAPSHOT:
            name = str(command.snapshot)
            if command.successor:
                self._hand_over(Successor(self.app, command.successor, self.epoch.number + 1), queries)
                boundary("successor-committed")
                with contextlib.suppress(StreamUpdateError):  # whoever finds it missing exports what is here
                    export(self.app, self.spec.deployment, name, queries.plan, True, queries.progress())
                return CANCELLED, f"handed over to {command.successor}"
            if command.cancel:
                self.reporter.report(state=DRAINING)
                queries.drain()
            export(self.app, self.spec.deployment, name, queries.plan, command.cancel, queries.progress())
            self.reporter.events.add("snapshot", name=name, cancel=command.cancel)
            return (CANCELLED, f"snapshot {name} taken with cancel") if command.cancel else None
        if command.kind == words.DRAIN:
            self.reporter.report(state=DRAINING)
            queries.drain()
            return CANCELLED, "drained"
        if command.kind == words.CANCEL:
            queries.stop()
            return CANCELLED, "cancelled"
        if command.kind == words.SUSPEND:
            self.reporter.report(state=DRAINING)
            queries.drain()
            self.reporter.report(state=SUSPENDED, reason="suspended")
            return None
        if command.kind == words.RESUME:
            queries.start()
            self.reporter.report(state=RUNNING, reason=None)
            return None
        if command.kind == words.CHANGE:
            assert command.change is not None
            self._change(command.change, queries)
            return None
        raise StreamUpdateError(f"this driver does not know the command {command.kind!r}; it runs another version")

    def _change(self, request: ChangeRequest, queries: RunningQueries) -> None:
        """Go on with other parameters in the same session. RefusedError before anything is stopped; when a query fails
        before it has committed a batch with them, the old ones are back, and that error is raised."""
        if self.reporter.state != RUNNING or self._rebuilding is None:
            raise NotRunningError(f"app {self.spec.app} is {self.reporter.state}; it must be running to be changed")
        if self.app.spec(self.spec.deployment).application.params == request.params:
            return  # done by an earlier try
        old = queries.writers, queries.plan
        new = self._rebuilding.build(request)
        self.reporter.report(state=DRAINING)
        queries.drain()
        since = queries.committed()
        self._check_fence()
        # From here on it counts, for a driver that is started later, too.
        change = self.app.add_change(self.spec.deployment, request)
        try:
            self.reporter.events.add("changed", id=request.id, by=request.asked_by, parameters=change.changed)
            self._go_on(queries, new)
            while not queries.settled(since) and self.signals.number is None:
                self.signals.woken.wait(POLL_SECONDS)
        except Exception as error:
            self.reporter.report(state=DRAINING)
            queries.stop()
            self._check_fence()
            undo = attrs.evolve(request, params=change.before, digest=change.digest_before)
            self.app.add_change(self.spec.deployment, undo, undoes=describe(error))
            self._rebuilding.put_back()
            self._go_on(queries, old)
            self.reporter.events.add("change undone", id=request.id, reason=describe(error))
            raise DriverError(
                f"with these parameters {self.spec.app} failed, and goes on with the old ones: {describe(error)}"
            ) from error

    def _go_on(self, queries: RunningQueries, built: Built) -> None:
        writers, plan = built
        queries.replace(writers, plan)
        self.folder.write("plan.json", to_json(plan))
        queries.start()
        self.reporter.report(state=RUNNING, reason=None)

    def _hand_over(self, successor: Successor, queries: RunningQueries) -> None:
        """Let `successor` go on from here, and wait until it has committed: until then this driver can take back.

        The point of no return is one exclusive creation: the claim of the next epoch for the successor.
        """
        successor.check_ready()
        self.reporter.report(state=DRAINING)
        queries.drain()
        self._successor = successor  # before the claim, which would fence this driver in the moment after it
        try:
            claimed = self.app.claim(Current(deployment=successor.deployment, epoch=successor.epoch))
        except StorageError:
            self._successor = None
            raise
        if not claimed:
            raise FencedError(f"epoch {successor.epoch} of {self.spec.app} was taken while this driver was draining")
        self.reporter.events.add("handed over", to=successor.deployment, to_epoch=successor.epoch)
        boundary("handed-over")
        deadline = time.monotonic() + TAKEOVER_SECONDS
        while self.signals.number is None:
            death = None
            with contextlib.suppress(StorageError):  # the next look may get through
                if successor.committed():
                    return
                death = successor.death()
            if death is None and time.monotonic() > deadline:
                death = f"it has not committed a batch in {TAKEOVER_SECONDS:g} s"
            if death and self._take_back(successor, queries):
                raise DriverError(
                    f"deployment {successor.deployment} took over and failed: {death}; {self.spec.deployment} goes on "
                    f"where it was drained, in epoch {self.epoch.number}"
                )
            self.signals.woken.wait(POLL_SECONDS)

    def _take_back(self, successor: Successor, queries: RunningQueries) -> bool:
        """False when the storage did not let it; it can be tried again."""
        epoch = successor.epoch + 1
        try:
            claimed = self.app.claim(Current(deployment=self.spec.deployment, epoch=epoch, promoted=True))
        except StorageError:
            return False
        if not claimed:
            raise FencedError(f"epoch {epoch} of {self.spec.app} was taken before this driver could take it back")
        boundary("taken-back")
        self.epoch.number, self.box, self._successor = epoch, CommandBox(self.folder, epoch), None
        with contextlib.suppress(StorageError):  # no other driver is started for this epoch
            self.epoch.claim()
        self._report_or_later(state=RESTORING, epoch=epoch)  # no longer draining: its queries are not to start before
        while True:
            try:
                self._go_on_after_others(queries.plan)
                break
            except StorageError:  # it has the epoch, and no query may go on without
                if self.signals.number is not None:
                    raise self.signals.exit() from None
                self.signals.woken.wait(POLL_SECONDS)
        queries.start()
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
        if self._parent_ended(error):
            why = f"the driver's JVM ended ({why})"
        self.reporter.report(state=FAILED, error=why, reason=type(error).__name__)

    def _parent_ended(self, error: BaseException) -> bool:
        """Whether spark-submit's JVM has. Its connections close before it is gone (a busy machine takes seconds to give
        back its memory), so that after a call without an answer its end is waited for."""
        deadline = time.monotonic() + (_JVM_ENDS if unanswered(error) else 0)
        while os.getppid() == self._parent and time.monotonic() < deadline:
            time.sleep(0.05)
        return os.getppid() != self._parent


def _print_error() -> None:
    """The traceback for the driver's log, which may have gone with the JVM that read it from this process."""
    with contextlib.suppress(OSError):
        traceback.print_exc()
