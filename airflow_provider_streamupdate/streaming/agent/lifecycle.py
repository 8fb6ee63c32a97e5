"""The lifecycle of a driver: it claims its epoch, has its engine run the queries, writes the heartbeat, obeys commands,
hands over and takes back, and leaves a clear final state. `engine.QueryEngine` hides what runs the queries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from ...core.boundaries import boundary
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.fence import take_down
from ...core.compatibility.report import CompatibilityReport, IncompatibleError
from ...core.compatibility.self_update import check_updatable
from ...core.difference.comparison import NEW, OLD, Comparison
from ...core.errors import (
    ApplicationError,
    FencedError,
    RefusedError,
    StorageError,
)
from ...core.plan.plan import AppPlan
from ...core.registry.deployment import (
    CANCELLED,
    FAILED,
    FINISHED,
    RESTORING,
    SUSPENDED,
)
from ...core.registry.driver_settings import DriverSettings
from ...core.registry.output_log import OutputLog, kept_short
from ...core.registry.registry import AppRegistry
from ...core.registry.supervision import EVICTED
from ...core.snapshots.plan_answer import PlanAnswer, PlanError, write_answer
from ..engine.port import QueryEngine
from ..planning.author import told
from ..restore.saved_state import SavedState, recorded_settings
from .context import STARTS, DriverContext, print_error
from .origin import Origin
from .pace import Pace
from .roles.hot_standby import HotStandby
from .roles.new_version import NewVersion
from .roles.standing_by import Role, stand_by
from .roles.witness import Witness
from .serving import TOLD_TO_END, serve


class Agent:
    """One driver of a deployment. It claims its epoch exclusively, so that a second driver started for the same epoch
    ends at once, and stops when current.json shows that its epoch is over.

    standby: get ready beside the current deployment and take over from it when it hands `epoch` over
    witness: follow and never take over: compare rows with those of the deployment of this id, which an update brings in
    hot: take over from it when its driver dies, and not before
    follows: until then, run the current deployment's batches on a copy of its state, into nothing, from so many of the
        last ones on; 0: do not
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
        follows: int = 0,
        hot: bool = False,
        witness: str | None = None,
    ) -> None:
        self.driver = DriverContext(app, deployment, epoch, engine, standby, beside, pace or Pace())
        self.follows = follows or int(hot)
        self.hot = hot
        self.witness = witness
        self.origin = Origin(app, self.driver.spec)

    def run(self) -> int:
        """Run until the app ends; 0, or 1 when it failed."""
        if not self.driver.epoch.standby and not self.driver.epoch.claim():
            print(
                f"epoch {self.driver.epoch.number} of {self.driver.spec.app} already has a driver; this one ends",
                file=sys.stderr,
            )
            return 1
        with self.driver.signals.noted(lambda: self.driver.reporter.state in STARTS):
            try:
                self.driver.check_fence()
                self.driver.reporter.report()
                self.driver.settings = DriverSettings.of(os.environ)
                launch = self.driver.app.launch(self.driver.spec.deployment)
                self.driver.epoch.launch = launch
                log = OutputLog.of(launch, self.driver.folder, self.driver.settings)
                if self.driver.final is None:  # else the app was cancelled before this driver came up
                    with self.driver.reporter.heartbeat(), kept_short(log):
                        self._work()
                state, reason = self.driver.final or (FINISHED, "all queries ended by themselves")
                self.driver.report_end(state=state, reason=reason)
            except BaseException as error:
                print_error()
                self._fail(error)
            self.driver.recorder.settle()
        return 0 if self.driver.reporter.state in (CANCELLED, FINISHED) else 1

    def _work(self) -> None:
        gets_ready = self.driver.epoch.standby or self.driver.epoch.beside
        beyond = True
        with self.driver.patiently():
            queries, saved, plan = self._answered() if gets_ready else self._planned(self.origin.saved)
            if self.driver.epoch.standby:
                assert saved is not None  # a standby goes on from a deployment
                beyond = self._get_ready(saved)
        if gets_ready and not stand_by(self.driver, bool(self.follows), self._role()):
            return
        with self.driver.patiently():
            if gets_ready:
                saved = self._drained() if self.driver.epoch.standby else self.origin.saved()
            self._restore(queries, saved, plan, beyond)
        if self.driver.final is not None:
            return
        with self.driver.recorder.writing():
            try:
                self.driver.start()
                serve(self.driver)
            finally:
                self.driver.engine.stop()
                with contextlib.suppress(Exception):
                    last = self.driver.engine.progress()
                    self.driver.recorder.note(last)
                    self.driver.reporter.report(queries=last)

    def _get_ready(self, saved: SavedState) -> bool:
        """Do what can be done of the takeover before it; return whether a sink may have batches beyond those of the
        running deployment."""
        beyond = self.driver.engine.used_beyond(str(self.driver.spec.parent))
        if self._practises and self._practise(saved):
            self.follows = 0  # nobody runs whom it could follow
        if self.follows:  # after that: it follows from the state by then
            self.driver.engine.follow(self._followed_state, self.hot, *self._comparison())
            boundary("following")
        else:
            self.driver.engine.bring_ahead(self.origin.running)
            boundary("practised")
        return beyond

    def _followed_state(self) -> SavedState:
        """The state to follow the running deployment from. The engine then makes this deployment's checkpoint anew."""
        saved = self.origin.before(self.follows)
        self.driver.epoch.check_replaced()  # this driver may have been without the storage for long
        return saved

    def _restore(self, queries: Sequence[str], saved: SavedState | None, plan: AppPlan, beyond: bool) -> None:
        """Bring the checkpoints to where the queries go on."""
        if saved is not None:
            self.driver.report(state=RESTORING)
            boundary("restoring")
            self._check(saved.compare(plan, self.driver.spec.agree), saved)
            if self.follows:
                self.driver.engine.catch_up(saved)
            self.driver.engine.restore(saved)
            self.driver.reporter.events.add("restored", source=saved.source)
        self.driver.check_fence()
        if self.driver.final is not None:
            return
        for query in queries:
            take_down(Checkpoint(self.driver.app.checkpoint(self.driver.spec.deployment, query)))
        if beyond:  # of a standby that was known before the hand-over, since every look there is part of the pause
            self.driver.go_on_after_others()
        if saved is None:
            self.driver.engine.check_start(self.driver.spec.agree)

    @property
    def _practises(self) -> bool:
        """One that takes over practises; one that only compares has to be as warm as it gets by itself."""
        return self.driver.epoch.standby and self.witness is None

    def _practise(self, saved: SavedState) -> bool:
        """Get faster. Whether the epoch has begun meanwhile: the running driver may have died."""
        role = self._role()
        with contextlib.closing(self.driver.engine.practise(saved)) as parts:
            for _ in parts:
                with contextlib.suppress(StorageError):
                    if role.begins():
                        return True
        return False

    def _drained(self) -> SavedState:
        """What the deployment that this one takes over from has left: with the files of those queries that have to be
        restored."""
        if not self.follows:
            return self.origin.drained()
        engine = self.driver.engine
        followed = engine.followed()
        saved = self.origin.drained(without=followed)
        if doubtful := engine.doubtful(saved):
            saved = self.origin.drained(without=followed - doubtful)
        return saved

    def _comparison(self) -> tuple[Comparison | None, str]:
        """Where rows are to be recorded, and as which version's."""
        new, version = (self.witness, OLD) if self.witness is not None else (self.driver.spec.deployment, NEW)
        comparison = Comparison(self.driver.app.deployment_folder(new))
        return (None if comparison.asked() is None else comparison), version

    def _role(self) -> Role:
        if self.witness is not None:
            return Witness(self.driver, self.witness)
        return HotStandby(self.driver) if self.hot else NewVersion(self.driver)

    def _planned(self, find: Callable[[], SavedState | None]) -> tuple[tuple[str, ...], SavedState | None, AppPlan]:
        """Return the queries, the saved state to continue from, and the plan made for it."""
        if self.driver.engine.app != self.driver.spec.app:
            raise ApplicationError(
                f"the application file defines app {self.driver.engine.app}, not {self.driver.spec.app}; give the file "
                f"of {self.driver.spec.app}"
            )
        title = f"{self.driver.spec.app} {self.driver.spec.deployment}"
        session = self.driver.engine.open(title, self._practises)
        self.driver.report(spark_ui=session.ui, spark_app_id=session.application_id, spark_version=session.version)
        self.driver.engine.on_termination(self.driver.evict)
        queries = self.driver.engine.build(self.driver.spec.application.params)
        saved = find()
        return queries, saved, self._plan(queries, saved)

    def _answered(self) -> tuple[tuple[str, ...], SavedState | None, AppPlan]:
        """Like `_planned`, with an answer for the update: the plan is compared with the present state, which is
        restored into a scratch folder; the result is written before anything else is done. An update that cannot
        succeed ends here."""
        try:
            queries, saved, plan = self._planned(self.origin.at_first)
            assert saved is not None  # it goes on from a deployment or its snapshot
            report = saved.compare(plan, self.driver.spec.agree)
            if self.follows:
                self._check_followable(saved)  # before the restore into a scratch folder, which takes long
            if report.compatible:
                report = self.driver.engine.check_restorable(saved, report)
        except Exception as error:
            problem = PlanError.of(error, self.driver.reporter.hiding)
            write_answer(self.driver.app, self.driver.spec.deployment, PlanAnswer(error=problem))
            raise
        answer = PlanAnswer(plan=plan, report=report, warnings=self.driver.engine.warnings)
        write_answer(self.driver.app, self.driver.spec.deployment, answer)
        self.driver.reporter.events.add("planned", since=self.driver.reporter.started_at)
        boundary("plan-answered")
        self._check(report, saved)
        return queries, saved, plan

    def _check_followable(self, saved: SavedState) -> None:
        """Raise RefusedError with why the running deployment cannot be followed."""
        problems = self.driver.engine.unfollowable(saved)
        if self.driver.engine.used_beyond(str(self.driver.spec.parent)):
            problems.append(
                "a sink may have batch ids of another version that the running one has not logged, so that its batches "
                "cannot run under their own ids"
            )
        if problems and self.hot:
            raise RefusedError(f"app {self.driver.spec.app} cannot have a hot standby: {'; '.join(problems)}")
        if problems:
            raise RefusedError(f"strategy follow cannot be used: {'; '.join(problems)}; use strategy standby")

    def _plan(self, queries: Sequence[str], saved: SavedState | None) -> AppPlan:
        recorded = recorded_settings(self.driver.app, self.driver.spec.deployment, queries, saved)
        plan = self.driver.engine.make_plan(recorded)
        if saved is None and not any(recorded.values()):  # it has no state yet
            check_updatable(plan, self.driver.spec.agree)
        for warning in plan.warnings:
            print(f"WARNING: {warning}", file=sys.stderr)
        self.driver.note_plan()
        return plan

    def _check(self, report: CompatibilityReport, saved: SavedState) -> None:
        if not report.compatible:
            raise IncompatibleError(
                f"deployment {self.driver.spec.deployment} cannot continue from {saved.source}: "
                f"{'; '.join(report.problems)}",
                report,
            )

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, FencedError):
            current = self.driver.app.current()
            if current is not None and current.cancelled is not None:
                self.driver.report_end(state=CANCELLED, reason=str(current.cancelled))
                return
            if self.driver.epoch.replaced() or (current and current.deployment == self.driver.spec.deployment):
                return  # the status belongs to a later driver of this deployment
        if self.driver.signals.evicted and self.driver.reporter.state == SUSPENDED:
            return  # it stays what it was: nobody starts a suspended app that is lost
        if self.driver.signals.evicted:  # whoever watches the app starts it again
            own = isinstance(error, SystemExit) or str(error) == TOLD_TO_END
            why = TOLD_TO_END if own else f"{TOLD_TO_END}, and before its end: {told(error)}"
            self.driver.report_end(state=FAILED, error=why, reason=EVICTED)
            return
        if self.driver.signals.number is not None:
            state, ending = self.driver.end_by_signal()
            self.driver.report_end(state=state, reason=ending)
            return
        why = told(error)
        if gone := self.driver.engine.gone(error):
            why = f"{gone} ({why})"
        self.driver.report_end(state=FAILED, error=why, reason=type(error).__name__)
