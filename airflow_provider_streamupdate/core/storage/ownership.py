"""Who owns what is made in a folder that several users write to.

In a root whose folder others may write to (by its group, or all), whatever is made gets the folder's group and mode:
else an app's driver and the commands to it are closed to each other once two users work on it. What root makes belongs
to the folder's owner. Elsewhere everything is as the umask has it.
"""

from __future__ import annotations

import contextlib
import os
import stat

AS_IT_IS = -1


def umask_in(folder: str) -> int:
    """Return the umask for a process that writes into a folder: `AS_IT_IS` for one that nobody shares."""
    mode = os.stat(folder).st_mode
    return ~mode & 0o777 if _is_shared(mode) else AS_IT_IS


def share(made: str | int, folder: str) -> None:
    """Give a file or folder that was just made (its path or descriptor) the owner, group and mode it needs below
    `folder`."""
    try:
        above = os.stat(folder)
    except FileNotFoundError:
        return
    by_root = os.geteuid() == 0 and above.st_uid != 0
    if not (by_root or _is_shared(above.st_mode)):
        return
    # Only a member of the group can set it; NFS may map root to nobody.
    with contextlib.suppress(PermissionError):
        os.chown(made, above.st_uid if by_root else AS_IT_IS, above.st_gid)
    if _is_shared(above.st_mode):
        most = 0o2777 if stat.S_ISDIR(os.stat(made).st_mode) else 0o666
        os.chmod(made, above.st_mode & most)


def _is_shared(mode: int) -> bool:
    return bool(mode & (stat.S_IWGRP | stat.S_IWOTH))


def foreign_folders(root: str, below: str) -> list[str]:
    """Return the folders below `below` that others made and that the root's users cannot write to. Those that only
    Spark writes are left out: there may be very many."""
    owner = os.stat(root)
    found: list[str] = []
    for folder, names, _ in os.walk(below):
        names[:] = [name for name in names if name not in ("checkpoint", "objects")]
        here = os.stat(folder)
        needed = owner.st_mode & (stat.S_IWGRP if here.st_gid == owner.st_gid else 0) | owner.st_mode & stat.S_IWOTH
        if here.st_uid != owner.st_uid and not here.st_mode & needed:
            found.append(folder)
    return found
