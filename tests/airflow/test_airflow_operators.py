"""What each operator asks for, what it leaves in XCom, which of its failures are for good, and that none makes a
mistyped root; with a real root and the stand-in for Spark (see conftest.py)."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk import BaseOperator
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.assets import CRASH_LOOP, app_asset
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.get_provider_info import get_provider_info
from airflow_provider_streamupdate.hooks.templated_values import seconds
from airflow_provider_streamupdate.operators import supervise
from airflow_provider_streamupdate.operators.adopt import StreamAdoptOperator
from airflow_provider_streamupdate.operators.cancel import StreamCancelOperator
from airflow_provider_streamupdate.operators.check import StreamCompatibilityCheckOperator
from airflow_provider_streamupdate.operators.plan import StreamPlanOperator
from airflow_provider_streamupdate.operators.promote import StreamPromoteOperator
from airflow_provider_streamupdate.operators.rehearse import StreamRehearseOperator
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.operators.supervise import StreamSuperviseOperator
from airflow_provider_streamupdate.operators.update import StreamUpdateStepOperator
from tests.begun_updates import begin_update
from tests.core.builders import CheckpointFiles

Context = dict[str, Any]
TAKEN = {"name": "s1", "app": "alarm", "size": 1}
OTHER_KEYS = {"rooms": ["floor"]}  # the stage of the same name with another meaning


def submit(application: str, **arguments: Any) -> StreamSubmitOperator:
    return StreamSubmitOperator(task_id="t", **{"app": "alarm", "application": application, **arguments})


def snapshot(name: str = "s1", app: str = "alarm", **arguments: Any) -> StreamSnapshotOperator:
    return StreamSnapshotOperator(task_id="t", app=app, name=name, **{"timeout": 20, **arguments})


def cancel(app: str = "alarm", **arguments: Any) -> StreamCancelOperator:
    return StreamCancelOperator(task_id="t", app=app, **arguments)


def check(application: str, **arguments: Any) -> StreamCompatibilityCheckOperator:
    return StreamCompatibilityCheckOperator(task_id="t", app="alarm", application=application, **arguments)


def rollback(app: str = "alarm", **arguments: Any) -> StreamRollbackOperator:
    return StreamRollbackOperator(task_id="t", app=app, **arguments)


def restart(app: str = "alarm", **arguments: Any) -> StreamRestartOperator:
    return StreamRestartOperator(task_id="t", app=app, **arguments)


def test_what_airflow_keeps_is_plain_data_that_postgresql_does_not_refuse(site: Site, context: Context) -> None:
    """A NUL in an app's expression comes into the plan, the report and the error; FakeTaskInstance refuses one."""
    nul = site.application("v2", STAGES={"rooms": ["split(room, \0)"]})
    plan = json.loads(json.dumps(StreamPlanOperator(task_id="t", application=nul).execute(context)))
    assert site.client.apps() == []
    site.submit()
    assert plan["queries"][0]["stages"][0]["definition"]["keys"] == [[["literal", "split(room, \ufffd)", ""]]]
    with pytest.raises(AirflowFailException, match="not compatible"):
        check(nul).execute(context)
    pushed = context["ti"].pushed
    for key in ("report", "report_markdown", "error"):
        assert "split(room, \\ufffd)" in json.dumps(pushed[key])


def is_killed(site: Site) -> None:
    site.client.wait_healthy("alarm")
    site.crash("v1")


def is_truncated(site: Site) -> None:
    current = site.root / "alarm" / "current.json"
    current.write_text(current.read_text()[:20])


Made = Callable[[Site], Any]


@pytest.mark.parametrize(
    ("before", "made", "told"),
    [
        (None, lambda s: submit(s.application(), app="alarms"), "defines app alarm, not alarms"),
        (None, lambda s: submit(s.application(), digest="0" * 64), "has changed since it was planned"),
        (None, lambda s: snapshot("s"), "no app 'alarm'"),
        (None, lambda s: snapshot("s", deferrable=True), "no app 'alarm'"),
        (None, lambda s: check(s.application("v2")), "no app 'alarm'"),
        (None, lambda s: rollback(), "no app 'alarm'"),
        (None, lambda s: restart(), "no app 'alarm'"),
        # A DAG that submits ran once more after the driver had died.
        (is_killed, lambda s: submit(s.application("v2")), "StreamRestartOperator, or from_snapshot or fresh"),
        (is_truncated, lambda s: snapshot("s"), r"current\.json is not valid JSON"),
    ],
)  # fmt: skip
def test_what_no_other_try_would_change_fails_for_good(
    site: Site, context: Context, before: Callable[[Site], object] | None, made: Made, told: str
) -> None:
    if before is not None:
        site.submit()
        before(site)
    with pytest.raises(AirflowFailException, match=told):
        made(site).execute(context)
    assert "error" in context["ti"].pushed
    if before is is_truncated:
        (site.root / "alarm" / "current.json").unlink()
    else:
        made_so_far = [s.deployment for a in site.client.apps() for s in site.client.deployments(a)]
        assert made_so_far == ["v1"] * (before is not None)


