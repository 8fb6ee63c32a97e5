"""A request that was carried out and whose answer got lost (issue 18): a winner must not think that it lost, and of two
who try one wins all the same."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.backends.fsspec_store import FsspecStore
from tests.stores import ObjectStore


class Repeating(ObjectStore):
    """A store whose client sends a conditional put again after its answer got lost, as botocore does: the second time
    it is refused. `silent`: it gives up instead."""

    lost, silent = 0, False

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        super().pipe_file(path, value, mode=mode, **kwargs)
        if mode == "create" and self.lost:
            self.lost -= 1
            if self.silent:
                raise OSError("Read timeout on endpoint URL")
            super().pipe_file(path, value, mode=mode, **kwargs)


@pytest.fixture(params=[False, True], ids=["repeated", "silent"])
def store(request: pytest.FixtureRequest) -> Repeating:
    made = Repeating(skip_instance_cache=True)
    made.silent = request.param
    return made


def test_what_this_call_wrote_is_created_by_it(store: Repeating) -> None:
    folder = Folder(FsspecStore(store), f"/{uuid.uuid4().hex}")
    store.lost = 1
    assert folder.create("lock", b"mine", nonce="mine")
    assert not folder.create("lock", b"other", nonce="other")


def test_a_refusal_without_a_nonce_stays_one_and_a_nonce_is_in_what_is_written() -> None:
    store = Repeating(skip_instance_cache=True)
    folder = Folder(FsspecStore(store), f"/{uuid.uuid4().hex}")
    folder.write("lock", b"same")
    assert not folder.create("lock", b"same")
    with pytest.raises(ValueError, match="nonce"):
        Folder(FsspecStore(store), "/a").create("lock", b"data", nonce="other")


def test_a_refusal_that_cannot_be_looked_into_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Repeating(skip_instance_cache=True)
    folder = Folder(FsspecStore(store), f"/{uuid.uuid4().hex}")
    folder.write("lock", b"whose")

    def fails(*_: object, **__: object) -> bytes:
        raise OSError("Read timeout on endpoint URL")

    monkeypatch.setattr(store, "cat_file", fails)
    with pytest.raises(StorageError, match="cannot create"):
        folder.create("lock", b"mine", nonce="mine")


def test_a_file_that_is_removed_before_it_is_looked_into_is_nobody_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the fight for leases on HDFS: who had won was followed by the next one, which removes the file."""
    store = Repeating(skip_instance_cache=True)
    folder = Folder(FsspecStore(store), f"/{uuid.uuid4().hex}")
    folder.write("lock", b"theirs")
    pipe_file = store.pipe_file

    def refused(path: str, value: bytes, mode: str = "overwrite") -> None:
        try:
            pipe_file(path, value, mode=mode)
        finally:
            store.rm_file(path)

    monkeypatch.setattr(store, "pipe_file", refused)
    assert not folder.create("lock", b"mine", nonce="mine")


class _Namenode(BaseHTTPRequestHandler):
    """As much of WebHDFS as it takes to write a file; the answers to renames get lost."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    lost: str  # "after": the rename is done; "before": it is not

    def do_PUT(self) -> None:
        path, query = self._asked()
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if query.get("op") == "CREATE":
            self._answer(307, {}, f"http://{self.headers['Host']}/webhdfs/v1{path}?op=WRITE")
        elif query["op"] == "WRITE":
            self.files[path] = data
            self._answer(201, {})
        else:
            if self.lost == "after":
                self.files[query["destination"]] = self.files.pop(path)
            self.close_connection = True  # without an answer

    def do_GET(self) -> None:
        path, _ = self._asked()
        if path in self.files:
            status = {"type": "FILE", "length": len(self.files[path]), "pathSuffix": ""}
            self._answer(200, {"FileStatus": status})
        else:
            self._answer(404, {"RemoteException": {"exception": "FileNotFoundException", "message": path}})

    def do_DELETE(self) -> None:
        self._answer(200, {"boolean": self.files.pop(self._asked()[0], None) is not None})

    def _asked(self) -> tuple[str, dict[str, str]]:
        found = urlsplit(self.path)
        return found.path.removeprefix("/webhdfs/v1"), {k: v[0] for k, v in parse_qs(found.query).items()}

    def _answer(self, status: int, told: dict, location: str | None = None) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def namenode() -> Iterator[tuple[Folder, type[_Namenode]]]:
    handler = type("Namenode", (_Namenode,), {"files": {}, "lost": "after"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Folder.open(f"webhdfs://127.0.0.1:{server.server_port}/root"), handler
    finally:
        server.shutdown()
        server.server_close()


def test_a_rename_whose_answer_got_lost_was_done(namenode: tuple[Folder, type[_Namenode]]) -> None:
    folder, handler = namenode
    assert folder.create("lease/1.json", b"mine")
    assert handler.files == {"/root/lease/1.json": b"mine"}


def test_a_rename_that_was_not_done_is_an_error(namenode: tuple[Folder, type[_Namenode]]) -> None:
    folder, handler = namenode
    handler.lost = "before"
    with pytest.raises(StorageError, match="cannot create"):
        folder.create("lease/1.json", b"mine")
    assert handler.files == {}  # nor is anything left of it
