"""A disk that is full, really: a small file system in memory, filled to the last byte."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import InUseError, LeaseHeldError, NoRoomError, StorageError
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.snapshots.superseded import Retention, is_freed
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.space import MARGIN_BYTES
from tests.core.builders import CheckpointFiles, app_plan, app_with_snapshots, deploy, spec

MB = 1_000_000
FILES = 6  # of a checkpoint's state, a MB each


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system, on Linux")
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={MARGIN_BYTES + 48 * MB}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "WATCH_SECONDS", 1.0)


@pytest.fixture
def root(disk: Path) -> Path:
    return disk / "root"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Folder:
    """A checkpoint on another disk, so that an export copies."""
    folder = Folder.open(str(tmp_path / "elsewhere"))
    files = CheckpointFiles(folder)
    files.batch(0)
    files.rocksdb(0, 0, 1)
    for number in range(FILES):
        files.state(f"0/0/SSTs/{number:06}-x.sst", os.urandom(MB))
    return folder


@pytest.fixture
def app(root: Path, elsewhere: Folder) -> AppRegistry:
    """Of three snapshots, each with its own copies."""
    registry = Registry(str(root)).app("flights")
    deploy(registry)
    for name in ("s1", "s2", "s3"):
        save(registry, name, elsewhere)
    return registry


@pytest.fixture
def client(root: Path) -> StreamUpdateClient:
    return StreamUpdateClient(str(root))


def save(app: AppRegistry, name: str, checkpoint: Folder) -> Snapshot:
    exported = Checkpoint(checkpoint).export(False)
    files = [f for f in checkpoint.files() if "/SSTs/" in f]
    like = exported.files[0]
    more = tuple(attrs.evolve(like, path=f, object=f, size=checkpoint.size(f)) for f in files)
    app.folder.remove("deployments/v1/newest_snapshot.json")
    app.folder.write("deployments/v1/newest_snapshot.json", b'{"snapshot": "none"}')
    shared, SnapshotStore.shared = SnapshotStore.shared, lambda *_: {}  # type: ignore[method-assign,assignment]
    try:
        every = attrs.evolve(exported, files=(*exported.files, *more))
        return SnapshotStore(app).save(name, "v1", "adopted", app_plan(), {"windows": every}, {"windows": checkpoint})
    finally:
        SnapshotStore.shared = shared  # type: ignore[method-assign]


def fill(disk: Path, leave: int = 0) -> None:
    """To the last byte, but for `leave` bytes."""
    with open(disk / "ballast", "ab", buffering=0) as file:
        for size in (MB, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    if leave:
        os.truncate(disk / "ballast", os.path.getsize(disk / "ballast") - leave)


def free(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def killed_export(root: str, checkpoint: str, name: str) -> None:
    """In a process of its own: dies when it has copied three files."""
    copy, copies = Folder.copy_from, []

    def struck(folder: Folder, *args: Any) -> None:
        copy(folder, *args)
        copies.append(args)
        if len(copies) == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    Folder.copy_from = struck  # type: ignore[method-assign]
    save(Registry(root).app("flights"), name, Folder.open(checkpoint))


def die_exporting(root: Path, checkpoint: Folder) -> None:
    """An export of the snapshot `dead` that is killed."""
    arguments = (str(root), checkpoint.base, "dead")
    process = multiprocessing.get_context("spawn").Process(target=killed_export, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def test_a_snapshot_without_room_is_refused_before_anything_is_written(
    app: AppRegistry, disk: Path, elsewhere: Folder
) -> None:
    fill(disk, leave=MARGIN_BYTES + 3 * MB)
    before, listed = free(disk), set(app.folder.files())
    told = r"snapshot s4 of flights needs 6\.0 MB .*, but only 19\.\d MB are free at .*/root"
    with pytest.raises(NoRoomError, match=told):
        save(app, "s4", elsewhere)
    assert free(disk) == before and all("newest" in file for file in listed ^ set(app.folder.files()))
    os.truncate(disk / "ballast", 0)
    assert save(app, "s4", elsewhere).size > FILES * MB


def test_a_delete_frees_bytes_on_a_full_disk_whatever_failed_before(
    app: AppRegistry,
    client: StreamUpdateClient,
    disk: Path,
    root: Path,
    elsewhere: Folder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SnapshotStore(app)
    die_exporting(root, elsewhere)

    # A snapshot fails midway, because another program fills the disk meanwhile.
    copy, copies = Folder.copy_from, []

    def struck(folder: Folder, *args: Any) -> None:
        copies.append(args)
        if len(copies) == 4:
            fill(disk)
        copy(folder, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "copy_from", struck)
        with pytest.raises(StorageError, match="No space left on device"):
            save(app, "midway", elsewhere)
    assert [export.snapshot for export in exports.marks(app.folder)] == ["dead"], "a failed one frees its own"
    fill(disk)
    assert free(disk) == 0
    with pytest.raises(StorageError, match="No space left on device"):
        app.folder.write("lease/probe", b"x")

    said: list[str] = []
    freed = client.delete_snapshot("flights", "s1", said.append)
    assert freed > FILES * MB and free(disk) > FILES * MB, said
    assert any("is not written; nobody else holds it" in line for line in said), said
    assert store.verify("s2") and store.verify("s3")

    assert exports.marks(app.folder) == [], "the delete has freed what the killed one left"
    objects = {f"objects/{path}" for path in app.folder.files("objects")}
    assert objects == {f.object for s in store.all() for q in s.queries.values() for f in q.files}

    os.truncate(disk / "ballast", 0)
    assert save(app, "s4", elsewhere).name == "s4"
    assert all(store.verify(name) for name in ("s2", "s3", "s4"))


@pytest.mark.parametrize("by", ["delete-snapshot", "gc"])
def test_a_failed_export_is_freed_on_a_full_disk(
    app: AppRegistry, client: StreamUpdateClient, disk: Path, root: Path, elsewhere: Folder, by: str
) -> None:
    die_exporting(root, elsewhere)
    fill(disk)
    if by == "gc":
        looked = client.collect("flights", dry_run=True)
        assert free(disk) == 0
        done = client.collect("flights")
        assert done.freed == looked.freed and [(t.kind, t.name) for t in done.freed] == [("failed export", "dead")]
        freed = done.bytes
    else:
        freed = client.delete_snapshot("flights", "dead")
    assert freed > MB and free(disk) > 0.9 * freed
    assert exports.marks(app.folder) == [] and len(SnapshotStore(app).all()) == 3
    os.truncate(disk / "ballast", 0)
    assert save(app, "dead", elsewhere).name == "dead" and SnapshotStore(app).verify("dead")


def test_what_must_stay_stays_on_a_full_disk(app: AppRegistry, client: StreamUpdateClient, disk: Path) -> None:
    app.create_deployment(spec("v2", from_snapshot="s2"))
    app.set_current(attrs.evolve(app.current(), deployment="v2", epoch=2))
    client.delete_snapshot("flights", "s3")
    fill(disk)
    with pytest.raises(InUseError, match="deployment v2, which runs now, started from it"):
        client.delete_snapshot("flights", "s2")
    client.delete_snapshot("flights", "s1")
    with pytest.raises(InUseError, match="s2 is the last snapshot of flights"):
        client.delete_snapshot("flights", "s2")


def test_an_update_that_holds_the_lease_keeps_deletes_out_on_a_full_disk(
    app: AppRegistry, client: StreamUpdateClient, disk: Path
) -> None:
    lease.acquire(app.folder, "v2")
    fill(disk)
    with pytest.raises(LeaseHeldError):
        client.delete_snapshot("flights", "s1")
    assert SnapshotStore(app).verify("s1")


def test_superseded_checkpoints_go_on_a_full_disk(root: Path, client: StreamUpdateClient, disk: Path) -> None:
    app = app_with_snapshots(root, ["s1"])
    for name, parent in (("v2", "v1"), ("v3", "v2"), ("v4", "v3")):
        app.create_deployment(spec(name, parent=parent))
        app.checkpoint(name, "windows").write("state/0/0/1.delta", b"x" * 3 * MB)
    app.set_current(attrs.evolve(app.current(), deployment="v4", epoch=4))
    fill(disk)
    done = client.collect("flights", Retention(deployments=0))
    assert {t.name: t.bytes for t in done.freed if t.kind == "checkpoint"}["v2"] == 3 * MB
    assert {t.name: t.reason for t in done.kept if t.kind == "checkpoint"} == {
        "v1": "its driver may be alive (it is running)",
        "v3": "a rollback of v4 goes back to it",
        "v4": "it is current",
    }
    assert free(disk) > 2.9 * MB and is_freed(app, "v2") and not is_freed(app, "v3")
