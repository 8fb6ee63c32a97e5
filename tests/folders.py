"""What a folder of a root must do, wherever the root is. Each kind of storage has a test that goes through CONTRACT."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_streamupdate.core.storage import Folder


def of_many_creators_one_wins(folder: Folder, _: Folder) -> None:
    """And nobody sees half a file, or a temporary one afterwards."""
    barrier, texts = threading.Barrier(8), [str(n) * 100_000 for n in range(8)]
    seen: set[bytes | None] = set()

    def create(text: str) -> bool:
        barrier.wait()
        won = folder.create("lock", text.encode())
        seen.add(folder.read("lock"))
        return won

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, texts))
    assert won.count(True) == 1
    assert seen == {texts[won.index(True)].encode()}
    folder.check_writable()
    assert folder.names(hidden=True) == ["lock"]


def a_reader_beside_a_writer_sees_whole_files(folder: Folder, _: Folder) -> None:
    done = threading.Event()
    folder.write("status.json", b"0" * 50_000)

    def read() -> set[tuple[int, int]]:
        seen = set()
        while not done.is_set():
            data = folder.read("status.json")
            assert data is not None
            seen.add((len(data), len(set(data))))
        return seen

    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(read)
        try:
            for number in range(200 if folder.cheap_calls else 60):
                folder.write("status.json", str(number % 10).encode() * 50_000)
        finally:
            done.set()
    assert seen.result() == {(50_000, 1)}


def what_was_written_is_listed_read_and_removed(folder: Folder, _: Folder) -> None:
    assert folder.read("a/b") is None and not folder.exists("a/b")
    assert folder.names() == [] and folder.names("a") == [] and folder.files() == []
    folder.write("state/0/1.zip", b"one")
    folder.write("state/.hidden", b"")
    assert folder.names() == ["state"] and folder.names("state") == ["0"] and folder.names("state/0") == ["1.zip"]
    assert folder.files() == ["state/0/1.zip"] and folder.files("state") == ["0/1.zip"]
    assert folder.names("state", hidden=True) == [".hidden", "0"]
    assert folder.files("state", hidden=True) == [".hidden", "0/1.zip"]
    assert folder.names("state/0/1.zip") == [] and folder.read("state/0/1.zip/below") is None
    assert not folder.exists("state/0/1.zip/below")
    folder.write("state/0/1.zip", b"another")
    assert folder.size("state/0/1.zip") == 7 and folder.read("state/0/1.zip") == b"another"
    assert folder.read("state/0/1.zip", first=3) == b"ano"
    assert folder.read_end("state/0/1.zip", 3) == b"her" and folder.read_end("state/0/1.zip", 30) == b"another"
    assert folder.read_end("a/b", 3) is None
    sha256 = ("ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5", 7)
    assert folder.sha256("state/0/1.zip") == folder.sha256("state/0/1.zip", expected=7) == sha256
    with pytest.raises(FileNotFoundError):
        folder.size("nothing")
    folder.write("empty", b"")
    assert folder.read("empty") == b"" and folder.modified("empty") >= folder.modified("state/0/1.zip")
    folder.remove("state")
    folder.remove("state")
    assert folder.names() == ["empty"] and not folder.exists("state/0")


def exactly_what_was_read_is_removed(folder: Folder, _: Folder) -> None:
    folder.write("a/manifest", b"one")
    if folder.remove_exactly("a/manifest", b"two") is None:
        assert folder.remove_exactly("a/manifest", b"one") is None and folder.files() == ["a/manifest"]
        return
    assert folder.remove_exactly("a/manifest", b"two") is False and folder.read("a/manifest") == b"one"
    assert folder.remove_exactly("a/manifest", b"one") is True and folder.read("a/manifest") is None
    assert folder.remove_exactly("a/manifest", b"one") is False
    folder.write("a/other", b"")
    folder.remove_empty("a")
    assert folder.names("a") == ["other"]
    folder.remove("a/other")
    folder.remove_empty("a")
    assert folder.names() == []


def of_many_removers_one_hits_each_version(folder: Folder, _: Folder) -> None:
    """Each version is created, and then removed, once: nobody who has read an older one removes it."""
    if folder.remove_exactly("manifest", b"") is None:
        return
    made, removed, over = [], [], threading.Event()

    def remove() -> None:
        while not over.is_set():
            if (data := folder.read("manifest")) is not None and folder.remove_exactly("manifest", data):
                removed.append(data)

    def create(name: int) -> None:
        for number in range(10):
            data = f"{name}/{number}".encode()
            while not folder.create("manifest", data):
                pass
            made.append(data)

    with ThreadPoolExecutor(5) as pool:
        removers = [pool.submit(remove) for _ in range(3)]
        for creator in [pool.submit(create, name) for name in range(2)]:
            creator.result()
        over.set()
        for remover in removers:
            remover.result()
    left = [data] if (data := folder.read("manifest")) is not None else []
    assert sorted(made) == sorted(removed + left)


def copies_stay_there_or_cross_to_a_disk_and_back(folder: Folder, local: Folder) -> None:
    rows = os.urandom(3_000_000)
    folder.write("a/1.sst", rows)
    for _ in range(2):  # again, after a crash
        folder.copy_from(folder, "a/1.sst", "b/2.sst")
    local.copy_from(folder, "b/2.sst", "c/d/3.sst")
    folder.copy_from(local, "c/d/3.sst", "e/4.sst")
    assert folder.read("e/4.sst") == rows
    assert folder.sha256("e/4.sst") == local.sha256("c/d/3.sst")
    assert folder.files() == ["a/1.sst", "b/2.sst", "e/4.sst"]


def a_listing_tells_sizes_or_nothing(folder: Folder, _: Folder) -> None:
    folder.write("a/b/1", b"one")
    folder.write("a/2", b"")
    folder.write("c", b"other")
    assert folder.sizes("nothing") == {}
    assert folder.sizes("a") in ({}, {"a/b/1": 3, "a/2": 0})
    assert folder.sizes() in ({}, {"a/b/1": 3, "a/2": 0, "c": 5})
    assert bool(folder.sizes()) is not folder.cheap_calls


def it_is_what_its_backend_says(folder: Folder, _: Folder) -> None:
    can = folder.backend
    folder.write("a/b", b"one")
    folder.copy_from(folder, "a/b", "c/d")
    assert folder.same_disk(folder.sub("c")) is can.links
    assert [folder.file_names(path)[1:] for path in ("a/b", "c/d")] == [(2 if can.links else 1, 3)] * 2
    assert (folder.file_names("a/b").file == folder.file_names("c/d").file) is can.links
    here = folder.path_here
    assert (here is None) is (folder.free() is None)
    assert here is None or (here / "a" / "b").read_bytes() == b"one"
    if can.renames:
        folder.rename("c", "e")
        assert folder.files() == ["a/b", "e/d"]
    if can.touches:
        before = folder.modified("a/b")
        time.sleep(0.02)
        folder.touch("a/b")
        assert folder.modified("a/b") > before and folder.read("a/b") == b"one"
    folder.remove("a/b")
    assert folder.exists("a") is can.empty_folders
    folder.remove_empty("a")
    assert not folder.exists("a")
    with folder.locked("a"):
        folder.sync([""])
        folder.check_regular("nothing", set())


CONTRACT: tuple[Callable[[Folder, Folder], None], ...] = (
    what_was_written_is_listed_read_and_removed,
    of_many_creators_one_wins,
    a_reader_beside_a_writer_sees_whole_files,
    exactly_what_was_read_is_removed,
    of_many_removers_one_hits_each_version,
    copies_stay_there_or_cross_to_a_disk_and_back,
    a_listing_tells_sizes_or_nothing,
    it_is_what_its_backend_says,
)
