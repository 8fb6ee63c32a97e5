"""The tasks of an update: one per step, the rollback, and the outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException, conf
from airflow.sdk.log import redact

from ..control.operations.submit import Deployed
from ..control.review.review import preview_changes
from ..control.update.engine import UpdateEngine, strategy_of
from ..control.update.options import CATCH_UP_SECONDS
from ..control.update.update import Update
from ..core.compatibility.report import CompatibilityReport, IncompatibleError
from ..core.difference.report import DifferenceError, DifferenceReport
from ..core.errors import DriverError
from ..core.names import check_name
from ..core.registry.update import HOW_ENDED, PROMOTED, Step
from ..core.snapshots.rehearsal import RehearsalError, RehearsalReport
from ..hooks.errors import ERROR_KEY
from ..hooks.references import secrets_in_conf
from ..hooks.templated_values import optional_text, truth
from ..hooks.xcom import plain, plain_dict, push_report
from ..links.streamupdate import CompatibilityReportLink, DriverLogLink, SparkUiLink, push_link
from ..triggers.base import value_of
from ..triggers.driver import ReadyTrigger
from ..triggers.parallel import CaughtUpTrigger
from .application import UpdateTaskOperator
from .base import AppOperator
from .driver.lines import driver_lines
from .driver.links import end_after_check, link_driver, stop_driver
from .rollback import StreamRollbackOperator


class StreamUpdateBeginOperator(UpdateTaskOperator):
    """The step `plan`: plans and checks the new version, chooses the update's names, and takes the app's lease.

    Errors in the input are refused here, before anything is written. An interrupted update of the same application (a
    crash, a killed run) is continued.

    Returns, an XCom each: ``app``, ``deployment`` (the new id), ``digest``, ``old`` (the deployment that runs now),
    ``snapshot`` (the one the new version starts from: the name of the old version's last snapshot, or
    `from_snapshot`), ``runs`` (the deployment that runs afterwards) and ``baseline`` (the snapshot to compare its
    health with). A change in flight makes no deployment and starts from no snapshot: then ``deployment`` is the id of
    the change. For a check only, ``deployment``, ``runs`` and ``baseline`` are None.

    app, options: see UpdateTaskOperator
    """

    ui_color = "#eef3f8"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(multiple_outputs=True, **kwargs)

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            for what in secrets_in_conf(getattr(context.get("dag_run"), "conf", None)):
                self.log.warning(
                    "%s in this run's conf looks like a secret, and every viewer of the DAG can read it: replace it "
                    "where it is used, and give {{ conn.ID.password }} or {{ var.value.NAME }} instead",
                    what,
                )
            app, engine = check_name("app", self.app), self.engine(context)
            self.client.registry.existing(app)
            options = self.client.resolve(engine.options, app)
            unchanged = self.client.look_ahead(options.application, options.deployment, options.snapshot, app)
            if unchanged:
                raise AirflowSkipException(str(unchanged))
            update = engine.begin(app)
            record = update.record
            if not options.check_only:
                self.touch(app, record.runs, update=record.new)
                self.log.info("update of app %s from %s to %s began", app, record.old, record.new)
            return {
                "app": app,
                "deployment": None if options.check_only else record.new,
                "digest": record.digest,
                "old": record.old,
                "snapshot": update.snapshot,
                "runs": None if options.check_only else record.runs,
                "baseline": None if options.check_only else strategy_of(update).baseline(update),
            }


class StreamUpdateStepOperator(UpdateTaskOperator):
    """One step of an update that StreamUpdateBeginOperator began.

    The steps are ``check``, ``rehearse``, ``prepare``, ``snapshot_and_cancel`` and ``submit_from_snapshot``. It does
    nothing when the update's strategy lacks the step, or an earlier try has done it.

    Returns the result of the step, as plain data: the report of a check or a rehearsal, the snapshot's name, or the
    deployment that runs. A report is also in XCom, even after a refusal: under ``report``, and as text under
    ``report_markdown``; the step ``check`` also leaves ``changes_markdown``, what the update changes in code,
    parameters and configuration. A task that is killed while it starts a driver stops that driver.

    step: the step's name
    app, options: see UpdateTaskOperator
    deployment_id: the update's new deployment; blank for a check only
    digest: the application must have this digest, which `plan` has checked
    deferrable: wait in the triggerer until the new version is ready (standby), has caught up (follow, parallel), or has
        run beside the old one (parallel)
    get_logs: write the new driver's log into the task's log while the step waits for it
    """

    template_fields = (*UpdateTaskOperator.template_fields, "deployment_id", "digest")
    operator_extra_links = (CompatibilityReportLink(), SparkUiLink(), DriverLogLink())

    def __init__(
        self,
        *,
        step: str,
        deployment_id: str | None = None,
        digest: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        get_logs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.step_name = Step(step)
        self.ui_color = _COLORS[self.step_name]
        self.deployment_id = deployment_id
        self.digest = digest
        self.deferrable = deferrable
        self.get_logs = get_logs

    def execute(self, context: Any) -> Any:
        return self._run(context, self.deferrable)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Continue after the trigger has fired."""
        with self.step(context):
            value_of(event)
        return self._run(context, deferrable=False)

    def _run(self, context: Any, deferrable: bool) -> Any:
        with self.step(context):
            engine = self.engine(context)
            update = engine.resume(self.app, optional_text(self.deployment_id), optional_text(self.digest))
            record = update.record
            began = {} if engine.options.check_only else {"deployment": record.runs, "update": record.new}
            self.touch(self.app, **began)
            if deferrable and self.step_name == Step.SNAPSHOT_AND_CANCEL:
                self._defer_until_caught_up(update)
            if deferrable and self.step_name == Step.PREPARE and update.pending and not engine.options.check_only:
                self._defer_until_ready(update)
            result = _STEP_RUNNERS.get(self.step_name, _run_step)(self, context, engine, update)
            if self.step_name == Step.SNAPSHOT_AND_CANCEL:
                self.touch(self.app, snapshot=result, **began)
        rehearses = self.options.get("rehearse") is not None  # else there is no such task
        last = Step.REHEARSE if rehearses else Step.CHECK
        if engine.options.check_only and self.step_name == last:
            end_after_check(self)
        return result

    def _defer_until_caught_up(self, update: Update) -> None:
        """Defer to the triggerer, and continue in `execute_complete`; return when there is nothing to wait for."""
        pursuit = strategy_of(update).pursuit(update)
        if pursuit is None or not (missing := pursuit.missing()):
            return
        self.log.info("%s", missing)
        self.wait_in_triggerer(
            self.app,
            CaughtUpTrigger,
            pursuit.left(),
            deployment=update.record.new,
            run_beside=update.options.run_beside or 0.0,
            catch_up_timeout=update.options.catch_up_timeout,
        )

    def _defer_until_ready(self, update: Update) -> None:
        """Defer to the triggerer while the new version's driver, which `plan` has started, gets ready by itself."""
        strategy, options = strategy_of(update), update.options
        if missing := strategy.getting_ready(update.context, update.record):
            self.log.info("waiting for %s", missing)
            timeout = options.submit_timeout
            if strategy.catches_up:
                timeout += options.catch_up_timeout or CATCH_UP_SECONDS
            self.wait_in_triggerer(self.app, ReadyTrigger, timeout, update=update.record.new)


