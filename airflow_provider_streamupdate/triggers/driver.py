"""The triggers that wait for a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..control.app_lease import keep
from ..control.update.strategies import strategy_named
from ..core.errors import DriverError, NotFoundError
from ..core.registry.deployment import FINAL_STATES
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class DriverTrigger(StreamUpdateTrigger):
    """Fires with its state when a deployment's driver is in one of `states`, or has ended (an error). See the base
    class."""

    deployment: str
    states: list[str]

    def poll(self, client: StreamUpdateClient) -> str | None:
        drivers = client.drivers(self.app)
        state = drivers.state(self.deployment)
        if state in FINAL_STATES and state not in self.states:
            raise DriverError(drivers.death(self.deployment, state))
        return str(state) if state in self.states else None

    def waiting_for(self, client: StreamUpdateClient) -> str:
        drivers = client.drivers(self.app)
        reason = drivers.cluster_message(self.deployment)
        return f"{self.deployment}, which is {drivers.state(self.deployment)}{f': {reason}' if reason else ''}"


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class ReadyTrigger(StreamUpdateTrigger):
    """Fires when an update's step `prepare` has nothing more to wait for. See the base class.

    The new version stands by and has caught up, or a driver has ended: the step knows what follows.

    Meanwhile it renews the lease for the update.
    """

    update: str  # the new deployment

    def poll(self, client: StreamUpdateClient) -> str | None:
        return None if self._missing(client) else self.update

    def waiting_for(self, client: StreamUpdateClient) -> str:
        return self._missing(client)

    def _missing(self, client: StreamUpdateClient) -> str:
        registry = client.registry.existing(self.app)
        if (record := registry.update(self.update)) is None:
            raise NotFoundError(f"app {self.app} has no update to {self.update} any more")
        keep(registry, record.runs)
        return strategy_named(record.strategy).getting_ready(client.context, record) if record.outcome is None else ""
