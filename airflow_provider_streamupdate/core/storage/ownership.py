"""Who owns what is made in a folder that several users write to.

In a root whose folder others may write to (by its group, or all), whatever is made gets the folder's group and mode:
else an app's driver and the commands to it are closed to each other once two users work on it. What root makes belongs
to the folder's owner. Elsewhere everything is as the umask has it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path

from ..users import group_name, this_user, user_name

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


def unwritable(folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that is there and that this process's user cannot write to."""
    needed = os.W_OK | os.X_OK
    return next((each for each in folders if each.is_dir() and not os.access(each, needed, effective_ids=True)), None)


def owner_text(path: str | os.PathLike[str]) -> str:
    """Return whose a path is; of one that is not there, or cannot be looked at, whose the nearest folder above it."""
    at = os.path.abspath(path)
    while True:
        try:
            found = os.stat(at)
        except OSError:
            at = os.path.dirname(at)
        else:
            return f"{at} belongs to {user_name(found.st_uid)} (mode {stat.S_IMODE(found.st_mode):04o})"


def refusal(root: Path, app: Path, folder: Path) -> str:
    """Return why this process cannot write to a folder of an app, and what mends it."""
    return f"{owner_text(folder)}, so that {this_user()} cannot write there: {command_to_mend(root, app)}"


def command_to_mend(root: Path, app: Path) -> str:
    """Return the command that gives an app's folder to the users of its root."""
    owner, quoted = root.stat(), shlex.quote(str(app))
    users = "ug" if owner.st_mode & stat.S_IWGRP else "u"
    return (
        f"as root, run chown -R {user_name(owner.st_uid)}:{group_name(owner.st_gid)} {quoted} && "
        f"chmod -R {users}+rwX {quoted}"
    )
