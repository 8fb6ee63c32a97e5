"""The update, as a DAG run in a real Airflow (`dag.test`), with the stand-in for Spark."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_site import DagOutcome, FakeTaskInstance, Site

from airflow_provider_streamupdate.control.operations import check
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.operators.update import (
    StreamUpdateBeginOperator,
    StreamUpdateEndOperator,
    StreamUpdateRollbackOperator,
    StreamUpdateStepOperator,
)
from airflow_provider_streamupdate.update_dag import build_update_dag
from tests.cases import STEPS

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]
PROMOTED = {**dict.fromkeys((*STEPS, "outcome"), "success"), "rollback": "skipped"}


def update(site: Site, application: str, **conf: Any) -> DagOutcome:
    return site.run_dag("update_alarm", "tests/airflow/dags", application=application, **conf)


def test_a_misspelt_key_of_the_conf_is_refused_before_anything_is_started(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was ignored, and the plan failed 87 s later for want of the parameters."""
    site.submit()
    run = site.run_dag("stream_update", app="alarm", application=site.application("v2"), paramters={"input": "/in"})
    assert (run.state, run.states["plan"]) == ("failed", "failed")
    told = "DAG stream_update has no 'paramters' (did you mean 'parameters'?); it may have app, "
    assert told in capsys.readouterr().out and site.client.registry.app("alarm").updates() == []


def failed_at(step: str, rollback: str = "success") -> dict[str, str]:
    """The states of a run whose `step` failed."""
    number = STEPS.index(step)
    return {
        **dict.fromkeys(STEPS[:number], "success"), step: "failed",
        **dict.fromkeys(STEPS[number + 1 :], "upstream_failed"), "rollback": rollback, "outcome": "failed",
    }  # fmt: skip


def plan_of(application: str, app: str | None = "alarm", **options: Any) -> StreamUpdateBeginOperator:
    return StreamUpdateBeginOperator(task_id="plan", app=app, options={"application": application, **options})


def step_of(step: str, application: str, **options: Any) -> StreamUpdateStepOperator:
    """A step of the update to v2."""
    return StreamUpdateStepOperator(
        task_id=step, step=step, app="alarm", deployment_id="v2", options={"application": application, **options}
    )


def lease_is_free(site: Site) -> bool:
    folder = site.client.registry.app("alarm").folder
    return not lease.held(folder, lease.read(folder))


def test_the_check_leaves_what_the_update_changes_for_the_approval(site: Site, context: dict[str, Any]) -> None:
    site.submit()
    asked = {"application": site.application("v2"), "app_params": {"limit": "7", "password": "hunter2"}}
    plan_of(**asked, deployment_id="v2").execute(context)
    step_of("check", **asked).execute(context)
    changes = context["ti"].pushed["changes_markdown"]
    assert "| parameters | limit |  | 7 |" in changes and "hunter2" not in changes
    assert "`v2.py (was v1.py), +1 -1`" in changes and "-VERSION = 'v1'\n+VERSION = 'v2'" in changes


