"""The rotation of the driver's output log. Unlimited, it fills the root's disk (measured: 1.5 GB a day for the demo).

spark-submit and the processes that it starts append to one file (O_APPEND), and open it once. So a full file is copied
and then emptied, as logrotate does with `copytruncate`: output written between the two is lost.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from pathlib import Path

import attrs

from ..processes.threads import repeating
from ..storage import Folder
from .deployment import Launch
from .driver_settings import DriverSettings

LOOK_SECONDS = 5.0
DEPLOYMENTS = "deployments"  # the private folder of this user (`private_name`) for drivers of a root elsewhere
_MADE = re.compile(r"[0-9a-f]{12}")  # tells deployments of one address apart (launch_files.py)
_NAME = re.compile(r"driver-\d+\.log")


def private_name(name: str) -> str:
    """Return the name of a folder of this user's, for `name`."""
    return f"streamupdate-{name}-{os.getuid()}"


def name_here(deployment: Folder) -> str:
    """Return the beginning of the name of a deployment's folder on this machine, for a root elsewhere."""
    return f"{re.sub(r'[/:]+', '_', deployment.address)}_"  # other stores have folders of the same path


def own_log(launch: Launch, deployment: Folder) -> Path | None:
    """Return the log of a deployment's driver, links resolved; None when launch.json names another file.

    Otherwise any user who can write to the root could have any file of this machine shown or emptied. So the log lies
    in the deployment's folder, or, of a root elsewhere, in the deployment's folder below one that only this user can
    have made.
    """
    log, here = Path(os.path.realpath(launch.log)), deployment.path_here
    if not _NAME.fullmatch(log.name):
        return None
    if here is not None:
        return log if log.parent == Path(os.path.realpath(here)) else None
    private = log.parent.parent
    try:
        found = os.lstat(private)
    except OSError:
        return None
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    own = private.name == private_name(DEPLOYMENTS) and found.st_uid == os.getuid() and not others_write
    beginning, _, rest = log.parent.name.rpartition("_")
    return log if own and f"{beginning}_" == name_here(deployment) and _MADE.fullmatch(rest) else None


@attrs.frozen
class OutputLog:
    """The driver's log and how it is rotated."""

    path: Path
    limit: int  # bytes, at which it is rotated
    kept: int  # older files, as ``<path>.1`` (the newest), ``<path>.2`` ...

    @classmethod
    def of(cls, launch: Launch | None, deployment: Folder, settings: DriverSettings) -> OutputLog | None:
        """Return the log of this driver; None when it is on another machine, or not a driver's log."""
        if launch is None or launch.process is None or not launch.process.here():
            return None
        path = own_log(launch, deployment)
        return cls(path, settings.log_bytes, settings.log_files) if path is not None else None

    def rotate(self) -> bool:
        """Rotate the log if it is too large; return whether it was. On a full disk the oldest file is removed to make
        room for the next attempt. OSError."""
        if self.path.stat().st_size < self.limit:
            return False
        if self.kept:
            copy = self.path.with_name(f"{self.path.name}.new")
            if copy.exists():  # a driver was killed here: what is in it may be nowhere else
                self._shift(copy)
            try:
                self._move_to(copy)
            except OSError:
                copy.unlink(missing_ok=True)
                self._drop_oldest()
                raise
            self._shift(copy)
        else:
            os.truncate(self.path, 0)
        return True

    def _move_to(self, copy: Path) -> None:
        with open(self.path, "rb") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
            target.flush()  # on a full disk nothing has been emptied yet
            rest = source.read()
            os.truncate(self.path, 0)  # at once: what is written after that read is lost
            target.write(rest)

    def _shift(self, copy: Path) -> None:
        for number in range(self.kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._older(number), self._older(number + 1))
        os.replace(copy, self._older(1))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _drop_oldest(self) -> None:
        for number in range(self.kept, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._older(number).unlink()
                return


def kept_short(log: OutputLog | None) -> contextlib.AbstractContextManager[None]:
    """Check the log every LOOK_SECONDS in a thread. A rotation that fails is tried again."""
    return contextlib.nullcontext() if log is None else repeating(LOOK_SECONDS, log.rotate, OSError)
