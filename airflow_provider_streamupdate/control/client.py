"""The client: every request on apps, deployments and snapshots, for the command line and the Airflow side alike.

Requests that change something are idempotent: a rerun after a crash continues where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ..state.application import Application
from ..state.deployment import Current, DeploymentSpec, Launch, Status
from ..state.update import RESTART, STANDBY, UpdateRecord
from . import preflight, recording, reverting, updating
from .adopting import Adopted, AdoptRequests
from .changing import ChangeRequests
from .collecting import CollectRequests
from .drivers import NEW
from .handover import HandoverRequests
from .interruption import Interruption, interruption
from .next_step import next_step
from .overview import Beside, OverviewRequests, beside
from .parallel import ParallelRequests, SideBySide
from .rehearsing import RehearseRequests
from .requests import quiet
from .restarting import RestartRequests
from .snapshotting import SnapshotRequests
from .stopping import StopRequests
from .submitting import Deployed, SubmitRequests
from .verifying import HealthRequests
from .waiting import Progress

__all__ = ["Adopted", "AppStatus", "Beside", "Deployed", "SideBySide", "StreamUpdateClient"]


@attrs.frozen(kw_only=True)
class AppStatus:
    """An app at a glance.

    state: its current deployment's, ``new`` before the first
    update: one under way; interrupted: what is known of it when nobody works on it
    beside: what it runs beside the current deployment
    """

    app: str
    state: str
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
    ParallelRequests,
    SnapshotRequests,
    CollectRequests,
    SubmitRequests,
    RestartRequests,
    RehearseRequests,
    HandoverRequests,
    ChangeRequests,
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

    def deployment_state(self, app: str, deployment: str) -> str:
        registry = self.registry.existing(app)
        registry.spec(deployment)
        return self._drivers(registry, watch=False).state(deployment)

    def driver_log(self, app: str, deployment: str) -> str | None:
        return self._drivers(self.registry.existing(app)).log(deployment)

    def log_tail(self, app: str, deployment: str, lines: int = 30) -> str:
        return self._drivers(self.registry.existing(app)).log_tail(deployment, lines)

    def begin_update(self, app: str, deployment: str, digest: str = "", strategy: str = RESTART) -> UpdateRecord:
        """Take (or renew) the app's lease for bringing in `deployment`, and write or read the update's record.
        LeaseHeldError when another update is under way, AlreadyExistsError when this one has ended, NotRunningError
        when there is nothing to update."""
        return recording.begin(self, app, deployment, digest, strategy)

    def end_update(self, app: str, deployment: str, outcome: str, reason: str | None = None) -> None:
        """Record how the update ended and give the lease back; nothing when it had ended already."""
        recording.end(self, app, deployment, outcome, reason)

    def promote(self, app: str, deployment: str) -> UpdateRecord | None:
        """Make the deployment the one a rollback goes back to later; ends its update."""
        return recording.promote(self, app, deployment)

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
        return reverting.rollback(
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

    def update(
        self,
        application: Application,
        deployment: str | None = None,
        agree: Iterable[str] = (),
        snapshot: str | None = None,
        drain_timeout: float = 300.0,
        timeout: float = 300.0,
        progress: Progress = quiet,
        renames: Mapping[str, str] | None = None,
        strategy: str = STANDBY,
        rehearse: int = 0,
        asked_by: str | None = None,
        side: SideBySide | None = None,
        run_for: float = 0.0,
    ) -> UpdateRecord:
        """The whole chain: plan, check, snapshot with cancel, submit from it, verify, promote; rolls back and raises
        when the new version fails after the old one was stopped. Run again after a crash, it continues.

        strategy: ``restart`` (the old version ends, then the new one is started), or ``standby`` (the new one gets
        ready beside the old one, which then hands over; it takes two drivers' resources for that time), or
        ``parallel`` (the new one runs beside the old one, from a snapshot and with sink parameters of its own, until it
        has caught up; then the old one is drained), or ``in_flight`` (the running driver goes on with other values of
        reloadable parameters, and nothing else may differ; there is no new deployment)
        rehearse: so many batches before that, on `snapshot` or the app's newest (0: none); when the new version fails
        there, the update is refused
        asked_by: for the record of a change in flight and of a rollback; None: this process's user and host
        side: with strategy parallel: how long both run
        run_for: seconds the new version must have run, and be well at their end, before it is promoted
        """
        request = updating.UpdateRequest(
            application=application,
            deployment=deployment,
            agree=tuple(agree),
            snapshot=snapshot,
            drain_timeout=drain_timeout,
            timeout=timeout,
            renames=renames,
            strategy=updating.check_strategy(strategy, snapshot, side),
            rehearse=rehearse,
            asked_by=asked_by,
            side=side,
            run_for=run_for,
        )
        return updating.update(self, request, progress)