@pytest.mark.parametrize("bad", ["a/b", ""])
def test_bad_names_are_refused_and_not_retried(site: Site, context: Context, bad: str) -> None:
    site.submit()
    v2 = site.application("v2")
    operators = [
        snapshot(bad),
        snapshot("s", bad),
        cancel(bad),
        rollback(bad),
        restart(bad),
        StreamPromoteOperator(task_id="t", app=bad),
    ]
    if bad:  # no deployment id is no error
        operators += [f(v2, deployment_id=bad) for f in (submit, check)] + [rollback(deployment_id=bad)]
    for operator in operators:
        with pytest.raises(AirflowFailException, match="name"):
            operator.execute(context)
    assert site.client.snapshots("alarm") == [] and site.drivers_alive() == ["v1"]


def test_submit_starts_a_driver_that_outlives_the_task_and_another_try_finds_it(site: Site, context: Context) -> None:
    params = {"rooms": 3, "strict": True}
    operator = submit(site.application(), deployment_id="v1", app_params=params, timeout="PT30S")
    deployed = {"app": "alarm", "deployment": "v1", "epoch": 1, "reattached": False}
    assert operator.execute(context) == deployed
    spec = site.client.status("alarm").spec
    assert spec.application.params == {"rooms": "3", "strict": "true"} and spec.owner == "airflow:dag/run/task/-1"
    assert Path(context["ti"].pushed["driver_log"].removeprefix("file://")).is_file()
    assert operator.execute({"ti": FakeTaskInstance(try_number=2)}) == {**deployed, "reattached": True}
    assert site.drivers_alive() == ["v1"]


def test_submit_of_a_driver_that_dies_shows_its_last_words(site: Site, context: Context) -> None:
    operator = submit(site.application(FAIL="start"))
    with pytest.raises(AirflowException, match="last words of a driver that dies at start") as caught:
        operator.execute(context)
    assert not isinstance(caught.value, AirflowFailException)  # another try may fare better
    operator.retry_dead_driver = False
    with pytest.raises(AirflowFailException, match="last words"):
        operator.execute(context)


def step_of_v2(site: Site, step: str, **constants: Any) -> StreamUpdateStepOperator:
    """A step of an update to v2, which has begun."""
    application = site.application("v2", **constants)
    begin_update(site.client, "alarm", "v2", strategy="standby")
    options = {"application": application, "drain_timeout": 20}
    return StreamUpdateStepOperator(task_id="t", step=step, app="alarm", options=options, deployment_id="v2")


@pytest.mark.processes
@pytest.mark.parametrize("started", ["submit", "standby"])
def test_a_killed_task_stops_the_driver_it_started(site: Site, context: Context, started: str) -> None:
    """on_kill is called as Airflow's task runner calls it: by a SIGTERM handler in the main thread."""
    if started == "standby":
        site.submit()
        operator, deployment = step_of_v2(site, "prepare", FAIL="never"), "v2"
    else:
        operator, deployment = submit(site.application(FAIL="never"), deployment_id="v1"), "v1"
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
    assert launched.exists() and site.drivers_alive() == (["v1"] if started == "standby" else [])
    assert "driver-" in context["ti"].pushed["driver_log"]


def test_snapshot_of_a_running_app_leaves_it_running(site: Site, context: Context) -> None:
    site.submit()
    taken = snapshot().execute(context)
    assert (taken["name"], taken["deployment"], taken["kind"]) == ("s1", "v1", "live")
    assert taken["size"] > 0 and taken["batches"]["events"] >= 0
    assert site.drivers_alive() == ["v1"]
    for deferrable in (False, True):
        operator = snapshot(deferrable=deferrable)
        with pytest.raises(AirflowFailException, match="already has a snapshot 's1'"):
            operator.execute(context)
        assert operator.execute({"ti": FakeTaskInstance(try_number=2)}) == taken


@pytest.mark.parametrize("made", [lambda: snapshot(cancel=True, timeout=0.2), lambda: cancel(drain_timeout=0.2)])
def test_an_end_that_takes_too_long_can_be_waited_for_again(
    site: Site, context: Context, made: Callable[[], Any]
) -> None:
    site.submit(DRAIN_SECONDS=1.5)
    operator = made()
    with pytest.raises(AirflowException, match="did not happen within") as caught:
        operator.execute(context)
    assert not isinstance(caught.value, AirflowFailException)
    assert site.client.status("alarm").state == "draining"
    operator.timeout = operator.drain_timeout = 20
    ended = operator.execute({"ti": FakeTaskInstance(try_number=2)})
    assert ended == "cancelled" or ended["kind"] == "cancelled"
    before = site.client.registry.app("alarm").current()
    assert operator.execute(context) == ended, "once more, it changes nothing"
    assert site.client.registry.app("alarm").current() == before and site.drivers_alive() == []


