"""HDFS by its HTTP interface (WebHDFS, or an HttpFS gateway), which needs neither libhdfs nor Java.

fsspec's own file system writes in place, ignores what a rename answers, takes an unreachable server for a file that is
not there, and does not look at what a datanode answers. Here each file is written under a hidden name and then renamed,
which HDFS does atomically, with or without replacing an existing file; and every answer is checked.
"""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Iterable
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

import attrs
import requests
from fsspec.implementations.webhdfs import WebHDFS
from fsspec.utils import infer_storage_options

from ...users import this_user
from .backend import CHUNK
from .fsspec_store import FsspecStore


@attrs.frozen
class HdfsStore(FsspecStore):
    fs: WebHdfs

    empty_folders = True

    def hadoop_uri(self, path: str) -> str:
        return f"{self.fs.for_hadoop}{path}"

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool:
        return self.fs.rm_exactly(f"{base}/{relative}", data)

    def remove_empty(self, path: str) -> None:
        self.fs.rm_empty(path)


SCHEMES = ("webhdfs", "swebhdfs")  # the second over TLS; Hadoop knows both
_PORTS = {"webhdfs": 9870, "swebhdfs": 9871}  # Hadoop 3's, and what Hadoop takes where a URI has none
_SECONDS = 60.0  # how long a server may be silent
_ERRORS = {  # Hadoop's exceptions, as they are called in an answer
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
    "PathIsNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
    "SecurityException": PermissionError,
}


class WebHdfs(WebHDFS):
    """The file system for `FsspecStore`. Paths are absolute, without scheme and host."""

    protocol = SCHEMES

    @classmethod
    def open_uri(cls, uri: str, options: dict[str, Any]) -> tuple[WebHdfs, str]:
        """The file system and the path of a URI. `options` are those of fsspec's WebHDFS: user, kerberos, token ...

        Without any of them the user is who Hadoop's own clients would be: HADOOP_USER_NAME, or the process's.
        """
        found = infer_storage_options(uri)
        scheme = found["protocol"].lower()
        settings: dict[str, Any] = {
            "host": found.get("host"),
            "port": found.get("port", _PORTS[scheme]),
            "use_https": scheme == "swebhdfs",
            **({"user": found["username"]} if "username" in found else {}),
            **options,
        }
        if not settings["host"]:
            raise ValueError(f"it names no host; write {scheme}://<namenode>:<its HTTP port>/<path>")
        if not any(settings.get(name) for name in ("user", "kerberos", "token")):
            settings["user"] = os.environ.get("HADOOP_USER_NAME") or this_user()
        return cls(**settings), found["path"]

    def _connect(self) -> None:
        super()._connect()
        self.session.request = functools.partial(self.session.request, timeout=_SECONDS)
        self.session.hooks["response"].append(_check)  # after that of Kerberos, which answers a 401

    def unstrip_protocol(self, name: str) -> str:
        settings = self.storage_options
        return f"{SCHEMES[settings['use_https']]}://{settings['host']}:{settings['port']}{name}"

    @functools.cached_property
    def for_hadoop(self) -> str:
        """The address by which Spark reaches the same files: hdfs and the namenode's RPC address (or name service),
        which the namenode tells when asked where a file might be written. Spark's own WebHDFS client lacks classes in
        the jars of PySpark 4.3 (Hadoop 3.5.0; measured)."""
        answer = self._call("CREATE", "put", path=f"/.{uuid.uuid4().hex}", redirect=False, overwrite="false")
        told = parse_qs(urlsplit(answer.headers.get("Location", "")).query).get("namenoderpcaddress")
        return f"hdfs://{told[0]}" if told else self.unstrip_protocol("")  # a gateway does not tell

    def exists(self, path: str, **_: Any) -> bool:
        try:
            self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def find(self, path: str, **_: Any) -> list[str]:
        """The files below a folder."""
        folders, files = [path], []
        while folders:
            try:
                found = self.ls(folders.pop(), detail=True)
            except FileNotFoundError:  # removed meanwhile
                continue
            folders += [each["name"] for each in found if each["type"] == "directory"]
            files += [each["name"].rstrip("/") for each in found if each["type"] == "file"]
        return sorted(files)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        with self._opened(path, start, end) as answer:
            return bytes(answer.content)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write a file that is invisible until it is complete. FileExistsError with mode ``create``, when it exists."""
        self._place(path, value, replace=mode != "create")

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        with open(lpath, "rb") as file:
            self._place(rpath, file)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """HDFS has neither links nor a copy of its own, so the bytes come through here."""
        with self._opened(path1) as answer:
            self._place(path2, answer.iter_content(CHUNK))

    def rm_exactly(self, path: str, data: bytes) -> bool:
        """Remove a file if it holds `data`, by its number, which no other file ever has (``/.reserved/.inodes``,
        resolved by the namenode under the lock it deletes under: FSDirectory.resolvePath)."""
        try:
            number = self.info(path)["fileId"]
            if self.cat_file(path) != data:
                return False
            answer = self._call("DELETE", "delete", path=f"/.reserved/.inodes/{number}", recursive="false")
            return bool(answer.json()["boolean"])
        except FileNotFoundError:
            return False

    def rm_empty(self, path: str) -> None:
        """Remove a folder; OSError when something is in it."""
        self._call("DELETE", "delete", path=path, recursive="false")

    def _opened(self, path: str, start: int | None = None, end: int | None = None) -> requests.Response:
        part = {"offset": start or 0, **({} if end is None else {"length": end - (start or 0)})}
        answer = self._call("OPEN", path=path, redirect=False, **part)
        if (location := answer.headers.get("Location")) is None:  # a gateway may answer by itself
            return answer
        return self.session.get(self._apply_proxy(location), stream=True)

    def _place(self, path: str, data: bytes | IO[bytes] | Iterable[bytes], replace: bool = True) -> None:
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            answer = self._call("CREATE", "put", path=temporary, redirect=False, overwrite="false")
            where = self._apply_proxy(answer.headers["Location"])
            self.session.put(where, data=data, headers={"content-type": "application/octet-stream"})
            self._rename(temporary, path, replace)
        except BaseException:
            with contextlib.suppress(Exception):
                self.rm(temporary)
            raise

    def _rename(self, temporary: str, path: str, replace: bool) -> None:
        """Rename a temporary file. No other process knows its name: when it is gone and the target exists, the rename
        was done, although its answer got lost."""
        options = "OVERWRITE" if replace else "NONE"  # without the word it would answer false and raise nothing
        try:
            self._call("RENAME", "put", path=temporary, destination=path, renameoptions=options)
        except (requests.RequestException, FileNotFoundError):
            if self.exists(temporary) or not self.exists(path):
                raise


def _check(response: requests.Response, **_: Any) -> None:
    """Raise what an answer says went wrong, a datanode's, too."""
    if response.status_code < 400:
        return
    try:
        told = response.json()["RemoteException"]
        kind, message = told["exception"], told["message"].split("\n")[0]
    except (ValueError, KeyError):
        response.raise_for_status()
    else:
        raise _ERRORS.get(kind, OSError)(f"{kind}: {message}")
