"""Object storage over HTTP: moto's S3 server, reached by s3fs. There is no rename and no folder; what must be made only
once is made by a conditional put."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.state.registry import Registry
from airflow_provider_streamupdate.state.storage import Folder

from .snapshots import go_through_snapshots


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with the bucket ``bucket``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("moto") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:

        def answers() -> bool | None:
            assert process.poll() is None, log.read_text()
            try:
                return urllib.request.urlopen(f"{address}/moto-api/", timeout=5).status == 200 or None
            except OSError:
                return None

        wait_for(answers, "the S3 server", 120)
        Folder.open("s3://bucket", options(address)).fs.mkdir("bucket")
        yield address
        process.terminate()


def options(address: str) -> dict[str, Any]:
    return {"key": "someone", "secret": "something", "client_kwargs": {"endpoint_url": address}}


@pytest.fixture
def folder(server: str, tmp_path: Path) -> Folder:
    return Folder.open(f"s3://bucket/{tmp_path.name}", options(server))


def test_of_many_creators_one_wins(folder: Folder, server: str) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        barrier.wait()
        return folder.create("lock", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert won.count(True) == 1
    assert folder.read("lock") == str(won.index(True)).encode()
    folder.check_writable()
    assert folder.names() == ["lock"]


def test_what_was_written_is_listed_and_what_hadoop_leaves_is_not(folder: Folder) -> None:
    for name in ("", "state/", "state/0/"):  # the empty objects s3a makes for folders
        folder.fs.pipe_file(f"{folder.base}/{name}", b"")
    folder.write("state/0/1.zip", b"one")
    assert folder.names() == ["state"] and folder.names("state") == ["0"] and folder.names("state/0") == ["1.zip"]
    assert folder.files() == ["state/0/1.zip"]
    assert folder.names("state/0/1.zip") == [] and folder.names("nothing") == []
    folder.write("state/0/1.zip", b"another")
    assert folder.size("state/0/1.zip") == 7 and folder.read("state/0/1.zip") == b"another"
    folder.remove("state")
    assert folder.names() == [] and not folder.exists("state/0")


def test_what_another_client_writes_is_seen(folder: Folder, server: str) -> None:
    folder.write("a", b"one")
    assert folder.names() == ["a"] and folder.size("a") == 3
    other = type(folder.fs)(skip_instance_cache=True, **options(server))
    other.pipe_file(folder.path("a"), b"longer")
    other.pipe_file(folder.path("b"), b"")
    assert folder.size("a") == 6 and folder.names() == ["a", "b"]


def test_copies_are_made_by_the_server_or_cross_to_a_disk(folder: Folder, tmp_path: Path) -> None:
    folder.write("a/1.sst", b"rows")
    folder.copy_from(folder, "a/1.sst", "b/2.sst")
    local = Folder.open(str(tmp_path))
    local.copy_from(folder, "b/2.sst", "c/d/3.sst")
    folder.copy_from(local, "c/d/3.sst", "e/4.sst")
    assert folder.read("e/4.sst") == b"rows"
    assert folder.uri == f"s3a://bucket/{tmp_path.name}"


def test_a_snapshot_in_a_bucket_is_stored_shared_verified_restored_and_deleted(server: str, tmp_path: Path) -> None:
    go_through_snapshots(Registry(f"s3://bucket/{tmp_path.name}", options(server)), tmp_path)