_COLORS = {
    Step.CHECK: "#fdf3d8",
    Step.REHEARSE: "#fdf3d8",
    Step.PREPARE: "#d5ecd9",
    Step.SNAPSHOT_AND_CANCEL: "#dfeaf8",
    Step.SUBMIT_FROM_SNAPSHOT: "#d5ecd9",
}


def _run_step(task: StreamUpdateStepOperator, context: Any, engine: UpdateEngine, update: Update) -> Any:
    """Run a step, and show the report that refuses the update."""
    try:
        return engine.run(task.step_name, update)
    except (IncompatibleError, RehearsalError, DifferenceError) as error:
        if error.report is not None:
            _show(context, update, error.report)
        raise


def _with_report(task: StreamUpdateStepOperator, context: Any, engine: UpdateEngine, update: Update) -> Any:
    """Run a step and show its report."""
    report = _run_step(task, context, engine, update)
    if task.step_name == Step.CHECK and update.pending:
        changes = preview_changes(update.registry, str(update.record.old), update.options.application)
        context["ti"].xcom_push(key="changes_markdown", value=plain(redact(changes)))  # of references, too
    return None if report is None else _show(context, update, report)


def _show(
    context: Any, update: Update, report: CompatibilityReport | RehearsalReport | DifferenceReport
) -> dict[str, Any]:
    shown = push_report(context["ti"], report, update.progress)
    if isinstance(report, CompatibilityReport) and not update.options.check_only:
        push_link(
            context, CompatibilityReportLink, f"{update.registry.folder.uri}/updates/{update.record.new}.report.md"
        )
    return shown


def _with_driver(task: StreamUpdateStepOperator, context: Any, engine: UpdateEngine, update: Update) -> Any:
    """Run a step that starts a driver, and link the driver's log, even of a driver that died.

    A killed task stops the driver it started.
    """
    strategy, record = strategy_of(update), update.record
    starting = Step.PREPARE if strategy.starts_early else Step.SUBMIT_FROM_SNAPSHOT
    starts = task.step_name == starting and not strategy.in_place
    try:
        with driver_lines(task.client, lambda: (record.app, record.runs), task.log, task.get_logs):
            result = _run_step(task, context, engine, update)
    except DriverError as error:
        if task.step_name == Step.SUBMIT_FROM_SNAPSHOT:  # the old version is down: go back without delay
            raise AirflowFailException(str(error)) from error
        raise
    except BaseException as error:
        if starts and not isinstance(error, Exception):  # killed, or an execution timeout: nobody else cleans up
            stop_driver(task.client, record.app, record.new, task.log)
        raise
    finally:
        if record.runs in update.registry.deployment_ids():
            link_driver(context, task.client, record.app, record.runs)
    if isinstance(result, DifferenceReport):
        return _show(context, update, result)
    return plain(result) if isinstance(result, Deployed) else result


