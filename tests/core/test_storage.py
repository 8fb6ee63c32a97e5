"""Folders on each kind of storage: the contract (tests/folders.py), and what each kind does beyond it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import InvalidInputError, StorageError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.backends.fsspec_store import FsspecStore
from airflow_provider_streamupdate.core.storage.backends.s3 import S3Store
from tests import folders
from tests.stores import Body, Bucket, ObjectStore

KINDS: dict[str, Callable[[str], Folder]] = {
    "disk": Folder.open,
    "scratch": Folder.scratch,
    "memory": lambda path: Folder.open(f"memory:/{path}"),
    "objects": lambda path: Folder(FsspecStore(ObjectStore()), path),
    "bucket": lambda path: Folder(S3Store(Bucket()), path),
}


@pytest.fixture(params=list(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    made = KINDS[request.param](str(tmp_path / "folder"))
    yield made
    made.remove("")


@pytest.mark.parametrize("promise", folders.CONTRACT, ids=lambda promise: promise.__name__)
def test_the_contract(folder: Folder, tmp_path: Path, promise: Callable[[Folder, Folder], None]) -> None:
    promise(folder, Folder.open(str(tmp_path / "disk")))


def test_an_address_leads_to_the_same_folder(tmp_path: Path) -> None:
    for kind in ("disk", "memory"):
        folder = KINDS[kind](str(tmp_path))
        assert Folder.open(folder.address) == folder and folder.sub("a").parent == folder


def test_an_object_that_one_request_does_not_copy_takes_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bucket, "most", 10)
    folder = KINDS["bucket"](str(tmp_path))
    folder.write("a", b"more than ten")
    folder.copy_from(folder, "a", "b")
    assert folder.read("b") == b"more than ten"
    with pytest.raises(FileNotFoundError):
        folder.copy_from(folder, "nothing", "c")


class FlexibleChecksumError(Exception):
    """As botocore's."""


@pytest.mark.parametrize(("damaged", "works"), [(1, True), (3, True), (4, False)])
def test_what_does_not_fit_its_checksum_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: int, works: bool
) -> None:
    folder, read, asked = KINDS["bucket"](str(tmp_path)), Body.read, 0

    async def reads(body: Body) -> bytes:
        nonlocal asked
        asked += 1
        if asked <= damaged:
            raise FlexibleChecksumError
        return bytes(await read(body))

    folder.write("a", b"one")
    monkeypatch.setattr(Body, "read", reads)
    if works:
        assert folder.read("a") == b"one"
    else:
        with pytest.raises(StorageError, match="FlexibleChecksumError"):
            folder.read("a")
    assert asked == min(damaged + 1, 4)


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


def test_what_a_store_cannot_do_is_told() -> None:
    folder = Folder.open(f"memory://{uuid.uuid4().hex}")
    folder.write("a", b"one")
    assert folder.remove_exactly("a", b"one") is None and folder.read("a") == b"one"
    store = Bucket(skip_instance_cache=True)
    store.conditional = False
    folder = Folder(S3Store(store), f"/{uuid.uuid4().hex}")
    folder.write("a", b"one")
    assert folder.remove_exactly("a", b"one") is None and folder.names() == ["a"], "the condition is tried"
    # a store that lets a file be created twice is refused
    store = ObjectStore(skip_instance_cache=True)
    store.exclusive = False
    folder = Folder(FsspecStore(store), f"/{uuid.uuid4().hex}")
    with pytest.raises(StorageError, match="ignores conditional puts"):
        folder.check_writable()


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


@pytest.mark.parametrize("verb", ["write", "create", "list"])
def test_a_root_below_a_file_is_told(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_text("")
    folder = Folder.open(str(tmp_path / "file" / "root"))
    with pytest.raises(StorageError, match=rf"^cannot {verb} .*/file/root.*; check that the root exists"):
        {"write": folder.check_writable, "create": lambda: folder.create("a", b""), "list": folder.names}[verb]()


def test_how_other_stores_answer_is_understood() -> None:
    class Refusing(ObjectStore):
        code = "PreconditionFailed"

        def pipe_file(self, path, value, mode="overwrite", **kwargs):
            cause = RuntimeError()
            cause.response = {"Error": {"Code": self.code}}
            raise OSError(22, "refused") from cause

    store = Refusing(skip_instance_cache=True)
    assert not Folder(FsspecStore(store), "/a").create("lock", b"")
    store.code = "AccessDenied"
    with pytest.raises(StorageError, match="cannot create"):
        Folder(FsspecStore(store), "/a").create("lock", b"")
    # hadoop has another name for s3
    assert Folder(FsspecStore(ObjectStore()), "bucket/root").uri == "s3a://bucket/root"
    # fsspec's file systems may keep what they listed (s3fs does).
    folder = Folder.open(f"memory://{uuid.uuid4().hex}")
    folder.backend.fs.dircache["a"] = []
    assert "a" not in folder.backend.fs.dircache
