"""A folder on any fsspec file system, with the few operations crash safety rests on.

`create` is exclusive and never shows a half-written file; `write` replaces atomically. On local disks both go through
a temporary file in the same folder (link and rename are atomic there), on HDFS, too (`hdfs.py`); object stores do it by
themselves (a put is atomic, and a conditional put is exclusive, which `check_writable` tries). What was listed is never
taken from fsspec's cache, because other processes write too. Folders there are empty objects whose names end with a
slash (Hadoop makes them), or nothing but the beginning of other names.

What outlasts a cut of power. On a local disk: what `write` and `create` have written when they return (the file and
its folder are synced); what `copy_from` brought, once a `sync` of it has returned. In an object store: what was put,
when that is acknowledged (S3 answers when an object is stored on several devices); `sync` has nothing to do. On HDFS: a
name when it is acknowledged (the namenode syncs its journal), and bytes against the loss of fewer datanodes than hold
them: a closed block is in the memory of each, and written to its disk at once where dfs.datanode.synconclose says so.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import attrs
import fsspec
from fsspec.dircache import DirCache
from fsspec.implementations.local import LocalFileSystem

from . import disk
from .boundaries import storage_call
from .errors import CorruptError, InvalidInputError, StorageError

CHUNK = 1 << 20  # bytes read at a time when hashing
_TRIES = 20  # to write into a folder that somebody removes whenever it is empty, or remove one that is written into
_HADOOP = {"s3": "s3a"}  # fsspec's protocol -> Hadoop's own name for the same store, where it has another
# Answers to a conditional put that mean the same as FileExistsError: not every store says which condition failed, and
# AWS answers the second of two that come at once with a conflict (PutObject, If-None-Match).
_REFUSED = ("PreconditionFailed", "412", "ConditionalRequestConflict")
# A link to a symbolic link, where that can be asked for
_AS_IT_IS: dict[str, Any] = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}


_REACH = "check its address, that its server runs, and the storage options (credentials)"
_LIBHDFS = (
    "Python reaches hdfs:// by Hadoop's native client only (libhdfs, JAVA_HOME, CLASSPATH). Give the same folder by "
    "the namenode's web address, which needs none: webhdfs://<namenode>:9870/<folder>"
)


@attrs.frozen
class Folder:
    """`base` is a path on `fs` without protocol. All paths given to the methods are relative to it.

    lasting: whether what is written on a local disk outlasts a cut of power
    """

    fs: Any
    base: str
    lasting: bool = attrs.field(default=True, eq=False)

    @classmethod
    def open(cls, uri: str, storage_options: dict[str, Any] | None = None) -> Folder:
        """The folder at a local path or fsspec URI; InvalidInputError when the protocol is not known."""
        if not uri or not str(uri).strip():
            raise InvalidInputError("the root is empty; give a folder or URI (--root, STREAMUPDATE_ROOT, connection)")
        try:
            fs, base = _connect(str(uri), storage_options or {})
        except (ValueError, ImportError) as error:
            raise InvalidInputError(
                f"root {uri!r} cannot be used: {error}; install the fsspec package for its protocol (for s3: s3fs, for "
                f"webhdfs: requests) into the environment of {sys.executable}, or correct it"
            ) from error
        except Exception as error:  # some connect at once, and every back end has its own exceptions
            first = str(error).partition("\n")[0]
            remedy = _LIBHDFS if "libjvm" in first or "libhdfs" in first else _REACH
            raise StorageError(f"root {uri!r} cannot be reached: {type(error).__name__}: {first}; {remedy}") from error
        if isinstance(cache := getattr(fs, "dircache", None), DirCache):
            cache.use_listings_cache = False
            cache.clear()
        return cls(fs, base.rstrip("/"))

    @classmethod
    def scratch(cls, path: str | os.PathLike[str]) -> Folder:
        """A local folder that nobody reads after this process: nothing in it is synced. (A check writes about thirty
        files and folders there; to sync them took as long as to compare the plans, measured.)"""
        return cls(LocalFileSystem(), os.path.abspath(path), lasting=False)

    @property
    def local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def links(self) -> bool:
        """Whether `copy_from` within it moves no bytes at all."""
        return self.local

    @property
    def uri(self) -> str:
        """The folder as Hadoop understands it."""
        if found := getattr(self.fs, "for_hadoop", None):
            return f"{found}{self.base}"
        protocol, separator, path = self.address.partition("://")
        return _HADOOP.get(protocol, protocol) + separator + path

    @property
    def address(self) -> str:
        """The folder as `open` understands it."""
        return f"file://{self.base}" if self.local else str(self.fs.unstrip_protocol(self.base))

    def path(self, relative: str = "") -> str:
        return f"{self.base}/{relative}" if relative else self.base

    def sub(self, relative: str) -> Folder:
        return Folder(self.fs, self.path(relative), self.lasting)

    def read(self, relative: str, first: int | None = None) -> bytes | None:
        """The bytes of a file, or its `first` ones; None when there is none."""
        with self._errors("read", relative):
            try:
                if self.local:
                    with open(self.path(relative), "rb") as file:
                        return file.read(-1 if first is None else first)
                return bytes(self.fs.cat_file(self.path(relative), end=first))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, relative: str, data: bytes, lasting: bool = True) -> None:
        """Create or replace a file atomically. It outlasts a cut of power, unless it need not be `lasting`: then the
        one it replaced may come back, whole."""
        with self._errors("write", relative):
            if not self.local:
                self.fs.pipe_file(self.path(relative), data)
                return
            temporary = self._temporary(relative, data)
            try:
                os.replace(temporary, self.path(relative))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            if lasting and self.lasting:
                disk.sync_folder(os.path.dirname(temporary))

    def create(self, relative: str, data: bytes, nonce: str | None = None) -> bool:
        """Create a file that did not exist; False when it does (the only lock primitive used anywhere). It outlasts a
        cut of power.

        nonce: a text in `data` that nobody else writes. With it, a file that holds exactly `data` was created by this
        call, though its answer got lost: a client that repeats the request is then told that the file exists (botocore
        repeats a put by itself, NFS a link).
        """
        if nonce is not None and nonce.encode() not in data:
            raise ValueError("the nonce is not in the data")
        with self._errors("create", relative):
            if not self.local:
                return self._create_remotely(relative, data, nonce is not None)
            temporary = self._temporary(relative, data)
            try:
                os.link(temporary, self.path(relative))
            except FileExistsError:
                if nonce is None or not self._holds(relative, data):
                    return False
            finally:
                os.unlink(temporary)
            if self.lasting:
                disk.sync_folder(os.path.dirname(temporary))
            return True

    def _create_remotely(self, relative: str, data: bytes, unique: bool) -> bool:
        try:
            self.fs.pipe_file(self.path(relative), data, mode="create")
        except Exception as error:  # every fsspec back end has its own exceptions
            if isinstance(error, FileExistsError) or (isinstance(error, OSError) and _code(error) in _REFUSED):
                # One that cannot be read now is raised: whose it is, is not known.
                return unique and bytes(self.fs.cat_file(self.path(relative))) == data
            if unique and self._holds(relative, data):
                return True
            raise
        return True

    def _holds(self, relative: str, data: bytes) -> bool:
        """Whether a file holds exactly this; False, too, when it cannot be read."""
        try:
            return bytes(self.fs.cat_file(self.path(relative))) == data
        except Exception:  # every fsspec back end has its own exceptions; the caller has one of the create
            return False

    def sync(self, paths: Iterable[str], but: Collection[str] = ()) -> None:
        """Files, or whole folders, outlast a cut of power when this returns, whoever wrote them, and so do the folders
        on the way to them. `but`: files whose bytes do so already."""
        if self.local and self.lasting:
            with self._errors("sync", ""):
                disk.sync(self.base, paths, but)

    def check_regular(self, relative: str, known: set[str]) -> None:
        """CorruptError when a file, or a folder on the way to it from here, is a symbolic link, or it is no plain file.
        `known`: folders that were found to be none; added to. (Neither object stores nor HDFS have links: Hadoop
        switched them off, HADOOP-10019.)"""
        if self.local:
            with self._errors("look for", relative):
                disk.check_regular(self.base, relative, known)

    def names(self, relative: str = "") -> list[str]:
        """Names directly below a folder, sorted, hidden ones left out; empty when there is no such folder."""
        with self._errors("list", relative):
            try:
                if self.local:
                    found = os.listdir(self.path(relative))
                else:
                    top = self.path(relative)
                    self.fs.invalidate_cache(top)
                    listed = (p.rstrip("/") for p in self.fs.ls(top, detail=False))
                    found = [p.rsplit("/", 1)[-1] for p in listed if p.strip("/") != top.strip("/")]
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                if not relative:  # this very folder is a file, or lies below one
                    raise
                return []
        return sorted(n for n in found if n and not n.startswith("."))

    def newest(self, paths: Sequence[str]) -> str | None:
        """The file that was written last; None of none."""
        return paths[0] if len(paths) == 1 else max(paths, key=lambda path: (self.modified(path), path), default=None)

    def files(self, relative: str = "") -> list[str]:
        """Paths, relative to `relative`, of all files below it, sorted; hidden ones left out. A symbolic link is one of
        them: none is followed."""
        with self._errors("list", relative):
            top = self.path(relative)
            try:
                if self.local:
                    return sorted(disk.files_below(top))
                self.fs.invalidate_cache()
                found = self.fs.find(top)
            except (FileNotFoundError, NotADirectoryError):
                return []
        paths = [p[len(top) :].lstrip("/") for p in found if not p.endswith("/")]
        return sorted(p for p in paths if p and not any(part.startswith(".") for part in p.split("/")))

    def exists(self, relative: str) -> bool:
        with self._errors("look for", relative):
            if self.local:
                return os.path.exists(self.path(relative))
            self.fs.invalidate_cache()
            return bool(self.fs.exists(self.path(relative)))

    def size(self, relative: str) -> int:
        """Bytes; FileNotFoundError when there is no such file."""
        with self._errors("look for", relative):
            return int(self.fs.size(self.path(relative)))

    def modified(self, relative: str) -> float:
        """Time of the last write, seconds since the epoch."""
        with self._errors("look for", relative):
            if self.local:
                return os.stat(self.path(relative)).st_mtime
            return float(self.fs.modified(self.path(relative)).timestamp())

    def remove(self, relative: str) -> None:
        """Remove a file or a whole folder; nothing when there is none."""
        with self._errors("remove", relative), contextlib.suppress(FileNotFoundError):
            if self.local and os.path.islink(self.path(relative)):
                os.unlink(self.path(relative))
            elif self.local:
                _remove_tree(self.path(relative))
            else:
                self.fs.rm(self.path(relative), recursive=True)

    def remove_exactly(self, relative: str, data: bytes) -> bool | None:
        """Remove a file if it holds `data`, in one step: a newer one in its place is never hit, however long this
        process slept after it had looked. Creates nothing. False: it is gone, or another one; None: this store cannot
        do that.

        On a local disk whoever removes a file this way holds a lock on that very file (not on its path), so that the
        file at the path stays the locked one until it is removed. HDFS removes by the file's own number, an S3 store by
        a conditional delete (If-Match), if it knows them, which is tried.
        """
        with self._errors("remove", relative):
            if self.local:
                removed = _unlink_exactly(self.path(relative), data)
                if removed and self.lasting:  # for good, before anything that it speaks of is removed
                    disk.sync_folder(os.path.dirname(self.path(relative)))
                return removed
            if (remove := getattr(self.fs, "rm_exactly", None)) is not None:
                return bool(remove(self.path(relative), data))
            if hasattr(self.fs, "call_s3"):
                return self._delete_if_match(relative, data)
        return None

    def _delete_if_match(self, relative: str, data: bytes) -> bool | None:
        probe = f"_probe-{uuid.uuid4().hex}"
        self.write(probe, b"")
        try:
            if self._deleted(probe, '"0"'):
                return None  # the condition was ignored
        finally:
            self.remove(probe)
        try:
            self.fs.invalidate_cache()
            tag = str(self.fs.info(self.path(relative))["ETag"])
        except FileNotFoundError:
            return False
        return self.read(relative) == data and self._deleted(relative, tag)

    def _deleted(self, relative: str, tag: str) -> bool:
        """Whether an object was deleted, under the condition that its entity tag is this one."""
        bucket, key, _ = self.fs.split_path(self.path(relative))
        try:
            self.fs.call_s3("delete_object", Bucket=bucket, Key=key, IfMatch=tag)
        except (FileNotFoundError, FileExistsError):
            return False
        except OSError as error:
            if _code(error) not in (*_REFUSED, "NoSuchKey"):
                raise
            return False
        return True

    def remove_empty(self, relative: str) -> None:
        """Remove a folder if nothing is in it; object stores have none."""
        with contextlib.suppress(OSError):
            if self.local:
                os.rmdir(self.path(relative))
            elif (remove := getattr(self.fs, "rm_empty", None)) is not None:
                remove(self.path(relative))

    def touch(self, relative: str) -> None:
        """A sign of life that takes no room, where the file system has one: a local file's time of writing becomes now.
        Nothing elsewhere; FileNotFoundError when there is no such file."""
        if self.local:
            with self._errors("look for", relative):
                os.utime(self.path(relative))

    def same_disk(self, other: Folder) -> bool:
        """Whether `copy_from` of the other folder only links."""
        return self.local and other.local and _device(self.base) == _device(other.base)

    def free(self) -> int | None:
        """Bytes that can still be written here; None where that cannot be told."""
        if not self.local:
            return None
        with self._errors("look for", ""):
            found = os.statvfs(_nearest(self.base))
            return found.f_bavail * found.f_frsize

    @contextlib.contextmanager
    def locked(self, relative: str = "") -> Iterator[None]:
        """Inside the block no other process of this machine is inside one for the same folder. Creates nothing, and
        ends with the process. On a local file system only; elsewhere it keeps nobody out."""
        if not self.local:
            yield
            return
        with self._errors("lock", relative):
            number = os.open(_nearest(self.path(relative)), os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(number, fcntl.LOCK_EX)
            yield
        finally:
            os.close(number)

    def copy_from(self, source: Folder, path: str, relative: str) -> None:
        """Bring an immutable file here without moving its bytes through this process where that is possible:
        a hard link on one local disk, a server-side copy on one object store. On a local disk it outlasts a cut of
        power after a `sync` only: one for many files is much cheaper. A symbolic link is brought as one."""
        with self._errors("copy to", relative):
            target = self.path(relative)
            if self.local:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            if self.local and source.local:
                try:
                    os.link(source.path(path), target, **_AS_IT_IS)
                except FileExistsError:
                    return
                except OSError:  # another disk, or a file system without links
                    shutil.copyfile(source.path(path), target, follow_symlinks=False)
            elif type(self.fs) is type(source.fs):
                self.fs.cp_file(source.path(path), target)
            elif source.local:
                self.fs.put_file(source.path(path), target)
            else:
                with source.fs.open(source.path(path), "rb") as old, self.fs.open(target, "wb") as new:
                    shutil.copyfileobj(old, new, CHUNK)

    def sha256(self, relative: str) -> tuple[str, int]:
        """Checksum and size in bytes of a file; FileNotFoundError when there is none."""
        digest, size = hashlib.sha256(), 0
        with self._errors("read", relative), self.fs.open(self.path(relative), "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def check_exists(self) -> None:
        """StorageError when it is a local folder that is not there; a prefix of an object store is there when something
        is under it."""
        if self.local and not os.path.isdir(self.base):
            what = "is no folder" if os.path.lexists(self.base) else "does not exist"
            raise StorageError(
                f"root {self.base} {what}; correct it, or make the folder (only `submit` and `adopt` make a root)"
            )

    def check_writable(self) -> None:
        """StorageError when nothing can be written here, or when a file can be created that is there already. Leaves
        nothing, not the folder either when it was not there: what asks may still be refused."""
        there = _nearest(self.base) if self.local else self.base
        try:
            self._check_writable(f"_probe-{uuid.uuid4().hex}")
        finally:
            _remove_made(self.base, there)

    def _check_writable(self, probe: str) -> None:
        self.write(probe, b"")
        try:
            if self.create(probe, b"again"):
                raise StorageError(
                    f"{self.path()} lets a file be created that is there already (its store ignores conditional puts), "
                    "so that two drivers could run at once; use a store that honours If-None-Match: *"
                )
        finally:
            self.remove(probe)

    def _temporary(self, relative: str, data: bytes) -> str:
        folder = os.path.dirname(self.path(relative))
        temporary = os.path.join(folder, f".{os.path.basename(relative)}.{uuid.uuid4().hex}")
        for again in range(_TRIES, -1, -1):
            try:
                if self.lasting:
                    disk.make_folder(folder)
                else:
                    os.makedirs(folder, exist_ok=True)
                file = open(temporary, "wb")  # noqa: SIM115 (closed below)
                break
            except (FileNotFoundError, FileExistsError):  # somebody removes the folder, because it is empty
                if not again:
                    raise
        try:
            with file:
                file.write(data)
                if self.lasting:
                    file.flush()
                    disk.flush(file.fileno())
        except BaseException:  # a full disk, above all: what is left would make it fuller
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary

    @contextlib.contextmanager
    def _errors(self, verb: str, relative: str) -> Iterator[None]:
        try:
            storage_call()
            yield
        except (StorageError, CorruptError):
            raise
        except Exception as error:  # every fsspec back end has its own exceptions
            if isinstance(error, FileNotFoundError) and verb not in ("write", "create"):
                raise  # what a caller may ask for; no folder to write to is a fault of the root
            raise StorageError(
                f"cannot {verb} {self.path(relative)}: {type(error).__name__}: {error}; "
                "check that the root exists, can be reached and is writable for this user"
            ) from error


def _remove_tree(path: str) -> None:
    """A file or a folder on a local disk, whatever is written into it meanwhile: a query that was stopped has tasks
    that still write state, and a folder they wrote into after it was listed is not empty (ENOTEMPTY)."""
    if not os.path.isdir(path):
        os.unlink(path)
        return
    for again in range(_TRIES, -1, -1):
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:  # of a file in it: somebody else removes
            if not os.path.lexists(path):
                return
            if not again:
                raise
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not again:
                raise


def _remove_made(path: str, there: str) -> None:
    """Remove a local folder and those above it, up to `there`, as far as they are empty."""
    with contextlib.suppress(OSError):
        while path != there:
            os.rmdir(path)
            path = os.path.dirname(path)


def _connect(uri: str, options: dict[str, Any]) -> tuple[Any, str]:
    if uri.partition("://")[0].lower() in ("webhdfs", "swebhdfs"):
        from .hdfs import Hdfs  # needs requests, which no other root does

        return Hdfs.open_uri(uri, options)
    found: tuple[Any, str] = fsspec.core.url_to_fs(uri, **options)
    return found


def _unlink_exactly(path: str, data: bytes) -> bool:
    try:
        file = open(path, "r+b")  # noqa: SIM115 (closed below); for writing: NFS locks nothing else
    except (FileNotFoundError, NotADirectoryError):
        return False
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            there = os.stat(path)
        except FileNotFoundError:
            return False
        mine = os.fstat(file.fileno())
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino) or file.read() != data:
            return False
        os.unlink(path)
        return True


def _nearest(path: str) -> str:
    """The folder, or the nearest above it that is there."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _device(path: str) -> int:
    return os.stat(_nearest(path)).st_dev


def _code(error: OSError) -> str | None:
    """What an S3 server called an error that s3fs has made an OSError of (botocore's ClientError is its cause)."""
    response = getattr(error.__cause__, "response", None)
    return str(response["Error"].get("Code")) if isinstance(response, dict) and "Error" in response else None
