"""The steps that only an update has: beginning it, stopping the old version, going back, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException, conf

from ..control import recording, reverting, updating
from ..control.holding import holding
from ..control.parallel import CATCH_UP_SECONDS, SideBySide
from ..hooks.errors import ERROR_KEY
from ..hooks.plain import plain
from ..hooks.values import optional_seconds, optional_text, seconds, truth
from ..state.names import check_name
from ..state.update import IN_FLIGHT, PARALLEL, PROMOTED, REFUSED, ROLLED_BACK, STANDBY, SUPERSEDED
from ..triggers.base import value_of
from ..triggers.parallel import CaughtUpTrigger
from .application import ApplicationOperator, check_app
from .base import StreamUpdateOperator, owner_of
from .rollback import StreamRollbackOperator


class StreamUpdateBeginOperator(ApplicationOperator):
    """Plans the new version, settles the update's names, and takes the app's update lease.

    What follows from the input alone is refused here, before anything is written. An update of the same
    application that did not come to its end (a crash, a killed run) is continued. Returns, an XCom each:
    ``app``, ``deployment`` (the new id), ``digest``, ``old`` (the deployment that runs now), ``snapshot``
    (what the new one starts from: the name the old one's last snapshot gets, or `from_snapshot`), ``runs`` (the
    deployment that runs afterwards) and ``baseline`` (the snapshot it is to be as healthy as). A change in flight
    brings in no deployment and starts from no snapshot: ``deployment`` is its own id then.

    application ...: see ApplicationOperator; `app` is required
    deployment_id: id of the new deployment; None: made from the application's digest
    from_snapshot: start from this snapshot, not from the one the old deployment is stopped with
    strategy: ``standby`` (``restart`` with `from_snapshot`), ``restart``, ``parallel`` or ``in_flight``, see
        update_dag.stream_update
    check_only: takes no lease and writes nothing: ``deployment`` is None then, and ``beside`` says whether the new
        version is to run beside the old one
    durations: what later tasks get as durations, by name, so that a wrong one is found before anything is stopped
    """

    template_fields = (
        *ApplicationOperator.template_fields,
        "deployment_id",
        "from_snapshot",
        "strategy",
        "durations",
        "check_only",
    )
    ui_color = "#eef3f8"

    def __init__(
        self,
        *,
        app: str,
        deployment_id: str | None = None,
        from_snapshot: str | None = None,
        strategy: str | None = STANDBY,
        durations: Mapping[str, Any] | None = None,
        check_only: Any = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(app=app, multiple_outputs=True, **kwargs)
        self.strategy = strategy
        self.durations = durations
        self.check_only = check_only
        self.deployment_id = deployment_id
        self.from_snapshot = from_snapshot

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            app = check_name("app", self.app_name)
            given = optional_text(self.from_snapshot)
            strategy = updating.check_strategy(optional_text(self.strategy) or STANDBY, given)
            for name, duration in (self.durations or {}).items():
                optional_seconds(duration, name, 0.0)
            application = self.described()
            digest = application.digest()
            registry = self.client.registry.existing(app)
            deployment = recording.new_deployment(registry, digest, optional_text(self.deployment_id))
            if given:
                self.client.snapshot(app, given)  # NotFoundError now, not when the old version was stopped
            if unchanged := self.client.look_ahead(application, optional_text(self.deployment_id), given, app):
                raise AirflowSkipException(str(unchanged))
            self.log.info("planning %s", application.file)
            plan = self.client.plan(application)
            check_app(app, plan.app, application.file)
            for warning in plan.warnings:
                self.log.warning("%s", warning)
            if strategy == IN_FLIGHT:
                self.client.check_change(application, plan)
            if strategy == PARALLEL and registry.update(deployment) is None:  # else it may be what runs
                self.client.check_side_by_side(application, plan)
            if truth(self.check_only, "check_only"):
                return {
                    "app": app,
                    "deployment": None,
                    "digest": digest,
                    "old": registry.current_id(),
                    "snapshot": given,
                    "runs": None,
                    "baseline": None,
                    "beside": strategy == PARALLEL,
                }
            record = recording.begin(self.client, app, deployment, digest, strategy)
            self.log.info("update of app %s from %s to %s began", app, record.old, deployment)
            return {
                "app": app,
                "deployment": deployment,
                "digest": digest,
                "old": record.old,
                "snapshot": given or updating.stop_snapshot(deployment),
                "runs": record.runs,
                "baseline": None if record.strategy == IN_FLIGHT else given or updating.stop_snapshot(deployment),
                "beside": record.strategy == PARALLEL,
            }


class StreamUpdateStopOperator(StreamUpdateOperator):
    """Ends the old version: with the snapshot the new one starts from, or by a drain when that one exists
    already. With strategy standby it hands over to the new one, between the two drivers, and ends when that one has
    committed its first batch. With strategy parallel it waits until both have run side by side for as long as they
    should and the new one has caught up, then drains the old one and makes the new one current.

    Does nothing when an earlier try did it. Returns the snapshot's name.

    app, deployment_id: the update's
    snapshot: what the new version starts from
    timeout: seconds (or a timedelta, or ISO 8601 text) it may take; None: the connection's drain timeout
    run_beside: with strategy parallel: both run at least so long (None: until the new one has caught up);
        catch_up_timeout: how long that may take afterwards (None: an hour)
    deferrable: wait for that in the triggerer
    """

    template_fields = (
        *StreamUpdateOperator.template_fields,
        "app",
        "deployment_id",
        "snapshot",
        "timeout",
        "run_beside",
        "catch_up_timeout",
    )
    ui_color = "#dfeaf8"

    def __init__(
        self,
        *,
        app: str,
        deployment_id: str,
        snapshot: str,
        timeout: Any = None,
        run_beside: Any = None,
        catch_up_timeout: Any = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.deployment_id = deployment_id
        self.snapshot = snapshot
        self.timeout = timeout
        self.run_beside = run_beside
        self.catch_up_timeout = catch_up_timeout
        self.deferrable = deferrable

    def execute(self, context: Any) -> str:
        with self.step(context):
            return self._stop(self.deferrable)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        """Back from the triggerer."""
        with self.step(context):
            value_of(event)
            return self._stop(deferrable=False)

    def _stop(self, deferrable: bool) -> str:
        side = SideBySide(
            seconds=optional_seconds(self.run_beside, "run_beside", 0.0),
            catch_up_timeout=optional_seconds(self.catch_up_timeout, "catch_up_timeout", CATCH_UP_SECONDS),
        )
        timeout = self.hook.settings.drain_timeout if self.timeout is None else seconds(self.timeout, "timeout")
        registry = self.client.registry.existing(self.app)
        with holding(registry, self.deployment_id):
            record = recording.begin(self.client, self.app, self.deployment_id)
            if record.strategy == IN_FLIGHT:
                self.log.info("the strategy is in_flight: the driver goes on")
                return self.snapshot
            if record.strategy == PARALLEL and deferrable:
                self._defer_until_caught_up(side)
            updating.stop_old(
                self.client,
                record,
                self.snapshot,
                fresh=self.snapshot == updating.stop_snapshot(self.deployment_id),
                timeout=timeout,
                progress=self.log.info,
                side=side,
            )
            recording.step(registry, self.deployment_id, "snapshotted", snapshot=self.snapshot)
        return self.snapshot

    def _defer_until_caught_up(self, side: SideBySide) -> None:
        """Goes on in `execute_complete`; returns when there is nothing to wait for."""
        pursuit = self.client.pursuit(self.app, self.deployment_id, self.snapshot, side)
        if not (missing := pursuit.missing()):
            return
        self.log.info("%s", missing)
        self.defer(
            trigger=CaughtUpTrigger(
                streamupdate_conn_id=self.streamupdate_conn_id,
                app=self.app,
                deployment=self.deployment_id,
                snapshot=self.snapshot,
                run_beside=side.seconds,
                catch_up_timeout=side.catch_up_timeout,
                deadline=time.time() + pursuit.left(),
                poll_interval=self.hook.settings.poll_interval,
            ),
            method_name="execute_complete",
        )


class StreamUpdateRollbackOperator(StreamRollbackOperator):
    """Goes back from an update whose steps failed: ends with the old version running and the lease given back.

    Changes nothing when the old version was never stopped, when the update did not begin, or when it has ended.

    steps: task ids of the update's steps, in order; the failed one's message becomes the record's reason
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
            timeout = self.hook.settings.submit_timeout if self.timeout is None else seconds(self.timeout, "timeout")
            failed, why = failure(context["ti"], self.steps)
            deployed = reverting.rollback(
                self.client,
                self.app,
                deployment,
                timeout,
                self.log.info,
                reason=f"{failed}: {why}",
                asked_by=owner_of(context["ti"]),
            )
        if deployed is None:
            self.log.info("app %s was not stopped: nothing to roll back", self.app)
            return None
        result: dict[str, Any] = plain(deployed)
        return result


