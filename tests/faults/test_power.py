"""After a cut of power, what was acknowledged is there and whole: at each moment of a recorded run, and on a real file
system whose disk is copied as it is in that moment."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.restore import bring_files, plan_restore
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from tests.core.builders import app_plan, rocksdb_zip, spec, take, write_json

from .power import NAMES, NOTHING, Recorder

FILES = 12
linux = pytest.mark.skipif(sys.platform != "linux", reason="it looks up what a descriptor is in /proc")


class Unsynced:
    """A checkpoint as Spark writes one on a local disk: with names that are moved into place, and not one fsync."""

    def __init__(self, folder: Folder) -> None:
        self.top = Path(folder.base)

    def write(self, path: str, data: bytes) -> None:
        target = self.top / path
        os.makedirs(target.parent, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        with open(temporary, "wb") as file:
            file.write(data)
        os.rename(temporary, target)

    def batch(self, number: int, files: int = FILES) -> None:
        self.write("metadata", b'{"id":"11111111-2222-3333-4444-555555555555"}')
        self.write(f"offsets/{number}", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"1"}}\n-')
        ssts = [f"{n:06}-x.sst" for n in range(number * 2, number * 2 + files)]
        for sst in ssts:
            self.write(f"state/0/0/SSTs/{sst}", f"rows of {sst}".encode() * 100)
        listed = [{"localFileName": s, "dfsSstFileName": s, "sizeBytes": 9} for s in ssts]
        self.write(f"state/0/0/{number + 1}.zip", rocksdb_zip({"sstFiles": listed}, padding=number))
        self.write(f"commits/{number}", b"v1\n{}")


def make_app(root: Path) -> AppRegistry:
    app = Registry(str(root)).app("flights")
    app.create_deployment(spec("v1"))
    write_json(app, "deployments/v1/plan.json", app_plan())
    return app


def run(app: AppRegistry, say: Callable[[str], None]) -> None:
    """A life of an app: everything that is acknowledged is said, after it is."""
    for number in range(2):
        Unsynced(app.checkpoint("v1", "windows")).batch(number)
        take(app, f"s{number}")
        say(f"snapshot s{number}")
    for epoch in (1, 2):
        assert app.claim(Current(deployment="v1", epoch=epoch))
        say(f"epoch {epoch}")
    assert app.folder.create("lease/1.json", b"{}")
    say("file lease/1.json")
    restore(app)
    app.folder.write("deployments/v2/restored/windows.json", b"{}")
    say("restored v2")
    SnapshotStore(app).delete("s0")
    say("deleted s0")


def restore(app: AppRegistry) -> None:
    """As streaming.restorer does, whose other files are Spark's."""
    query = SnapshotStore(app).get("s1").queries["windows"]
    plan, checkpoint = (
        plan_restore(query, app_plan().queries[0], app_plan().queries[0]),
        app.checkpoint("v2", "windows"),
    )
    Unsynced(checkpoint).write("state/0/_metadata/v2/0", b"what the dry run wrote")
    bring_files(plan, app.folder, checkpoint)
    place = "deployments/v2/checkpoint/windows"
    app.folder.sync([place], but={f"{place}/{path}" for _, path in plan.moves})


def check(root: Path, said: list[str]) -> None:
    """What was said holds; and what is listed is whole, said or not."""
    app = Registry(str(root)).app("flights")
    store = SnapshotStore(app)
    assert store.damaged() == []
    for name in store.names():
        store.verify(name)
    deleted = "deleted s0" in said
    for word, name in (line.split() for line in said):
        if word == "snapshot" and not (name == "s0" and (deleted or not store.exists("s0"))):
            assert store.exists(name), f"{name} was acknowledged and is gone"
        elif word == "epoch":
            current = app.current()
            assert current is not None and current.epoch >= int(name), f"epoch {name} was claimed and is not"
        elif word == "file":
            assert app.folder.exists(name)
        elif word == "deleted":
            assert not store.exists(name)
    if app.folder.exists("deployments/v2/restored/windows.json"):
        checkpoint = app.checkpoint("v2", "windows")
        brought = {f.path: f.sha256 for f in store.get("s1").queries["windows"].files if not f.path.startswith("off")}
        assert {path: checkpoint.sha256(path)[0] for path in brought} == brought
        assert checkpoint.read("state/0/_metadata/v2/0") == b"what the dry run wrote"
    assert not said or "restored v2" not in said or app.folder.exists("deployments/v2/restored/windows.json")


