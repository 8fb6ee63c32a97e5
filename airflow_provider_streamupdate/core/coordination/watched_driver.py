"""Another driver, as seen through storage."""

from __future__ import annotations

from collections.abc import Callable

from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.fence import fence
from ..processes.pulse import Pulse
from ..registry.deployment import SILENT_SECONDS, Status
from ..registry.registry import AppRegistry


class Watched:
    """The driver of `deployment` in `epoch`. Whether it is dead is found out without comparing clocks: its processes
    are gone, or no new heartbeat came while it was watched."""

    def __init__(self, app: AppRegistry, deployment: str, epoch: int) -> None:
        self.app = app
        self.deployment = deployment
        self.epoch = epoch
        self._pulse = Pulse()

    def status(self) -> Status | None:
        """Its last heartbeat; None before the first one."""
        status = self.app.status(self.deployment)
        return status if status is not None and status.epoch == self.epoch else None

    def death_of(self, status: Status) -> str | None:
        """Why one with this heartbeat will never commit; None while it still may."""
        if status.final:
            return f"it is {status.state}: {status.error or status.reason or 'no reason given'}"
        if self.is_gone(status):
            return f"its process {status.pid} exited without a final status"
        quiet = self._pulse.observe(self.deployment, status.pulse).quiet
        return f"it has given no sign of life for {quiet:.0f} s" if quiet >= SILENT_SECONDS else None

    def fence(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Keep it from beginning another batch, wherever it runs. goes_on: asked before each query; False: stop"""
        plan = self.app.plan(self.deployment)
        for query in plan.queries if plan is not None else ():
            if not goes_on():
                return
            fence(Checkpoint(self.app.checkpoint(self.deployment, query.name)))

    def is_gone(self, status: Status | None) -> bool:
        """Whether its processes have certainly ended. The process that was started is spark-submit's: the JVM may
        outlive the Python process for a moment, and commit a batch meanwhile. Where spark-submit handed the driver over
        to a cluster, its process says nothing about the driver."""
        launch = self.app.launch(self.deployment)
        if launch is None or launch.submitted or launch.epoch > self.epoch:
            return False
        if status is None and launch.epoch < self.epoch:  # of the driver before, or of one that took the app over
            return False
        both = (status.process if status else launch.process, launch.process)
        return all(process is not None and process.lives() is False for process in both)
