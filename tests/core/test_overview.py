"""What is shown of apps without touching them: the list, and one app as JSON."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters import Living
from airflow_provider_streamupdate.control.operations.context import Context
from airflow_provider_streamupdate.control.overview import (
    SHOWN,
    app_document,
    events,
    glances,
    update_document,
)
from airflow_provider_streamupdate.control.status import Glance
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.errors import CorruptError, StorageError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Launch
from airflow_provider_streamupdate.core.registry.events import KEPT, Events
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import RollbackRecord, UpdateRecord
from airflow_provider_streamupdate.core.serde import to_dict, to_json
from tests.core.builders import app_with_snapshots, deploy, spec, write_json


def record(new: str, **changes: object) -> UpdateRecord:
    values: dict[str, object] = {"app": "flights", "old": "v1", "new": new, "started_at": clock.now()}
    return UpdateRecord(**{**values, **changes})


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    return app_with_snapshots(tmp_path, ("s1", "s2"))


def test_the_last_update_is_the_one_written_last(app: AppRegistry) -> None:
    assert app.last_update() is None
    for number, new in enumerate(("v9", "v2", "v5")):
        app.set_update(record(new, started_at=f"2026-11-2{9 - number}T00:00:00+00:00"))
        os.utime(app.folder.path(f"updates/{new}.json"), (1000 + number, 1000 + number))
    write_json(app, "updates/v5.report.json", {})
    assert app.last_update().new == "v5"


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_removed_while_it_is_looked_at_hides_no_other_app(
    tmp_path: Path, app: AppRegistry, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """A whole app, which is left out; or one file of it, which is told."""
    other, real = Registry(str(tmp_path)).app("other"), AppRegistry.last_update
    deploy(other)

    def gone(registry: AppRegistry) -> UpdateRecord | None:
        if registry.name == "other":
            if whole:
                shutil.rmtree(tmp_path / "other")
            raise FileNotFoundError("updates/v2.json")
        return real(registry)

    monkeypatch.setattr(AppRegistry, "last_update", gone)
    found = dict(glances(Context.of(str(tmp_path))))
    assert isinstance(found["flights"], Glance)
    assert ("other" not in found) is whole and (whole or isinstance(found["other"], StorageError))


def test_an_app_as_json_holds_deployments_stages_snapshots_and_updates(tmp_path: Path, app: AppRegistry) -> None:
    application = Application(file="v2.py", params={"input": "/in", "api_token": "abc"})
    app.create_deployment(spec("v2", application=application, from_snapshot="s2", parent="v1"))
    times = {"plan": "2026-11-21T10:00:01+00:00", "check": "2026-11-21T10:00:11.500+00:00"}
    app.set_update(record("v2", started_at="2026-11-21T10:00:00+00:00", step_times=times, snapshot="s2"))
    items = (
        ReportItem(thing="stage", name="windows/daily", verdict="carried", reason="same"),
        ReportItem(thing="stage", name="windows/gone", verdict="ignored", reason="it is gone"),
        ReportItem(thing="sink", name="windows/noop", verdict="carried", reason="same sink"),
    )
    app.folder.write("updates/v2.report.json", to_json(CompatibilityReport(app="flights", source="v1", items=items)))
    Events(app.deployment_folder("v1"), 1).add("state", state="running")
    client = StreamUpdateClient(str(tmp_path))
    client.verify_snapshot("flights", "s1")
    found = client.app_document("flights")

    assert [(d["deployment"], d["state"], d["current"], d["parent"]) for d in found["deployments"]] == [
        ("v1", "running", True, None),
        ("v2", "new", False, "v1"),
    ]
    assert found["deployments"][1]["application"]["params"] == {"input": "/in", "api_token": "(hidden)"}
    assert found["deployments"][1]["update"] == "under way (after plan)"
    assert [(s["name"], s["state_rows"], s["verdict"]) for s in found["stages"]] == [
        ("windows/daily", 42, "carried"),
        ("windows/gone", None, "ignored"),
    ]
    assert found["report"]["outcome"] == "compatible" and found["report"]["deployment"] == "v2"
    assert found["report"]["picture"] is None and "graph" not in found["report"]  # one of an earlier version
    assert [s["seconds"] for s in found["updates"][0]["steps"]] == [1.0, 10.5]
    assert [(s["name"], bool(s["verified"])) for s in found["snapshots"]] == [("s1", True), ("s2", False)]
    assert found["snapshots"][0]["verified"]["problem"] is None and found["snapshots"][0]["verified"]["files"] > 0
    assert found["events"][-1]["event"] == "state"


def test_a_rollback_leaves_its_history(tmp_path: Path, app: AppRegistry) -> None:
    """Every driver of a deployment, the rollback itself, and no verdict on a version that does not run."""
    app.create_deployment(spec("v2", parent="v1"))
    app.set_update(record("v2", outcome="rolled-back"))
    items = (ReportItem(thing="stage", name="windows/daily", verdict="migrated", reason="a column more"),)
    app.folder.write("updates/v2.report.json", to_json(CompatibilityReport(app="flights", source="v1", items=items)))
    note = RollbackRecord(
        number=1, app="flights", left="v2", back_to="v1", started_at=clock.now(), asked_by="me@here", reason="it failed"
    )
    app.set_rollback(note)
    for epoch, states in ((1, ("running", "draining", "cancelled")), (3, ("running",))):
        for state in states:
            Events(app.deployment_folder("v1"), epoch).add("state", state=state)
    client = StreamUpdateClient(str(tmp_path))
    found = client.app_document("flights")
    v1, v2 = found["deployments"]
    assert [(run["epoch"], run["state"]) for run in v1["runs"]] == [(1, "cancelled"), (3, "running")]
    assert all(run["from"] <= run["to"] for run in v1["runs"]) and v2["runs"] == []
    assert found["rollbacks"] == [to_dict(note)]
    assert found["report"] is None and [s["verdict"] for s in found["stages"]] == [None]
    Events(app.deployment_folder("v1"), 4).add("state", state="starting")
    assert [run["epoch"] for run in client.app_document("flights")["deployments"][0]["runs"]] == [1, 3, 4]


def test_a_damaged_snapshot_is_shown_and_what_its_verification_found_is_kept(tmp_path: Path, app: AppRegistry) -> None:
    client = StreamUpdateClient(str(tmp_path))
    assert [s["kind"] for s in client.app_document("flights")["snapshots"]] == ["live", "live"]
    some = next(path for path in (tmp_path / "flights" / "objects").rglob("*") if path.is_file())
    some.write_bytes(b"altered")
    with pytest.raises(CorruptError):
        client.verify_snapshot("flights", "s2")
    shown = {s["name"]: s for s in client.app_document("flights")["snapshots"]}
    assert "damaged" in shown["s2"]["verified"]["problem"]
    manifest = tmp_path / "flights/snapshots/s1/snapshot.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    shown = {s["name"]: s for s in client.app_document("flights")["snapshots"]}
    assert shown["s1"]["kind"] == "damaged" and "not valid JSON" in shown["s1"]["error"]["message"]
    client.delete_snapshot("flights", "s1")
    assert [s["name"] for s in client.app_document("flights")["snapshots"]] == ["s2"]


def test_one_look_at_the_processes_tells_the_living_from_the_dead(tmp_path: Path) -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin and child.stdout and child.stdout.readline() == b"up\n"
    try:
        launch = _launch(ProcessIdentity.of(child.pid))
        assert launch.process is not None and launch.process.start is not None
        living = Living()
        assert living(launch) is True is process.alive(launch)
        assert living(_launch(attrs.evolve(launch.process, boot="another's"))) is None
        later = _launch(attrs.evolve(launch.process, start=launch.process.start - 1))  # its pid was another's
        assert living(later) is False is process.alive(later)
        noted_before = attrs.evolve(launch, process=None)
        assert living(noted_before) is None is process.alive(noted_before)
        second = subprocess.Popen(["sleep", "60"], start_new_session=True)
        assert living(_launch(ProcessIdentity.of(second.pid))) is True, "also what was launched after the look"
        second.kill()
        second.wait()
        child.stdin.close()
        child.wait()
        assert Living()(launch) is False
    finally:
        child.kill()
        child.wait()


def _launch(identity: ProcessIdentity) -> Launch:
    now, log = clock.now(), "/nowhere.log"
    return Launch(epoch=1, host=identity.host, pid=identity.pid, log=log, launched_at=now, process=identity)


@pytest.mark.parametrize(
    ("strategy", "left"),
    [
        ("restart", ["snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]),
        ("standby", ["prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]),
        ("parallel", ["prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]),
        ("in_flight", ["submit_from_snapshot", "verify", "promote"]),
        ("one of a newer release", []),
    ],
)
def test_the_steps_that_an_update_has_left(strategy: str, left: list[str]) -> None:
    under_way = record("v2", strategy=strategy, step="check", step_times=dict.fromkeys(("plan", "check"), clock.now()))
    assert update_document(under_way)["left"] == left
    assert update_document(attrs.evolve(under_way, outcome="promoted"))["left"] == []


def test_of_many_updates_and_deployments_the_latest_are_read(
    app: AppRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 update records made a view of 10.6 MB, every one of them read each time."""
    for number in range(SHOWN + 20):
        name, moment = f"u{number:03}", f"2025-01-01T00:{number // 60:02}:{number % 60:02}+00:00"
        app.create_deployment(attrs.evolve(spec(name), submitted_at=moment))
        app.set_update(record(name, started_at=moment, outcome="refused"))
        for path in (f"updates/{name}.json", f"deployments/{name}/spec.json"):
            os.utime(app.folder.path(path), (1000 + number, 1000 + number))
    os.utime(app.folder.path("deployments/v1/spec.json"), (1, 1))
    reads = list[str]()
    read = type(app.folder).read
    monkeypatch.setattr(type(app.folder), "read", lambda self, path, *a: (reads.append(path), read(self, path, *a))[1])
    found = app_document(Context.of(str(tmp_path)), "flights")
    assert [u["new"] for u in found["updates"]] == [f"u{number:03}" for number in range(20, SHOWN + 20)]
    assert found["left_out"] == {"deployments": 21, "snapshots": 0, "updates": 20, "rollbacks": 0}
    names = [d["deployment"] for d in found["deployments"]]
    assert "v1" in names and len(names) == SHOWN + 1 and "u000" not in names, "what runs is always shown"
    assert "updates/u019.json" not in reads and "deployments/u005/spec.json" not in reads


def test_the_end_of_a_long_file_of_events_is_read(app: AppRegistry, tmp_path: Path) -> None:
    """300 MB of events were read whole, for the last fifty."""
    folder = app.deployment_folder("v1")
    line = b'{"format": 1, "event": "command", "epoch": 1, "at": "2025-01-01T00:00:00+00:00", "name": "%07d"}\n'
    with open(folder.path("events.jsonl"), "wb") as file:
        file.writelines(line % number for number in range(500_000))
    tracemalloc.start()
    try:
        found = app_document(Context.of(str(tmp_path)), "flights")["events"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [event["name"] for event in found] == [f"{number:07}" for number in range(499_950, 500_000)]
    assert peak < 20_000_000, "the file has 42 MB"
    Events(folder, 2).add("state", state="running")
    assert folder.size("events.jsonl") <= KEPT + 200
    assert [e["event"] for e in events(app, "v1", last=2)] == ["command", "state"]
