"""What each operator does, against a real root and the stand-in for Spark (see conftest.py)."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.operators.cancel import StreamCancelOperator
from airflow_provider_streamupdate.operators.check import StreamCompatibilityCheckOperator
from airflow_provider_streamupdate.operators.plan import StreamPlanOperator
from airflow_provider_streamupdate.operators.promote import StreamPromoteOperator
from airflow_provider_streamupdate.operators.rehearse import StreamRehearseOperator
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.operators.update import StreamUpdateStepOperator

Context = dict[str, Any]
OTHER_KEYS = {"rooms": ["floor"]}  # the stage of the same name with another meaning


def test_plan_gives_plain_data(site: Site, context: Context) -> None:
    plan = StreamPlanOperator(task_id="t", application=site.application()).execute(context)
    assert json.loads(json.dumps(plan))["queries"][0]["stages"][0]["name"] == "rooms"
    assert site.client.apps() == []


def test_nothing_that_postgresql_refuses_is_left_in_what_airflow_keeps(site: Site, context: Context) -> None:
    """A NUL in an app's expression comes into the plan, the report and the error; FakeTaskInstance refuses one."""
    site.submit()
    nul = site.application("v2", STAGES={"rooms": ["split(room, \0)"]})
    plan = StreamPlanOperator(task_id="t", application=nul).execute(context)
    assert plan["queries"][0]["stages"][0]["definition"] == {"keys": ["split(room, \ufffd)"]}
    with pytest.raises(AirflowFailException, match="not compatible"):
        StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=nul).execute(context)
    pushed = context["ti"].pushed
    for key in ("report", "report_markdown", "error"):
        assert "split(room, \\ufffd)" in json.dumps(pushed[key])


def test_plan_refuses_the_file_of_another_app(site: Site, context: Context) -> None:
    operator = StreamPlanOperator(task_id="t", app="alarms", application=site.application())
    with pytest.raises(AirflowFailException, match="defines app 'alarm', not 'alarms'"):
        operator.execute(context)
    assert "defines app" in context["ti"].pushed["error"]


@pytest.mark.parametrize(
    ("application", "expected"),
    [
        ("/no/such/file.py", "/no/such/file.py does not exist"),
        ("", "no application file is given"),
        ("broken.py", "does not parse as Python"),
    ],
)
def test_submit_refuses_a_file_it_cannot_read(site: Site, context: Context, application: str, expected: str) -> None:
    (site.folder / "broken.py").write_text("def (:\n")
    path = str(site.folder / application) if application == "broken.py" else application
    with pytest.raises(AirflowFailException, match=expected):
        StreamSubmitOperator(task_id="t", application=path).execute(context)
    assert site.client.apps() == []


@pytest.mark.parametrize("bad", ["a/b", "..", "a..b", "x" * 201, "-a", ""])
def test_bad_names_are_refused_and_not_retried(site: Site, context: Context, bad: str) -> None:
    site.submit()
    operators = [
        StreamSubmitOperator(task_id="t1", application=site.application("v2"), app="alarm", deployment_id=bad),
        StreamSnapshotOperator(task_id="t2", app="alarm", name=bad),
        StreamSnapshotOperator(task_id="t3", app=bad, name="s"),
        StreamCancelOperator(task_id="t4", app=bad),
        StreamRollbackOperator(task_id="t5", app=bad),
        StreamPromoteOperator(task_id="t6", app=bad),
        StreamRestartOperator(task_id="t9", app=bad),
    ]
    new = {"application": site.application("v2"), "app": "alarm"}
    ids = [  # no deployment id is no error
        StreamCompatibilityCheckOperator(task_id="t7", **new, deployment_id=bad),
        StreamRollbackOperator(task_id="t8", app="alarm", deployment_id=bad),
    ]
    for operator in [*operators, *ids] if bad else operators[1:]:
        with pytest.raises(AirflowFailException, match="name"):
            operator.execute(context)
    assert site.client.snapshots("alarm") == []
    assert site.drivers_alive() == ["v1"]


