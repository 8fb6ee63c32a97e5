"""The client: every request on apps, deployments and snapshots, for the command line and the Airflow side alike.

Requests that change something are idempotent: a rerun after a crash continues where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..state import clock, commands, lease
from ..state.application import Application, default_deployment_id
from ..state.commands import CommandBox
from ..state.deployment import (
    FINAL_STATES,
    RUNNING,
    SUSPENDED,
    Current,
    DeploymentSpec,
    Launch,
    Status,
)
from ..state.errors import (
    AlreadyExistsError,
    AlreadyRunningError,
    ApplicationError,
    NotRunningError,
    StreamUpdateError,
)
from ..state.export import export
from ..state.names import check_name
from ..state.plan import AppPlan
from ..state.registry import AppRegistry, Registry, used_before
from ..state.report import CompatibilityReport
from ..state.serde import to_json
from ..state.snapshot import Snapshot
from ..state.snapshots import SnapshotStore
from ..state.update import UpdateRecord
from .drivers import NEW, Drivers, store_application
from .health import Health, assess
from .launcher import Launcher
from .planning import Planned, plan_application
from .waiting import Progress, wait_for

STOP_SECONDS = 15.0  # how long a driver gets to stop at once before its processes are killed


@attrs.frozen(kw_only=True)
class AppStatus:
    """An app at a glance. `state` is its current deployment's, ``new`` before the first. `update`: one under way."""

    app: str
    state: str
    current: Current | None
    spec: DeploymentSpec | None
    status: Status | None
    launch: Launch | None
    update: UpdateRecord | None


@attrs.frozen(kw_only=True)
class Deployed:
    """A deployment whose driver runs. `reattached`: it ran already."""

    app: str
    deployment: str
    epoch: int
    reattached: bool = False


def _quiet(_line: str) -> None:
    return None