def promoted_assets(run: DagOutcome) -> list[dict[str, Any]]:
    """What the events of the app's asset say that a run has made."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
    of_run = (AssetModel.name == "streamupdate://alarm", AssetEvent.source_run_id == run.run.run_id)
    with create_session() as session:
        return [
            {k: extra[k] for k in ("app", "deployment", "snapshot")} for extra in session.scalars(query.where(*of_run))
        ]


def test_update_of_a_running_app(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One driver is started: the one that will run the new version makes its plan, too."""
    site.submit()
    monkeypatch.setattr(check, "plan_application", lambda *_, **__: pytest.fail("a plan-only driver was started"))
    run = update(site, site.application("v2"), deployment_id="v2")
    assert (run.state, run.states) == ("success", PROMOTED)
    assert site.drivers_alive() == ["v2"]
    assert len(list((site.root / "alarm" / "deployments" / "v2").glob("driver-*.log"))) == 1
    assert [s.name for s in site.client.snapshots("alarm")] == ["before-v2"]
    spec = site.client.status("alarm").spec
    assert spec is not None and spec.from_snapshot == "before-v2" and spec.parent == "v1"
    record = run.xcom("update.outcome")
    assert record["outcome"] == "promoted" and record["pause_seconds"] is not None
    steps = ["plan", "check", "prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]
    assert sorted(record["step_times"], key=record["step_times"].get) == steps
    assert lease_is_free(site)
    assert promoted_assets(run) == [{"app": "alarm", "deployment": "v2", "snapshot": "before-v2"}]
    assert run.xcom("update.submit_from_snapshot", "_link_SparkUiLink") == "http://localhost:4040"
    assert Path(run.xcom("update.submit_from_snapshot", "_link_DriverLogLink").removeprefix("file://")).is_file()
    report = Path(run.xcom("update.check", "_link_CompatibilityReportLink").removeprefix("file://"))
    assert "**compatible**" in report.read_text()


@pytest.mark.parametrize(
    ("strategy", "left_out"),
    [
        ("standby", set()),
        ("follow", set()),
        ("parallel", set()),
        ("restart", {"prepare"}),
        ("in_flight", {"prepare", "snapshot_and_cancel"}),
        ("{{ params.strategy }}", set()),  # it is known when the DAG runs
    ],
)
def test_a_dag_has_the_steps_of_its_strategy(strategy: str, left_out: set[str]) -> None:
    dag = build_update_dag("one", app="alarm", application="/v2.py", strategy=strategy, approval=True)
    tasks = {task.label: task for task in dag.tasks}
    order = [step for step in STEPS if step not in left_out]
    approved = "prepare" if strategy == "follow" else "check"  # a follower has differences to show
    order.insert(order.index(approved) + 1, "approve")
    assert set(tasks) == {*order, "rollback", "outcome"} and dag.leaves == [tasks["outcome"]]
    for before, after in pairwise(order):
        assert f"update.{before}" in tasks[after].upstream_task_ids
    assert (tasks["rollback"].trigger_rule, tasks["outcome"].trigger_rule) == ("one_failed", "all_done")
    assert tasks["approve"].upstream_task_ids == {f"update.{approved}"}
    undone = {task.removeprefix("update.") for task in tasks["rollback"].upstream_task_ids}
    assert undone == {*STEPS[2:]} - left_out
    assert tasks["outcome"].upstream_task_ids == {"update.promote", "update.rollback"}


def everything_under(root: Path) -> dict[str, bytes]:
    """All files but those that the running driver writes: its heartbeat (first under another name), log, events,
    history and batches."""
    written = ("status.json", ".log", "events.jsonl", "history", "checkpoint")
    names = {str(path.relative_to(root)): path for path in root.rglob("*")}
    kept = {name: path for name, path in names.items() if not any(word in name for word in written)}
    return {name: path.read_bytes() for name, path in kept.items() if path.is_file()}


def test_a_check_only_touches_nothing_and_has_its_report(site: Site) -> None:
    site.submit()
    before = everything_under(site.root)
    v2 = site.application("v2")
    run = site.run_dag(
        "stream_update", app="alarm", application=v2, check_only=True, parameters={"output": "elsewhere"}
    )
    done = dict.fromkeys(("plan", "check", "rehearse", "outcome"), "success")
    left_out = dict.fromkeys((*STEPS[2:], "rollback"), "skipped")
    assert (run.state, run.states) == ("success", {**done, **left_out})
    report = run.xcom("update.check", "report")
    assert (report["app"], report["compatible"]) == ("alarm", True)
    assert everything_under(site.root) == before
    assert site.drivers_alive() == ["v1"] and lease_is_free(site)


def test_a_new_version_that_fails_is_rolled_back(site: Site) -> None:
    site.submit()
    run = update(site, site.application("v2", FAIL="stuck"), deployment_id="v2", strategy="restart")
    assert (run.state, run.states) == ("failed", failed_at("verify"))
    assert site.drivers_alive() == ["v1"]
    status = site.client.status("alarm")
    assert status.current is not None and status.current.epoch == 3
    record = site.client.registry.app("alarm").update("v2")
    assert record.outcome == "rolled-back" and record.reason.startswith("verify: ")
    message = run.xcom("update.outcome", "error")
    assert "was rolled back; v1 is running. verify failed: " in message and "timed out" in message
    assert lease_is_free(site)


SINKS = ({"format": "kafka", "options": {"topic": "old"}}, {"format": "kafka", "options": {"topic": "new"}})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"app": "nobody"}, "no app 'nobody'"),
        ({"app": None}, "the app name is empty"),
        ({"deployment_id": "v1"}, "already has a deployment 'v1'"),
        ({"from_snapshot": "../x"}, "snapshot name '../x' is not allowed"),
        ({"application": "other.py"}, "the application file defines app other, not alarm; give the file of alarm"),
        ({"conf": "{"}, "conf must be a JSON object"),
        ({"app_params": {"a": []}}, "app_params 'a' must be text"),
        ({"drain_timeout": "", "verify_for": "soon"}, "verify_for must be seconds"),
        ({"rehearse": "many"}, "rehearse must be a whole number"),
        ({"rehearse": -1}, "ask for at least one"),
        ({"strategy": "slow"}, "there is no strategy 'slow'; choose one of restart, standby, follow, parallel, in_fl"),
        ({"speed": 1}, "an update has no 'speed'; it may have application, py_files"),
    ],
)
def test_bad_input_is_refused_by_the_plan(
    site: Site, context: dict[str, Any], arguments: dict[str, Any], reason: str
) -> None:
    site.submit()
    given = {"application": site.application("v2"), **arguments}
    if given["application"] == "other.py":
        given["application"] = site.application("other", APP="other")
    with pytest.raises(AirflowFailException) as caught:
        plan_of(**given).execute(context)
    assert reason in str(caught.value)
    assert site.drivers_alive() == ["v1"]
    assert site.client.registry.app("alarm").updates() == []
    assert lease_is_free(site)