def test_a_rehearsal_of_no_batches_does_nothing_and_of_no_number_is_refused(site: Site, context: Context) -> None:
    def operator(batches: Any) -> StreamRehearseOperator:
        return StreamRehearseOperator(task_id="t", app="alarm", application=site.application(), batches=batches)

    for none in (0, "0", "", None, "None"):
        assert operator(none).execute(context) is None
    for bad, reason in (("many", "must be a whole number"), (-1, "ask for at least one"), (2, "no app 'alarm'")):
        with pytest.raises(AirflowFailException, match=reason):
            operator(bad).execute(context)


def test_submit_starts_a_driver_that_outlives_the_task(site: Site, context: Context) -> None:
    operator = StreamSubmitOperator(
        task_id="t",
        app="alarm",
        application=site.application(),
        deployment_id="v1",
        app_params={"rooms": 3, "strict": True},
        timeout="PT30S",
    )
    deployed = operator.execute(context)
    assert deployed == {"app": "alarm", "deployment": "v1", "epoch": 1, "reattached": False}
    spec = site.client.status("alarm").spec
    assert spec is not None
    assert spec.application.params == {"rooms": "3", "strict": "true"}
    assert spec.owner == "airflow:dag/run/task/-1"
    pushed = context["ti"].pushed
    assert Path(pushed["driver_log"].removeprefix("file://")).is_file()
    assert site.drivers_alive() == ["v1"]


def test_submit_again_by_the_same_task_reattaches(site: Site, context: Context) -> None:
    def operator() -> StreamSubmitOperator:
        return StreamSubmitOperator(task_id="t", app="alarm", application=site.application())

    first = operator().execute(context)
    again = operator().execute({"ti": FakeTaskInstance(try_number=2)})
    assert (again["deployment"], again["epoch"]) == (first["deployment"], first["epoch"])
    assert again["reattached"]
    assert site.drivers_alive() == [first["deployment"]]


def test_submit_refuses_a_used_deployment_id(site: Site, context: Context) -> None:
    site.submit()
    site.client.cancel("alarm")
    new = {"app": "alarm", "application": site.application("v2")}
    operator = StreamSubmitOperator(task_id="t", **new, deployment_id="v1", fresh=True)
    with pytest.raises(AirflowFailException, match="already has a deployment 'v1'"):
        operator.execute(context)


def test_submit_refuses_an_unknown_snapshot(site: Site, context: Context) -> None:
    site.submit()
    site.client.cancel("alarm")
    operator = StreamSubmitOperator(task_id="t", app="alarm", application=site.application("v2"), from_snapshot="nope")
    with pytest.raises(AirflowFailException, match="no snapshot 'nope'"):
        operator.execute(context)
    assert [s.deployment for s in site.client.deployments("alarm")] == ["v1"]


def test_submit_of_a_driver_that_dies_shows_its_last_words(site: Site, context: Context) -> None:
    operator = StreamSubmitOperator(task_id="t", app="alarm", application=site.application(FAIL="start"))
    with pytest.raises(AirflowException, match="last words of a driver that dies at start") as caught:
        operator.execute(context)
    assert not isinstance(caught.value, AirflowFailException)  # another try may fare better
    operator.retry_dead_driver = False
    with pytest.raises(AirflowFailException, match="last words"):
        operator.execute(context)


def test_submit_refuses_an_application_changed_since_the_plan(site: Site, context: Context) -> None:
    operator = StreamSubmitOperator(task_id="t", app="alarm", application=site.application(), digest="0" * 64)
    with pytest.raises(AirflowFailException, match="has changed since it was planned"):
        operator.execute(context)


@pytest.mark.processes
def test_a_killed_submit_stops_the_driver_it_started(site: Site, context: Context) -> None:
    operator = StreamSubmitOperator(
        task_id="t", app="alarm", application=site.application(FAIL="never"), deployment_id="v1"
    )
    kill_once_launched(site, operator, context, "v1")
    assert site.drivers_alive() == []
    assert "driver-1.log" in context["ti"].pushed["driver_log"]


@pytest.mark.processes
def test_a_killed_standby_stops_the_driver_it_started(site: Site, context: Context) -> None:
    site.submit()
    operator = step_of_v2(site, "standby", FAIL="never")
    kill_once_launched(site, operator, context, "v2")
    assert site.drivers_alive() == ["v1"]
    assert "driver-2.log" in context["ti"].pushed["driver_log"]


