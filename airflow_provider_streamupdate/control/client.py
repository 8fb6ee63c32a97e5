"""The client: every request on apps, deployments and snapshots, for the command line and the Airflow side alike.

Requests that change something are idempotent: a rerun after a crash continues where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..core.registry.application import Application
from ..core.registry.deployment import NEW, Current, DeploymentSpec, DriverState, Launch, Status
from ..core.registry.update import Outcome, UpdateRecord
from .drivers.driver_log import LINES, DriverLog, driver_log
from .interruption import Interruption, interruption
from .next_step import next_step
from .operations.adopt import Adopted, AdoptRequests
from .operations.collect import CollectRequests
from .operations.rehearse import RehearseRequests
from .operations.requests import quiet
from .operations.restart import RestartRequests
from .operations.snapshot import SnapshotRequests
from .operations.stop import StopRequests
from .operations.submit import Deployed, SubmitRequests
from .operations.verify import HealthRequests
from .overview import Beside, OverviewRequests, beside
from .update import preflight, promotion, record, rollback
from .update.engine import UpdateEngine
from .update.options import UpdateOptions
from .update.strategies import strategy_named
from .waiting import Progress

__all__ = ["Adopted", "AppStatus", "Beside", "Deployed", "StreamUpdateClient", "UpdateOptions"]


@attrs.frozen(kw_only=True)
class AppStatus:
    """An app at a glance.

    state: its current deployment's, ``new`` before the first
    update: one under way; interrupted: what is known of it when nobody works on it
    beside: what it runs beside the current deployment
    """

    app: str
    state: DriverState
    current: Current | None
    spec: DeploymentSpec | None
    status: Status | None
    launch: Launch | None
    update: UpdateRecord | None
    beside: Beside | None = None
    interrupted: Interruption | None = None

    @property
    def next_step(self) -> str | None:
        """What to do about a dead driver or an interrupted update; None when nothing has to be done."""
        return next_step(self.app, self.state, self.current, self.update, self.interrupted)


class StreamUpdateClient(
    SnapshotRequests,
    CollectRequests,
    SubmitRequests,
    RestartRequests,
    RehearseRequests,
    StopRequests,
    HealthRequests,
    AdoptRequests,
    OverviewRequests,
):
    """All requests under one root: a part a file, and here what only looks and what makes an update of them.

    root: local path or fsspec URI of the registry; launcher: how drivers are started (None: reading only)
    """

    def status(self, app: str, watch: bool = True) -> AppStatus:
        """NotFoundError for an unknown app. watch: see `Drivers`; without, to show things at once."""
        registry = self.registry.existing(app)
        current = registry.current()
        drivers = self._drivers(registry, watch)
        update = next((u for u in reversed(registry.updates()) if u.outcome is None), None)
        if current is None:
            return AppStatus(
                app=app,
                state=NEW,
                current=None,
                spec=None,
                status=None,
                launch=None,
                update=update,
            )
        return AppStatus(
            app=app,
            state=drivers.state(current.deployment),
            current=current,
            spec=registry.spec(current.deployment),
            status=drivers.status(current.deployment),
            launch=registry.launch(current.deployment),
            update=update,
            beside=beside(registry, drivers, current, update),
            interrupted=interruption(registry, update),
        )

    def deployments(self, app: str) -> list[DeploymentSpec]:
        return self.registry.existing(app).deployments()

    def deployment_state(self, app: str, deployment: str) -> DriverState:
        registry = self.registry.existing(app)
        registry.spec(deployment)
        return self._drivers(registry, watch=False).state(deployment)

    def driver_log(self, app: str, deployment: str, lines: int = LINES) -> DriverLog:
        """The end of a driver's log. NotFoundError for an unknown deployment."""
        return driver_log(self.registry.existing(app), deployment, lines)

    def begin_update(self, app: str, deployment: str, digest: str = "", strategy: str = "restart") -> UpdateRecord:
        """Take (or renew) the app's lease for bringing in `deployment`, and write or read the update's record.
        LeaseHeldError when another update is under way, AlreadyExistsError when this one has ended, NotRunningError
        when there is nothing to update."""
        registry, in_place = self.registry.existing(app), strategy_named(strategy).in_place
        return record.begin(self, record.draft(registry, deployment, digest, strategy, in_place))

    def end_update(self, app: str, deployment: str, outcome: Outcome, reason: str | None = None) -> None:
        """Record how the update ended and give the lease back; nothing when it had ended already."""
        record.end(self, app, deployment, outcome, reason)

    def promote(self, app: str, deployment: str) -> UpdateRecord | None:
        """Make the deployment the one a rollback goes back to later; ends its update."""
        return promotion.promote(self, app, deployment)

    def rollback(
        self,
        app: str,
        deployment: str | None = None,
        timeout: float = 300.0,
        progress: Progress = quiet,
        asked_by: str | None = None,
        later_ids: Iterable[str] = (),
    ) -> Deployed | None:
        """Go back from `deployment` (default: what an update under way brings in, else the current one) to the one
        before it, at the state it was stopped with. Ends with that one running; None when it never stopped running.

        asked_by: for the rollback's record; None: this process's user and host
        later_ids: queries whose sink function skips batch ids it has had, and whose app does not say so (`seen_batch`):
            what they compute again gets ids after those that `deployment` used. InvalidInputError for another query
        """
        return rollback.rollback(
            self, app, deployment, timeout, progress, asked_by=asked_by, later_ids=tuple(later_ids)
        )

    def look_ahead(
        self,
        application: Application,
        deployment: str | None = None,
        snapshot: str | None = None,
        app: str | None = None,
    ) -> preflight.Unchanged | None:
        """What can be said of an update before a driver is started: AlreadyExistsError for a deployment id that was
        used before, LeaseHeldError while another update keeps the app; what it returns when the app runs this very
        application already. app: its name; None: as far as the application's file says it"""
        return preflight.look(self, application, deployment, snapshot, app)

    def update(self, options: UpdateOptions, progress: Progress = quiet) -> UpdateRecord:
        """The whole chain: plan, check, snapshot with cancel, submit from it, verify, promote; rolls back and raises
        when the new version fails after the old one was stopped. Run again after a crash, it continues."""
        return UpdateEngine(self, options, progress).update()
