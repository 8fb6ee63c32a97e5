"""Requests on a deployment's health."""

from __future__ import annotations

from ..state.errors import StreamUpdateError
from ..state.snapshots import SnapshotStore
from .health import Health, assess
from .requests import Requests, quiet
from .waiting import Progress, wait_for


class HealthRequests(Requests):
    """The client's requests on a deployment's health."""

    def health(
        self,
        app: str,
        deployment: str | None = None,
        baseline_snapshot: str | None = None,
        batches: int = 2,
        run_for: float = 0.0,
    ) -> Health:
        """How a deployment (default: the current one) does, against what it was in a snapshot. See `health.assess`."""
        registry = self.registry.existing(app)
        deployment = deployment or self._current(registry)[0]
        registry.spec(deployment)
        drivers = self._drivers(registry)
        baseline = SnapshotStore(registry).get(baseline_snapshot) if baseline_snapshot else None
        return assess(deployment, drivers.state(deployment), drivers.status(deployment), baseline, batches, run_for)

    def wait_healthy(
        self,
        app: str,
        deployment: str | None = None,
        baseline_snapshot: str | None = None,
        timeout: float = 300.0,
        batches: int = 2,
        run_for: float = 0.0,
        progress: Progress = quiet,
    ) -> Health:
        """Until the deployment is healthy; StreamUpdateError when it fails or is not in time, with the reasons.
        timeout: seconds it gets beside `run_for`"""
        last: list[Health] = []

        def poll() -> Health | None:
            health = self.health(app, deployment, baseline_snapshot, batches, run_for)
            if not last or last[-1].reasons != health.reasons:
                progress("; ".join(health.reasons) or f"{app} is healthy")
            last.append(health)
            if health.failed:
                raise StreamUpdateError(f"{app} is not healthy: {'; '.join(health.reasons)}")
            return health if health.healthy else None

        try:
            return wait_for(poll, f"the health of {app}", timeout + run_for)
        except TimeoutError as error:
            reasons = "; ".join(last[-1].reasons) if last else "no status"
            raise StreamUpdateError(f"{app} is not healthy after {timeout + run_for:g} s: {reasons}") from error