def test_a_killed_submit_leaves_a_version_that_took_over(site: Site, context: Context) -> None:
    """It was started by another task, nothing else runs, and `rollback` is the way back from it."""
    site.submit()
    step_of_v2(site, "standby").execute(context)
    step_of_v2(site, "snapshot").execute(context)
    operator = step_of_v2(site, "submit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "submit", lambda *_, **__: operator.on_kill())
        with pytest.raises(SystemExit):
            operator.execute(context)
    assert site.drivers_alive() == ["v2"]


def step_of_v2(site: Site, step: str, **constants: Any) -> StreamUpdateStepOperator:
    """A step of an update to v2, which has begun."""
    application = site.application("v2", **constants)
    site.client.begin_update("alarm", "v2", strategy="standby")
    options = {"application": application, "drain_timeout": 20}
    return StreamUpdateStepOperator(task_id="t", step=step, app="alarm", options=options, deployment_id="v2")


def kill_once_launched(site: Site, operator: Any, context: Context, deployment: str) -> None:
    """on_kill is called as Airflow's task runner calls it: by a SIGTERM handler in the main thread."""
    launched = site.root / "alarm" / "deployments" / deployment / "status.json"
    done = threading.Event()

    def kill() -> None:
        while not launched.exists() and not done.is_set():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    killer = threading.Thread(target=kill)
    try:
        killer.start()
        with pytest.raises(SystemExit):
            operator.execute(context)
    finally:
        done.set()
        killer.join()
        signal.signal(signal.SIGTERM, before)
    assert launched.exists()


def test_on_kill_without_work_under_way_does_nothing(site: Site) -> None:
    StreamSubmitOperator(task_id="t", application=site.application()).on_kill()


def test_snapshot_of_a_running_app_leaves_it_running(site: Site, context: Context) -> None:
    site.submit()
    taken = StreamSnapshotOperator(task_id="t", app="alarm", name="s1", timeout=20).execute(context)
    assert (taken["name"], taken["deployment"], taken["kind"]) == ("s1", "v1", "live")
    assert taken["size"] > 0 and taken["batches"]["events"] >= 0
    assert site.drivers_alive() == ["v1"]
    for deferrable in (False, True):
        operator = StreamSnapshotOperator(task_id="t", app="alarm", name="s1", timeout=20, deferrable=deferrable)
        with pytest.raises(AirflowFailException, match="already has a snapshot 's1'"):
            operator.execute(context)
        assert operator.execute({"ti": FakeTaskInstance(try_number=2)}) == taken


def test_snapshot_with_cancel_ends_the_app(site: Site, context: Context) -> None:
    site.submit()
    taken = StreamSnapshotOperator(task_id="t", app="alarm", name="s1", cancel=True, timeout=20).execute(context)
    assert taken["kind"] == "cancelled"
    assert site.drivers_alive() == []
    again = StreamSnapshotOperator(task_id="t", app="alarm", name="s1", cancel=True, timeout=20).execute(context)
    assert again == taken


def test_snapshot_that_takes_too_long_can_be_waited_for_again(site: Site, context: Context) -> None:
    site.submit(DRAIN_SECONDS=1.5)
    operator = StreamSnapshotOperator(task_id="t", app="alarm", name="s1", cancel=True, timeout=0.2)
    with pytest.raises(AirflowException, match="did not happen within") as caught:
        operator.execute(context)
    assert not isinstance(caught.value, AirflowFailException)
    operator.timeout = 20
    assert operator.execute(context)["kind"] == "cancelled"


@pytest.mark.parametrize("deferrable", [False, True])
def test_snapshot_of_what_does_not_run_is_refused(site: Site, context: Context, deferrable: bool) -> None:
    with pytest.raises(AirflowFailException, match="no app 'alarm'"):
        StreamSnapshotOperator(task_id="t", app="alarm", name="s", deferrable=deferrable).execute(context)
    site.submit()
    site.client.cancel("alarm")
    with pytest.raises(AirflowFailException, match="is not running"):
        StreamSnapshotOperator(task_id="t", app="alarm", name="s", deferrable=deferrable).execute(context)


@pytest.mark.processes
def test_deferred_snapshot_resumes_with_the_result(site: Site, context: Context) -> None:
    site.submit(DRAIN_SECONDS=0.5)
    operator = StreamSnapshotOperator(
        task_id="t", app="alarm", name="s1", cancel=True, deferrable=True, timeout=timedelta(seconds=20)
    )
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith("triggers.snapshot.SnapshotTrigger")
    assert arguments["deadline"] <= time.time() + 20
    event = {"status": "done", "value": {"name": "s1", "app": "alarm", "size": 1}}
    assert operator.execute_complete(context, event) == event["value"]


def test_resuming_with_an_error_raises_it(context: Context) -> None:
    operator = StreamSnapshotOperator(task_id="t", app="alarm", name="s1")
    event = {"status": "error", "error": "NotRunningError", "message": "app alarm ended"}
    with pytest.raises(AirflowFailException, match="app alarm ended"):
        operator.execute_complete(context, event)
    event = {"status": "error", "error": "StorageError", "message": "s3 is away"}
    with pytest.raises(AirflowException, match="s3 is away") as caught:
        operator.execute_complete(context, event)
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    "drain_timeout", [20, 20.0, "20", "PT20S", timedelta(seconds=20), pendulum.duration(seconds=20)]
)
def test_cancel_drains_within_a_timeout_of_any_form(site: Site, context: Context, drain_timeout: Any) -> None:
    site.submit()
    operator = StreamCancelOperator(task_id="t", app="alarm", drain_timeout=drain_timeout)
    assert operator.execute(context) == "cancelled"
    assert site.drivers_alive() == []