@pytest.mark.parametrize(
    ("made", "trigger", "value"),
    [
        (lambda: snapshot(cancel=True, deferrable=True), "triggers.snapshot.SnapshotTrigger", TAKEN),
        (lambda: cancel(deferrable=True, drain_timeout=20), "triggers.cancel.CancelTrigger", "cancelled"),
    ],
)
def test_a_deferred_one_resumes_with_the_result(
    site: Site, context: Context, made: Callable[[], Any], trigger: str, value: Any
) -> None:
    site.submit(DRAIN_SECONDS=0.5)
    operator = made()
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith(trigger) and arguments["deadline"] is not None
    assert operator.execute_complete(context, {"status": "done", "value": value}) == value
    ended = {"status": "error", "error": "NotRunningError", "message": "app alarm ended"}
    with pytest.raises(AirflowFailException, match="app alarm ended"):
        operator.execute_complete(context, ended)
    away = {"status": "error", "error": "StorageError", "message": "s3 is away"}
    with pytest.raises(AirflowException, match="s3 is away") as caught:
        operator.execute_complete(context, away)
    assert not isinstance(caught.value, AirflowFailException)


def test_durations_of_any_form() -> None:
    for value in (20, 20.0, "20", "PT20S", timedelta(seconds=20), pendulum.duration(seconds=20)):
        assert seconds(value, "drain_timeout") == 20
    for value in ("soon", -1, "-PT5S", True, [], "2024-01-01", float("inf")):
        with pytest.raises(InvalidInputError, match="drain_timeout must"):
            seconds(value, "drain_timeout")


def test_check_gives_its_report_and_fails_for_good_where_it_refuses(site: Site, context: Context) -> None:
    site.submit()
    report = check(site.application("v2", STAGES={"rooms": ["room"], "hours": ["hour"]})).execute(context)
    assert report["compatible"] and report["problems"] == []
    assert {i["name"]: i["verdict"] for i in report["items"]}["events/rooms"] == "carried"
    assert "| stage | events/rooms |" in context["ti"].pushed["report_markdown"]
    assert "stage rooms, aggregate, from source" in context["ti"].pushed["report_markdown"]  # an approval task shows it
    assert {n["id"] for n in report["picture"]["queries"][0]["nodes"]} >= {"source source-1", "stage rooms", "sink"}
    with pytest.raises(AirflowFailException, match=r"(?s)not compatible with deployment v1; nothing.*events/rooms"):
        check(site.application("v2", STAGES=OTHER_KEYS), deployment_id="v2").execute(context)
    pushed = context["ti"].pushed
    assert pushed["report"]["compatible"] is False
    assert "not compatible" in Path(pushed["report_link"].removeprefix("file://")).read_text()
    assert site.drivers_alive() == ["v1"]


def test_restart_goes_on_from_the_deployment_s_own_checkpoint_and_fresh_without_it(
    site: Site, context: Context
) -> None:
    site.submit()
    is_killed(site)
    operator = restart(deployment_id="v1")
    for again in (False, True):
        assert operator.execute(context) == {"app": "alarm", "deployment": "v1", "epoch": 2, "reattached": again}
    assert site.client.wait_healthy("alarm").status.queries["events"].first_batch > 0
    is_killed(site)
    fresh = submit(site.application("v2"), deployment_id="v2", fresh=True)
    assert fresh.execute(context)["deployment"] == "v2" and fresh.execute(context)["reattached"]


def test_what_a_driver_needs_is_looked_at_before_anything_is_written(site: Site, context: Context) -> None:
    site.undefine("spark_default")
    with pytest.raises(AirflowFailException, match="Spark connection spark_default is not defined"):
        submit(site.application()).execute(context)
    assert list(site.root.iterdir()) == []


def test_a_rehearsal_of_no_batches_does_nothing_and_of_no_number_is_refused(site: Site, context: Context) -> None:
    def operator(batches: Any) -> StreamRehearseOperator:
        return StreamRehearseOperator(task_id="t", app="alarm", application=site.application(), batches=batches)

    for none in (0, "0", "", None, "None"):
        assert operator(none).execute(context) is None
    for bad, reason in (("many", "must be a whole number"), (-1, "ask for at least one"), (2, "no app 'alarm'")):
        with pytest.raises(AirflowFailException, match=reason):
            operator(bad).execute(context)


