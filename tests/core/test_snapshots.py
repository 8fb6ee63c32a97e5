"""The store of snapshots: what is saved, shared, verified and deleted, also beside exports that run, fail or died.
Damage to every file of checkpoints that Spark wrote is in test_corruption.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.snapshot import SnapshotFile
from airflow_provider_streamupdate.core.errors import (
    AlreadyExistsError,
    CorruptError,
    InUseError,
    NotFoundError,
    StorageError,
)
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from airflow_provider_streamupdate.core.snapshots.export import unmade
from airflow_provider_streamupdate.core.snapshots.restore import RestoredMark
from airflow_provider_streamupdate.core.snapshots.snapshots import DELETED, SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder

from .builders import CheckpointFiles, app_plan, app_with_snapshots, spec, take


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """Snapshots s1, s2, s3 after batches 0, 1, 2; every version keeps the SSTs of the one before and adds one."""
    return app_with_snapshots(tmp_path, ["s1", "s2", "s3"])


@pytest.fixture
def store(app: AppRegistry) -> SnapshotStore:
    return SnapshotStore(app)


def objects(app: AppRegistry) -> set[str]:
    return {f"objects/{path}" for path in app.folder.files("objects")}


def referred(store: SnapshotStore) -> set[str]:
    return {f.object for s in store.all() for q in s.queries.values() for f in q.files}


def files_of(store: SnapshotStore, name: str) -> dict[str, SnapshotFile]:
    return {f.path: f for f in store.get(name).queries["windows"].files}


def test_a_snapshot_holds_the_bytes_of_its_batch_and_outlives_the_checkpoint(
    app: AppRegistry, store: SnapshotStore
) -> None:
    checkpoint = app.checkpoint("v1", "windows")
    snapshot = store.get("s2")
    query = snapshot.queries["windows"]
    assert (snapshot.app, snapshot.deployment, snapshot.kind, query.batch) == ("flights", "v1", "live", 1)
    assert snapshot.plan == app_plan()
    assert snapshot.size == sum(f.size for f in query.files) > 0
    for file in query.files:
        assert app.folder.read(file.object) == checkpoint.read(file.path)
    checkpoint.remove("")
    assert store.verify("s3") == len({f.object for f in files_of(store, "s3").values()}) == len(files_of(store, "s3"))


def test_an_sst_is_stored_once_and_files_whose_names_return_are_never_shared(
    app: AppRegistry, store: SnapshotStore
) -> None:
    s1, s3 = (
        {path: f.object for path, f in files_of(store, name).items() if "/SSTs/" in path} for name in ("s1", "s3")
    )
    assert len(s1) == 1 and len(s3) == 3
    assert s3.items() >= s1.items()
    assert store.get("s3").bytes_new < store.get("s3").size
    assert len(objects(app)) == len(referred(store))
    assert files_of(store, "s1")["metadata"].object != files_of(store, "s2")["metadata"].object


def test_what_a_snapshot_shares_is_found_in_the_one_before_it_alone(
    app: AppRegistry, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    get = SnapshotStore.get
    monkeypatch.setattr(SnapshotStore, "get", lambda self, name: (read.append(name), get(self, name))[1])
    wanted = store.shared("v1")
    assert read == ["s3"] and wanted
    for text in (b"{", b'{"snapshot": "gone"}', None):  # where it is not known, all are read
        app.folder.remove(note := "deployments/v1/newest_snapshot.json")
        if text is not None:
            app.folder.write(note, text)
        assert store.shared("v1") == wanted
    assert read[-3:] == ["s1", "s2", "s3"] and store.shared("v2") == {}


def test_another_deployment_s_sst_of_the_same_name_is_not_taken_for_its_own(
    app: AppRegistry, store: SnapshotStore
) -> None:
    app.create_deployment(spec("v2"))
    checkpoint = app.checkpoint("v2", "windows")
    files = CheckpointFiles(checkpoint)
    files.batch(0)
    files.rocksdb(0, 0, 1)
    files.state("0/0/SSTs/000000-flights.sst", b"other bytes, same length")
    exported = Checkpoint(checkpoint).export(False)
    sst = next(f for path, f in files_of(store, "s1").items() if "/SSTs/" in path)
    exported = attrs.evolve(exported, files=(*exported.files, attrs.evolve(sst, object=sst.path, sha256=None)))
    checkpoint.write(sst.path, b"x" * sst.size)
    saved = store.save("of-v2", "v2", "live", app_plan(), {"windows": exported}, {"windows": checkpoint})
    mine = next(f for f in saved.queries["windows"].files if "/SSTs/" in f.path)
    assert mine.object != sst.object and app.folder.read(mine.object) == b"x" * sst.size


def test_a_file_that_vanishes_during_the_export_is_told(app: AppRegistry, store: SnapshotStore) -> None:
    exported = store.get("s1").queries["windows"]
    gone = attrs.evolve(exported, files=(attrs.evolve(exported.files[0], path="state/0/0/9.zip", object="x"),))
    with pytest.raises(CorruptError, match=r"state/0/0/9\.zip was removed during the export; try again"):
        store.save("s4", "v1", "live", app_plan(), {"windows": gone}, {"windows": app.checkpoint("v1", "windows")})
    assert not store.exists("s4")


def test_delete_frees_what_no_other_snapshot_needs_and_the_last_one_stays(
    app: AppRegistry, store: SnapshotStore
) -> None:
    kept = {f.object for n in ("s2", "s3") for f in files_of(store, n).values()}
    own = {f.object: f.size for f in files_of(store, "s1").values() if f.object not in kept}
    assert own and kept
    assert store.delete("s1") == sum(own.values())
    assert objects(app) == kept == referred(store)
    assert not app.folder.exists("snapshots/s1")
    assert store.verify("s2") and store.verify("s3")
    store.delete("s2")
    assert objects(app) == referred(store)
    with pytest.raises(InUseError, match="s3 is the last snapshot of flights; take another one"):
        store.delete("s3")
    assert store.verify("s3")


def test_what_the_current_deployment_or_an_update_started_from_stays(app: AppRegistry, store: SnapshotStore) -> None:
    app.create_deployment(spec("v2", from_snapshot="s2"))
    app.set_current(Current(deployment="v2", epoch=2))
    record = UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now(), snapshot="s1")
    app.set_update(record)
    for name, told in (
        ("s2", "deployment v2, which runs now, started from it"),
        ("s1", "the update to v2 that is under way uses it"),
    ):
        with pytest.raises(InUseError, match=told):
            store.delete(name)
        assert store.verify(name)
    app.set_current(Current(deployment="v1", epoch=3))
    store.delete("s2")
    app.set_update(attrs.evolve(record, outcome="promoted"))
    store.delete("s1")


def test_while_an_export_runs_what_it_may_share_stays(app: AppRegistry, store: SnapshotStore) -> None:
    """It may have found an SST in the snapshot that is deleted, and refer to it; nothing else is ever shared."""
    newest = store.get("s3").queries["windows"]
    assert store.delete("s2") > 0  # s3 is alone with its third SST now
    take(app, "s4")
    with exports.begun(app.folder, "s5", "v1") as export:
        app.folder.write(f"objects/{export.export}/begun", b"12345")
        store.delete("s4")
        said: list[str] = []
        kept = objects(app) - referred(store)
        store.delete("s3", said.append)
        orphans = objects(app) - referred(store) - kept
        assert orphans == {f.object for f in newest.files if "/SSTs/" in f.path} - referred(store) != set()
        assert "a snapshot that is being taken may share them (export of snapshot s5 " in said[0]
        exports.end(app.folder, export)
        app.folder.remove(f"objects/{export.export}")
    take(app, "s6")
    store.delete("s1")
    assert objects(app) == referred(store), "a later delete collects what was left"
    assert store.verify("s6")


@pytest.fixture
def truncated(app: AppRegistry) -> bytes:
    """s2's manifest is cut short; what it was."""
    path = "snapshots/s2/snapshot.json"
    text = app.folder.read(path)
    app.folder.write(path, text[: len(text) // 2])
    return text


@pytest.mark.usefixtures("truncated")
def test_a_damaged_snapshot_does_not_hide_the_others(app: AppRegistry, store: SnapshotStore) -> None:
    assert [s.name for s in store.all()] == ["s1", "s3"]
    [damaged] = store.damaged()
    assert (damaged.app, damaged.name) == ("flights", "s2")
    assert "snapshots/s2/snapshot.json is not valid JSON" in damaged.problem
    assert store.verify("s1") and store.verify("s3")
    with pytest.raises(CorruptError, match=r"snapshot s2 of flights is damaged: .*snapshot\.json is not valid JSON"):
        store.verify("s2")
    take(app, "s4")
    assert store.verify("s4")
    with pytest.raises(AlreadyExistsError):
        take(app, "s2")
    store.delete("s1")
    store.delete("s4")
    with pytest.raises(InUseError, match="s3 is the last snapshot"):  # the last whole one
        store.delete("s3")


def test_while_a_snapshot_is_damaged_its_objects_stay(app: AppRegistry, store: SnapshotStore, truncated: bytes) -> None:
    before, said = objects(app), []
    assert store.delete("s1", said.append) == 0
    assert objects(app) == before
    assert said == [
        "no bytes are freed, because s2 of flights is damaged and may need them: restore its snapshot.json from a "
        "backup, or delete it too"
    ]
    app.folder.write("snapshots/s2/snapshot.json", truncated)
    assert store.verify("s2")


@pytest.mark.usefixtures("truncated")
def test_a_damaged_snapshot_can_be_deleted_and_says_what_goes(app: AppRegistry, store: SnapshotStore) -> None:
    said: list[str] = []
    assert store.delete("s2", said.append) > 0
    assert (
        len(said) == 1 and "is damaged" in said[0] and "all bytes that no other snapshot needs are deleted" in said[0]
    )
    assert store.damaged() == [] and objects(app) == referred(store)
    assert store.verify("s1") and store.verify("s3")


def test_a_marker_that_cannot_be_removed_does_not_undo_the_snapshot(
    app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was told of a failure would go on after the snapshot that it was to end with."""
    remove = Folder.remove

    def fails(folder: Folder, path: str) -> None:
        if path.endswith("exporting.json"):
            raise StorageError("cannot remove it")
        remove(folder, path)

    monkeypatch.setattr(Folder, "remove", fails)
    assert take(app, "s4").name == "s4"
    assert SnapshotStore(app).verify("s4") > 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "WATCH_SECONDS", 0.6)
    monkeypatch.setattr(exports, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(exports, "_LOOK_SECONDS", 0.05)


def killed(app: AppRegistry, name: str) -> exports.Export:
    """What an export leaves whose process was killed when it had stored a file."""
    with exports.begun(app.folder, name, "v1") as export:
        app.folder.write(f"objects/{export.export}/abc", b"12345")
    return export


def test_an_export_that_fails_midway_frees_what_it_stored(
    app: AppRegistry, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, copies = objects(app), []
    copy = Folder.copy_from

    def full(folder: Folder, *args: Any) -> None:
        copies.append(args)
        if len(copies) == 4:
            raise StorageError("no space left on device")
        copy(folder, *args)

    monkeypatch.setattr(Folder, "copy_from", full)
    with pytest.raises(StorageError, match="no space left"):
        take(app, "s4")
    assert objects(app) == before and exports.marks(app.folder) == [] and not app.folder.exists("snapshots/s4")
    monkeypatch.undo()
    assert store.delete("s1") > 0
    assert take(app, "s4").name == "s4"


@pytest.mark.usefixtures("quick")
def test_a_killed_export_is_freed_by_its_name_or_with_another_one(app: AppRegistry, store: SnapshotStore) -> None:
    before = objects(app)
    killed(app, "s4")
    assert store.delete("s4") == 5
    assert objects(app) == before and exports.marks(app.folder) == []
    with pytest.raises(NotFoundError, match=r"no snapshot 's4' \(known: s1, s2, s3\)"):
        store.delete("s4")
    os.utime(app.folder.path(killed(app, "s4").mark), (1, 1))
    own = store.get("s1").size - store.get("s2").size + store.get("s2").bytes_new
    assert store.delete("s1") == own + 5
    assert objects(app) == referred(store)


@pytest.mark.usefixtures("quick")
def test_the_name_of_an_export_that_lives_cannot_be_deleted(app: AppRegistry, store: SnapshotStore) -> None:
    with exports.begun(app.folder, "s4", "v1") as export:
        app.folder.write(f"objects/{export.export}/abc", b"12345")
        os.utime(app.folder.path(export.mark), (1, 1))  # its machine's clock is far behind
        with pytest.raises(InUseError, match=r"export of snapshot s4 \(begun .* by process \d+ on .*\) of flights is"):
            store.delete("s4")
        assert app.folder.exists(f"objects/{export.export}/abc")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("late", ["files-copied", "published"])
def test_an_export_that_was_taken_for_dead_is_not_acknowledged(
    app: AppRegistry, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """It was held up for long: before its manifest was written, or after that (then it stays, with all its bytes)."""
    publish = SnapshotStore._publish

    def held_up(self: SnapshotStore, export: exports.Export, text: bytes) -> None:
        if late == "published":
            publish(self, export, text)
        os.utime(app.folder.path(export.mark), (1, 1))
        with monkeypatch.context() as dead:
            dead.setattr(Folder, "touch", lambda *_: None)
            store.delete("s1")
        if late != "published":
            publish(self, export, text)

    monkeypatch.setattr(SnapshotStore, "_publish", held_up)
    if late == "published":
        take(app, "s4")
        assert store.verify("s4") and objects(app) == referred(store)
        return
    with pytest.raises(StorageError, match=r"snapshot s4 of flights gave no sign of life .*, was taken for dead"):
        take(app, "s4")
    assert not store.exists("s4") and objects(app) == referred(store)
    assert store.verify("s3")


def test_a_delete_that_was_held_up_does_not_hit_a_newer_snapshot_of_the_name(
    app: AppRegistry, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = SnapshotStore.users

    def held_up(self: SnapshotStore, name: str) -> list[str]:
        monkeypatch.setattr(SnapshotStore, "users", users)
        SnapshotStore(app).delete("s1")
        take(app, "s1")
        return []

    monkeypatch.setattr(SnapshotStore, "users", held_up)
    with pytest.raises(NotFoundError, match="snapshot s1 of flights was deleted by another process meanwhile"):
        store.delete("s1")
    assert store.verify("s1") and store.get("s1").queries["windows"].batch == 2


def test_where_exactly_one_version_cannot_be_removed_a_name_is_used_once(
    app: AppRegistry, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "remove_exactly", lambda *_: None)
    assert store.delete("s1") > 0
    assert app.folder.read("snapshots/s1/snapshot.json") == DELETED
    assert store.names() == ["s2", "s3"] and store.damaged() == [] and objects(app) == referred(store)
    with pytest.raises(NotFoundError, match=r"no snapshot 's1' \(known: s2, s3\)"):
        store.delete("s1")
    with pytest.raises(AlreadyExistsError, match=r"which was deleted; .* a name can be used only once"):
        take(app, "s1")


# A checkpoint that its driver has not made


@pytest.mark.parametrize(
    ("of", "marked", "missing"),
    [
        ({"from_snapshot": "before-v2"}, False, "windows"),  # a standby's, which is stored after the hand-over
        ({"from_snapshot": "s1"}, False, "windows"),
        ({"from_snapshot": "s1"}, True, None),
        ({"fresh": True}, False, None),  # it starts without state on purpose
        ({}, False, None),  # the app had none
    ],
)
def test_a_checkpoint_is_made_once_it_is_marked(
    app: AppRegistry, of: dict[str, Any], marked: bool, missing: str | None
) -> None:
    app.create_deployment(spec("v2", parent="v1", **of))
    if marked:
        app.folder.write("deployments/v2/restored/windows.json", to_json(RestoredMark(source="s1", batch=1)))
    assert unmade(app, "v2", app.plan("v1")) == missing
