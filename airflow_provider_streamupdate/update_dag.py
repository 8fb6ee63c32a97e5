"""The update of a running app, as a task group for any DAG and as a DAG of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, TaskGroup, chain

from .control.update.step import Step
from .control.update.strategies import STRATEGIES
from .core.registry.update import DEFAULT_STRATEGY
from .hooks.settings import DEFAULT_CONN_ID
from .operators.promote import StreamPromoteOperator
from .operators.update import (
    StreamUpdateBeginOperator,
    StreamUpdateEndOperator,
    StreamUpdateRollbackOperator,
    StreamUpdateStepOperator,
)
from .sensors.health import StreamHealthSensor

# The factor by which Airflow's retries slow down; before Airflow 3.2 it had no other than two, to be switched on.
TWICE = True if isinstance(BaseOperator.retry_exponential_backoff, bool) else 2.0


def stream_update(
    *,
    app: Any,
    application: Any,
    deployment_id: Any = None,
    py_files: Any = None,
    files: Any = None,
    app_params: Any = None,
    conf: Any = None,
    env_vars: Any = None,
    from_snapshot: Any = None,
    agree: Any = (),
    renames: Any = None,
    strategy: Any = DEFAULT_STRATEGY,
    rehearse: Any = None,
    run_beside: Any = None,
    check_only: Any = None,
    catch_up_timeout: Any = None,
    drain_timeout: Any = None,
    submit_timeout: Any = None,
    verify_for: Any = None,
    verify_timeout: float | timedelta = 600.0,
    approval: bool = False,
    streamupdate_conn_id: str = DEFAULT_CONN_ID,
    group_id: str = "update",
    default_args: Mapping[str, Any] | None = None,
) -> TaskGroup:
    """plan -> check -> (rehearse) -> (approve) -> stand by -> snapshot with cancel -> submit from snapshot -> verify ->
    promote; rollback.

    Use it inside a DAG; it returns the group. When a step fails after the old version was stopped, `rollback`
    brings the old version back; when it was not stopped, `rollback` changes nothing. `outcome`, the last
    task, fails unless the new version was promoted, so that a run that rolled back is a failed run. Every
    task can be run again at any time: it goes on with what was done.

    Everything down to `verify_for` is templated, or may be the output of another task:

    app: the app's name; application: path of the new version's file
    deployment_id: id of the new deployment; None: made from the application's digest
    py_files, files, app_params, conf, env_vars: see ApplicationOperator
    from_snapshot: start from this snapshot, not from the one the old version is stopped with
    agree: names of the losses that are agreed to
    renames: stages and sources that have new names, ``{"old": "new"}``
    strategy: ``standby`` (the new version gets ready beside the old one, which then hands over to it; two drivers for
        that time), ``restart`` (the old one ends, then the new one is started; with `from_snapshot` in place of
        standby), ``parallel`` (the new one runs beside the old one, from a snapshot and with sink parameters of its
        own, until it has caught up; then the old one is drained) or ``in_flight`` (only reloadable parameters differ:
        the running driver goes on with them, and standby and snapshot do nothing)
    rehearse: how many batches of the new version to rehearse before the old one is touched, on `from_snapshot` or the
        app's newest snapshot; None: there is no such task; 0: it does nothing
    run_beside: with strategy parallel: both run at least so long, and until the new one has caught up;
        catch_up_timeout: how long that may take afterwards (None: an hour)
    check_only: leave it at the check, and the rehearsal where one is asked for: nothing is written, stopped or started,
        the other tasks are skipped, and the run succeeds when the new version can take over
    drain_timeout, submit_timeout, and these two: seconds, timedelta or ISO 8601 text; None: the connection's
    verify_for: how long the new version must have run, and be well at the end, before it is promoted (None: 10 s; 0:
        not asked, two batches are enough)
    verify_timeout: seconds until the new version must be healthy, `verify_for` aside
    approval: a person must approve, with the compatibility report in view, before the old version is stopped
    default_args: for all tasks; unless given four retries, the first after five seconds and each of the others after
        twice as long as the one before
    """
    options = {
        "application": application,
        "py_files": py_files,
        "files": files,
        "app_params": app_params,
        "conf": conf,
        "env_vars": env_vars,
        "deployment_id": deployment_id,
        "from_snapshot": from_snapshot,
        "agree": agree,
        "renames": renames,
        "strategy": strategy,
        "rehearse": rehearse,
        "run_beside": run_beside,
        "catch_up_timeout": catch_up_timeout,
        "drain_timeout": drain_timeout,
        "submit_timeout": submit_timeout,
        "verify_for": verify_for,
        "check_only": check_only,
    }
    common = {"app": app, "streamupdate_conn_id": streamupdate_conn_id}
    # A restart of Airflow costs the try that was lost, and each one that is made before its API server answers: half a
    # minute after the scheduler on a busy machine.
    args = {
        "retries": 4,
        "retry_delay": timedelta(seconds=5),
        "retry_exponential_backoff": TWICE,
        "max_retry_delay": timedelta(minutes=1),
        **(default_args or {}),
    }
    with TaskGroup(group_id, default_args=args, tooltip="Update a running app with its state") as group:
        plan = StreamUpdateBeginOperator(task_id=Step.PLAN, options=options, **common)
        begun = plan.output
        update = {**common, "deployment_id": begun["deployment"]}
        verify = {"deployment_id": begun["runs"], "baseline_snapshot": begun["baseline"], "run_for": verify_for}
        tasks: list[Any] = [plan]
        for step in _steps(strategy, rehearse)[1:]:
            if step == Step.VERIFY:
                tasks.append(
                    StreamHealthSensor(task_id=step, timeout=verify_timeout, poke_interval=2.0, **verify, **common)
                )
            elif step == Step.PROMOTE:
                tasks.append(StreamPromoteOperator(task_id=step, **update))
            else:
                tasks.append(
                    StreamUpdateStepOperator(task_id=step, step=step, options=options, digest=begun["digest"], **update)
                )
        by_step = {task.label: task for task in tasks}
        before = [name for name in (Step.PLAN, Step.CHECK, Step.REHEARSE) if name in by_step]
        if approval:  # the last before anything is touched
            tasks.insert(len(before), _approve(app, by_step[Step.CHECK]))
        chain(*tasks)
        steps = {task.task_id: task.label for task in tasks}
        # The id as a template, not as a task's output: these two run last, whatever became of the plan.
        last = {**common, "deployment_id": str(begun["deployment"]), "steps": steps}
        rollback = StreamUpdateRollbackOperator(
            task_id="rollback", timeout=submit_timeout, trigger_rule="one_failed", **last
        )
        outcome = StreamUpdateEndOperator(task_id="outcome", retries=0, check_only=check_only, **last)
        [task for name, task in by_step.items() if name not in before] >> rollback
        [tasks[-1], rollback] >> outcome
    return group


def _steps(strategy: Any, rehearse: Any) -> tuple[Step, ...]:
    """Those of the strategy; all, when it is known only when the DAG runs."""
    steps = STRATEGIES[strategy].steps if isinstance(strategy, str) and strategy in STRATEGIES else tuple(Step)
    return tuple(step for step in steps if step != Step.REHEARSE or rehearse is not None)


def build_update_dag(
    dag_id: str,
    *,
    app: Any,
    application: Any,
    schedule: Any = None,
    dag_kwargs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = ("streamupdate",),
    **update: Any,
) -> DAG:
    """A DAG that holds one `stream_update` group. Assign it to a module-level name in a DAG file.

    schedule: when to run; None: by hand or by another DAG
    dag_kwargs: for DAG(...); update: for stream_update(...)
    """
    with DAG(
        dag_id,
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        tags=list(tags),
        **(dag_kwargs or {}),
    ) as dag:
        stream_update(app=app, application=application, **update)
    return dag


def _approve(app: Any, check: StreamUpdateStepOperator) -> Any:
    """The person's part. A rejection fails the task, so that the run does not look like a success."""
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    report = f"ti.xcom_pull(task_ids='{check.task_id}', key='report_markdown')"
    return ApprovalOperator(
        task_id="approve",
        subject=f"Update {app}?",
        body=f"{{{{ {report} }}}}",
        fail_on_reject=True,
        retries=0,
    )
