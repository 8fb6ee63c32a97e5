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
from ...core.names import check_name, check_new_id
from ...core.registry.deployment import FINISHED
from ...core.registry.registry import AppRegistry
from ...core.registry.update import Attempt, Step, UpdateRecord
from ...core.snapshots.rehearsal import RehearsalError, RehearsalReport
from ...core.users import user_and_host
from ..app_lease import holding
from ..explanation import explain
from ..operations import check, rehearse
from ..operations.context import Context
from ..operations.plan import Planned, app_named_in
from ..operations.submit import Deployed
from ..operations.verification import verify
from ..operations.verification.health import Health
from ..waiting import Phase, Progress, discard_progress
from . import preflight, record, rollback
from .inheritance import resolve, setting_changes
from .options import UpdateOptions
from .promotion import promote
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
            Step.PROMOTE: lambda update: promote(context, update.app, update.record.new),
        }

    def update(self, app: str | None = None) -> UpdateRecord:
        """Run all steps and return the final record; roll back and raise when a step fails. app: its name, if known"""
        update = self.begin(app)
        registry, old, new = update.registry, update.record.old, update.record.new
        strategy = strategy_of(update)
        with holding(registry, new):
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
        begun, app = self._identify(app)
        registry = self.context.registry.existing(app)
        application, digest = self.options.application, self.options.application.digest()
        planned, own_driver = None, False
        if begun is None:
            self.context.need_launcher().check()
            preflight.check_before_start(self.context, application, self.options.deployment, self.options.snapshot, app)
            self._restart_if_finished(registry)
            if not self.options.check_only:
                registry.check_writable()
                record.check_can_begin(self.context, registry, self.strategy.replaces_dead)
                own_driver = self.strategy.starts_early
                planned = None if own_driver else self._plan_and_check(app)
        boundary("planned")
        deployment = record.new_deployment(registry, digest, self.options.deployment)
        draft = self._draft(registry, deployment, attempt)
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

    def _restart_if_finished(self, registry: AppRegistry) -> None:
        """Use strategy `restart` where the running version has finished: nobody is there to hand over."""
        current = registry.current_id()
        if current is None or self.strategy.replaces_dead:
            return
        if self.context.drivers(registry, watch=False).state(current) == FINISHED:
            self.progress(
                f"{current} of {registry.name} has finished: the new version starts where it ended (strategy restart)"
            )
            self.strategy = strategy_named("restart").accept(self.options)
            self.options = attrs.evolve(self.options, strategy=self.strategy.name)

    def _identify(self, app: str | None) -> tuple[UpdateRecord | None, str]:
        """Find the app, and take over what is not given from its running version.

        Returns an interrupted update of the same application, and the app's name.
        """
        if (begun := self._interrupted(app)) is not None:
            return begun, begun.app
        given = self.options.application
        app = app or app_named_in(given) or check.plan(self.context, given).app
        self.options = resolve(self.context, self.options, app)
        changed = self.options.application.digest() != given.digest()
        return self._interrupted(app) if changed else None, app

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

    def _draft(self, registry: AppRegistry, deployment: str, *attempts: Attempt) -> UpdateRecord:
        """Return the record of an update that begins now. Writes nothing."""
        now = clock.now()
        return UpdateRecord(
            app=registry.name,
            old=registry.current_id(),
            new=check_new_id(deployment),
            digest=self.options.application.digest(),
            strategy=self.strategy.name,
            in_place=self.strategy.in_place,
            started_at=now,
            step_times={Step.PLAN: now},
            attempts=attempts,
            asked_by=self.options.asked_by or user_and_host(),
        )

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
            if update.pending:
                update.registry.check_writable()
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
        options = verify.HealthOptions(
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
        self.progress(Phase(f"planning {self.options.application.file} as {update.record.new}, and checking it"))
        planned = strategy.plan(update)
        if planned is None or planned.report is None:
            return planned
        report = check.with_batches_again(self.context, planned.report, planned.plan, None, self.options.agree)
        options = self.options
        report = explain(update.registry, report, options.application, options.snapshot, options.renames)
        return attrs.evolve(planned, report=report)

    def _plan_and_check(self, app: str, strategy: Strategy | None = None) -> Planned:
        self.progress(Phase(f"planning {self.options.application.file}, and checking it"))
        beside = (strategy or self.strategy).runs_beside
        options = check.CheckOptions(
            application=self.options.application,
            app=app,
            snapshot=self.options.snapshot,
            agree=self.options.agree,
            renames=self.options.renames,
            fork=beside,
            in_place=not beside,
        )
        return check.plan_and_check(self.context, options)
