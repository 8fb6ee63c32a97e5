"""A private folder of this user below the system's temporary folder.

Its name can be guessed, and drivers run the code in it, so it is checked that no other user could have put files there.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ...core.errors import EnvironmentProblem


def private_folder(name: str) -> Path:
    """Return the folder; make it if it does not exist.

    EnvironmentProblem when it belongs to another user, is a link or a file, or others may write into it.
    """
    folder = Path(tempfile.gettempdir()) / f"streamupdate-{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "is not a folder (a link or a file)")
    if found.st_uid != os.getuid():
        raise _refused(folder, f"belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(folder, "can be written by other users")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        folder.chmod(0o700)  # made by an earlier version, readable by others
    return folder


def _refused(folder: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{folder} {why}, so another user could put code there that drivers would run: remove it, or set TMPDIR to a "
        "folder of your own"
    )