_STEP_RUNNERS: dict[Step, Callable[[StreamUpdateStepOperator, Any, UpdateEngine, Update], Any]] = {
    Step.CHECK: _with_report,
    Step.REHEARSE: _with_report,
    Step.PREPARE: _with_driver,
    Step.SUBMIT_FROM_SNAPSHOT: _with_driver,
}


class StreamUpdateRollbackOperator(StreamRollbackOperator):
    """Rolls back a failed update: afterwards the old version runs, and the lease is released.

    Changes nothing when the old version was never stopped, when the update did not begin, or when it has ended.

    steps: task ids of the update's steps, in order; the failed task's message becomes the reason in the record
    """

    def __init__(self, *, steps: dict[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = steps

    def execute(self, context: Any) -> dict[str, Any] | None:
        deployment = optional_text(self.deployment_id)
        if deployment is None:
            self.log.info("the update did not begin: nothing to roll back")
            return None
        with self.step(context):
            record = self.client.registry.existing(self.app).update(deployment)
            if record is None or record.outcome is not None:
                self.log.info("the update has ended (%s): nothing to roll back", record.outcome if record else "-")
                return None
            failed, why = failure(context["ti"], self.steps)
            return self.roll_back(context, deployment, update=deployment, reason=f"{failed}: {why}")


class StreamUpdateEndOperator(AppOperator):
    """The outcome of an update: succeeds when it was promoted, else fails without retries and says how it ended.

    Its trigger rule is all_done, so that a run that was rolled back does not succeed. Returns the update's record.

    app, deployment_id: the update's; a blank id means that the update did not begin
    steps: task id -> the name in the message, in order; when all were skipped, this task is skipped too
    check_only: only a check was asked for: succeeds, and returns None, when no step failed
    """

    template_fields = (*AppOperator.template_fields, "deployment_id", "check_only")
    ui_color = "#f0f0f0"

    def __init__(self, *, deployment_id: str, steps: dict[str, str], check_only: Any = False, **kwargs: Any) -> None:
        super().__init__(**{"trigger_rule": "all_done", **kwargs})
        self.check_only = check_only
        self.deployment_id = deployment_id
        self.steps = steps

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            ti = context["ti"]
            states = step_states(ti, self.steps)
            if all(state == "skipped" for state in states.values()):
                raise AirflowSkipException("the update was skipped")
            if truth(self.check_only, "check_only") and set(states.values()) <= {"success", "skipped"}:
                self.log.info("the new version of %s is compatible; nothing was stopped or changed", self.app)
                return None
            failed, why = failure(ti, self.steps)
            deployment = optional_text(self.deployment_id)
            if deployment is None:
                raise AirflowFailException(f"the update of app {self.app} did not begin: {failed} failed: {why}")
            registry = self.client.registry.existing(self.app)
            record = registry.update(deployment)
            self.touch(self.app, registry.current_id(), update=deployment)
            if record is not None and record.outcome == PROMOTED:
                return plain_dict(record)
            status = self.client.status(self.app)
            now = f"{status.current.deployment} is {status.state}" if status.current else "nothing runs"
            became = HOW_ENDED[record.outcome if record else None]
            if record is None or record.outcome is None:
                became += "; run the failed tasks again, or roll back"
            if record is not None and record.outcome and record.reason and why not in record.reason:
                why += f" ({record.reason})"  # who ended it by hand: its steps do not know
            raise AirflowFailException(
                f"the update of app {self.app} to {deployment} {became}; {now}. {failed} failed: {why}"
            )


def step_states(ti: Any, steps: dict[str, str]) -> dict[str, str]:
    """Return the states of a run's tasks `steps`, of those that have one."""
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(steps), run_ids=[ti.run_id])
    return {task: str(state) for task, state in found.get(ti.run_id, {}).items() if task in steps}


def failure(ti: Any, steps: dict[str, str]) -> tuple[str, str]:
    """Return the first step that failed, and its error message."""
    states = step_states(ti, steps)
    for task, name in steps.items():
        if states.get(task) == "failed":
            try:
                left = ti.xcom_pull(task_ids=task, key=ERROR_KEY)
            except AirflowException:
                left = None
            return name, str(left or "see its log")
    return "an earlier task", "see its log"
