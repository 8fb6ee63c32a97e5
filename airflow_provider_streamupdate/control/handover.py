"""The requests that replace a running deployment by one that stands by. The two drivers do it between them, through
storage; here it is asked for, watched, and completed when one of them died on the way."""

from __future__ import annotations

from ..state import commands
from ..state.boundaries import boundary
from ..state.commands import CommandBox, CommandResult
from ..state.deployment import FINAL_STATES, STANDBY
from ..state.errors import AlreadyExistsError, DriverError
from ..state.export import export
from ..state.registry import AppRegistry
from ..state.snapshots import SnapshotStore
from .drivers import NEW, Drivers
from .holding import holding
from .requests import Requests, quiet
from .version import NewVersion, store_spec, stored_spec
from .waiting import Progress, wait_for


class HandoverRequests(Requests):
    """The client's requests to hand an app over from one deployment to the next."""

    def stand_by(
        self,
        app: str,
        version: NewVersion,
        timeout: float = 180.0,
        progress: Progress = quiet,
    ) -> None:
        """Start the new version's driver beside the running one, and wait until it stands by to take over.

        It starts from what the current deployment will have left behind, which is stored as its snapshot after the
        hand-over. Nothing of the running deployment is touched. A rerun finds the driver of an earlier one, or starts
        it again. The caller has begun the update to it: the driver ends with that.
        """
        deployment = version.deployment
        self._need_launcher().check()
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        with holding(registry, deployment):
            parent, epoch = self._current(registry)
            if parent == deployment:
                return
            if SnapshotStore(registry).exists(version.snapshot):
                raise AlreadyExistsError(
                    f"app {app} already has a snapshot {version.snapshot!r}; choose another deployment id"
                )
            spec = stored_spec(registry, version) or store_spec(registry, version, parent)
            if drivers.state(deployment) in (*FINAL_STATES, NEW):
                drivers.start_standby(spec, epoch + 1)
                progress(f"deployment {deployment} of {app}: driver started beside {parent}")
            drivers.wait_for_states(deployment, (STANDBY,), timeout)
            boundary("standby-ready")
            progress(f"deployment {deployment} of {app} stands by")

    def hand_over(
        self, app: str, old: str, new: str, snapshot: str, timeout: float = 300.0, progress: Progress = quiet
    ) -> None:
        """Drain `old`, let `new` go on from there, and keep what `old` ended with as `snapshot`.

        Returns when `new` has committed and `old` is gone; nothing is done twice. DriverError when `new` failed (its
        predecessor runs again, by itself, or it is for `rollback` to start it), WaitTimeoutError after `timeout`
        seconds without an end, with the hand-over going on.
        """
        registry = self.registry.existing(app)
        drivers = self._drivers(registry)
        current = registry.current()
        box, command = CommandBox(registry.deployment_folder(old), 0), ""
        if current is not None and current.deployment == old:
            progress(f"{old} hands over to {new}")
            box = CommandBox(registry.deployment_folder(old), current.epoch)
            command = box.issue(commands.SNAPSHOT, snapshot=snapshot, cancel=True, successor=new)
            boundary("handover-asked")

        def poll() -> bool | None:
            if not command and registry.current_id() == old:  # an earlier call asked for it
                raise DriverError(f"{new} took over and failed, and {old} has taken back\n{drivers.log_tail(new)}")
            return self._handed_over(registry, drivers, old, new, box.result(command) if command else None)

        wait_for(poll, f"the hand-over to {new}", timeout)
        boundary("handover-seen")
        self._complete(registry, drivers, old, snapshot)
        boundary("handover-completed")
        progress(f"{new} has taken over; {old} ended with snapshot {snapshot}")

    def _handed_over(
        self, registry: AppRegistry, drivers: Drivers, old: str, new: str, answer: CommandResult | None
    ) -> bool | None:
        if answer is not None and answer.error:
            raise DriverError(f"{old} did not hand over to {new}: {answer.error}\n{drivers.log_tail(new)}")
        if registry.current_id() == new:
            if (state := drivers.state(new)) in FINAL_STATES and drivers.gone(old):
                raise DriverError(drivers.death(new, state))
            return True if drivers.gone(old) else None
        if drivers.gone(old):
            raise DriverError(f"it died before it handed over: {drivers.death(old, drivers.state(old))}")
        return None

    def _complete(self, registry: AppRegistry, drivers: Drivers, old: str, snapshot: str) -> None:
        """Store the snapshot when the old driver did not come to it: nothing runs in its checkpoint any more."""
        plan = registry.plan(old)
        if plan is not None and not SnapshotStore(registry).exists(snapshot):
            status = registry.status(old)
            export(registry, old, snapshot, plan, True, status.queries if status else {})