def test_an_app_whose_driver_is_dead_needs_no_triggerer_to_be_cancelled(site: Site, context: Context) -> None:
    site.submit()
    site.crash("v1")
    assert cancel(deferrable=True).execute(context) == "cancelled"
    assert site.client.status("alarm").state == "cancelled"


@pytest.fixture
def legacy(site: Site) -> str:
    """A checkpoint from elsewhere, after batch 0."""
    path = str(site.folder / "legacy")
    CheckpointFiles(Folder.open(path)).batch(0)
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_adopt_gives_the_snapshot_and_a_retry_the_same(
    site: Site, context: Context, legacy: str, as_json: bool
) -> None:
    given = json.dumps({"events": legacy}) if as_json else legacy

    def operator() -> StreamAdoptOperator:
        return StreamAdoptOperator(task_id="t", app="alarm", application=site.application(), checkpoints=given)

    taken = operator().execute(context)
    assert json.loads(json.dumps(taken))["batches"] == {"events": 0}
    assert (taken["name"], taken["kind"]) == ("adopted", "adopted")
    assert operator().execute({"ti": FakeTaskInstance(try_number=2)}) == taken
    with pytest.raises(AirflowFailException, match="already has a snapshot 'adopted'"):
        operator().execute(context)


class OutletEvents(dict[Any, Any]):
    """What a task has of them."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[tuple[Any, dict[str, Any]]] = []

    def __getitem__(self, alias: Any) -> OutletEvents:
        assert alias == CRASH_LOOP
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset, extra))


@pytest.mark.processes
def test_a_crash_loop_is_told(site: Site, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    site.submit()
    file = site.root / "alarm" / "deployments" / "v1" / "application" / "v1.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    site.crash("v1")
    counted: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(supervise, "count", lambda name, **tags: counted.append((name, tags)))
    events = context["outlet_events"] = OutletEvents()
    began = clock.monotonic()
    operator = StreamSuperviseOperator(
        task_id="t", apps=["alarm"], run_for=300, interval=0.1, attempts="2", initial_backoff=0.1, max_backoff=0.1
    )
    assert operator.execute(context) == ["alarm"]
    assert clock.monotonic() - began < 290, "it ends early"
    [(asset, extra)] = events.added
    assert asset == app_asset("alarm") and "after 2 starts in a row" in extra["reason"]
    assert counted == [("crash_loop", {"app": "alarm"})]
    assert operator.outlets == [CRASH_LOOP]


MAKE_A_ROOT = {"StreamSubmitOperator", "StreamAdoptOperator"}
DO_WITHOUT = {"StreamPlanOperator"}  # neither reads a root nor writes to it


def classes(*kinds: str) -> Iterator[type[BaseOperator]]:
    for entry in (entry for kind in kinds for entry in get_provider_info()[kind]):
        for name in entry["python-modules"]:
            module = importlib.import_module(name)
            yield from (
                c
                for c in vars(module).values()
                if inspect.isclass(c) and issubclass(c, BaseOperator) and c.__module__ == name
            )


ALL = {c.__name__: c for c in classes("operators", "sensors")}


def made(site: Site, name: str) -> Any:
    """One of the class, with a value for what it must be given."""
    values = {
        "app": "alarm", "application": site.application(), "deployment_id": "v2", "name": "s1",
        "steps": {"update.plan": "plan"}, "group_id": "update", "options": {"application": site.application()},
        "step": "check", "new": "v2", "pipeline_spec": str(site.folder / "no.yml"),
    }  # fmt: skip
    accepted = {field for cls in ALL[name].__mro__ for field in inspect.signature(cls.__init__).parameters}
    return ALL[name](task_id="t", **{field: value for field, value in values.items() if field in accepted})


@pytest.mark.processes
@pytest.mark.parametrize("name", sorted(ALL.keys() - MAKE_A_ROOT))
def test_none_makes_a_root_that_is_not_there(site: Site, context: Context, name: str) -> None:
    site.root.rmdir()
    task = made(site, name)
    context["ti"].states["update.plan"] = "failed"  # the last steps of an update look at the others first
    if name in DO_WITHOUT:
        task.execute(context)
    elif name == "StreamPipelineOperator":  # has nothing to do with a root
        with pytest.raises(AirflowException, match="is no file"):
            task.execute(context)
    else:
        with pytest.raises(AirflowException) as caught:
            task.execute(context)
        assert f"root {site.root} does not exist; correct it" in str(caught.value)
    assert not site.root.exists()


@pytest.mark.parametrize("name", ["running_apps", "all_apps"])
def test_the_maintenance_dag_says_so(site: Site, name: str) -> None:
    site.root.rmdir()
    from airflow_provider_streamupdate.example_dags.stream_maintenance import dag

    with pytest.raises(AirflowException, match=f"root {site.root} does not exist; correct it"):
        dag.get_task(name).python_callable()
    assert not site.root.exists()
