"""The update of a running app, as a task group for any DAG and as a DAG of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, TaskGroup, chain

from .control.update.options import OPTIONS
from .control.update.step import Step
from .control.update.strategies import STRATEGIES
from .core.registry.update import DEFAULT_STRATEGY
from .forms import refuse_unknown_conf
from .hooks.settings import DEFAULT_CONN_ID
from .hooks.update_options import UpdateArguments, check_names, usual
from .operators.promote import StreamPromoteOperator
from .operators.update import (
    StreamUpdateBeginOperator,
    StreamUpdateEndOperator,
    StreamUpdateRollbackOperator,
    StreamUpdateStepOperator,
)
from .sensors.health import StreamHealthSensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The factor by which Airflow's retries slow down; before Airflow 3.2 it had no other than two, to be switched on.
TWICE = True if isinstance(BaseOperator.retry_exponential_backoff, bool) else 2.0


def stream_update(
    *,
    app: Any,
    application: Any,
    verify_timeout: float | timedelta = 600.0,
    approval: bool = False,
    streamupdate_conn_id: str = DEFAULT_CONN_ID,
    group_id: str = "update",
    default_args: Mapping[str, Any] | None = None,
    on_success_callback: Any = None,
    on_failure_callback: Any = None,
    **asked: Unpack[UpdateArguments],
) -> TaskGroup:
    """plan -> check -> (rehearse) -> (approve) -> stand by -> snapshot with cancel -> submit from snapshot -> verify ->
    promote; rollback.

    Use it inside a DAG; it returns the group. When a step fails after the old version was stopped, `rollback`
    brings the old version back; when it was not stopped, `rollback` changes nothing. `outcome`, the last
    task, fails unless the new version was promoted, so that a run that rolled back is a failed run. Every
    task can be run again at any time: it goes on with what was done. With `rehearse` None there is no such task; with 0
    it does nothing.

    verify_timeout: seconds until the new version must be healthy, `verify_for` aside
    approval: a person must approve, with the compatibility report and what changes in code, parameters and
        configuration in view, before the old version is stopped
    default_args: for all tasks; unless given four retries, the first after five seconds and each of the others after
        twice as long as the one before
    on_success_callback, on_failure_callback: of the task `outcome`, which runs last and ends as the update did: a
        StreamUpdateNotifier, for example

    The others are templated, or may be the output of another task; a duration is seconds, a timedelta or ISO 8601 text.
    asked: the options of an update, as control/update/options.py declares them

    app: the app's name; application: path of the new version's file
    py_files, files, app_params, conf, env_vars: see ApplicationOperator
    """
    check_names(asked)
    options = {"application": application, **asked}
    strategy, rehearse = asked.get("strategy", DEFAULT_STRATEGY), asked.get("rehearse")
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
        verify = {
            "deployment_id": begun["runs"],
            "baseline_snapshot": begun["baseline"],
            "run_for": asked.get("verify_for"),
            "slo": asked.get("slo") or [],
        }
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
        if approval:  # the last before anything is touched; after the versions were compared, where they are
            seen = [by_step[Step.CHECK], *([by_step[Step.STANDBY]] if _compares(strategy) else [])]
            tasks.insert(len(before) + len(seen) - 1, _approve(app, seen))
        chain(*tasks)
        steps = {task.task_id: task.label for task in tasks}
        # The id as a template, not as a task's output: these two run last, whatever became of the plan.
        last = {**common, "deployment_id": str(begun["deployment"]), "steps": steps}
        rollback = StreamUpdateRollbackOperator(
            task_id="rollback", timeout=asked.get("submit_timeout"), trigger_rule="one_failed", **last
        )
        callbacks = {"on_success_callback": on_success_callback, "on_failure_callback": on_failure_callback}
        outcome = StreamUpdateEndOperator(
            task_id="outcome",
            retries=0,
            check_only=asked.get("check_only"),
            **{name: callback for name, callback in callbacks.items() if callback is not None},
            **last,
        )
        [task for name, task in by_step.items() if name not in before] >> rollback
        [tasks[-1], rollback] >> outcome
    return group


stream_update.__doc__ = f"{stream_update.__doc__}" + "".join(
    f"{option.argument}: {option.text(usual(option, 'None'))}\n    " for option in OPTIONS
)


def _steps(strategy: Any, rehearse: Any) -> tuple[Step, ...]:
    """Those of the strategy; all, when it is known only when the DAG runs."""
    steps = STRATEGIES[strategy].steps if isinstance(strategy, str) and strategy in STRATEGIES else tuple(Step)
    return tuple(step for step in steps if step != Step.REHEARSE or rehearse is not None)


def _compares(strategy: Any) -> bool:
    """Whether the step `standby` tells what both versions make of the same batches. Not when the strategy is known only
    when the DAG runs: then a rejection must leave nothing to undo."""
    return isinstance(strategy, str) and strategy in STRATEGIES and STRATEGIES[strategy].compares


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
    dag_kwargs: for DAG(...); when it has params, a run whose conf has another key is refused
    update: for stream_update(...)
    """
    dag_arguments = dict(dag_kwargs or {})
    default_args = {"pre_execute": refuse_unknown_conf, **(dag_arguments.pop("default_args", None) or {})}
    with DAG(
        dag_id,
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        tags=list(tags),
        default_args=default_args,
        **dag_arguments,
    ) as dag:
        stream_update(app=app, application=application, **update)
    return dag


def _approve(app: Any, seen: Sequence[StreamUpdateStepOperator]) -> Any:
    """Return the person's task: to look at the reports of these steps, and at what the update changes. A rejection
    fails the task, so that the run does not look like a success."""
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    shown = [
        (seen[0], "report_markdown"),
        (seen[0], "changes_markdown"),
        *((step, "report_markdown") for step in seen[1:]),
    ]
    reports = [f"{{{{ ti.xcom_pull(task_ids='{step.task_id}', key='{key}') or '' }}}}" for step, key in shown]
    return ApprovalOperator(
        task_id="approve",
        subject=f"Update {app}?",
        body="\n\n".join(reports),
        fail_on_reject=True,
        retries=0,
    )
