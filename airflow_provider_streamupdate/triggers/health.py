"""The trigger that waits until a deployment is healthy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..control.app_lease import keep
from ..core.errors import StreamUpdateError
from ..core.slo.limits import LONGEST_SECONDS
from ..hooks.xcom import plain_dict
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient
    from ..control.operations.verification.health import Health


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class HealthTrigger(StreamUpdateTrigger):
    """Fires when a deployment is healthy, or can no longer become healthy (an error). See the base class.

    Meanwhile it renews the lease for the update that brings the deployment in.
    """

    deployment: str | None = None  # None: the current one
    baseline_snapshot: str | None = None  # lag and state rows must be back to where they were in this snapshot
    batches: int = 2  # how many every query must have committed since its start
    run_for: float = 0.0  # seconds it must have run, and be healthy at the end
    slo: list[str] | None = None  # how much worse than in the hours before its update it may do; None: not compared
    longest: float | None = None  # seconds after `run_for`, at most, to wait for batches to judge by; None: as usual

    def poll(self, client: StreamUpdateClient) -> dict[str, Any] | None:
        health = self._health(client)
        if health.failed:
            raise StreamUpdateError(f"app {self.app} is not healthy: {'; '.join(health.reasons)}")
        if not health.healthy:
            keep(client.registry.app(self.app), self.deployment)
            return None
        return plain_dict(health)

    def waiting_for(self, client: StreamUpdateClient) -> str:
        reasons = "; ".join(self._health(client).reasons)
        return f"it to be healthy{': ' if reasons else ''}{reasons}"

    def _health(self, client: StreamUpdateClient) -> Health:
        return client.health(
            self.app,
            deployment=self.deployment,
            baseline_snapshot=self.baseline_snapshot,
            batches=self.batches,
            run_for=self.run_for,
            slo=self.slo,
            longest=LONGEST_SECONDS if self.longest is None else self.longest,
        )
