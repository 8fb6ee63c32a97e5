"""The deployment that an old driver hands over to, and its progress as seen through storage."""

from __future__ import annotations

import time

from ..errors import FencedError, NotRunningError
from ..processes.pulse import Pulse
from ..registry.deployment import RUNNING, SILENT_SECONDS, Launch, Status
from ..registry.registry import AppRegistry

POLL_SECONDS = 0.2  # how often one that seems silent is looked at


class Successor:
    """The deployment that continues in `epoch`."""

    def __init__(self, app: AppRegistry, deployment: str, epoch: int) -> None:
        self.app = app
        self.deployment = deployment
        self.epoch = epoch
        self._pulse = Pulse()

    def check_ready(self) -> None:
        """Raise NotRunningError when it is not standing by. If its last heartbeat seems old, by a clock that may be
        wrong, wait for the next one, for SILENT_SECONDS at most."""
        first = self._status()
        while True:
            status = self._status()
            why = self._death(status) if status is not None else "it has not started"
            if status is None or first is None or why is not None:
                raise NotRunningError(f"deployment {self.deployment} is not standing by in epoch {self.epoch}: {why}")
            if status.recent or status.pulse != first.pulse:
                return
            time.sleep(POLL_SECONDS)

    def committed(self) -> bool:
        """Whether each of its queries has committed its own batch, or has found nothing to do.

        FencedError when the epoch after it has begun: another deployment may commit now.
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
        """Why it will never commit; None while it still may."""
        status = self._status()
        return "it has not started" if status is None else self._death(status)

    def _launch(self) -> Launch | None:
        launch = self.app.launch(self.deployment)
        return launch if launch is not None and launch.epoch == self.epoch else None

    def _status(self) -> Status | None:
        status = self.app.status(self.deployment)
        return status if status is not None and status.epoch == self.epoch else None

    def _death(self, status: Status) -> str | None:
        """Why it is dead, independent of clocks: its processes are gone, or no new heartbeat came while it was
        watched."""
        if status.final:
            return f"it is {status.state}: {status.error or status.reason or 'no reason given'}"
        if _gone(status, self._launch()):
            return f"its process {status.pid} exited without a final status"
        quiet = self._pulse.look(self.deployment, status.pulse).quiet
        return f"it has given no sign of life for {quiet:.0f} s" if quiet >= SILENT_SECONDS else None


def _gone(status: Status, launch: Launch | None) -> bool:
    """Whether its processes have certainly ended. The process that was started is spark-submit's: the JVM may outlive
    the Python process for a moment, and commit a batch meanwhile. Where spark-submit handed the driver over to a
    cluster, its process says nothing about the driver."""
    if launch is None or launch.handed_over:
        return False
    both = (status.process, launch.process)
    return all(process is not None and process.lives() is False for process in both)
