"""The update as a whole: its steps, one after the other.

Every step checks what is already done and does the rest. So the chain can be run again from the start after a crash at
any point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.compatibility.report import CompatibilityReport, IncompatibleError
from ...core.difference.report import DifferenceReport
from ...core.errors import ApplicationError, StreamUpdateError
from ...core.names import check_name
from ...core.registry.deployment import FINISHED
from ...core.registry.registry import AppRegistry
from ...core.registry.update import Attempt, Step, UpdateRecord
from ...core.snapshots.rehearsal import RehearsalError, RehearsalReport
from ...core.users import user_and_host
from ..app_lease import holding
from ..operations import check, rehearse
from ..operations.context import Context
from ..operations.plan import Planned
from ..operations.submit import Deployed
from ..operations.verification import verify
from ..operations.verification.health import Health
from ..waiting import Phase, Progress, discard_progress
from . import preflight, record, rollback
from .inheritance import resolve, setting_changes
from .options import UpdateOptions
from .promotion import promote
from .record import usual_step_times
from .strategies import Strategy, strategy_named
from .update import Update


def strategy_of(update: Update) -> Strategy:
    """Return the strategy the update was begun with. A continued update keeps it, whatever the options say now."""
    return strategy_named(update.record.strategy)


def update(context: Context, options: UpdateOptions, progress: Progress = discard_progress) -> UpdateRecord:
    """Run all steps: plan, check, snapshot with cancel, submit from it, verify, promote.

    Rolls back and raises when the new version fails after the old one was stopped. Run again after a crash, it
    continues the update. AppCancelledError, with nothing started again, when somebody cancels the app meanwhile.
    """
    return UpdateEngine(context, options, progress).update()


def begin_update(
    context: Context, app: str, deployment: str, digest: str = "", strategy: str = "restart"
) -> UpdateRecord:
    """Take (or renew) the app's lease for the update to `deployment`, and write or read its record.

    LeaseHeldError when another update is under way, AlreadyExistsError when this one has ended, NotRunningError when
    the app does not run.
    """
    registry, in_place = context.registry.existing(app), strategy_named(strategy).in_place
    draft = record.draft(registry, deployment, digest, strategy, in_place)
    return record.begin(context, draft, strategy_named(strategy).replaces_dead)


class UpdateEngine:
    """Runs an update: all of it (`update`), or a step at a time (`begin` for the first, then `resume` and `run`)."""

    def __init__(self, context: Context, options: UpdateOptions, progress: Progress = discard_progress) -> None:
        self.context, self.progress = context, progress
        self.strategy: Strategy = strategy_named(options.strategy).accept(options)
        self.options = attrs.evolve(options, strategy=self.strategy.name)
        self._steps: dict[Step, Callable[[Update], Any]] = {
            Step.CHECK: self._check,
            Step.REHEARSE: self._rehearse,
            Step.PREPARE: self._get_ready,
            Step.SNAPSHOT_AND_CANCEL: self._stop_old,
            Step.SUBMIT_FROM_SNAPSHOT: self._start_new,
            Step.VERIFY: self._verify,
            Step.PROMOTE: self._promote,
        }

    def update(self) -> UpdateRecord:
        """Run all steps and return the final record; roll back and raise when a step fails."""
        update = self.begin()
        registry, old, new = update.registry, update.record.old, update.record.new
        strategy = strategy_of(update)
        with holding(registry, new):
            if usual := usual_step_times(registry.updates(), update.record.strategy):
                self.progress(usual)
            try:
                for step in strategy.steps[1:]:
                    self.run(step, update)
            except Exception as error:
                if registry.cancellation() is None:
                    self.progress(f"the update failed: {error}")
                gone_back = rollback.rollback(
                    self.context,
                    update.app,
                    new,
                    self.options.submit_timeout,
                    self.progress,
                    rollback.RollbackOptions(asked_by=self.options.asked_by, reason=str(error)),
                )
                if gone_back is None:
                    self.progress(strategy.message_if_untouched(str(old)))
                if gone_back is None or isinstance(error, IncompatibleError):
                    raise
                raise StreamUpdateError(
                    f"the update of {update.app} to {new} failed and was rolled back; "
                    f"{gone_back.deployment} runs again: {error}"
                ) from error
        ended = registry.update(new)
        assert ended is not None  # it was promoted
        paused = "" if ended.pause_seconds is None else f"; the pause was {ended.pause_seconds} s"
        self.progress(f"{update.app} runs as {ended.runs}{paused}")
        return ended

    def begin(self, app: str | None = None) -> Update:
        """The step `plan`: plan and check the new version, choose the update's names, take the lease, write the record.

        An interrupted update of the same application is continued.

        app: its name, if known; ApplicationError when the file defines another app
        """
        attempt = self._attempt(Step.PLAN)
        begun, planned, app = self._identify(app)
        application, digest = self.options.application, self.options.application.digest()
        own_driver = False
        if begun is None and planned is None:
            self.context.need_launcher().check()
            preflight.check_before_start(self.context, application, self.options.deployment, self.options.snapshot, app)
            app = app or preflight.known_app(self.context, application)
            self._restart_if_finished(app)
            if app is not None and not self.options.check_only:
                record.check_can_begin(self.context, self.context.registry.existing(app), self.strategy.replaces_dead)
            own_driver = self.strategy.starts_early and app is not None and not self.options.check_only
            if not self.options.check_only and not own_driver:
                planned = self._plan_and_check(app)
                app = planned.plan.app
        if app is None:  # not named in the file, and a check only must leave nothing behind
            app = check.plan(self.context, application).app
        registry = self.context.registry.existing(app)
        boundary("planned")
        deployment = record.new_deployment(registry, digest, self.options.deployment)
        draft = attrs.evolve(self._draft(registry, deployment), attempts=(attempt,))
        if planned is not None:
            self.strategy.check_plan(self._of(draft), planned.plan)
        if self.options.check_only:
            return self._of(draft)
        with holding(registry, deployment):
            known = registry.update(deployment) is not None
            written = record.begin(self.context, draft, self.strategy.replaces_dead)
            update = self._of(written)
            if update.pending:
                for line in setting_changes(registry.spec(str(written.old)), application):
                    self.progress(line)
            with record.attempting(registry, deployment, attempt):
                if own_driver and update.pending:
                    planned = self._plan_by_own_driver(update, known)
            if planned is not None and planned.report is not None:
                check.store_report(self.context, planned.report, deployment)
            elif registry.current_id() == written.old:
                registry.remove_reports(deployment)  # of an earlier try, perhaps with other options: check again
        return update

    def _restart_if_finished(self, app: str | None) -> bool:
        """Use strategy `restart` where the running version has finished: nobody is there to hand over. Return whether
        that changed the strategy."""
        current = self.context.registry.app(app).current_id() if app is not None else None
        if app is None or current is None or self.strategy.replaces_dead:
            return False
        if self.context.drivers(self.context.registry.app(app), watch=False).state(current) != FINISHED:
            return False
        self.progress(f"{current} of {app} has finished: the new version starts where it ended (strategy restart)")
        self.strategy = strategy_named("restart").accept(self.options)
        self.options = attrs.evolve(self.options, strategy=self.strategy.name)
        return True

    def _identify(self, app: str | None) -> tuple[UpdateRecord | None, Planned | None, str | None]:
        """Find the app, and take over what is not given from its running version.

        Returns an interrupted update of the same application; the plan, where one had to be made to find the app's
        name; and that name.
        """
        begun, planned = self._interrupted(app), None
        if begun is not None:
            return begun, None, begun.app
        if app is None and preflight.app_named_in(self.options.application.file) is None:
            if not self.options.check_only:
                planned = self._plan_and_check(None)
                app = planned.plan.app
            elif not self.options.reset:
                app = check.plan(self.context, self.options.application).app
        given = self.options.application.digest()
        self.options = resolve(self.context, self.options, app)
        if self.options.application.digest() != given:
            begun, planned = self._interrupted(app), None
        if begun is None and planned is not None and self._restart_if_finished(app):
            planned = None  # perhaps it was planned as a fork
        return begun, planned, begun.app if begun is not None else app

    def _interrupted(self, app: str | None) -> UpdateRecord | None:
        """Return the record of an interrupted update of the same application; None without one."""
        return record.interrupted(self.context, self.options.application.digest(), self.options.deployment, app)

    def resume(self, app: str, deployment: str | None, digest: str | None = None) -> Update:
        """Return the update that `begin` began. ApplicationError when the application has changed since (`digest`)."""
        self.options = resolve(self.context, self.options, app, deployment)
        now = self.options.application.digest()
        if digest and now != digest:
            raise ApplicationError(
                f"application {self.options.application.file} has changed since it was planned and checked (digest "
                f"{now[:8]}, was {digest[:8]}); run the update again from its first task"
            )
        registry = self.context.registry.existing(check_name("app", app))
        if self.options.check_only:
            new = record.new_deployment(registry, now, self.options.deployment)
            return self._of(self._draft(registry, new))
        draft = self._draft(registry, str(deployment))
        return self._of(record.begin(self.context, draft, self.strategy.replaces_dead))

    def run(self, step: Step, update: Update) -> Any:
        """Run one step and return its result; None, with nothing done, when the update's strategy lacks the step."""
        strategy = strategy_of(update)
        if step not in strategy.steps:
            self.progress(f"nothing to do: strategy {strategy.name} has no step {step}")
            return None
        if self.options.check_only:
            return self._steps[step](update)
        registry, new = update.registry, update.record.new
        with holding(registry, new):
            record.check_not_undone(registry, new)
            if step == Step.REHEARSE and not self.options.rehearse:
                return self._steps[step](update)  # nothing, which is no try
            with record.attempting(registry, new, self._attempt(step)):
                return self._steps[step](update)

    def _attempt(self, step: Step) -> Attempt:
        by = self.options.asked_by or user_and_host()
        return Attempt(step=step, began_at=clock.now(), by=by, traceparent=self.options.traceparent)

    def _draft(self, registry: AppRegistry, deployment: str) -> UpdateRecord:
        digest, strategy = self.options.application.digest(), self.strategy
        return record.draft(registry, deployment, digest, strategy.name, strategy.in_place, self.options.asked_by)

    def _of(self, found: UpdateRecord) -> Update:
        return Update(context=self.context, options=self.options, record=found, progress=self.progress)

    def _check(self, update: Update) -> CompatibilityReport | None:
        registry, new = update.registry, update.record.new
        report = None if self.options.check_only else registry.report(new)
        if report is None and update.pending:
            strategy = strategy_of(update)
            planned = None if self.options.check_only else self._planned_by(strategy, update)
            planned = planned or self._plan_and_check(update.app, strategy)
            strategy.check_plan(update, planned.plan)
            report = planned.report
            if report is not None and not self.options.check_only:
                check.store_report(self.context, report, new)
        if report is not None and not report.compatible and update.pending:
            if not self.options.check_only:
                strategy_of(update).drop(update)
            raise IncompatibleError(
                f"the new version of {update.app} is not compatible with {report.source}, so it cannot continue from "
                f"it; nothing was stopped or changed, and {update.record.old} keeps running:\n  "
                + "\n  ".join(report.problems),
                report,
            )
        for line in report.changes if report is not None and update.pending else ():
            self.progress(line)
        self._record_step(update, Step.CHECK)
        boundary("checked")
        return report

    def _rehearse(self, update: Update) -> RehearsalReport | None:
        """Rehearse, unless an earlier try did. RehearsalError when it fails.

        It runs on the snapshot the new version is to start from, or on the app's newest while that one does not exist.
        """
        record_now = update.registry.update(update.record.new)
        if not self.options.rehearse or not update.pending:
            return None
        if record_now is not None and Step.REHEARSE in record_now.step_times:
            return None
        options = rehearse.RehearseOptions(
            application=self.options.application,
            app=update.app,
            snapshot=self.options.snapshot,
            batches=self.options.rehearse,
            agree=self.options.agree,
            deployment=None if self.options.check_only else update.record.new,
            renames=self.options.renames,
            progress=self.progress,
            fork=strategy_of(update).runs_beside,
        )
        report = rehearse.rehearse(self.context, options)
        if not report.passed:
            raise RehearsalError(
                f"the new version of {update.app} failed its rehearsal on snapshot {report.snapshot}; nothing was "
                f"stopped or changed, and {update.registry.current_id()} keeps running:\n  "
                + "\n  ".join(report.problems),
                report,
            )
        for line in report.notes():
            self.progress(line)
        self._record_step(update, Step.REHEARSE)
        return report

    def _get_ready(self, update: Update) -> DifferenceReport | None:
        if not update.pending:
            return None
        strategy = strategy_of(update)
        report = strategy.get_ready(update)
        self._record_step(update, Step.PREPARE, snapshot=update.snapshot if strategy.runs_beside else None)
        boundary("standby-noted")
        return report

    def _stop_old(self, update: Update) -> str:
        strategy, noted = strategy_of(update), update.registry.update(update.record.new)
        if Step.PREPARE in strategy.steps and noted is not None and Step.PREPARE not in noted.step_times:
            self._get_ready(update)  # the update was begun with a strategy whose step this DAG has no task for
        elif strategy.standby_is_lost(update):
            self.progress(f"{update.record.new} does not stand by any more, and gets ready again")
            self._get_ready(update)
        if update.record.old is not None:
            strategy.stop_old(update)
        self._record_step(update, Step.SNAPSHOT_AND_CANCEL, snapshot=update.snapshot)
        boundary("snapshotted")
        return update.snapshot

    def _start_new(self, update: Update) -> Deployed:
        deployed = strategy_of(update).start_new(update)
        self._record_step(update, Step.SUBMIT_FROM_SNAPSHOT)
        boundary("submitted")
        return deployed

    def _verify(self, update: Update) -> Health:
        options = verify.WaitHealthyOptions(
            app=update.app,
            deployment=update.record.runs,
            baseline_snapshot=strategy_of(update).baseline(update),
            run_for=self.options.verify_for,
            slo=self.options.slo,
            timeout=self.options.submit_timeout,
            progress=self.progress,
        )
        health = verify.wait_healthy(self.context, options)
        boundary("healthy")
        self._record_step(update, Step.VERIFY, verified=health.holds)
        boundary("verified")
        return health

    def _promote(self, update: Update) -> UpdateRecord | None:
        return promote(self.context, update.app, update.record.new)

    def _record_step(
        self, update: Update, done: Step, snapshot: str | None = None, verified: tuple[str, ...] = ()
    ) -> None:
        if not self.options.check_only:
            record.step(update.registry, update.record.new, done, snapshot=snapshot, verified=verified)

    def _plan_by_own_driver(self, update: Update, known: bool) -> Planned | None:
        """Plan an update that has just begun by the new version's own driver, where the strategy does so.

        An error leaves nothing behind.

        known: the record existed before
        """
        strategy = strategy_of(update)
        try:
            planned = self._planned_by(strategy, update)
            if planned is not None:
                strategy.check_plan(update, planned.plan)
            return planned
        except BaseException:
            registry, new = update.registry, update.record.new
            # A rerun of the update finds and handles what is left; another process may have taken over meanwhile.
            with contextlib.suppress(StreamUpdateError), holding(registry, new):
                strategy.drop(update)
                if not known:
                    registry.remove_update(new)
            raise

    def _planned_by(self, strategy: Strategy, update: Update) -> Planned | None:
        if not strategy.starts_early:
            return None
        self._report_planning(update.record.new, f" and checking it against what {update.record.old} has committed")
        planned = strategy.plan(update)
        if planned is None or planned.report is None:
            return planned
        report = check.with_batches_again(self.context, planned.report, planned.plan, None, self.options.agree)
        return attrs.evolve(planned, report=report)

    def _report_planning(self, deployment: str | None, check: str) -> None:
        file = self.options.application.file
        self.progress(Phase(f"planning {deployment} ({file}){check}" if deployment else f"planning {file}{check}"))

    def _plan_and_check(self, app: str | None, strategy: Strategy | None = None) -> Planned:
        snapshot = self.options.snapshot
        against = f"snapshot {snapshot}" if snapshot else "what the current version has committed"
        self._report_planning(self.options.deployment, f" and checking it against {against}")
        beside = (strategy or self.strategy).runs_beside
        options = check.CheckOptions(
            application=self.options.application,
            app=app,
            snapshot=snapshot,
            agree=self.options.agree,
            renames=self.options.renames,
            fork=beside,
            in_place=not beside,
        )
        return check.plan_and_check(self.context, options)
