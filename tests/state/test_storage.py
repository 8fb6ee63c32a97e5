from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_streamupdate.state.errors import InvalidInputError, StorageError
from airflow_provider_streamupdate.state.storage import Folder
from tests import folders


@pytest.fixture(params=["local", "memory", "scratch"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    local = str(tmp_path / "folder")
    addresses = {"local": local, "memory": f"memory://{uuid.uuid4().hex}"}
    made = Folder.scratch(local) if request.param == "scratch" else Folder.open(addresses[request.param])
    yield made
    made.remove("")


def test_what_was_written_is_listed_read_and_removed(folder: Folder) -> None:
    folders.what_was_written_is_listed_read_and_removed(folder)


def test_nothing_is_synced_in_a_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for folder, syncs in ((Folder.scratch(tmp_path / "a"), False), (Folder.open(str(tmp_path / "b")), True)):
        inner = folder.sub("q")
        inner.write("state/0", b"rows")
        assert inner.create("offsets/0", b"v1") and not inner.create("offsets/0", b"v1")
        inner.copy_from(inner, "state/0", "state/1")
        inner.sync([""])
        assert inner.remove_exactly("offsets/0", b"v1")
        assert bool(synced) is syncs
    assert Folder.scratch(tmp_path / "a") == Folder.open(str(tmp_path / "a"))


@pytest.mark.parametrize("change", ["writes", "removes"])
def test_a_folder_goes_whatever_another_does_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Between the listing of state/0 and its removal: a task of a stopped query writes, or another remover is first."""
    folder, left, remove = Folder.open(str(tmp_path)), tmp_path / "q" / "state" / "0", os.rmdir
    for name in ("q/state/0/1.delta", "q/state/0/2.delta", "q/other"):
        folder.write(name, b"rows")
    times = []

    def meanwhile(name: str, **other: int) -> None:
        if name == "0" and not times:
            times.append(name)
            left.joinpath("3.delta").write_bytes(b"rows")
            if change == "removes":
                left.joinpath("3.delta").unlink()
                remove(left)
        remove(name, **other)

    monkeypatch.setattr(os, "rmdir", meanwhile)
    folder.remove("q")
    assert times and not (tmp_path / "q").exists()


def test_exactly_what_was_read_is_removed(tmp_path: Path) -> None:
    folders.exactly_what_was_read_is_removed(Folder.open(str(tmp_path)))
    folders.of_many_removers_one_hits_each_version(Folder.open(str(tmp_path)))


def test_a_store_that_cannot_remove_exactly_one_version_says_so() -> None:
    folder = Folder.open(f"memory://{uuid.uuid4().hex}")
    folder.write("a", b"one")
    assert folder.remove_exactly("a", b"one") is None and folder.read("a") == b"one"


def test_create_is_exclusive_and_keeps_the_first(folder: Folder) -> None:
    assert folder.create("a/lock", b"first")
    assert not folder.create("a/lock", b"second")
    assert folder.read("a/lock") == b"first"
    assert folder.names("a") == ["lock"], "no temporary file may stay"


def test_of_many_creators_one_wins_and_nobody_sees_half_a_file(tmp_path: Path) -> None:
    folders.of_many_creators_one_wins(Folder.open(str(tmp_path)))


def test_a_reader_beside_a_writer_sees_whole_files_only(tmp_path: Path) -> None:
    folders.a_reader_beside_a_writer_sees_whole_files(Folder.open(str(tmp_path)), 200)


def test_copies_stay_there_or_cross_to_a_disk_and_back(folder: Folder, tmp_path: Path) -> None:
    folders.copies_stay_there_or_cross_to_a_disk_and_back(folder, Folder.open(str(tmp_path / "other")))


def test_a_copy_on_one_disk_is_a_link(tmp_path: Path) -> None:
    old, new = Folder.open(str(tmp_path / "old")), Folder.open(str(tmp_path / "new"))
    old.write("a/1.sst", b"rows")
    new.copy_from(old, "a/1.sst", "b/2.sst")
    new.copy_from(old, "a/1.sst", "b/2.sst")  # again, after a crash
    assert new.read("b/2.sst") == b"rows"
    assert os.path.samefile(old.path("a/1.sst"), new.path("b/2.sst"))


@pytest.mark.parametrize("root", ["", "  "])
def test_an_empty_root_is_refused(root: str) -> None:
    with pytest.raises(InvalidInputError, match="the root is empty"):
        Folder.open(root)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"root 'nosuch://x' cannot be used: Protocol not known: nosuch"):
        Folder.open("nosuch://x")


@pytest.mark.parametrize("verb", ["write", "create", "list"])
def test_a_root_below_a_file_is_told(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_text("")
    folder = Folder.open(str(tmp_path / "file" / "root"))
    with pytest.raises(StorageError, match=rf"^cannot {verb} .*/file/root.*; check that the root exists"):
        {"write": folder.check_writable, "create": lambda: folder.create("a", b""), "list": folder.names}[verb]()


def test_a_read_only_root_is_told() -> None:
    with pytest.raises(StorageError, match="writable for this user"):
        Folder.open("/proc/streamupdate").check_writable()


class ObjectStore(MemoryFileSystem):
    """What s3fs does otherwise than a file system (seen with moto's server, which tests/ground/s3.py runs): the empty
    objects Hadoop makes for folders are listed in themselves, and a file lists itself."""

    protocol = ("s3", "s3a")
    store: dict = {}
    pseudo_dirs = [""]
    exclusive = True

    def ls(self, path, detail=True, **kwargs):
        found = [path] if self.isfile(path) else [*super().ls(path, detail=False), f"{path.rstrip('/')}/"]
        return [self.info(p) for p in found] if detail else found

    def find(self, path, **kwargs):
        return [*super().find(path, **kwargs), f"{path}/", f"{path}/c/"]

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        return super().pipe_file(path, value, mode=mode if self.exclusive else "overwrite", **kwargs)


def test_folders_of_an_object_store_are_not_taken_for_files() -> None:
    folder = Folder(ObjectStore(), f"/{uuid.uuid4().hex}")
    folder.write("a/b", b"one")
    folder.write("a/c/d", b"two")
    assert folder.names("a") == ["b", "c"]
    assert folder.names("a/b") == []
    assert folder.files("a") == ["b", "c/d"]


def test_hadoop_has_another_name_for_s3() -> None:
    assert Folder(ObjectStore(), "bucket/root").uri == "s3a://bucket/root"


def test_a_store_that_lets_a_file_be_created_twice_is_refused() -> None:
    store = ObjectStore(skip_instance_cache=True)
    store.exclusive = False
    folder = Folder(store, f"/{uuid.uuid4().hex}")
    with pytest.raises(StorageError, match="ignores conditional puts"):
        folder.check_writable()


def test_another_answer_to_a_conditional_put_is_understood() -> None:
    class Refusing(ObjectStore):
        code = "PreconditionFailed"

        def pipe_file(self, path, value, mode="overwrite", **kwargs):
            cause = RuntimeError()
            cause.response = {"Error": {"Code": self.code}}
            raise OSError(22, "refused") from cause

    store = Refusing(skip_instance_cache=True)
    assert not Folder(store, "/a").create("lock", b"")
    store.code = "AccessDenied"
    with pytest.raises(StorageError, match="cannot create"):
        Folder(store, "/a").create("lock", b"")


def test_what_another_process_writes_is_seen() -> None:
    """fsspec's file systems may keep what they listed (s3fs does)."""
    folder = Folder.open(f"memory://{uuid.uuid4().hex}")
    folder.fs.dircache["a"] = []
    assert "a" not in folder.fs.dircache