def test_going_back_from_what_did_not_begin_changes_nothing(site: Site) -> None:
    site.submit()
    ti, steps = FakeTaskInstance(states={"plan": "failed"}), {"plan": "plan"}
    for deployment in (None, "", "None", "never"):
        operator = StreamUpdateRollbackOperator(task_id="t", app="alarm", deployment_id=deployment, steps=steps)
        assert operator.execute({"ti": ti}) is None
    assert site.client.status("alarm").current.epoch == 1 and site.drivers_alive() == ["v1"]


def test_an_outcome_of_skipped_steps_is_skipped() -> None:
    ti, steps = FakeTaskInstance(states={"plan": "skipped", "check": "skipped"}), {"plan": "plan", "check": "check"}
    operator = StreamUpdateEndOperator(task_id="t", app="alarm", deployment_id="None", steps=steps)
    with pytest.raises(AirflowSkipException):
        operator.execute({"ti": ti})


def test_the_outcome_says_who_rolled_an_update_back_by_hand(site: Site, context: dict[str, Any]) -> None:
    site.submit()
    plan_of(application=site.application("v2"), deployment_id="v2").execute(context)
    site.client.rollback("alarm")
    ti = FakeTaskInstance(states={"plan": "success", "check": "failed"})
    steps = {"plan": "plan", "check": "check"}
    operator = StreamUpdateEndOperator(task_id="t", app="alarm", deployment_id="v2", steps=steps)
    with pytest.raises(AirflowFailException, match=r"check failed: see its log \(.* rolled it back\)"):
        operator.execute({"ti": ti})


