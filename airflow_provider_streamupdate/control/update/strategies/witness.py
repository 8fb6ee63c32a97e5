"""The driver that runs the old version's code along with the new version's, to compare their rows."""

from __future__ import annotations

from ....core.errors import DriverError, InvalidInputError
from ....core.registry.deployment import FINAL_STATES, NEW, DriverRole, DriverState, QueryStatus
from ....core.registry.registry import AppRegistry
from ...operations.context import Context
from ...operations.stop import stop_deployment
from ...operations.version import store_copy
from ..update import Update


class Witness:
    """The witness of the update that brings in the deployment `new`. It is a deployment of its own, `name`."""

    def __init__(self, context: Context, registry: AppRegistry, new: str) -> None:
        self.name = f"{new}-witness"
        self._context, self._registry, self._new = context, registry, new
        self._owner = f"witness of {new}"

    @classmethod
    def of(cls, update: Update) -> Witness:
        return cls(update.context, update.registry, update.record.new)

    def check_name(self) -> None:
        """Raise InvalidInputError when another deployment has its name."""
        if self.name in self._registry.deployment_ids() and self._registry.spec(self.name).owner != self._owner:
            raise InvalidInputError(
                f"rows cannot be compared (--diff): the driver for it would be deployment {self.name}, and "
                f"{self._registry.name} has a deployment of that name; give the new version another id (--deployment)"
            )

    def start(self, update: Update, batches: int) -> None:
        """Start the witness unless it runs. batches: how many of the running version's last batches it begins with"""
        registry, drivers = self._registry, update.drivers
        old, epoch = registry.running()
        if self.name not in registry.deployment_ids():
            store_copy(registry, old, self.name, owner=self._owner)
        if not self.lives:
            drivers.start_beside(registry.spec(self.name), epoch + 1, DriverRole.WITNESS, batches, self._new)
            update.progress(f"{self.name}: driver started, to compare the rows of {self._new} with those of {old}")

    def end(self) -> None:
        """End the witness if it was started: the hand-over needs its processors."""
        if self._registry.launch(self.name) is not None and self._registry.spec(self.name).owner == self._owner:
            stop_deployment(self._context, self._registry.name, self.name)

    @property
    def state(self) -> DriverState:
        return self._context.drivers(self._registry).state(self.name)

    @property
    def lives(self) -> bool:
        return self.state not in (*FINAL_STATES, NEW)

    @property
    def ended(self) -> bool:
        """True once the witness has run and ended."""
        return self.state in FINAL_STATES

    def check(self, update: Update) -> None:
        """Raise DriverError when the witness has ended."""
        if (state := self.state) in FINAL_STATES:
            raise DriverError(
                f"the rows of {self._new} and {update.record.old} cannot be compared: "
                f"{update.drivers.death(self.name, state)}"
            )

    def query(self, name: str) -> QueryStatus | None:
        """Return the witness's last status of a query."""
        status = self._registry.status(self.name)
        return status.queries.get(name) if status is not None else None