def cut_everywhere(recorder: Recorder, root: Path, folder: Path) -> tuple[int, list[str]]:
    """The power is cut after each call: how many that was, and what went wrong."""
    said: list[str] = []
    cuts, wrong = 0, []
    for number, (what, disk) in enumerate(recorder.moments()):
        if what.startswith("say "):
            said.append(what[4:])
        for kept in (NOTHING, NAMES):
            left = folder / f"{number}-{'names' if kept == NAMES else 'nothing'}"
            disk.lay_out(str(root), left, kept)
            cuts += 1
            try:
                check(left, said)
            except Exception as error:
                wrong.append(f"after {what}, {kept}, said {said}: {type(error).__name__}: {error}"[:400])
            shutil.rmtree(left)
    return cuts, wrong


@pytest.fixture
def memory() -> Iterator[Path]:
    """Thousands of small files are laid out, which no disk has to keep."""
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shm) as made:
        yield Path(made).resolve()


def record(folder: Path, syncs: Callable[[int], bool] = lambda _: True) -> tuple[int, list[str]]:
    root = folder / "root"
    recorder = Recorder(root)
    with recorder.recording(syncs):
        os.mkdir(root)
        run(make_app(root), lambda what: recorder.note(f"say {what}"))
    assert sum(what.startswith("say ") for what, _ in recorder.changes) == 7
    return cut_everywhere(recorder, root, folder / "left")


@linux
def test_whenever_the_power_is_cut_nothing_acknowledged_is_lost(memory: Path) -> None:
    cuts, wrong = record(memory)
    print(f"power cuts {cuts}, bad {len(wrong)}")
    assert not wrong, "\n".join(wrong[:5])
    assert cuts > 400


@linux
@pytest.mark.parametrize("kind", [stat.S_IFREG, stat.S_IFDIR], ids=["files", "folders"])
def test_without_the_syncs_something_is_lost(memory: Path, kind: int) -> None:
    """The test can fail: a disk that ignores the syncs of files, or of folders, loses what was acknowledged."""
    _, wrong = record(memory, lambda descriptor: stat.S_IFMT(os.fstat(descriptor).st_mode) != kind)
    assert wrong


# A real file system


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system in a file, mounted; the image beside it is what its disk holds."""
    file, mounted = tmp_path / "disk.img", tmp_path / "disk"
    with open(file, "wb") as made:
        made.truncate(64 << 20)
    mounted.mkdir()
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("mounting an image needs root and mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", str(file)], check=True)
    mount(file, mounted)
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def mount(file: Path, where: Path) -> None:
    done = subprocess.run(["mount", "-o", "loop", str(file), str(where)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no image can be mounted here: {done.stderr.strip()}")


def after_a_cut(image: Path, tmp_path: Path, look: Callable[[Path], None]) -> None:
    """Look at what the disk holds in this moment, in which nothing is written back."""
    copy, mounted = tmp_path / "copy.img", tmp_path / "copy"
    shutil.copyfile(image.with_name("disk.img"), copy)
    mounted.mkdir(exist_ok=True)
    mount(copy, mounted)
    try:
        look(mounted)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_real_disk_keeps_what_was_acknowledged(image: Path, tmp_path: Path) -> None:
    said: list[str] = []
    cuts: list[str] = []

    def say(what: str) -> None:
        said.append(what)
        after_a_cut(image, tmp_path, lambda left: check(left / "root", said))
        cuts.append(what)

    os.mkdir(image / "root")
    run(make_app(image / "root"), say)
    assert cuts == said and len(cuts) == 7


def test_a_real_disk_loses_what_was_only_written(image: Path, tmp_path: Path) -> None:
    """The copy is one of a disk whose power was cut: names that a later sync brought there, without their bytes."""
    (image / "root").mkdir()
    unsynced = Unsynced(Folder.open(str(image / "root")))
    unsynced.write("a", b"x" * 10_000)
    Folder.open(str(image / "root")).write("b", b"synced")

    def look(left: Path) -> None:
        assert (left / "root" / "b").read_bytes() == b"synced"
        assert not (left / "root" / "a").exists() or (left / "root" / "a").read_bytes() == b""

    after_a_cut(image, tmp_path, look)