def test_the_time_beside_is_waited_for_in_the_triggerer(site: Site, context: dict[str, Any]) -> None:
    """Nobody works on the update then; the trigger keeps the app for it."""
    site.submit(SINK=SINKS[0])
    update = {"application": site.application("v2", SINK=SINKS[1]), "strategy": "parallel", "run_beside": "PT3S"}
    plan_of(deployment_id="v2", **update).execute(context)
    step_of("prepare", **update).execute(context)
    stop = step_of("snapshot_and_cancel", **update)
    stop.deferrable = True
    with pytest.raises(TaskDeferred) as deferred:
        stop.execute(context)
    registry = site.client.registry.app("alarm")
    held = lease.read(registry.folder)
    assert held is not None and held.holder is None and lease.held(registry.folder, held)
    old = attrs.evolve(held, renewed_at=clock.from_epoch_ms(0), expires_at=clock.from_epoch_ms(0))
    registry.folder.write(f"lease/{held.number}.json", to_json(old))

    async def fire() -> dict[str, Any]:
        [event] = [event.payload async for event in deferred.value.trigger.run()]
        return dict(event)

    event = asyncio.run(asyncio.wait_for(fire(), 60))
    assert event == {"status": "done", "value": "v2"} and site.drivers_alive() == ["v1", "v2"]
    kept = lease.read(registry.folder)
    assert kept is not None and lease.held(registry.folder, kept) and (kept.owner, kept.token) == ("v2", held.token)
    assert stop.execute_complete(context, event) == "before-v2"
    assert site.drivers_alive() == ["v2"]
    dead = {"status": "error", "error": "DriverError", "message": "it died"}
    with pytest.raises(AirflowException, match="it died"):
        stop.execute_complete(context, dead)


def test_the_manual_dag_with_its_form(site: Site) -> None:
    site.submit(STAGES={"rooms": ["room"], "hours": ["hour"]})
    site.client.save_snapshot("alarm", "monday")
    conf = {
        "app": "alarm", "application": site.application("v2"), "deployment_id": "v2", "parameters": {"grace": "10"},
        "spark_conf": {"spark.sql.shuffle.partitions": 2}, "agree": ["events/hours"], "from_snapshot": "monday",
        "rehearse": 2, "drain_timeout": "PT20S",
    }  # fmt: skip
    run = site.run_dag("stream_update", **conf)
    assert (run.state, run.states) == ("success", {**PROMOTED, "rehearse": "success"})
    spec = site.client.status("alarm").spec
    assert spec is not None
    assert spec.application.params == {"grace": "10"}
    assert spec.application.conf == {"spark.sql.shuffle.partitions": "2"} and spec.from_snapshot == "monday"
    report = run.xcom("update.rehearse", "report")
    assert report["passed"] and len(report["old"]["queries"][0]["batches"]) == 2
    assert "rehearse" in site.client.registry.app("alarm").update("v2").step_times


def test_what_differs_too_much_just_before_the_old_version_would_end_is_shown(
    site: Site, context: dict[str, Any]
) -> None:
    """It is compared once more then: an approval may take long."""
    site.submit()
    update = {"application": site.application("v2", ROWS_OUT=11), "strategy": "follow"}
    plan_of(deployment_id="v2", **update).execute(context)
    step_of("prepare", **update).execute(context)
    context["ti"].pushed.clear()
    with pytest.raises(AirflowFailException, match="differs too much"):
        step_of("snapshot_and_cancel", max_rows_changed="5%", **update).execute(context)
    assert context["ti"].pushed["report"]["problems"] and "too different" in context["ti"].pushed["report_markdown"]
    assert "v1" in site.drivers_alive() and site.client.status("alarm").current.deployment == "v1"


def test_a_driver_that_dies_before_its_plan_leaves_nothing(site: Site) -> None:
    site.submit()
    run = update(site, site.application("v2", FAIL="start"), deployment_id="v2")
    assert (run.state, run.states) == ("failed", failed_at("plan"))
    message = run.xcom("update.outcome", "error")
    assert "did not begin: plan failed: nothing was stopped or changed: " in message
    assert "last words of a driver that dies at start" in message
    assert [s.deployment for s in site.client.deployments("alarm")] == site.drivers_alive() == ["v1"]
    assert site.client.registry.app("alarm").updates() == [] and lease_is_free(site)