class StreamUpdateClient:
    """All requests under one root.

    root: local path or fsspec URI of the registry; launcher: how drivers are started (None: reading only)
    """

    def __init__(
        self, root: str, launcher: Launcher | None = None, storage_options: dict[str, Any] | None = None
    ) -> None:
        self.registry = Registry(root, storage_options)
        self.launcher = launcher
        self.storage_options = dict(storage_options or {})
        # Drivers run elsewhere with another working directory, so a relative path must not be handed on.
        self.root = self.registry.folder.base if self.registry.folder.local else root

    # Reading

    def apps(self) -> list[str]:
        return self.registry.apps()

    def status(self, app: str) -> AppStatus:
        """NotFoundError for an unknown app."""
        registry = self.registry.existing(app)
        current = registry.current()
        drivers = self._drivers(registry)
        under_way = [u for u in registry.updates() if u.outcome is None]
        if current is None:
            return AppStatus(
                app=app, state=NEW, current=None, spec=None, status=None, launch=None, update=_last(under_way)
            )
        return AppStatus(
            app=app,
            state=drivers.state(current.deployment),
            current=current,
            spec=registry.spec(current.deployment),
            status=drivers.status(current.deployment),
            launch=registry.launch(current.deployment),
            update=_last(under_way),
        )

    def deployments(self, app: str) -> list[DeploymentSpec]:
        return self.registry.existing(app).deployments()

    def deployment_state(self, app: str, deployment: str) -> str:
        registry = self.registry.existing(app)
        registry.spec(deployment)
        return self._drivers(registry).state(deployment)

    def find_owned(self, app: str, owner: str) -> DeploymentSpec | None:
        """The newest deployment that was submitted with this owner token."""
        return _last([s for s in self.registry.app(app).deployments() if owner and s.owner == owner])

    def driver_log(self, app: str, deployment: str) -> str | None:
        return self._drivers(self.registry.existing(app)).log(deployment)

    def log_tail(self, app: str, deployment: str, lines: int = 30) -> str:
        return self._drivers(self.registry.existing(app)).log_tail(deployment, lines)

    # Snapshots

    def snapshots(self, app: str | None = None) -> list[Snapshot]:
        """Of one app or of all, oldest first."""
        apps = [self.registry.existing(app)] if app else [self.registry.app(a) for a in self.apps()]
        return sorted((s for a in apps for s in SnapshotStore(a).all()), key=lambda s: s.created_at)

    def snapshot(self, app: str, name: str) -> Snapshot:
        return SnapshotStore(self.registry.existing(app)).get(name)

    def verify_snapshot(self, app: str, name: str, progress: Progress | None = None) -> int:
        """Compare every file with its checksum; the number of files. CorruptError lists what is wrong."""
        return SnapshotStore(self.registry.existing(app)).verify(name, progress)

    def delete_snapshot(self, app: str, name: str) -> int:
        """The bytes freed. InUseError for the last one and for one in use; LeaseHeldError during an update."""
        registry = self.registry.existing(app)
        owner = f"delete {name}"
        lease.acquire(registry.folder, owner)
        try:
            return SnapshotStore(registry).delete(name)
        finally:
            lease.release(registry.folder, owner)

    def begin_snapshot(self, app: str, name: str, cancel: bool = False, again: bool = False) -> None:
        """Ask the running deployment for a snapshot. One that is under way is not asked for twice.

        A name in use is an AlreadyExistsError, but for a rerun: the snapshot the app ended with (`cancel`), or, with
        `again`, the one this driver took under the name. NotRunningError when nothing runs.
        """
        registry = self.registry.existing(app)
        check_name("snapshot", name)
        store, drivers = SnapshotStore(registry), self._drivers(registry)
        deployment, epoch = self._current(registry)
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        asked = box.issued(commands.SNAPSHOT, name)
        if store.exists(name):
            taken = store.get(name)
            same = asked and taken.deployment == deployment and (taken.kind == "cancelled") == cancel
            if same and (cancel or again):
                return
            raise AlreadyExistsError(f"app {app} already has a snapshot {name!r}; choose another name")
        state = drivers.state(deployment)
        if state in FINAL_STATES or state == NEW:
            if asked and cancel:
                return  # it died after it was asked; poll_snapshot exports what it committed
            raise NotRunningError(
                f"app {app} is not running (deployment {deployment} is {state}), so no snapshot can be taken; "
                "submit it again, or use one of its snapshots (list-snapshots)"
            )
        box.issue(commands.SNAPSHOT, snapshot=name, cancel=cancel)

    def poll_snapshot(self, app: str, name: str, cancel: bool = False) -> Snapshot | None:
        """The snapshot once it is complete (and, with `cancel`, no driver runs any more); None while under way.
        StreamUpdateError with the agent's words when it failed."""
        registry = self.registry.existing(app)
        store, drivers = SnapshotStore(registry), self._drivers(registry)
        deployment, epoch = self._current(registry)
        state = drivers.state(deployment)
        over = state in FINAL_STATES and drivers.gone(deployment)
        if store.exists(name):
            return store.get(name) if over or not cancel else None
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        pending = [c for c in box.pending() if c.snapshot == name]
        failures = [answer.error for answer in box.answers(commands.SNAPSHOT, name) if answer.error]
        if failures and not pending and not over:
            raise StreamUpdateError(f"snapshot {name} of {app} failed: {failures[-1]}; the app goes on running")
        if not over:
            return None
        plan = registry.plan(deployment)
        if not cancel or plan is None:
            raise NotRunningError(
                f"app {app} ended before snapshot {name} was taken: {drivers.death(deployment, state)}"
            )
        # The driver died after it was asked to end with this snapshot: what it committed is all there is, and nothing
        # runs any more, so it can be exported from here.
        status = registry.status(deployment)
        return export(registry, deployment, name, plan, True, status.queries if status else {})

    def save_snapshot(
        self,
        app: str,
        name: str,
        cancel: bool = False,
        timeout: float = 300.0,
        progress: Progress = _quiet,
        again: bool = False,
    ) -> Snapshot:
        """Take a snapshot and wait for it; with `cancel` the app ends with it, and no batch runs afterwards.

        See `begin_snapshot` for a name in use and for `again`.
        """
        progress(f"asking {app} for snapshot {name}" + (" with cancel" if cancel else ""))
        self.begin_snapshot(app, name, cancel, again)
        what = f"snapshot {name} of {app}"
        snapshot = wait_for(lambda: self.poll_snapshot(app, name, cancel), what, timeout)
        batches = ", ".join(f"{q} after batch {s.batch}" for q, s in sorted(snapshot.queries.items()))
        progress(f"snapshot {name}: {batches}, {snapshot.size} bytes ({snapshot.bytes_new} new)")
        return snapshot

    # Plan and check

    def plan(self, application: Application) -> AppPlan:
        """Run a plan-only driver (15-30 s); nothing is started."""
        return plan_application(self._need_launcher(), application).plan

    def check(
        self,
        application: Application,
        app: str | None = None,
        snapshot: str | None = None,
        agree: Iterable[str] = (),
        deployment: str | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> CompatibilityReport:
        """Compare the application's plan with a snapshot, or with what the app's current deployment has committed; with
        a restore into a scratch folder, so that Spark checks it too. `deployment`: store the report for that update."""
        report = self.plan_and_check(application, app, snapshot, agree, renames).report
        assert report is not None  # a check was asked for
        if deployment:
            self.store_report(report, deployment)
        return report

    def plan_and_check(
        self,
        application: Application,
        app: str | None = None,
        snapshot: str | None = None,
        agree: Iterable[str] = (),
        renames: Mapping[str, str] | None = None,
    ) -> Planned:
        """`plan` and `check` in one driver start. `renames`: stages and sources of the saved state under the names they
        have in this version, ``{"old": "new"}``."""
        if app is not None:
            registry = self.registry.existing(app)
            if snapshot is not None:
                SnapshotStore(registry).get(snapshot)
        if snapshot is not None:
            check_name("snapshot", snapshot)
        planned = plan_application(
            self._need_launcher(),
            application,
            root=self.root,
            storage_options=self.storage_options,
            against=f"snapshot:{snapshot}" if snapshot else "current",
            agree=agree,
            renames=renames,
        )
        if app is not None:
            _same_app(application, planned.plan, app)
        return planned

    def store_report(self, report: CompatibilityReport, deployment: str) -> str:
        """Keep a report under ``updates/<deployment>.report.json`` and ``.md``; the latter's URI."""
        folder = self.registry.app(report.app).folder
        folder.write(f"updates/{deployment}.report.json", to_json(report))
        folder.write(f"updates/{deployment}.report.md", report.to_markdown().encode())
        return f"{folder.uri}/updates/{deployment}.report.md"

    # Submit, cancel

    def submit(
        self,
        application: Application,
        deployment: str | None = None,
        snapshot: str | None = None,
        agree: Iterable[str] = (),
        owner: str = "",
        timeout: float = 180.0,
        progress: Progress = _quiet,
        app: str | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> Deployed:
        """Start a new deployment, fresh or from a snapshot, and wait until its queries run.

        app: the app's name when it is known (a plan was made); otherwise a plan-only driver finds it out.
        owner: a token; submitting again with the same one reattaches to, or restarts, the same deployment.
        """
        application.check()
        launcher = self._need_launcher()
        launcher.check()
        self.registry.folder.check_writable()
        if app is None:
            progress(f"planning {application.file}")
            app = plan_application(launcher, application).plan.app
        registry = self.registry.app(app)
        drivers = self._drivers(registry)
        if deployment is None:
            owned = self.find_owned(app, owner)
            used = set(registry.deployment_ids())
            deployment = owned.deployment if owned else default_deployment_id(app, application.digest(), used)
        check_name("deployment", deployment)
        held = lease.acquire(registry.folder, deployment)
        try:
            deployed = self._submit(registry, drivers, application, deployment, snapshot, agree, renames or {}, owner)
            progress(f"deployment {deployment} of {app}: driver started in epoch {deployed.epoch}")
            drivers.wait_running(deployment, timeout)
            progress(f"deployment {deployment} of {app} is running")
            return deployed
        finally:
            if registry.update(deployment) is None:  # an update keeps its lease to the end
                lease.release(registry.folder, held.owner)

    def _submit(
        self,
        registry: AppRegistry,
        drivers: Drivers,
        application: Application,
        deployment: str,
        snapshot: str | None,
        agree: Iterable[str],
        renames: Mapping[str, str],
        owner: str,
    ) -> Deployed:
        current = registry.current()
        epoch = (current.epoch if current else 0) + 1
        if deployment in registry.deployment_ids():
            spec = registry.spec(deployment)
            record = registry.update(deployment)
            if not owner or spec.owner != owner or (record is not None and record.outcome is not None):
                raise AlreadyExistsError(used_before(registry.name, deployment))
            if drivers.state(deployment) not in (*FINAL_STATES, NEW):
                return Deployed(
                    app=registry.name,
                    deployment=deployment,
                    epoch=current.epoch if current else 0,
                    reattached=True,
                )
            self._check_nothing_runs(registry, drivers, current, but=deployment)
        else:
            self._check_nothing_runs(registry, drivers, current)
            if snapshot is not None:
                SnapshotStore(registry).get(snapshot)
            spec = DeploymentSpec(
                app=registry.name,
                deployment=deployment,
                application=store_application(application, registry.deployment_folder(deployment)),
                digest=application.digest(),
                submitted_at=clock.now(),
                parent=current.deployment if current else None,
                from_snapshot=snapshot,
                agree=tuple(agree),
                renames=dict(renames),
                owner=owner,
            )
            registry.create_deployment(spec)
        drivers.start(spec, epoch)
        return Deployed(app=registry.name, deployment=deployment, epoch=epoch)

    def _check_nothing_runs(
        self, registry: AppRegistry, drivers: Drivers, current: Current | None, but: str | None = None
    ) -> None:
        if current is None or current.deployment == but:
            return
        state = drivers.state(current.deployment)
        if state not in (*FINAL_STATES, NEW) or not drivers.gone(current.deployment):
            raise AlreadyRunningError(
                f"app {registry.name} runs as deployment {current.deployment} ({state}); use update to replace it, "
                "or cancel it first"
            )

    def begin_cancel(self, app: str, drain: bool = True) -> None:
        """Ask the running deployment to end. NotRunningError when nothing runs."""
        registry = self.registry.existing(app)
        deployment, epoch = self._current(registry)
        state = self._drivers(registry).state(deployment)
        if state in FINAL_STATES or state == NEW:
            raise NotRunningError(f"app {app} is not running (deployment {deployment} is {state}); nothing to cancel")
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        box.issue(commands.DRAIN if drain else commands.CANCEL)

    def poll_cancel(self, app: str) -> bool:
        """Whether the app has ended and its driver is gone."""
        registry = self.registry.existing(app)
        deployment, _ = self._current(registry)
        drivers = self._drivers(registry)
        return drivers.state(deployment) in (*FINAL_STATES, NEW) and drivers.gone(deployment)

    def cancel(self, app: str, drain: bool = True, timeout: float = 300.0, progress: Progress = _quiet) -> str:
        """End the app and wait for it; the final state. A drain that takes longer than `timeout` raises
        WaitTimeoutError and goes on; without `drain` a driver that does not stop in time is killed."""
        self.begin_cancel(app, drain)
        progress(f"{'draining' if drain else 'cancelling'} {app}")
        registry = self.registry.existing(app)
        deployment, _ = self._current(registry)
        if drain:
            wait_for(lambda: self.poll_cancel(app) or None, f"the drain of {app}", timeout)
        else:
            self._stop(registry, deployment)
        return self._drivers(registry).state(deployment)

    def stop_deployment(self, app: str, deployment: str) -> None:
        """End a deployment's driver at once, killing it if need be; nothing when none runs."""
        self._stop(self.registry.existing(app), deployment)

    def _stop(self, registry: AppRegistry, deployment: str) -> None:
        drivers = self._drivers(registry)
        if drivers.gone(deployment):
            return
        launch = registry.launch(deployment)
        if launch and drivers.state(deployment) in (RUNNING, SUSPENDED):
            CommandBox(registry.deployment_folder(deployment), launch.epoch).issue(commands.CANCEL)
            try:
                wait_for(lambda: drivers.gone(deployment) or None, "the stop", STOP_SECONDS)
                return
            except TimeoutError:
                pass  # it does not obey: end its processes
        drivers.kill(deployment)

    def suspend(self, app: str, timeout: float = 300.0) -> None:
        """Drain the queries but keep the driver; `resume` goes on where they stopped."""
        self._command(app, commands.SUSPEND, RUNNING, SUSPENDED, timeout)

    def resume(self, app: str, timeout: float = 300.0) -> None:
        self._command(app, commands.RESUME, SUSPENDED, RUNNING, timeout)

    def _command(self, app: str, kind: str, wanted: str, target: str, timeout: float) -> None:
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        deployment, epoch = self._current(registry)
        state = drivers.state(deployment)
        if state != wanted:
            raise NotRunningError(f"app {app} is {state}; to {kind} it, it must be {wanted}")
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        name = box.issue(kind)
        result = wait_for(lambda: box.result(name), f"to {kind} {app}", timeout)
        if result.error:
            raise StreamUpdateError(f"could not {kind} {app}: {result.error}")
        wait_for(lambda: drivers.state(deployment) == target or None, f"to {kind} {app}", timeout)

    # Verify, promote, roll back

    def health(
        self, app: str, deployment: str | None = None, baseline_snapshot: str | None = None, batches: int = 2
    ) -> Health:
        """How a deployment (default: the current one) does, against what it was in a snapshot."""
        registry = self.registry.existing(app)
        deployment = deployment or self._current(registry)[0]
        registry.spec(deployment)
        drivers = self._drivers(registry)
        baseline = SnapshotStore(registry).get(baseline_snapshot) if baseline_snapshot else None
        return assess(deployment, drivers.state(deployment), drivers.status(deployment), baseline, batches)

    def wait_healthy(
        self,
        app: str,
        deployment: str | None = None,
        baseline_snapshot: str | None = None,
        timeout: float = 300.0,
        batches: int = 2,
        progress: Progress = _quiet,
    ) -> Health:
        """Until the deployment is healthy; StreamUpdateError when it fails or is not in time, with the reasons."""
        last: list[Health] = []

        def poll() -> Health | None:
            health = self.health(app, deployment, baseline_snapshot, batches)
            if not last or last[-1].reasons != health.reasons:
                progress("; ".join(health.reasons) or f"{app} is healthy")
            last.append(health)
            if health.failed:
                raise StreamUpdateError(f"{app} is not healthy: {'; '.join(health.reasons)}")
            return health if health.healthy else None

        try:
            return wait_for(poll, f"the health of {app}", timeout)
        except TimeoutError as error:
            raise StreamUpdateError(
                f"{app} is not healthy after {timeout:g} s: {'; '.join(last[-1].reasons) if last else 'no status'}"
            ) from error

    def begin_update(self, app: str, deployment: str, digest: str = "") -> UpdateRecord:
        """Take (or renew) the app's lease for bringing in `deployment`, and write or read the update's record.
        LeaseHeldError when another update is under way, AlreadyExistsError when this one has ended, NotRunningError
        when there is nothing to update."""
        from .updating import begin

        return begin(self, app, deployment, digest)

    def end_update(self, app: str, deployment: str, outcome: str, reason: str | None = None) -> None:
        """Record how the update ended and give the lease back; nothing when it had ended already."""
        from .updating import end

        end(self, app, deployment, outcome, reason)

    def promote(self, app: str, deployment: str) -> UpdateRecord | None:
        """Make the deployment the one a rollback goes back to later; ends its update."""
        from .updating import promote

        return promote(self, app, deployment)

    def rollback(
        self, app: str, deployment: str | None = None, timeout: float = 300.0, progress: Progress = _quiet
    ) -> Deployed | None:
        """Go back from `deployment` (default: the current one) to the one before it, at the state it was stopped with.
        Ends with that one running; None when it never stopped running."""
        from .updating import rollback

        return rollback(self, app, deployment, timeout, progress)

    def update(
        self,
        application: Application,
        deployment: str | None = None,
        agree: Iterable[str] = (),
        snapshot: str | None = None,
        drain_timeout: float = 300.0,
        timeout: float = 300.0,
        progress: Progress = _quiet,
        renames: Mapping[str, str] | None = None,
    ) -> UpdateRecord:
        """The whole chain: plan, check, snapshot with cancel, submit from it, verify, promote; rolls back and raises
        when the new version fails after the old one was stopped. Run again after a crash, it continues."""
        from .updating import update

        return update(self, application, deployment, tuple(agree), snapshot, drain_timeout, timeout, progress, renames)

    # Shared

    def drivers(self, app: str) -> Drivers:
        """The app's drivers, for what lies between these requests."""
        return self._drivers(self.registry.existing(app))

    def _drivers(self, registry: AppRegistry) -> Drivers:
        return Drivers(registry, self.launcher, self.root, self.storage_options)

    def _current(self, registry: AppRegistry) -> tuple[str, int]:
        current = registry.current()
        if current is None:
            raise NotRunningError(f"app {registry.name} has no current deployment; submit it first")
        return current.deployment, current.epoch

    def _need_launcher(self) -> Launcher:
        if self.launcher is None:
            raise StreamUpdateError("this client was made without a launcher, so it cannot start a driver")
        return self.launcher


def _same_app(application: Application, plan: AppPlan, app: str) -> None:
    if plan.app != app:
        raise ApplicationError(
            f"{application.file} defines app {plan.app}, not {app}; give the file of {app}, or leave the name out"
        )


def _last(items: list[Any]) -> Any:
    return items[-1] if items else None
