"""Restart a dead driver: the current deployment continues from its own checkpoint, in a new epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...core.boundaries import boundary
from ...core.coordination import lease
from ...core.errors import AlreadyRunningError, LeaseHeldError, NotRunningError, WaitTimeoutError
from ...core.names import check_name
from ...core.registry.deployment import FINAL_STATES, FINISHED, NEW, SUSPENDED
from ...core.registry.registry import AppRegistry
from ...core.snapshots.fresh_start import committed
from ..app_lease import holding
from ..drivers.drivers import Drivers
from ..waiting import Phase, Progress, discard_progress, wait_for
from .abandoned import supersede_left_behind
from .context import Context
from .stateless import format_batches
from .stop import STOP_SECONDS
from .submit import Deployed

HELD_SECONDS = 60.0  # a supervisor's lease that cannot be given back is free then


def restart(
    context: Context,
    app: str,
    deployment: str | None = None,
    timeout: float | None = 300.0,
    progress: Progress = discard_progress,
    reattach: bool = False,
    before: Callable[[], None] | None = None,
    asked_by: str = "restart",
) -> Deployed:
    """Start the driver of the app's current deployment again, and wait until its queries run.

    It keeps its code, parameters and checkpoint. A rerun after a crash at any point does the rest.

    AlreadyRunningError when its driver is alive; LeaseHeldError when an update is under way; NotRunningError when there
    is no deployment, or `deployment` is not the current one; DriverError when the driver dies at its start. A driver on
    another machine without a heartbeat for long may still run: it is kept from beginning another batch.

    deployment: the one to start again; None: the current one
    timeout: seconds until it must run; None: return when it was started, and may still die at its start
    reattach: wait for a driver that is alive instead of refusing: an earlier try may have started it
    before: called under the app's lease, before anything is done; what it raises ends the restart
    asked_by: who starts it, for those who meet the lease
    """
    if deployment is not None:
        check_name("deployment", deployment)
    registry = context.registry.existing(app)
    context.need_launcher().check()
    context.registry.folder.check_writable()
    drivers = context.drivers(registry)
    found = _restartable(context, registry, deployment)
    # A supervisor lives on, also when it cannot give the lease back.
    seconds = lease.DEFAULT_SECONDS if before is None else HELD_SECONDS
    with holding(registry, found, f"{asked_by} starts the driver of {found} again", seconds=seconds):
        if before is not None:
            before()
        found = _restartable(context, registry, deployment)
        # With `before` somebody else than a person starts it.
        deployed = _restart(registry, drivers, found, progress, reattach, after_cancel=before is None)
        if not deployed.reattached:
            progress(f"deployment {deployed.deployment} of {app}: driver started in epoch {deployed.epoch}")
        if timeout is not None:
            drivers.wait_running(deployed.deployment, timeout)
        boundary("restarted")
        supersede_left_behind(registry, f"deployment {found} was started again")
    progress(f"deployment {deployed.deployment} of {app} is {drivers.state(deployed.deployment)}")
    return deployed


def run_until_finished(
    context: Context,
    app: str,
    deployment: str | None = None,
    timeout: float = 300.0,
    progress: Progress = discard_progress,
) -> Deployed:
    """Start the driver of the app's current deployment, unless it runs, and wait until all its queries have ended by
    themselves (trigger availableNow). DriverError when it ends in another way.

    timeout: seconds until it must run; how long it then runs is not limited
    """
    deployed = restart(context, app, deployment, timeout, progress, reattach=True)
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    drivers.wait_for_states(deployed.deployment, (FINISHED,), math.inf)
    batches = format_batches(committed(registry, deployed.deployment)) or "no batch"
    progress(f"deployment {deployed.deployment} of {app} has finished ({batches})")
    return deployed


def _restartable(context: Context, registry: AppRegistry, wanted: str | None) -> str:
    """Return the current deployment, if it may be started again."""
    current, _ = registry.running()
    if wanted not in (None, current):
        raise NotRunningError(
            f"deployment {wanted} of {registry.name} is not current, {current} is "
            f"({context.drivers(registry).state(current)}); only the current one can be started again"
        )
    update = registry.update_under_way()
    if update is not None:
        found = lease.read(registry.folder)
        holder = found.holder if found and lease.held(registry.folder, found) else None
        who = f"process {holder.pid} on {holder.host} works on it" if holder else "no process works on it now"
        raise LeaseHeldError(
            f"an update of {registry.name} to {update.new} is under way ({update.strategy}, after {update.step}), and "
            f"{who}; run that update again to continue it, or streamupdate rollback {registry.name}"
        )
    return current


def _restart(
    registry: AppRegistry, drivers: Drivers, deployment: str, progress: Progress, reattach: bool, after_cancel: bool
) -> Deployed:
    current = registry.current()
    assert current is not None  # `deployment` is
    state = drivers.state(deployment)
    if state not in (*FINAL_STATES, NEW):
        if reattach and state != SUSPENDED:
            progress(f"deployment {deployment} of {registry.name} is {state}: nothing is started")
            return Deployed(app=registry.name, deployment=deployment, epoch=current.epoch, reattached=True)
        app = registry.name
        way = f"use streamupdate resume {app}" if state == SUSPENDED else "cancel it first to restart it"
        raise AlreadyRunningError(
            f"the driver of app {app} is alive (deployment {deployment} is {state}); nothing was started; {way}"
        )
    _end_processes(drivers, deployment, progress)
    batches = committed(registry, deployment)
    where = (
        f"from its own checkpoint ({format_batches(batches)})"
        if batches
        else "from its beginning: it has committed no batch"
    )
    progress(Phase(f"starting {deployment} again, {where}"))
    drivers.start(registry.spec(deployment), current.epoch + 1, current.promoted, after_cancel)
    return Deployed(app=registry.name, deployment=deployment, epoch=current.epoch + 1)


def _end_processes(drivers: Drivers, deployment: str, progress: Progress) -> None:
    """Make sure that no process is left of a driver that has written its final status."""
    try:
        wait_for(lambda: drivers.has_ended(deployment) or None, "the end of its processes", STOP_SECONDS)
    except WaitTimeoutError:
        progress(f"the driver of {deployment} has ended, but processes of it are left: ending them")
        drivers.kill(deployment)
