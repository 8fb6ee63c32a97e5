"""A folder below the system's temporary one that is this user's alone, though everybody can guess its name: drivers run
what lies in it, so nobody else may have put it there."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ...core.errors import EnvironmentProblem


def private_folder(name: str) -> Path:
    """The folder, made where there is none. EnvironmentProblem when it is another user's, a link, no folder, or others
    may write into it."""
    folder = Path(tempfile.gettempdir()) / f"streamupdate-{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "is a link")
    if found.st_uid != os.getuid():
        raise _refused(folder, f"belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(folder, "can be written by other users")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        folder.chmod(0o700)  # made by an earlier version, readable by others
    return folder


def _refused(folder: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{folder} {why}, and drivers would run what lies in it: remove it, or set TMPDIR to a folder of your own"
    )
