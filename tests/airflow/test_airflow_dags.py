"""The DAG files: they import without any configuration, serialize, and do what they say."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import airflow.sdk
import pytest
from airflow.sdk import DAG
from airflow_site import DAG_BAG, REPOSITORY, SERIALIZED_DAG, Site, part_of_airflow

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.record import end
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.forms import refuse_unknown_conf
from airflow_provider_streamupdate.release import application_of, describe, read_release, release_needed
from airflow_provider_streamupdate.retention import outdated
from airflow_provider_streamupdate.update_dag import stream_update
from tests.begun_updates import begin_update

pytestmark = pytest.mark.usefixtures("airflow_db")
DAGS = [
    "stream_maintenance",
    "stream_release",
    "stream_restart",
    "stream_rollback",
    "stream_run",
    "stream_supervise",
    "stream_update",
]


@pytest.fixture(scope="module")
def bag() -> Any:
    return part_of_airflow(*DAG_BAG)(str(REPOSITORY / "dags"))


def test_all_import_without_configuration(bag: Any) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == DAGS


@pytest.mark.parametrize("dag_id", DAGS)
def test_serialize(bag: Any, dag_id: str) -> None:
    serialization = part_of_airflow(*SERIALIZED_DAG)
    stored = json.loads(json.dumps(serialization.to_dict(bag.dags[dag_id])))
    again = serialization.from_dict(stored)
    assert sorted(again.task_dict) == sorted(bag.dags[dag_id].task_dict)
    submit = again.task_dict.get("update.submit_from_snapshot")
    if submit is not None:
        assert {"Spark UI", "Driver log"} <= set(submit.extra_links)


def test_the_documented_dag_that_tells_people_builds_and_serializes() -> None:
    """The example of docs/update-dag.md: a notifier, an approval and a deadline."""
    serialization = part_of_airflow(*SERIALIZED_DAG)
    text = (REPOSITORY / "docs" / "update-dag.md").read_text().split("## Being told")[1]
    code, example = text.split("```python\n")[1].split("```")[0], dict[str, Any]()
    if not hasattr(airflow.sdk, "AsyncCallback"):  # Airflow 3.1, of which the page says this
        code = code.replace("from airflow.sdk import Async", "from airflow.sdk.definitions.deadline import Async")
    exec(code, example)
    dag = example["dag"]
    stored = json.loads(json.dumps(serialization.to_dict(dag)))
    assert serialization.from_dict(stored).has_on_failure_callback
    [deadline] = dag.deadline
    assert deadline.interval == timedelta(minutes=30)
    assert "smtp" in deadline.callback.path
    assert "smtp" in json.dumps(stored["dag"]["deadline"])
    assert "update.approve" in dag.task_dict


def test_every_task_refuses_a_key_of_the_conf_that_no_param_has(bag: Any) -> None:
    for dag in bag.dags.values():
        for task in dag.tasks:
            hook = task.partial_kwargs.get("pre_execute") if task.is_mapped else task._pre_execute_hook
            assert dag.params and hook is refuse_unknown_conf, f"{dag.dag_id}/{task.task_id}"


def test_a_rehearsal_and_an_approval_are_there_when_asked_for() -> None:
    """Where an approval stands is in test_airflow_update_dag.py."""
    with DAG("d", schedule=None) as dag:
        stream_update(app="alarm", application="/a.py", rehearse=3, group_id="rehearsed")
        stream_update(app="alarm", application="/a.py", approval=True, group_id="up")
        stream_update(app="alarm", application="/a.py", strategy="follow", approval=True, group_id="follows")
    assert "up.rehearse" not in dag.task_ids
    assert dag.get_task("rehearsed.prepare").upstream_task_ids >= {"rehearsed.rehearse"}
    body = dag.get_task("up.approve").body
    assert "task_ids='up.check', key='report_markdown'" in body and "key='changes_markdown'" in body
    assert "up.approve" in dag.get_task("up.outcome").steps
    assert dag.get_task("up.promote").outlets[0].uri.startswith("streamupdate://alarm")
    body = dag.get_task("follows.approve").body
    assert "task_ids='follows.check'" in body and "task_ids='follows.prepare'" in body
    assert "follows.prepare" in dag.get_task("follows.rollback").upstream_task_ids, "what was rejected is undone"


@pytest.mark.parametrize("dag_id", DAGS)
def test_the_first_group_of_a_form_has_what_must_be_filled_in(bag: Any, dag_id: str) -> None:
    """Airflow opens that group alone; what is required must not be hidden in another."""
    params = bag.dags[dag_id].params
    schemas = {name: params.get_param(name).schema for name in params}
    required = {name for name, schema in schemas.items() if schema.get("minLength")}
    open_ = [name for name, schema in schemas.items() if "section" not in schema]
    assert required <= set(open_) and 0 < len(open_) <= 3
    assert required == {"stream_update": {"app", "application"}}.get(
        dag_id, {"app"} if dag_id in ("stream_restart", "stream_rollback", "stream_run") else set()
    )
    groups = [schema.get("section") for schema in schemas.values()]
    assert all(group is None or group.strip() for group in groups)
    in_order = list(dict.fromkeys(groups))
    assert in_order[0] is None
    assert len(in_order) > 1 or dag_id == "stream_release"


@pytest.mark.parametrize("dag_id", ["stream_update", "stream_restart", "stream_rollback"])
def test_the_form_suggests_the_apps_that_are_set(monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    def app() -> Any:
        found = part_of_airflow(*DAG_BAG)(str(REPOSITORY / "dags" / f"{dag_id}.py"))
        return found.dags[dag_id].params.get_param("app")

    assert "examples" not in app().schema
    monkeypatch.setenv("AIRFLOW__STREAMUPDATE__APPS", "orders-fraud, flight-windows, ,orders-fraud")
    suggesting = app()
    assert suggesting.schema["examples"] == ["orders-fraud", "flight-windows"]
    assert suggesting.resolve("another") == "another"
    monkeypatch.setenv("AIRFLOW__STREAMUPDATE__APPS", "../up, orders-fraud")
    with pytest.warns(UserWarning, match=r"\[streamupdate\] apps: app name '../up' is not allowed"):
        assert app().schema["examples"] == ["orders-fraud"]


def release(site: Site, application: str, **fields: Any) -> dict[str, Any]:
    return {"app": "alarm", "application": application, "drain_timeout": 20, **fields}


def test_restarting_and_rolling_back_by_hand(site: Site) -> None:
    site.submit()
    site.crash("v1")
    run = site.run_dag("stream_restart", app="alarm", deployment_id="v1")
    assert run.state == "success", run.states
    assert site.drivers_alive() == ["v1"] and site.client.status("alarm").current.epoch == 2
    for version in ("v2", "v3"):
        application = application_of(describe(release(site, site.application(version))))
        site.client.update(UpdateOptions(application=application, deployment=version, strategy="restart"))
    run = site.run_dag("stream_rollback", app="alarm", deployment_id="v3", to="v1")
    assert run.state == "success" and site.drivers_alive() == ["v1"], run.states


def test_a_scheduled_run_ends_with_the_app_s_queries(site: Site) -> None:
    site.submit("v1", ENDS=True, INPUT=3)
    run = site.run_dag("stream_run", app="alarm")
    assert run.state == "success" and run.xcom("run")["deployment"] == "v1"
    assert site.client.status("alarm").state == "finished"


def test_release_updates_once_and_then_skips(site: Site) -> None:
    run = site.run_dag("stream_release")
    assert run.state == run.states["release"] == "success", "there is none"
    assert {state for task, state in run.states.items() if task != "release"} == {"skipped"}
    site.submit()
    path = site.folder / "release.json"
    site.application("v2")
    path.write_text(json.dumps(release(site, "v2.py")))  # relative to the file
    run = site.run_dag("stream_release", release_file=str(path))
    assert run.state == run.states["outcome"] == "success", run.states
    (new,) = site.drivers_alive()
    assert new != "v1"
    assert release_needed(site.client, read_release(str(path)))[0] is False


def test_when_a_release_is_needed(site: Site) -> None:
    v1, v2 = (describe(release(site, site.application(v))) for v in ("v1", "v2"))
    client = site.client
    assert release_needed(client, v1) == (
        False,
        "app alarm was never submitted; submit it once by hand (StreamSubmitOperator or streamupdate submit)",
    )
    site.submit()
    assert release_needed(client, v1)[0] is False
    assert release_needed(client, v2)[0] is True
    assert release_needed(client, {**v1, "app_params": {"a": "1"}})[0] is True
    begin_update(client, "alarm", "other")
    assert "is under way" in release_needed(client, v2)[1]
    end(client.context, "alarm", "other", "refused")
    release_s = application_of(v2).digest()
    begin_update(client, "alarm", "mine", release_s)
    assert "is under way" in release_needed(client, v2)[1]
    held = lease.read(client.registry.app("alarm").folder)
    assert held is not None
    lease.release(client.registry.app("alarm").folder, held)  # nobody has worked on it for so long that it ran out
    assert release_needed(client, v2) == (
        True,
        "the update of app alarm to this release (mine) was interrupted: continuing it",
    )
    assert "is under way" in release_needed(client, v1)[1]
    end(client.context, "alarm", "mine", "refused")
    client.cancel("alarm")
    assert "is cancelled" in release_needed(client, v2)[1]


def test_a_release_that_was_rolled_back_is_not_tried_again_by_itself(site: Site) -> None:
    site.submit()
    client = site.client
    wanted = describe(release(site, site.application("v2", FAIL="start")))
    with pytest.raises(Exception, match="rolled back"):
        client.update(UpdateOptions(application=application_of(wanted), deployment="v2", strategy="restart"))
    needed, reason = release_needed(client, wanted)
    assert not needed and "rolled back before (deployment v2" in reason
    assert release_needed(client, wanted, try_again=True)[0]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ([], "must be a JSON object"),
        ({"app": "a"}, "lacks application"),
        ({"app": "a", "application": "b", "agre": []}, "has no 'agre' (did you mean 'agree'?); it may have"),
        ({"app": "a/b", "application": "b"}, "app name 'a/b' is not allowed"),
    ],
)
def test_a_release_that_is_not_one(described: Any, expected: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        describe(described)
    assert expected in str(caught.value)


def test_a_release_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"app": ')
    for name in ("cut.json", "missing.json"):
        with pytest.raises(InvalidInputError, match="cannot be read as JSON"):
            read_release(str(tmp_path / name))


def snapshot(name: str, days: float) -> Snapshot:
    created = datetime.now(timezone.utc) - timedelta(days=days)
    plan = AppPlan(app="alarm", spark_version="4.3.0", queries=())
    return Snapshot(
        name=name, app="alarm", deployment="v1", created_at=created.isoformat(), kind="live", plan=plan, queries={}
    )


def test_retention_by_count_and_age() -> None:
    taken = [snapshot("mine", 99)] + [snapshot(f"periodic-{d}", d) for d in (40, 20, 10, 5)]
    assert [s.name for s in outdated(taken, 2, 30 * 86400)] == ["periodic-40", "periodic-20"]
    assert [s.name for s in outdated(taken, 9, 15 * 86400)] == ["periodic-40", "periodic-20"]
    assert outdated(taken, 9, 50 * 86400) == []
    assert [s.name for s in outdated(taken, 0, 50 * 86400)] == [s.name for s in taken[1:]]


def test_maintenance(site: Site) -> None:
    """One app runs, one is stopped: a snapshot, verified, and the older ones of both thinned out."""
    for app in ("alarm", "stopped"):
        site.submit(APP=app, deployment="v1")
        for number in (1, 2):
            site.client.save_snapshot(app, f"periodic-{number}")
    site.client.cancel("stopped")
    run = site.run_dag("stream_maintenance", keep_count=1)
    assert run.state == "success", run.states
    assert run.states["snapshot[0]"] == "success" and "snapshot[1]" not in run.states
    left = {app: [s.name for s in site.client.snapshots(app)] for app in site.client.apps()}
    assert left["stopped"] == ["periodic-2"]
    assert len(left["alarm"]) == 1 and left["alarm"][0].startswith("periodic-20")
    assert run.xcom("retention", map_index=0) == ["periodic-1", "periodic-2"]
    collected = run.xcom("collect", map_index=0)
    assert (collected["app"], collected["bytes"], collected["freed"]) == ("alarm", 0, [])
    assert [(t["name"], t["reason"]) for t in collected["kept"]] == [("v1", "it is current")]
    verified = run.xcom("verify", map_index=0)
    assert set(verified) == set(left["alarm"]) and verified[left["alarm"][0]] > 1