@pytest.mark.parametrize("drain_timeout", ["soon", -1, "-PT5S", True, [], "2024-01-01", float("inf")])
def test_cancel_refuses_what_is_no_duration(site: Site, context: Context, drain_timeout: Any) -> None:
    site.submit()
    with pytest.raises(AirflowFailException, match="drain_timeout must"):
        StreamCancelOperator(task_id="t", app="alarm", drain_timeout=drain_timeout).execute(context)
    assert site.client.status("alarm").state == "running"


def test_cancel_at_once_does_not_wait_for_the_batch(site: Site, context: Context) -> None:
    site.submit(DRAIN_SECONDS=300.0)
    assert StreamCancelOperator(task_id="t", app="alarm", drain=False).execute(context) == "cancelled"


def test_a_drain_that_takes_too_long_can_be_waited_for_again(site: Site, context: Context) -> None:
    site.submit(DRAIN_SECONDS=1.5)
    operator = StreamCancelOperator(task_id="t", app="alarm", drain_timeout=0.2)
    with pytest.raises(AirflowException, match="did not happen within"):
        operator.execute(context)
    assert site.client.status("alarm").state == "draining"
    operator.drain_timeout = 20
    assert operator.execute({"ti": FakeTaskInstance(try_number=2)}) == "cancelled"


def test_cancel_of_a_stopped_app_changes_nothing(site: Site, context: Context) -> None:
    site.submit()
    operator = StreamCancelOperator(task_id="t", app="alarm")
    operator.execute(context)
    before = site.client.registry.app("alarm").current()
    assert operator.execute(context) == "cancelled" and site.client.registry.app("alarm").current() == before


@pytest.mark.parametrize("options", [{}, {"drain": False}, {"deferrable": True}])
def test_an_app_whose_driver_is_dead_is_cancelled_as_well(
    site: Site, context: Context, options: dict[str, bool]
) -> None:
    site.submit()
    site.crash("v1")
    assert StreamCancelOperator(task_id="t", app="alarm", **options).execute(context) == "cancelled"  # type: ignore[arg-type]
    assert site.client.status("alarm").state == "cancelled"


def test_deferred_cancel(site: Site, context: Context) -> None:
    site.submit(DRAIN_SECONDS=0.5)
    operator = StreamCancelOperator(task_id="t", app="alarm", deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    assert deferred.value.trigger.serialize()[0].endswith("triggers.cancel.CancelTrigger")
    assert operator.execute_complete(context, {"status": "done", "value": "cancelled"}) == "cancelled"


def test_check_of_a_compatible_version(site: Site, context: Context) -> None:
    site.submit()
    application = site.application("v2", STAGES={"rooms": ["room"], "hours": ["hour"]})
    report = StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=application).execute(context)
    assert report["compatible"] and report["problems"] == []
    assert {i["name"]: i["verdict"] for i in report["items"]}["events/rooms"] == "carried"
    assert "| stage | events/rooms |" in context["ti"].pushed["report_markdown"]
    assert "├─ stage rooms, aggregate" in context["ti"].pushed["report_markdown"]  # what an approval task shows
    assert {n["id"] for n in report["graph"]["queries"][0]["nodes"]} >= {"source source-1", "stage rooms", "sink"}


