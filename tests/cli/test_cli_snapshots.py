"""Snapshots: listed, verified, deleted; what forks, adopted checkpoints and deleted apps make of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.cli.commands.adopt import by_query
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.core.builders import CheckpointFiles, app_with_snapshots, set_status, status, take

from .another import killed_at
from .conftest import Run, Site, document, table


@pytest.fixture
def app(root: Path) -> AppRegistry:
    """Snapshots s1 (after batch 0) and s2 (after batch 1)."""
    return app_with_snapshots(root, ["s1", "s2"])


def test_list_snapshots_begins_with_the_four_columns(run: Run, root: Path, app: AppRegistry) -> None:
    app_with_snapshots(root, ["other"], app="alarm")
    result = run("list-snapshots")
    assert result.exit_code == 0 and result.stderr == ""
    header, *rows = table(result)
    assert " ".join(header).startswith("TIME SIZE APP SNAPSHOT NAME ")
    assert [(row[3], row[4], row[5], row[6], row[7]) for row in rows] == [
        ("flights", "s1", "v1", "live", "0"),
        ("flights", "s2", "v1", "live", "1"),
        ("alarm", "other", "v1", "live", "0"),
    ]
    assert all(row[0].endswith("Z") and row[2] in ("bytes", "kB") for row in rows)
    take(app, "s3", cancelled=True)
    snapshot, found = SnapshotStore(app).get("s3"), document(run("list-snapshots", "flights", "--json"))
    assert [s["name"] for s in found] == ["s1", "s2", "s3"]
    assert (found[-1]["kind"], found[-1]["size"], found[-1]["created_at"]) == (
        "cancelled",
        snapshot.size,
        snapshot.created_at,
    )
    query = found[-1]["queries"]["windows"]
    assert (query["batch"], query["files"]) == (1, len(snapshot.queries["windows"].files))


@pytest.mark.parametrize("command", ["verify-snapshot", "delete-snapshot"])
def test_an_unknown_snapshot_is_1(run: Run, app: AppRegistry, command: str) -> None:
    result = run(command, "flights", "s9")
    assert result.exit_code == 1 and "app flights has no snapshot 's9' (known: s1, s2)" in result.stderr


# verify


def test_verify_counts_the_files(run: Run, app: AppRegistry) -> None:
    files = len(SnapshotStore(app).get("s2").queries["windows"].files)
    result = run("verify-snapshot", "flights", "s2")
    assert result.exit_code == 0 and result.stdout == f"snapshot s2 of flights is intact: {files} files verified\n"
    assert result.stderr == "[   0 s] verifying snapshot s2 of flights\n"
    found = document(run("verify-snapshot", "flights", "s2", "--json"))
    assert found == {"app": "flights", "name": "s2", "files": files, "valid": True}


def test_verify_of_a_damaged_snapshot_is_1_and_names_the_file(run: Run, app: AppRegistry) -> None:
    file = SnapshotStore(app).get("s2").queries["windows"].files[0]
    os.unlink(app.folder.path(file.object))
    result = run("verify-snapshot", "flights", "s2")
    assert result.exit_code == 1 and f"{file.object}) is missing" in result.stderr
    assert document(run("verify-snapshot", "flights", "s2", "--json"))["error"]["type"] == "CorruptError"


def damage(app: AppRegistry, name: str) -> None:
    app.folder.write(f"snapshots/{name}/snapshot.json", b'{"app": "fli')


def test_a_damaged_snapshot_is_listed_beside_the_others_and_told(run: Run, app: AppRegistry) -> None:
    damage(app, "s1")
    result = run("list-snapshots")
    assert result.exit_code == 1
    assert [row[-4:] for row in table(result)[1:]] == [["s2", "v1", "live", "1"], ["s1", "-", "damaged", "-"]]
    assert "Error: snapshot s1 of flights is damaged: " in result.stderr
    assert "snapshots/s1/snapshot.json is not valid JSON" in result.stderr
    as_json = run("list-snapshots", "flights", "--json")
    whole, damaged = document(as_json)
    assert as_json.exit_code == 1
    assert (whole["name"], damaged["name"], damaged["kind"]) == ("s2", "s1", "damaged")
    assert damaged["error"]["type"] == "CorruptError"
    verified = run("verify-snapshot", "flights", "s1")
    assert verified.exit_code == 1 and "snapshot s1 of flights is damaged: " in verified.stderr


# delete


def test_delete_says_what_was_freed(run: Run, app: AppRegistry) -> None:
    result = run("delete-snapshot", "flights", "s1")
    assert result.exit_code == 0 and result.stdout.startswith("deleted snapshot s1 of flights: ")
    assert SnapshotStore(app).names() == ["s2"]
    held = lease.read(app.folder)
    assert held is not None and not lease.held(app.folder, held), "the lease is given back"
    refused = document(run("delete-snapshot", "flights", "s2", "--json"))
    assert refused["error"]["type"] == "InUseError", "it is the last one"


def test_two_that_delete_the_same_snapshot_do_not_work_side_by_side(
    run: Run, app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, second = SnapshotStore.delete, list[Any]()

    def meanwhile(self: SnapshotStore, name: str, *args: Any) -> int:
        if not second:
            second.append(None)
            second[0] = document(run("delete-snapshot", "flights", name, "--json"))
        return delete(self, name, *args)

    monkeypatch.setattr(SnapshotStore, "delete", meanwhile)
    assert run("delete-snapshot", "flights", "s1").exit_code == 0
    assert second[0]["error"]["type"] == "LeaseHeldError"


@pytest.fixture
def saved(site: Site) -> Site:
    """App alarm runs as deployment v1; its snapshot s1."""
    site.submit()
    site.ok("save-snapshot", "alarm", "s1")
    return site


FROM = ("--snapshot", "s1", "--fork", "--from-app", "alarm")


def test_a_fork_runs_beside_the_app_its_state_is_from(saved: Site) -> None:
    trial = saved.application("trial", APP="trial")
    report = document(saved.ok("check", trial, *FROM, "--json"))
    assert (report["app"], report["source"]) == ("trial", "snapshot s1") and saved.client.apps() == ["alarm"]
    result = saved.ok("submit", trial, "--deployment", "f1", *FROM, "--json")
    assert document(result) == {"app": "trial", "deployment": "f1", "epoch": 1, "reattached": False}
    assert "verifying snapshot s1 of alarm" in result.stderr
    client = saved.client
    assert client.status("alarm").state == client.status("trial").state == "running"
    assert saved.first_batch("trial") == client.snapshot("alarm", "s1").queries["events"].batch + 1
    assert "s1 of alarm (fork)" in saved.run("status", "trial").stdout
    saved.ok("save-snapshot", "alarm", "s2")
    told = saved.refused("delete-snapshot", "alarm", "s1")
    assert "deployment f1 of app trial, which runs now, was forked from it" in told


def test_another_app_s_snapshot_is_no_other_start(saved: Site) -> None:
    trial = saved.application("trial", APP="trial")
    for command, *wrong in (
        ("check", "--from-app", "alarm"),
        ("check", "--fork", "--plan", "plan.json"),
        ("submit", "--snapshot", "s1", "--from-app", "alarm"),
        ("submit", "--fork"),
    ):
        saved.ok(command, trial, *wrong, code=2)
    told = saved.refused("submit", trial, "--snapshot", "nosuch", "--fork", "--from-app", "alarm")
    assert "has a snapshot 'nosuch'" in told and saved.client.apps() == ["alarm"]


def test_an_app_s_fork_under_its_own_name_waits_for_its_end(saved: Site) -> None:
    v2, fork = saved.application("v2"), ("--deployment", "v2", "--snapshot", "s1", "--fork")
    assert document(saved.ok("check", v2, "--fork", "--json"))["source"] == "deployment v1"
    error = saved.error("submit", v2, *fork)
    assert error["type"] == "AlreadyRunningError"
    assert "A fork beside it needs a file that defines another app" in error["message"]
    saved.ok("cancel", "alarm")
    saved.ok("submit", v2, *fork)
    assert saved.app.spec("v2").fork


@pytest.fixture
def legacy(site: Site) -> CheckpointFiles:
    """A checkpoint from elsewhere, after batch 1."""
    made = CheckpointFiles(Folder.open(str(site.folder / "legacy")))
    for number in range(2):
        made.batch(number)
        made.rocksdb(0, 0, number + 1, [f"00000{number}-x.sst"])
    return made


def adopt(site: Site, *options: str, checkpoint: str = "legacy", code: int = 0, **constants: str) -> Result:
    where = f"events={site.folder / checkpoint}"
    file = site.application("v1", **constants)
    return site.ok("adopt", where, "--app", "alarm", "--plan-from", file, *options, code=code)


def test_an_adopted_checkpoint_is_a_snapshot_an_app_starts_from(site: Site, legacy: CheckpointFiles) -> None:
    adopted, then, stop = adopt(site).stdout.splitlines()
    assert adopted.startswith("adopted snapshot adopted of alarm: events after batch 1; ")
    assert then == f"next: streamupdate submit {site.folder / 'v1.py'} --snapshot adopted (with the same options)"
    assert stop.startswith("if the query still runs, stop it before the app is started: both would write to the same")
    [listed] = document(site.run("list-snapshots", "alarm", "--json"))
    assert (listed["name"], listed["kind"]) == ("adopted", "adopted")
    assert site.client.verify_snapshot("alarm", "adopted") > 5
    assert site.client.status("alarm").state == "new" and site.alive() == []
    submitted = site.ok("submit", site.folder / "v1.py", "--snapshot", "adopted", "--deployment", "v1", "--json")
    assert document(submitted)["epoch"] == 1 and site.first_batch() == 2
    assert document(adopt(site, "--json", code=1))["error"]["type"] == "AlreadyExistsError"


def test_a_query_that_went_on_since_is_not_continued(site: Site, legacy: CheckpointFiles) -> None:
    adopt(site)
    legacy.batch(2, commit=False)
    v1 = site.folder / "v1.py"
    error = site.error("submit", v1, "--snapshot", "adopted")
    assert error["type"] == "AlreadyRunningError" and "has continued from batch 1 to batch 2" in error["message"]
    assert "adopt its checkpoint again" in error["message"] and site.app.deployment_ids() == ["adopted"]
    site.ok("submit", v1, "--deployment", "v1", "--fresh")
    assert "has continued from batch 1 to batch 2" in site.update("v2", "--snapshot", "adopted", code=1).stderr
    assert site.alive() == ["v1"] and site.current.epoch == 1
    site.ok("cancel", "alarm")
    legacy.rocksdb(0, 0, 3)
    legacy.batch(2)
    adopt(site, "--snapshot", "adopted-2")
    site.ok("submit", v1, "--snapshot", "adopted-2")


def test_what_is_not_the_application_s_checkpoint_is_not_adopted(site: Site, legacy: CheckpointFiles) -> None:
    found = document(adopt(site, "--json", code=1, FAIL="adopt"))
    assert found["error"]["type"] == "IncompatibleError"
    assert "nothing was adopted:\n  stage events/rooms: as the application says" in found["error"]["message"]
    assert [i["verdict"] for i in found["report"]["items"]] == ["refused"]
    told = adopt(site, checkpoint="nowhere", code=2).stderr
    assert "nowhere is not a checkpoint: it has no metadata and no offsets" in told
    plan = ("--plan-from", str(site.application()))
    assert "'/y' does not name its query" in site.refused("adopt", "a=/x", "/y", "--app", "alarm", *plan, code=2)
    other = site.refused("adopt", site.folder / "legacy", "--app", "other", *plan)
    assert "defines app alarm, not other" in other and site.client.apps() == []


def test_checkpoints_by_query() -> None:
    assert by_query(["/data/a=b/ck"]) == "/data/a=b/ck"
    assert by_query(["q=/data/ck", "r=s3://b/x=1"]) == {"q": "/data/ck", "r": "s3://b/x=1"}


@pytest.fixture
def cancelled(saved: Site) -> Site:
    saved.ok("cancel", "alarm")
    return saved


def folder(site: Site) -> Path:
    return site.folder / "root" / "alarm"


def delete_app(site: Site, *options: str, code: int = 0) -> str:
    result = site.ok("delete-app", "alarm", "--yes", *options, code=code)
    return result.stderr if code else result.stdout


def test_a_cancelled_app_is_deleted_and_its_name_is_free(cancelled: Site) -> None:
    found = json.loads(delete_app(cancelled, "--json"))
    assert found["app"] == "alarm" and found["bytes_freed"] > 0 and found["snapshots"] == []
    assert not folder(cancelled).exists() and cancelled.client.apps() == []
    delete_app(cancelled, code=1)
    assert not folder(cancelled).exists()
    assert document(cancelled.submit("v1", "--json"))["epoch"] == 1


@pytest.mark.parametrize(("typed", "code"), [("alarm\n", 0), ("alarms\n", 2), ("", 2)])
def test_the_name_is_to_be_typed(cancelled: Site, typed: str, code: int) -> None:
    result = CliRunner().invoke(main, ["delete-app", "alarm"], input=typed)
    assert result.exit_code == code and "Type the app's name (alarm)" in result.stderr
    assert folder(cancelled).exists() is (code != 0)


def test_what_is_not_cancelled_or_may_be_alive_is_not_deleted(saved: Site) -> None:
    for state in ("running", "lost"):
        assert f"is {state}, and only a cancelled one is deleted" in delete_app(saved, code=1)
        saved.crash("v1")
    assert not (folder(saved) / "deletion.json").exists()
    saved.ok("restart", "alarm")
    saved.ok("cancel", "alarm")
    registry, launch = saved.app, saved.launch("v1")
    registry.create_deployment(attrs.evolve(registry.spec("v1"), deployment="v2"))
    assert launch.process is not None
    elsewhere = attrs.evolve(launch.process, boot="another machine's")
    registry.set_launch("v2", attrs.evolve(launch, process=elsewhere))
    told = delete_app(saved, code=1)
    assert "a driver of app alarm may be alive" in told and "deployment v2" in told and registry.current() is not None
    registry.folder.remove("deployments/v2")
    delete_app(saved)


@pytest.mark.parametrize("boundary", ["deletion-noted", "records-removed", "deployments-removed", "snapshots-removed"])
def test_one_that_dies_half_way_leaves_nothing_to_start_and_is_completed(cancelled: Site, boundary: str) -> None:
    killed_at(cancelled, boundary, lambda client: client.delete_app("alarm"))
    for command in (("restart", "alarm"), ("rollback", "alarm"), ("submit", cancelled.application())):
        assert "run streamupdate delete-app alarm again" in cancelled.refused(*command)
    listed = document(cancelled.run("list", "--json"))
    if boundary == "records-removed":  # before, it is shown as cancelled; later, it has no deployment
        assert "run streamupdate delete-app alarm again" in listed[0]["error"]["message"]
    assert "begun without keeping its snapshots" in delete_app(cancelled, "--keep-snapshots", code=1)
    delete_app(cancelled)
    assert not folder(cancelled).exists()


def test_a_fork_of_a_deleted_app_is_compared_with_its_last_version(tmp_path: Path) -> None:
    """Its sinks must be others, also those that the snapshot's version did not have."""
    app = app_with_snapshots(tmp_path)
    last = app.plan("v1")
    set_status(app, "v1", status("cancelled"))
    StreamUpdateClient(str(tmp_path)).delete_app("flights", keep_snapshots=True)
    assert SavedState.find(app, "snapshot:s1").forked(app).beside == (last,)


