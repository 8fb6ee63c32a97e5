"""This machine's disk, or what is mounted there.

A file is written under a hidden name in its own folder first; from there a rename (`write`) and a link (`create`) are
atomic.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import attrs

from ...errors import CorruptError
from .. import ownership
from . import durability
from .backend import CHUNK, Backend, FileNames

_TRIES = 20  # to write into a folder that somebody removes whenever it is empty, or remove one that is written into
# A link to a symbolic link, where that can be asked for
_AS_IT_IS: dict[str, Any] = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}


def _open(path: str, flags: int) -> int:
    """Return a file's descriptor; CorruptError for a pipe or a device, which may never end."""
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # without the last, opening a pipe would wait
    if stat.S_IFMT(os.fstat(file).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):  # reading a folder fails by itself
        os.close(file)
        raise CorruptError(f"{path} is not a regular file, but a pipe or a device; remove it")
    return file


@attrs.frozen
class Disk(Backend):
    """A local disk."""

    links = True
    cheap_calls = True
    renames = True
    touches = True
    empty_folders = True
    locks = True
    symlinks = True
    hadoop_checksums = True
    syncs: bool = attrs.field(default=True, eq=False)  # False: nothing certainly survives a power failure
    # the folder whose owner and mode are passed on to what is made below it (ownership.py); None: no such folder
    root: str | None = attrs.field(default=None, eq=False)

    def path_here(self, path: str) -> Path:
        return Path(path or "/")

    def address(self, path: str) -> str:
        return f"file://{path}"

    def read(self, path: str, first: int | None = None) -> bytes:
        file, found = _open(path, os.O_RDONLY), b""  # without a file object: half the time (measured), of thousands
        try:
            size = os.fstat(file).st_size + 1 if first is None else first
            while (first is None or len(found) < first) and (part := os.read(file, size)):
                found += part
        finally:
            os.close(file)
        return found[:first]

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb", opener=_open)

    def write(self, path: str, data: bytes, lasting: bool) -> None:
        temporary = self._temporary(path, data)
        try:
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if lasting:
            self._sync_folder_of(path)

    def create(self, path: str, data: bytes, unique: bool) -> bool:
        temporary = self._temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:  # NFS repeats a link whose answer got lost
            if not unique or not self.holds(path, data):
                return False
        finally:
            os.unlink(temporary)
        self._sync_folder_of(path)
        return True

    def _sync_folder_of(self, path: str) -> None:
        if self.syncs:
            durability.sync_folder(os.path.dirname(path))

    def _temporary(self, path: str, data: bytes) -> str:
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}")
        for again in range(_TRIES, -1, -1):
            try:
                self._make_folder(folder, self.syncs)
                file = open(temporary, "wb")  # noqa: SIM115 (closed below)
                break
            except (FileNotFoundError, FileExistsError):  # somebody removes the folder, because it is empty
                if not again:
                    raise
        try:
            with file:
                self._share(temporary, file.fileno())
                file.write(data)
                if self.syncs:
                    file.flush()
                    durability.flush(file.fileno())
        except BaseException:  # a full disk, above all: what is left would make it fuller
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary

    def _make_folder(self, path: str, lasting: bool) -> None:
        """Make a folder and those above it that are missing; `lasting`: they last when this returns."""
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        self._make_folder(above, lasting)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            self._share(path, path)
        if lasting:
            durability.sync_folder(above)

    def _share(self, path: str, made: str | int) -> None:
        if self.root is not None and path.startswith(f"{self.root}/"):
            ownership.share(made, self.root)

    def copy_from(self, source: Backend, path: str, target: str) -> None:
        self._make_folder(os.path.dirname(target), lasting=False)
        if not isinstance(source, Disk):
            with source.open(path) as old, open(target, "wb") as new:
                self._share(target, new.fileno())
                shutil.copyfileobj(old, new, CHUNK)
            return
        try:
            os.link(path, target, **_AS_IT_IS)
        except FileExistsError:
            return
        except OSError:  # another disk, or a file system without links
            shutil.copyfile(path, target, follow_symlinks=False)
            if not os.path.islink(target):
                self._share(target, target)

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def files(self, path: str, hidden: bool) -> list[str]:
        found: list[str] = []
        if hidden:
            for top, _, names in os.walk(path):
                inner = os.path.relpath(top, path)
                found += names if inner == "." else [f"{inner}/{name}" for name in names]
            return found
        folders = [""]
        while folders:
            inner = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(path, inner)))
            except FileNotFoundError:
                if not inner:
                    raise
                continue  # removed meanwhile
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                below = f"{inner}/{entry.name}" if inner else entry.name
                (folders if entry.is_dir(follow_symlinks=False) else found).append(below)
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            if os.path.islink(path):  # one that leads nowhere
                return 0
            raise

    def modified(self, path: str) -> float:
        return os.stat(path).st_mtime

    def file_names(self, path: str) -> FileNames:
        there = os.lstat(path)
        return FileNames((there.st_dev, there.st_ino), there.st_nlink, there.st_size)

    def rename(self, path: str, target: str) -> None:
        os.rename(path, target)

    def touch(self, path: str) -> None:
        os.utime(path)

    def remove(self, path: str) -> None:
        """Whatever is written into it meanwhile: a query that was stopped has tasks that still write state, and a
        folder they wrote into after it was listed is not empty (ENOTEMPTY)."""
        if os.path.islink(path) or not os.path.isdir(path):
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

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool:
        """A process that removes a file this way locks that very file (not its path), so the file at the path stays the
        locked one until it is removed."""
        path = f"{base}/{relative}"
        removed = _unlink_exactly(path, data)
        if removed:  # for good, before anything that it speaks of is removed
            self._sync_folder_of(path)
        return removed

    def remove_empty(self, path: str) -> None:
        os.rmdir(path)

    def device(self, path: str) -> int:
        return os.stat(_nearest(path)).st_dev

    def free(self, path: str) -> int:
        found = os.statvfs(_nearest(path))
        return found.f_bavail * found.f_frsize

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        number = os.open(_nearest(path), os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(number, fcntl.LOCK_EX)
            yield
        finally:
            os.close(number)

    @contextlib.contextmanager
    def leaving_no_folder(self, path: str) -> Iterator[None]:
        there = _nearest(path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                while path != there:
                    os.rmdir(path)
                    path = os.path.dirname(path)

    def sync(self, base: str, paths: Iterable[str], but: Collection[str]) -> None:
        durability.sync(base, paths, but)

    def check_regular(self, base: str, relative: str, known: set[str]) -> None:
        """Do nothing when there is no such file. (A reader of a pipe would wait for ever.)"""
        at, segments = base, relative.split("/")
        for number, segment in enumerate(segments, 1):
            at, last = f"{at}/{segment}", number == len(segments)
            if at in known:
                continue
            try:
                mode = os.lstat(at).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return
            if stat.S_ISLNK(mode):
                raise CorruptError(
                    f"{at} is a symbolic link; links inside a checkpoint or snapshot are not followed, because they "
                    "may lead anywhere: put the file itself there, or use another one"
                )
            if last and not stat.S_ISREG(mode):
                raise CorruptError(f"{at} is not a regular file; use another checkpoint or snapshot")
            if not last:
                known.add(at)


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
