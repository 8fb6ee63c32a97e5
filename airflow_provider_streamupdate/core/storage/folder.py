"""A folder on any kind of storage, with the few operations that crash safety depends on.

`create` is exclusive and never shows a half-written file; `write` replaces atomically. How, each backend says for
itself. Here is what is the same for all: relative paths, and errors.

What survives a power failure. On a local disk: what `write` and `create` have written when they return (the file and
its folder are synced); what `copy_from` brought, once a `sync` of it has returned. In an object store: what was put,
when that is acknowledged (S3 answers when an object is stored on several devices); `sync` has nothing to do. On HDFS: a
name when it is acknowledged (the namenode syncs its journal), and bytes against the loss of fewer datanodes than hold
them: a closed block is in the memory of each, and written to its disk at once where dfs.datanode.synconclose says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs

from ..boundaries import storage_call
from ..errors import CorruptError, InvalidInputError, StorageError
from ..users import this_user
from .backends.backend import CHUNK, Backend, FileNames
from .backends.disk import Disk
from .backends.roots import backend_at
from .ownership import owner_text
from .patience import tried_again

READS_AT_ONCE = 16
_Of = TypeVar("_Of")
_Found = TypeVar("_Found")
_lock = threading.Lock()
_calls = 0


def call_count() -> int:
    """Return the number of calls of this process to storages. On an object store each is a request that costs money."""
    return _calls


@attrs.frozen
class Folder:
    """`base` is a path on the backend, without protocol. All paths given to the methods are relative to it."""

    backend: Backend
    base: str

    @classmethod
    def open(cls, uri: str, storage_options: dict[str, Any] | None = None) -> Folder:
        """The folder at a local path or fsspec URI; InvalidInputError when the protocol is not known."""
        if not uri or not str(uri).strip():
            raise InvalidInputError("the root is empty; give a folder or URI (--root, STREAMUPDATE_ROOT, connection)")
        backend, base = backend_at(str(uri), storage_options or {})
        return cls(backend, base.rstrip("/"))

    @classmethod
    def scratch(cls, path: str | os.PathLike[str]) -> Folder:
        """A local folder that is not read after this process: nothing in it is synced. (A check writes about thirty
        files and folders there; syncing them took as long as comparing the plans, measured.)"""
        return cls(Disk(syncs=False), os.path.abspath(path))

    @property
    def links(self) -> bool:
        """Whether `copy_from` within it moves no bytes at all."""
        return self.backend.links

    @property
    def renames(self) -> bool:
        """Whether `rename` is supported."""
        return self.backend.renames

    @property
    def touches(self) -> bool:
        """Whether `touch` is a sign of life."""
        return self.backend.touches

    @property
    def cheap_calls(self) -> bool:
        """Whether frequent or sequential reads cost nothing."""
        return self.backend.cheap_calls

    def read_many(self, read: Callable[[_Of], _Found], of: Iterable[_Of]) -> list[_Found]:
        """Call `read` for each item and return the results in order: several at once where a call is a request. On a
        local disk threads only cost time (measured)."""
        if self.cheap_calls:
            return list(map(read, of))
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            return list(pool.map(read, of))

    @property
    def hadoop_checksums(self) -> bool:
        """Whether Hadoop writes a hidden checksum file beside each file."""
        return self.backend.hadoop_checksums

    @property
    def path_here(self) -> Path | None:
        """The folder's path for any process of this machine; None when it is elsewhere."""
        return self.backend.path_here(self.base)

    @property
    def uri(self) -> str:
        """The folder as Hadoop understands it."""
        return self.backend.hadoop_uri(self.base)

    @property
    def address(self) -> str:
        """The folder as `open` understands it."""
        return self.backend.address(self.base)

    @property
    def parent(self) -> Folder:
        return Folder(self.backend, self.base.rpartition("/")[0])

    def path(self, relative: str = "") -> str:
        return f"{self.base}/{relative}" if relative else self.base

    def sub(self, relative: str) -> Folder:
        return Folder(self.backend, self.path(relative))

    @tried_again
    def read(self, relative: str, first: int | None = None) -> bytes | None:
        """Return the bytes of a file, or its first ones; None when there is none."""
        with self._errors("read", relative):
            try:
                return self.backend.read(self.path(relative), first)
            except (FileNotFoundError, NotADirectoryError):
                return None

    @tried_again
    def read_end(self, relative: str, size: int) -> bytes | None:
        """Return the last `size` bytes of a file; None when there is none."""
        with self._errors("read", relative):
            try:
                return self.backend.read_end(self.path(relative), size)
            except (FileNotFoundError, NotADirectoryError):
                return None

    @tried_again
    def write(self, relative: str, data: bytes, lasting: bool = True) -> None:
        """Create or replace a file atomically. It survives a power failure, unless it need not be `lasting`: then the
        file that it replaced may come back, complete."""
        with self._errors("write", relative):
            self.backend.write(self.path(relative), data, lasting)

    @tried_again
    def create(self, relative: str, data: bytes, nonce: str | None = None) -> bool:
        """Create a file that did not exist; False when it does (the only lock primitive used anywhere). It survives a
        power failure.

        nonce: a text in `data` that no other call writes. With it, a file that holds exactly `data` was created by this
        call, even if its answer got lost: a client that repeats the request is then told that the file exists (botocore
        repeats a put by itself, NFS a link).
        """
        if nonce is not None and nonce.encode() not in data:
            raise ValueError("the nonce is not in the data")
        with self._errors("create", relative):
            return self.backend.create(self.path(relative), data, unique=nonce is not None)

    @tried_again
    def sync(self, paths: Iterable[str], but: Collection[str] = ()) -> None:
        """Make files, or whole folders, survive a power failure, no matter who wrote them, and the folders on the way
        to them, too. `but`: files whose bytes do so already."""
        if self.backend.syncs:
            with self._errors("sync", ""):
                self.backend.sync(self.base, paths, but)

    def check_regular(self, relative: str, known: set[str]) -> None:
        """CorruptError when a file, or a folder on the way to it from here, is a symbolic link, or it is no plain file.
        `known`: folders that were found to be none; added to. (Neither object stores nor HDFS have links: Hadoop
        switched them off, HADOOP-10019.)"""
        if self.backend.symlinks:
            with self._errors("look for", relative):
                self.backend.check_regular(self.base, relative, known)

    @tried_again
    def names(self, relative: str = "", hidden: bool = False) -> list[str]:
        """Names directly below a folder, sorted, `hidden` ones on demand; empty when there is no such folder."""
        with self._errors("list", relative):
            try:
                found = self.backend.names(self.path(relative))
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                if not relative:  # this very folder is a file, or lies below one
                    raise
                return []
        return sorted(n for n in found if n and (hidden or not n.startswith(".")))

    def newest(self, paths: Sequence[str]) -> str | None:
        """Return the existing file that was written last; None when there is none. A single path is not checked."""
        return paths[0] if len(paths) == 1 else next(iter(self.latest(paths, 1)), None)

    def latest(self, paths: Sequence[str], count: int) -> list[str]:
        """Return the `count` files that were written last, of those that are there, the last one first."""

        def written(path: str) -> tuple[float, str]:
            with contextlib.suppress(FileNotFoundError):  # removed since it was listed, or a link to nothing
                return self.modified(path), path
            return -1.0, path

        return [path for at, path in heapq.nlargest(count, self.read_many(written, paths)) if at >= 0]

    @tried_again
    def files(self, relative: str = "", hidden: bool = False) -> list[str]:
        """Paths, relative to `relative`, of all files below it, sorted, `hidden` ones on demand. A symbolic link is one
        of them: none is followed."""
        with self._errors("list", relative):
            try:
                return sorted(self.backend.files(self.path(relative), hidden))
            except (FileNotFoundError, NotADirectoryError):
                return []

    @tried_again
    def sizes(self, relative: str = "") -> dict[str, int]:
        """Return the sizes of the files below a folder by path, where a listing tells them (one request for a thousand
        files). A file that is missing in it may exist."""
        with self._errors("list", relative):
            try:
                found = self.backend.sizes(self.path(relative))
            except (FileNotFoundError, NotADirectoryError):
                return {}
        return {f"{relative}/{path}" if relative else path: size for path, size in found.items()}

    @tried_again
    def exists(self, relative: str) -> bool:
        with self._errors("look for", relative):
            return self.backend.exists(self.path(relative))

    @tried_again
    def size(self, relative: str) -> int:
        """Bytes; FileNotFoundError when there is no such file."""
        with self._errors("look for", relative):
            return self.backend.size(self.path(relative))

    def file_names(self, relative: str) -> FileNames:
        """Return the file at a path and its number of names; FileNotFoundError when there is none."""
        with self._errors("look for", relative):
            return self.backend.file_names(self.path(relative))

    def modified(self, relative: str) -> float:
        """Time of the last write, seconds since the epoch."""
        with self._errors("look for", relative):
            return self.backend.modified(self.path(relative))

    def rename(self, relative: str, target: str) -> None:
        """Rename a file or a whole folder, in one step that needs no space, where it `renames`."""
        with self._errors("rename", relative):
            self.backend.rename(self.path(relative), self.path(target))

    @tried_again
    def remove(self, relative: str) -> None:
        """Remove a file or a whole folder; nothing when there is none."""
        with self._errors("remove", relative), contextlib.suppress(FileNotFoundError):
            self.backend.remove(self.path(relative))

    def remove_exactly(self, relative: str, data: bytes) -> bool | None:
        """Remove a file if it holds `data`, in one step: a newer one in its place is never hit, however long this
        process slept after it had looked. Creates nothing. False: it is gone, or another one; None: this store cannot
        do that.

        On a local disk the process that removes a file this way locks it, HDFS removes by the file's own number, an S3
        store by a conditional delete, if it supports that.
        """
        with self._errors("remove", relative):
            return self.backend.remove_exactly(self.base, relative, data)

    def remove_empty(self, relative: str) -> None:
        """Remove a folder if nothing is in it; object stores have none."""
        if self.backend.empty_folders:
            with contextlib.suppress(OSError):
                self.backend.remove_empty(self.path(relative))

    def touch(self, relative: str) -> None:
        """A sign of life that needs no space, where it `touches`: a file's time of writing becomes now. Nothing
        elsewhere; FileNotFoundError when there is no such file."""
        if self.backend.touches:
            with self._errors("look for", relative):
                self.backend.touch(self.path(relative))

    def same_disk(self, other: Folder) -> bool:
        """Whether `copy_from` of the other folder only links."""
        if not (self.links and other.links):
            return False
        return self.backend.device(self.base) == other.backend.device(other.base)

    def free(self) -> int | None:
        """Bytes that can still be written here; None where that cannot be told."""
        if self.path_here is None:
            return None
        with self._errors("look for", ""):
            return self.backend.free(self.base)

    @contextlib.contextmanager
    def locked(self, relative: str = "") -> Iterator[None]:
        """Inside the block no other process of this machine is inside one for the same folder. Creates nothing, and
        ends with the process. On a local file system only; elsewhere it excludes no other process."""
        with contextlib.ExitStack() as held:
            if self.backend.locks:
                with self._errors("lock", relative):
                    held.enter_context(self.backend.lock(self.path(relative)))
            yield

    @tried_again
    def copy_from(self, source: Folder, path: str, relative: str) -> None:
        """Bring an immutable file here without moving its bytes through this process where that is possible:
        a hard link on one local disk, a server-side copy on one object store. On a local disk it survives a power
        failure only after a `sync`: one for many files is much cheaper. A symbolic link is brought as one."""
        with self._errors("copy to", relative):
            self.backend.copy_from(source.backend, source.path(path), self.path(relative))

    @tried_again
    def sha256(self, relative: str, expected: int | None = None) -> tuple[str, int]:
        """Checksum and size in bytes of a file; FileNotFoundError when there is none. expected: its size, where that
        has just been looked for: a small file is read at once (s3fs asks for the size of what it opens)"""
        if expected is not None and expected <= CHUNK and not self.cheap_calls:
            with self._errors("read", relative):
                data = self.backend.read(self.path(relative), None)
            return hashlib.sha256(data).hexdigest(), len(data)
        digest, size = hashlib.sha256(), 0
        with self._errors("read", relative), self.backend.open(self.path(relative)) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def check_exists(self) -> None:
        """StorageError when it is a local folder that is not there; a prefix of an object store is there when something
        is under it."""
        here = self.path_here
        if here is not None and not os.path.isdir(here):
            what = "is not a folder" if os.path.lexists(here) else "does not exist"
            raise StorageError(
                f"root {self.base} {what}; correct it, or create the folder (only `submit` and `adopt` create a root)"
            )

    def check_writable(self) -> None:
        """StorageError when nothing can be written here, or when an existing file can be created again. It leaves
        nothing behind, not even a folder that did not exist: the request may still be refused."""
        with self.backend.leaving_no_folder(self.base):
            self._check_writable(f"_probe-{uuid.uuid4().hex}")

    def _check_writable(self, probe: str) -> None:
        self.write(probe, b"")
        try:
            if self.create(probe, b"again"):
                raise StorageError(
                    f"{self.path()} allows an existing file to be created again (its store ignores conditional puts), "
                    "so two drivers could run at once; use a store that honours If-None-Match: *"
                )
        finally:
            self.remove(probe)

    def _errors(self, verb: str, relative: str) -> _Errors:
        return _Errors(self, verb, relative)


class _Errors:
    """The block that makes one call to the storage, whose errors become a StorageError. A class: as a generator it took
    as long as the call to a local disk itself (measured)."""

    __slots__ = ("_folder", "_relative", "_verb")

    def __init__(self, folder: Folder, verb: str, relative: str) -> None:
        self._folder, self._verb, self._relative = folder, verb, relative

    def __enter__(self) -> None:
        try:
            storage_call()
        except OSError as error:
            self.__exit__(type(error), error, None)
            raise
        global _calls
        with _lock:
            _calls += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, (StorageError, CorruptError)):
            return
        if isinstance(error, FileNotFoundError) and self._verb not in ("write", "create"):
            return  # what a caller may ask for; no folder to write to is a fault of the root
        advice = "check that the root exists, can be reached and is writable for this user"
        if isinstance(error, PermissionError) and (here := self._folder.path_here) is not None:
            advice = (
                f"{owner_text(here / self._relative)}, and this process runs as {this_user()}; streamupdate doctor "
                "names the command that mends the folders of an app"
            )
        path = self._folder.path(self._relative)  # every fsspec back end has its own exceptions:
        raise StorageError(f"cannot {self._verb} {path}: {type(error).__name__}: {error}; {advice}") from error
