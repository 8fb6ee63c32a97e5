"""The trigger that waits until a deployment is healthy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..control.app_lease import keep
from ..core.errors import StreamUpdateError
from ..core.slo.limits import LONGEST_SECONDS
from ..hooks.xcom import plain
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient
    from ..control.operations.verification.health import Health


class HealthTrigger(StreamUpdateTrigger):
    """Fires when a deployment is healthy, or can no longer become healthy (an error). See the base class.

    Meanwhile it renews the lease for the update that brings the deployment in.

    deployment: the deployment; None: the current one
    baseline_snapshot: lag and state rows must be back to where they were in this snapshot
    batches: how many batches every query must have committed since its start
    run_for: seconds it must have run, and be healthy at the end
    slo: how much worse than in the hours before its update it may do; None: not compared
    longest: seconds after `run_for`, at most, that are waited for batches to judge by; None: as many as usual
    """

    def __init__(
        self,
        deployment: str | None = None,
        baseline_snapshot: str | None = None,
        batches: int = 2,
        run_for: float = 0.0,
        slo: list[str] | None = None,
        longest: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment = deployment
        self.baseline_snapshot = baseline_snapshot
        self.batches = batches
        self.run_for = run_for
        self.slo = slo
        self.longest = longest

    def arguments(self) -> dict[str, Any]:
        return {
            **super().arguments(),
            "deployment": self.deployment,
            "baseline_snapshot": self.baseline_snapshot,
            "batches": self.batches,
            "run_for": self.run_for,
            "slo": self.slo,
            "longest": self.longest,
        }

    def poll(self, client: StreamUpdateClient) -> dict[str, Any] | None:
        health = self._health(client)
        if health.failed:
            raise StreamUpdateError(f"app {self.app} is not healthy: {'; '.join(health.reasons)}")
        if not health.healthy:
            keep(client.registry.app(self.app), self.deployment)
            return None
        result: dict[str, Any] = plain(health)
        return result

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
