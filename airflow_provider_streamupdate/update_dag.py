"""The update of a running app, as a task group for any DAG and as a DAG of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, TaskGroup, chain

from .control.update.options import OPTIONS
from .control.update.strategies import STRATEGIES, Strategy
from .core.registry.update import DEFAULT_STRATEGY, Step
from .forms import refuse_unknown_conf
from .hooks.settings import DEFAULT_CONN_ID
from .hooks.update_options import UpdateArguments, blank_text, check_names
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

# The factor by which Airflow's retries slow down; before Airflow 3.2 it was two, and could only be switched on.
TWICE = True if isinstance(BaseOperator.retry_exponential_backoff, bool) else 2.0


class StreamUpdateArguments(UpdateArguments, total=False):
    """The arguments of `stream_update` besides app and application. For type checkers."""

    group_id: str
    streamupdate_conn_id: str
    verify_timeout: float | timedelta
    approval: bool
    default_args: Mapping[str, Any] | None
    on_success_callback: Any
    on_failure_callback: Any


def stream_update(*, app: Any, application: Any, **given: Unpack[StreamUpdateArguments]) -> TaskGroup:
    """Return the task group of an update, for use inside a DAG.

    plan -> check -> (rehearse) -> (approve) -> prepare -> snapshot_and_cancel -> submit_from_snapshot -> verify ->
    promote; rollback; outcome.

    If a step fails after the old version was stopped, `rollback` brings the old version back; otherwise it changes
    nothing. `outcome`, the last task, fails unless the new version was promoted, so a run that rolled back has failed.
    Every task can be run again at any time and continues. With `rehearse` None there is no such task; with 0 it does
    nothing.

    app: the app's name; application: path of the new version's file
    group_id: "update" unless given; streamupdate_conn_id: the connection
    verify_timeout: seconds until the new version must be healthy, in addition to `verify_for`; 600 unless given
    approval: a person must approve before the old version is stopped, with the compatibility report and the changes in
        code, parameters and configuration in view
    default_args: for all tasks; unless given four retries, the first after five seconds, each further one after twice
        the time
    on_success_callback, on_failure_callback: for the task `outcome`, which ends as the update did: a
        StreamUpdateNotifier, for example
    py_files, files, app_params, conf, env_vars, application_args, seen_batch: see ApplicationOperator

    The options of an update follow. They are templated, and may be the output of another task; a duration is seconds, a
    timedelta or ISO 8601 text.

    """
    own: dict[str, Any] = {name: given.pop(name, default) for name, default in _DEFAULTS.items()}  # type: ignore[misc]
    asked: dict[str, Any] = {**given}
    check_names(asked)
    options = {"application": application, **asked}
    strategy = asked.get("strategy", DEFAULT_STRATEGY)
    common = {"app": app, "streamupdate_conn_id": own["streamupdate_conn_id"]}
    tooltip = "Update a running app with its state"
    with TaskGroup(own["group_id"], default_args={**_RETRIES, **(own["default_args"] or {})}, tooltip=tooltip) as group:
        tasks = _step_tasks(options, own["verify_timeout"], common)
        begun = tasks[0].output
        by_step = {task.label: task for task in tasks}
        before = [name for name in (Step.PLAN, Step.CHECK, Step.REHEARSE) if name in by_step]
        if own["approval"]:  # the last before anything is touched; after the versions were compared, where they are
            # One that is not known yet counts as one that compares nothing: a rejection must leave nothing to undo.
            compares = (chosen := _strategy_of(strategy)) is not None and chosen.compares
            seen = [by_step[Step.CHECK], *([by_step[Step.PREPARE]] if compares else [])]
            tasks.insert(len(before) + len(seen) - 1, _approve(app, seen))
        chain(*tasks)
        steps = {task.task_id: task.label for task in tasks}
        # The id as a template, not as a task's output: these two run last, even if the plan failed.
        last = {**common, "deployment_id": str(begun["deployment"]), "steps": steps}
        rollback = StreamUpdateRollbackOperator(
            task_id="rollback", timeout=asked.get("submit_timeout"), trigger_rule="one_failed", **last
        )
        callbacks = {
            name: own[name] for name in ("on_success_callback", "on_failure_callback") if own[name] is not None
        }
        outcome = StreamUpdateEndOperator(
            task_id="outcome", retries=0, check_only=asked.get("check_only"), **callbacks, **last
        )
        [task for name, task in by_step.items() if name not in before] >> rollback
        [tasks[-1], rollback] >> outcome
    return group


_DEFAULTS: dict[str, Any] = {
    "group_id": "update",
    "streamupdate_conn_id": DEFAULT_CONN_ID,
    "verify_timeout": 600.0,
    "approval": False,
    "default_args": None,
    "on_success_callback": None,
    "on_failure_callback": None,
}
# A restart of Airflow costs the try that was lost, and each one before its API server answers: half a minute after the
# scheduler on a busy machine.
_RETRIES = {
    "retries": 4,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": TWICE,
    "max_retry_delay": timedelta(minutes=1),
}


def _step_tasks(options: Mapping[str, Any], verify_timeout: Any, common: Mapping[str, Any]) -> list[Any]:
    """Return the tasks of the steps from `plan` to `promote`, in order."""
    plan = StreamUpdateBeginOperator(task_id=Step.PLAN, options=options, **common)
    begun, tasks = plan.output, [plan]
    update = {**common, "deployment_id": begun["deployment"]}
    for step in _steps(options.get("strategy", DEFAULT_STRATEGY), options.get("rehearse"))[1:]:
        task: Any
        if step == Step.VERIFY:
            task = StreamHealthSensor(
                task_id=step,
                timeout=verify_timeout,
                poke_interval=2.0,
                deployment_id=begun["runs"],
                baseline_snapshot=begun["baseline"],
                run_for=options.get("verify_for"),
                slo=options.get("slo") or [],
                **common,
            )
        elif step == Step.PROMOTE:
            task = StreamPromoteOperator(task_id=step, **update)
        else:
            task = StreamUpdateStepOperator(task_id=step, step=step, options=options, digest=begun["digest"], **update)
        tasks.append(task)
    return tasks


stream_update.__doc__ = f"{stream_update.__doc__}" + "".join(
    f"{option.argument}: {option.text(blank_text(option, 'None'))}\n    " for option in OPTIONS
)


def _strategy_of(strategy: Any) -> Strategy | None:
    """Return the strategy; None when it is known only when the DAG runs."""
    return STRATEGIES.get(strategy) if isinstance(strategy, str) else None


def _steps(strategy: Any, rehearse: Any) -> tuple[Step, ...]:
    """Return the strategy's steps; all, when it is not known yet."""
    chosen = _strategy_of(strategy)
    return tuple(s for s in (chosen.steps if chosen else Step) if s != Step.REHEARSE or rehearse is not None)


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
    """Return a DAG with one `stream_update` group. Assign it to a module-level name in a DAG file.

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
    """Return the approval task, which shows the reports of these steps and what the update changes.

    A rejection fails the task, so that the run does not count as a success.
    """
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
