"""Space on a root's file system: whether it is enough for the next write, and what a removal frees."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

from ..errors import NoRoomError, StorageError
from . import Folder

# Kept free beside what is written: for the heartbeats, leases and logs of all drivers under the root, each a few kB and
# replaced as a whole, and for a batch's own state files while the copy is under way.
MARGIN_BYTES = 16 << 20


def check_room(folder: Folder, needed: int, what: str) -> None:
    """Raise NoRoomError when writing `needed` bytes would fill the file system of `folder`. Nothing is refused where
    the free space is unknown (object stores, HDFS), nor where only links are made."""
    if needed <= 0 or (there := folder.free()) is None or needed + MARGIN_BYTES <= there:
        return
    raise NoRoomError(
        f"{what} needs {size(needed)} (plus {size(MARGIN_BYTES)} that are kept free), but only {size(there)} are free "
        f"at {folder.path()}; free some space (streamupdate gc, delete-snapshot) and try again. Nothing was written"
    )


def no_room(error: BaseException | None) -> bool:
    """Whether a call failed because the disk, or the quota, is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ if isinstance(error, StorageError) else None
    return False


def size(count: float) -> str:
    """Bytes for people, e.g. ``12.3 MB``; without a library, since it is said in the driver, too."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def bytes_freed(folder: Folder, groups: Sequence[Iterable[str]]) -> list[int]:
    """Return the bytes that removing all the paths frees, by group. A file with several names (hard links) counts in
    the group of the last one."""
    left: dict[object, int] = {}
    totals = []
    for paths in groups:
        total = 0
        for path in paths:
            try:
                there = folder.file_names(path)
            except FileNotFoundError:
                continue  # removed since it was listed
            left[there.file] = left.get(there.file, there.names) - 1
            total += there.size if left[there.file] == 0 else 0
        totals.append(total)
    return totals