def test_check_of_an_incompatible_version_fails_for_good_with_the_report(site: Site, context: Context) -> None:
    site.submit()
    application = site.application("v2", STAGES=OTHER_KEYS)
    operator = StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=application, deployment_id="v2")
    with pytest.raises(AirflowFailException, match=r"not compatible with deployment v1; nothing was stopped") as e:
        operator.execute(context)
    assert "events/rooms" in str(e.value)
    pushed = context["ti"].pushed
    assert pushed["report"]["compatible"] is False
    assert "not compatible" in Path(pushed["report_link"].removeprefix("file://")).read_text()
    assert site.drivers_alive() == ["v1"]


def test_check_takes_agreed_losses(site: Site, context: Context) -> None:
    site.submit(STAGES={"rooms": ["room"], "hours": ["hour"]})
    application = site.application("v2")

    def operator(agree: Any) -> StreamCompatibilityCheckOperator:
        return StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=application, agree=agree)

    with pytest.raises(AirflowFailException, match="agree to it with --agree events/hours"):
        operator(()).execute(context)
    for agree in (["events/hours"], '["events/hours"]', "events/hours"):
        assert operator(agree).execute(context)["compatible"]


def test_check_takes_renames(site: Site, context: Context) -> None:
    site.submit(STAGES={"hours": ["hour"]})
    application = site.application("v2", STAGES={"clock": ["hour"]})

    def operator(renames: Any) -> StreamCompatibilityCheckOperator:
        return StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=application, renames=renames)

    with pytest.raises(AirflowFailException, match="--rename events/hours=clock carries its state"):
        operator(None).execute(context)
    for renames in ({"hours": "clock"}, '{"events/hours": "clock"}'):
        assert operator(renames).execute(context)["compatible"]


def test_check_against_an_unknown_snapshot_or_app(site: Site, context: Context) -> None:
    def operator(**kwargs: Any) -> StreamCompatibilityCheckOperator:
        return StreamCompatibilityCheckOperator(task_id="t", application=site.application("v2"), **kwargs)

    with pytest.raises(AirflowFailException, match="no app 'alarm'"):
        operator(app="alarm").execute(context)
    site.submit()
    with pytest.raises(AirflowFailException, match="no snapshot 'nope'"):
        operator(app="alarm", from_snapshot="nope").execute(context)


def test_rollback_brings_the_previous_deployment_back(site: Site, context: Context) -> None:
    site.submit()
    site.client.save_snapshot("alarm", "s1", cancel=True)
    StreamSubmitOperator(
        task_id="t", app="alarm", application=site.application("v2"), deployment_id="v2", from_snapshot="s1"
    ).execute(context)
    assert site.drivers_alive() == ["v2"]
    back = StreamRollbackOperator(task_id="t", app="alarm").execute(context)
    assert back is not None and back["deployment"] == "v1"
    assert site.drivers_alive() == ["v1"]


def test_rollback_to_a_version_that_failed_is_refused_unless_it_is_named(site: Site, context: Context) -> None:
    site.submit()
    site.crash("v1")
    v2 = Application(file=site.application("v2"))
    site.client.update(UpdateOptions(application=v2, deployment="v2", strategy="restart"))
    with pytest.raises(AirflowFailException, match=r"(?s)no version to go back to.*\n- v1: to run it once more"):
        StreamRollbackOperator(task_id="t", app="alarm").execute(context)
    assert site.drivers_alive() == ["v2"]
    result = StreamRollbackOperator(task_id="t", app="alarm", to="v1").execute(context)
    assert result is not None and result["deployment"] == "v1" and site.drivers_alive() == ["v1"]


def test_rollback_without_a_previous_deployment(site: Site, context: Context) -> None:
    with pytest.raises(AirflowFailException, match="no app 'alarm'"):
        StreamRollbackOperator(task_id="t", app="alarm").execute(context)
    site.submit()
    with pytest.raises(AirflowFailException, match="nothing to roll back to"):
        StreamRollbackOperator(task_id="t", app="alarm").execute(context)
    assert site.drivers_alive() == ["v1"]