class StreamUpdateEndOperator(StreamUpdateOperator):
    """The outcome of an update: succeeds when it was promoted, else fails for good and says what became of it.

    Its trigger rule is all_done, so that a run that rolled back does not end successful. Returns the update's record.

    app, deployment_id: the update's; a blank id means that it did not begin
    steps: task id -> the name in the message, in order; when all of them were skipped this one is too
    check_only: the run was to check only: succeeds, and returns nothing, when no step failed
    """

    template_fields = (*StreamUpdateOperator.template_fields, "app", "deployment_id", "check_only")
    ui_color = "#f0f0f0"

    def __init__(
        self, *, app: str, deployment_id: str, steps: dict[str, str], check_only: Any = False, **kwargs: Any
    ) -> None:
        super().__init__(**{"trigger_rule": "all_done", **kwargs})
        self.check_only = check_only
        self.app = app
        self.deployment_id = deployment_id
        self.steps = steps

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            ti = context["ti"]
            states = step_states(ti, self.steps)
            if all(state == "skipped" for state in states.values()):
                raise AirflowSkipException("the update was skipped")
            if truth(self.check_only, "check_only") and set(states.values()) <= {"success", "skipped"}:
                self.log.info("the new version of %s can take over; nothing was stopped or changed", self.app)
                return None
            failed, why = failure(ti, self.steps)
            deployment = optional_text(self.deployment_id)
            if deployment is None:
                raise AirflowFailException(f"the update of app {self.app} did not begin: {failed} failed: {why}")
            record = self.client.registry.existing(self.app).update(deployment)
            if record is not None and record.outcome == PROMOTED:
                result: dict[str, Any] = plain(record)
                return result
            status = self.client.status(self.app)
            now = f"{status.current.deployment} is {status.state}" if status.current else "nothing runs"
            became = {
                ROLLED_BACK: "was rolled back",
                REFUSED: "was refused, the old version was not touched",
                SUPERSEDED: "was superseded by another update, since nobody went on with it",
            }.get((record.outcome if record else None) or "", "did not end; run the failed tasks again, or roll back")
            raise AirflowFailException(
                f"the update of app {self.app} to {deployment} {became}; {now}. {failed} failed: {why}"
            )


def step_states(ti: Any, steps: dict[str, str]) -> dict[str, str]:
    """The states of a run's tasks `steps`, those that have one."""
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(steps), run_ids=[ti.run_id])
    return {task: str(state) for task, state in found.get(ti.run_id, {}).items() if task in steps}


def failure(ti: Any, steps: dict[str, str]) -> tuple[str, str]:
    """The first step that failed and the message it left."""
    states = step_states(ti, steps)
    for task, name in steps.items():
        if states.get(task) == "failed":
            try:
                left = ti.xcom_pull(task_ids=task, key=ERROR_KEY)
            except AirflowException:
                left = None
            return name, str(left or "see its log")
    return "an earlier task", "see its log"
