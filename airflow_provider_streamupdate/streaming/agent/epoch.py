"""A driver's right to run batches: its epoch, and the claim that makes it the only driver of it."""

from __future__ import annotations

import socket
import uuid

from ...core import clock
from ...core.boundaries import boundary
from ...core.errors import FencedError
from ...core.names import numbers
from ...core.processes.kernel import own_pid
from ...core.registry.deployment import DeploymentSpec, DriverClaim, Launch
from ...core.registry.registry import AppRegistry
from ...core.serde import to_json


class Epoch:
    """The right of a driver of deployment `spec` to run batches."""

    def __init__(self, app: AppRegistry, spec: DeploymentSpec, number: int) -> None:
        self.app = app
        self.spec = spec
        self.number = number
        self._waits = False  # the epoch before it may still be current
        self._beside = False  # the parent's may stay current while the update that started this driver is under way
        self.folder = app.deployment_folder(spec.deployment)
        self.drains = False  # the app was cancelled, and this driver may commit the batch in flight
        self.launch: Launch | None = None  # this driver's own

    def wait_for_turn(self) -> None:
        """Let the driver live before its epoch begins: the running deployment hands it over."""
        self._waits = True

    def run_beside_parent(self) -> None:
        """Let the driver run while its parent stays current, as long as the update is under way."""
        self._beside = True

    @property
    def runs_beside(self) -> bool:
        """Whether the driver may run while its parent stays current."""
        return self._beside

    def claim(self) -> bool:
        """Claim the epoch. Return whether this driver is its only one, however many are started."""
        token = uuid.uuid4().hex
        claim = DriverClaim(host=socket.gethostname(), pid=own_pid(), at=clock.now(), token=token)
        if not self.folder.create(f"drivers/{self.number}.json", to_json(claim), nonce=token):
            return False
        boundary("driver-claimed")
        return True

    def replaced(self) -> bool:
        """Return whether another driver of this deployment was started after this one: in a later epoch, or to get
        ready for the same one."""
        launch = self.app.launch(self.spec.deployment)
        if self.launch is not None and launch is not None and launch.mark != self.launch.mark:
            return True
        return any(number > self.number for number in numbers(self.folder.names("drivers")))

    def check_replaced(self) -> None:
        """Raise FencedError when another driver of this deployment was started after this one."""
        if self.replaced():
            raise FencedError(f"a later driver of deployment {self.spec.deployment} runs")

    def check(self) -> str | None:
        """Raise FencedError when the epoch is over. Return why this driver must end although it is not; None: it
        continues."""
        # Read before the epoch: the update of one that was promoted ends after its epoch has begun.
        update = self.app.update(self.spec.deployment) if self._beside else None
        current = self.app.current()
        if current is not None and current.cancelled is not None:
            its_own = (current.deployment, current.epoch) == (self.spec.deployment, self.number + 1)
            self.drains = current.cancelled.drain and (its_own or self._beside)
            return str(current.cancelled)
        before = current is not None and current.epoch < self.number
        if self._beside and before and current is not None and current.deployment == self.spec.parent:
            self.check_replaced()
            if update is None or update.outcome is not None:
                return "the update for which it ran beside the current deployment has ended"
            return None
        self._beside = False
        if self._waits and before:
            return None
        if current is None or (current.deployment, current.epoch) != (self.spec.deployment, self.number):
            holder = f"deployment {current.deployment} in epoch {current.epoch}" if current else "nobody"
            raise FencedError(
                f"epoch {self.number} of deployment {self.spec.deployment} is over: {holder} may commit now"
            )
        return None
