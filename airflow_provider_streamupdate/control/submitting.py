"""Requests that start a deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ..state import clock
from ..state.adoption import moved_on
from ..state.application import Application, default_deployment_id
from ..state.deployment import FINAL_STATES, Current, DeploymentSpec
from ..state.errors import AlreadyExistsError, AlreadyRunningError
from ..state.names import check_name
from ..state.registry import AppRegistry, used_before
from ..state.snapshots import SnapshotStore
from .drivers import NEW, Drivers, store_application
from .holding import holding
from .planning import plan_application
from .requests import Requests, quiet
from .waiting import Progress

CHECKED_SECONDS = 600.0  # a snapshot found whole so short a time ago, by the same update, is not read again


@attrs.frozen(kw_only=True)
class Deployed:
    """A deployment whose driver runs. `reattached`: it ran already."""

    app: str
    deployment: str
    epoch: int
    reattached: bool = False


class SubmitRequests(Requests):
    """The client's request to start a deployment."""

    def find_owned(self, app: str, owner: str) -> DeploymentSpec | None:
        """The newest deployment that was submitted with this owner token."""
        owned = [s for s in self.registry.app(app).deployments() if owner and s.owner == owner]
        return owned[-1] if owned else None

    def submit(
        self,
        application: Application,
        deployment: str | None = None,
        snapshot: str | None = None,
        agree: Iterable[str] = (),
        owner: str = "",
        timeout: float = 180.0,
        progress: Progress = quiet,
        app: str | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> Deployed:
        """Start a new deployment, fresh or from a snapshot, and wait until its queries run. CorruptError, with nothing
        started, when a file of the snapshot is not what was stored.

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
        with holding(registry, deployment):
            deployed = self._submit(
                registry, drivers, application, deployment, snapshot, agree, renames or {}, owner, progress
            )
            progress(f"deployment {deployment} of {app}: driver started in epoch {deployed.epoch}")
            drivers.wait_running(deployment, timeout)
            progress(f"deployment {deployment} of {app} is running")
            return deployed

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
        progress: Progress,
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
            if spec.from_snapshot and _unrestored(registry, deployment):
                _verify(registry, deployment, spec.from_snapshot, progress)
        else:
            self._check_nothing_runs(registry, drivers, current)
            if snapshot is not None:
                _verify(registry, deployment, snapshot, progress)
                self._check_adopted(registry, snapshot)
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

    def _check_adopted(self, registry: AppRegistry, name: str) -> None:
        """AlreadyRunningError when a query the snapshot was adopted from went on since: its sink has had rows that the
        app would compute again."""
        if went_on := moved_on(SnapshotStore(registry).get(name), self.storage_options):
            raise AlreadyRunningError(
                f"since snapshot {name} of {registry.name} was adopted, {'; '.join(went_on)}: rows of these batches "
                "would reach the sink twice, or be lost where it tells batches by their ids. Stop that query, adopt "
                "its checkpoint again under another name (adopt --snapshot), and submit from that"
            )

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


def _verify(registry: AppRegistry, deployment: str, snapshot: str, progress: Progress) -> None:
    """Read every byte of the snapshot before anything is started from it, unless the update that brings the deployment
    in has done so a moment ago."""
    update = registry.update(deployment)
    checked_at = update.snapshot_checked_at if update is not None and update.snapshot == snapshot else None
    if checked_at is not None and clock.age(checked_at) < CHECKED_SECONDS:
        return
    progress(f"verifying snapshot {snapshot} of {registry.name}")
    SnapshotStore(registry).verify(snapshot, progress)


def _unrestored(registry: AppRegistry, deployment: str) -> bool:
    """Whether a driver of the deployment that is started (again) has a checkpoint to build first."""
    plan, built = registry.plan(deployment), registry.deployment_folder(deployment).names("restored")
    return plan is None or any(f"{query.name}.json" not in built for query in plan.queries)
