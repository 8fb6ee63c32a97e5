"""Durability on a local disk.

POSIX promises nothing before fsync: of a file for its bytes, of its folder for its name. On macOS fsync only hands the
bytes to the drive; F_FULLFSYNC makes the drive write them (fsync(2) there).
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

if sys.platform != "win32":
    import fcntl

_AT_ONCE = 8  # concurrent fsyncs share the journal's commits
_SETTLED_NS = 2_000_000_000  # a file changed after its fsync has a later time of change, if it was this old then
_REMEMBERED = 200_000
# Folders of some network and FUSE file systems cannot be synced; there a name lasts when its creation has returned.
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)

_Version = tuple[int, int, int, int]  # of a file: device, inode, bytes, time of its last change
_synced: set[_Version] = set()  # that this process has synced
_lock = threading.Lock()


def flush(descriptor: int) -> None:
    """Make the bytes of an open file, or the names in an open folder, durable."""
    os.fsync(descriptor)
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:  # file systems without it: the fsync has to do
            if error.errno not in (*_NO_FOLDERS, errno.ENOTTY):
                raise


def sync_folder(path: str) -> None:
    """Make the names in a folder durable; nothing happens when the folder was removed meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        flush(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def sync(base: str, paths: Iterable[str], but: Collection[str] = ()) -> None:
    """The bytes and names of files, or of whole folders, below `base` last when this returns, and so do the names of
    the folders on the way to them. `but`: files whose bytes last already, whoever made them.

    A hard link shares its file's bytes: bytes that another process wrote through another name are synced, too (Spark
    syncs nothing). Files first, then folders; a file that vanished from a folder meanwhile is ignored.
    """
    files: dict[_Version, str] = {}
    folders: set[str] = set()
    for path in paths:
        full = os.path.join(base, path) if path else base
        if os.path.isdir(full):
            inner = list(_walk(full))
            folders.add(full)
            folders.update(p for p, is_folder in inner if is_folder)
            found = [p for p, is_folder in inner if not is_folder]
        else:
            found = [full]
        for file in found:
            if but and os.path.relpath(file, base) in but:
                continue
            try:
                version = _version(os.lstat(file))
            except FileNotFoundError:
                if file == full:
                    raise
                continue
            files.setdefault(version, file)
        above = full
        while above != base:
            above = os.path.dirname(above)
            folders.add(above)
    with _lock:
        missing = {version: file for version, file in files.items() if version not in _synced}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_sync_file, missing.values()))
        list(pool.map(sync_folder, folders))
    settled = time.time_ns() - _SETTLED_NS
    with _lock:
        if len(_synced) > _REMEMBERED:
            _synced.clear()
        _synced.update(version for version in missing if version[3] < settled)


def _version(found: os.stat_result) -> _Version:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths below a folder without links, and whether each is a folder."""
    with os.scandir(top) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.path, True
                yield from _walk(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, False


def _sync_file(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)
