"""The rotation of the driver's output log. Unlimited, it fills the root's disk (measured: 1.5 GB a day for the demo).

spark-submit and the processes that it starts append to one file (O_APPEND), and open it once. So a full file is copied
and then emptied, as logrotate does with `copytruncate`: output written between the two is lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import attrs

from ..processes.repeating_thread import repeating
from .deployment import Launch
from .driver_settings import DriverSettings

LOOK_SECONDS = 5.0


@attrs.frozen
class OutputLog:
    """path: the file that is written to; limit: the size in bytes at which it is rotated; kept: how many older files
    are kept, as ``<path>.1`` (the newest), ``<path>.2`` ..."""

    path: Path
    limit: int
    kept: int

    @classmethod
    def of(cls, launch: Launch | None, settings: DriverSettings) -> OutputLog | None:
        """The log of this driver; None when it is on another machine."""
        if launch is None or launch.process is None or not launch.process.here():
            return None
        return cls(Path(launch.log), settings.log_bytes, settings.log_files)

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