def test_kept_snapshots_start_another_app_and_are_deleted_later(cancelled: Site) -> None:
    assert json.loads(delete_app(cancelled, "--keep-snapshots", "--json"))["snapshots"] == ["s1"]
    assert cancelled.client.apps() == [] and document(cancelled.run("list", "--json")) == []
    assert {path.name for path in folder(cancelled).iterdir()} == {"deletion.json", "lease", "objects", "snapshots"}
    cancelled.ok("verify-snapshot", "alarm", "s1")
    for listed in (("list-snapshots", "alarm", "--json"), ("list-snapshots", "--json")):
        assert [s["name"] for s in document(cancelled.run(*listed))] == ["s1"]
    for command in (("restart", "alarm"), ("submit", cancelled.application()), ("delete-snapshot", "alarm", "s1")):
        assert "its snapshots were kept" in cancelled.refused(*command)
    cancelled.ok("submit", cancelled.application("trial", APP="trial"), "--deployment", "f1", *FROM)
    assert cancelled.first_batch("trial") == cancelled.client.snapshot("alarm", "s1").queries["events"].batch + 1
    delete_app(cancelled, "--keep-snapshots")  # changes nothing
    restored = cancelled.folder / "root" / "trial" / "deployments" / "f1" / "restored" / "events.json"
    restored.rename(cancelled.folder / "mark")
    assert "deployment f1 of app trial has yet to build its state" in delete_app(cancelled, code=1)
    (cancelled.folder / "mark").rename(restored)
    delete_app(cancelled)
    assert not folder(cancelled).exists() and cancelled.client.status("trial").state == "running"
