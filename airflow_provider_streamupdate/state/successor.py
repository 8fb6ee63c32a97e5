"""The deployment an old driver hands over to: how it gets on, seen through storage."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from .deployment import RUNNING, Launch, Status
from .errors import FencedError, NotRunningError
from .registry import AppRegistry


class Successor:
    """Who goes on in `epoch`."""

    def __init__(self, app: AppRegistry, deployment: str, epoch: int) -> None:
        self.app = app
        self.deployment = deployment
        self.epoch = epoch

    def check_ready(self) -> None:
        """NotRunningError when it does not stand by."""
        status = self._status()
        if status is None or (reason := _death(status, self._launch())):
            why = reason if status else "it has not started"
            raise NotRunningError(f"deployment {self.deployment} does not stand by in epoch {self.epoch}: {why}")

    def committed(self) -> bool:
        """Whether every query of it has committed a batch of its own, or has found nothing to do.

        FencedError when the epoch after it has begun: somebody else decides what runs now.
        """
        current = self.app.current()
        if current is None or (current.deployment, current.epoch) != (self.deployment, self.epoch):
            holder = f"deployment {current.deployment} in epoch {current.epoch}" if current else "nobody"
            raise FencedError(f"{self.deployment} was replaced while it took over: {holder} may commit now")
        status = self._status()
        return (
            status is not None
            and status.state == RUNNING
            and bool(status.queries)
            and all(q.first_batch is not None or q.idle for q in status.queries.values())
        )

    def death(self) -> str | None:
        """Why it will never commit; None while it may."""
        status = self._status()
        return "it has not started" if status is None else _death(status, self._launch())

    def _launch(self) -> Launch | None:
        launch = self.app.launch(self.deployment)
        return launch if launch is not None and launch.epoch == self.epoch else None

    def _status(self) -> Status | None:
        status = self.app.status(self.deployment)
        return status if status is not None and status.epoch == self.epoch else None


def _death(status: Status, launch: Launch | None) -> str | None:
    """The process that was started is spark-submit's: the JVM may outlive the Python process for a moment, and commit a
    batch in it. In a cluster it is another process, which cannot be looked at."""
    if status.final:
        return f"it is {status.state}: {status.error or status.reason or 'no reason given'}"
    here = status.host == socket.gethostname() and status.pid is not None
    if launch is not None and launch.yarn_tag is not None:
        here = False
    launched = launch.pid if launch is not None and launch.host == socket.gethostname() else None
    if here and not any(lives(pid) for pid in (status.pid, launched) if pid is not None):
        return f"its process {status.pid} ended without a word"
    return "it gives no sign of life" if status.silent else None


def lives(pid: int) -> bool:
    """Whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is there, but another user's
    with contextlib.suppress(OSError):  # without /proc a zombie looks alive until it gives no sign of life
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return True