def test_restart_goes_on_from_the_deployment_s_own_checkpoint(site: Site, context: Context) -> None:
    site.submit()
    site.client.wait_healthy("alarm")
    site.crash("v1")
    operator = StreamRestartOperator(task_id="t", app="alarm", deployment_id="v1")
    assert operator.execute(context) == {"app": "alarm", "deployment": "v1", "epoch": 2, "reattached": False}
    assert operator.execute(context) == {"app": "alarm", "deployment": "v1", "epoch": 2, "reattached": True}
    assert site.drivers_alive() == ["v1"]
    status = site.client.wait_healthy("alarm").status
    assert status.queries["events"].first_batch > 0


def test_restart_that_is_refused_is_not_retried(site: Site, context: Context) -> None:
    with pytest.raises(AirflowFailException, match="no app 'alarm'"):
        StreamRestartOperator(task_id="t", app="alarm").execute(context)
    site.submit()
    with pytest.raises(AirflowFailException, match="deployment v0 of alarm is not current, v1 is"):
        StreamRestartOperator(task_id="t", app="alarm", deployment_id="v0").execute(context)


def test_a_task_does_not_start_an_app_that_has_state_without_it(site: Site, context: Context) -> None:
    """A DAG that submits ran once more after the driver had died."""
    site.submit()
    site.client.wait_healthy("alarm")
    site.crash("v1")
    new = {"application": site.application("v2"), "app": "alarm", "deployment_id": "v2"}
    with pytest.raises(AirflowFailException, match="StreamRestartOperator, or from_snapshot or fresh"):
        StreamSubmitOperator(task_id="t", **new).execute(context)
    assert site.drivers_alive() == [] and [s.deployment for s in site.client.deployments("alarm")] == ["v1"]
    assert StreamSubmitOperator(task_id="t", **new, fresh=True).execute(context)["deployment"] == "v2"
    assert StreamSubmitOperator(task_id="t", **new, fresh=True).execute(context)["reattached"]


def test_no_spark_connection_is_refused_before_anything_is_written(site: Site, context: Context) -> None:
    site.undefine("spark_default")
    with pytest.raises(AirflowFailException, match="Spark connection spark_default is not defined"):
        StreamSubmitOperator(task_id="t", app="alarm", application=site.application()).execute(context)
    assert list(site.root.iterdir()) == []


def test_no_spark_submit(site: Site, context: Context) -> None:
    site.connect(spark_submit="/no/spark-submit")
    with pytest.raises(AirflowFailException, match="spark-submit was not found at '/no/spark-submit'"):
        StreamSubmitOperator(task_id="t", app="alarm", application=site.application()).execute(context)
    assert list(site.root.iterdir()) == []


def test_no_java(site: Site, context: Context) -> None:
    site.monkeypatch.setenv("JAVA_HOME", "/no/java")
    with pytest.raises(AirflowFailException, match="no Java was found"):
        StreamPlanOperator(task_id="t", application=site.application()).execute(context)


def test_truncated_registry(site: Site, context: Context) -> None:
    site.submit()
    site.client.cancel("alarm")
    current = site.root / "alarm" / "current.json"
    current.write_text(current.read_text()[:20])
    with pytest.raises(AirflowFailException, match=r"current\.json is not valid JSON"):
        StreamSnapshotOperator(task_id="t", app="alarm", name="s").execute(context)
    current.unlink()


def test_two_submits_at_a_time(site: Site) -> None:
    """The second of two tasks gets a clear error, and there is one driver."""
    results: list[Any] = []

    def submit(version: str) -> None:
        ti = FakeTaskInstance()
        ti.task_id = version
        operator = StreamSubmitOperator(
            task_id=version, app="alarm", application=site.application(version), digest=None, deployment_id=version
        )
        try:
            results.append(operator.execute({"ti": ti})["deployment"])
        except AirflowException as error:
            results.append(str(error))

    threads = [threading.Thread(target=submit, args=(version,)) for version in ("v1", "v2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [r for r in results if r in ("v1", "v2")]
    lost = [r for r in results if r not in won]
    assert len(won) == len(lost) == 1, results
    assert "is in use since" in lost[0] or "under way" in lost[0] or "runs as deployment" in lost[0]
    assert site.drivers_alive() == won
