"""End or pause a deployment."""

from __future__ import annotations

from ...core.boundaries import boundary
from ...core.coordination import commands
from ...core.coordination.commands import CommandBox
from ...core.errors import NotRunningError, StreamUpdateError
from ...core.registry.deployment import FINAL_STATES, NEW, RUNNING, STANDBY, SUSPENDED
from ..waiting import Progress, quiet, wait_for
from .context import Context

STOP_SECONDS = 15.0  # how long a driver gets to stop at once before its processes are killed


def begin_cancel(context: Context, app: str, drain: bool = True) -> None:
    """Ask the running deployment to end. NotRunningError when nothing runs."""
    registry = context.registry.existing(app)
    deployment, epoch = registry.running()
    state = context.drivers(registry).state(deployment)
    if state in FINAL_STATES or state == NEW:
        raise NotRunningError(f"app {app} is not running (deployment {deployment} is {state}); nothing to cancel")
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    box.issue(commands.DRAIN if drain else commands.CANCEL)
    boundary("drain-asked")


def poll_cancel(context: Context, app: str) -> bool:
    """Return whether the app has ended and its driver is gone."""
    registry = context.registry.existing(app)
    deployment, _ = registry.running()
    drivers = context.drivers(registry)
    return drivers.state(deployment) in (*FINAL_STATES, NEW) and drivers.gone(deployment)


def cancel(context: Context, app: str, drain: bool = True, timeout: float = 300.0, progress: Progress = quiet) -> str:
    """End the app, wait for its end, and return the final state.

    With `drain`, WaitTimeoutError after `timeout` seconds, while the drain continues. Without it, a driver that does
    not stop in time is killed.
    """
    begin_cancel(context, app, drain)
    progress(f"{'draining' if drain else 'cancelling'} {app}")
    registry = context.registry.existing(app)
    deployment, _ = registry.running()
    if drain:
        wait_for(lambda: poll_cancel(context, app) or None, f"the drain of {app}", timeout)
    else:
        stop_deployment(context, app, deployment)
    return context.drivers(registry).state(deployment)


def stop_deployment(context: Context, app: str, deployment: str) -> None:
    """End a deployment's driver at once, and kill it if necessary. Does nothing when none runs."""
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    if drivers.gone(deployment):
        return
    status = drivers.status(deployment)
    if status and drivers.state(deployment) in (STANDBY, RUNNING, SUSPENDED):
        CommandBox(registry.deployment_folder(deployment), status.epoch).issue(commands.CANCEL)
        try:
            wait_for(lambda: drivers.gone(deployment) or None, "the stop", STOP_SECONDS)
            return
        except TimeoutError:
            pass  # it does not stop by itself: end its processes
    drivers.kill(deployment)


def suspend(context: Context, app: str, timeout: float = 300.0) -> None:
    """Drain the queries but keep the driver; `resume` continues where they stopped."""
    _command(context, app, commands.SUSPEND, RUNNING, SUSPENDED, timeout)


def resume(context: Context, app: str, timeout: float = 300.0) -> None:
    _command(context, app, commands.RESUME, SUSPENDED, RUNNING, timeout)


def _command(context: Context, app: str, kind: str, wanted: str, target: str, timeout: float) -> None:
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    deployment, epoch = registry.running()
    state = drivers.state(deployment)
    if state != wanted:
        raise NotRunningError(f"app {app} is {state}; to {kind} it, it must be {wanted}")
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    name = box.issue(kind)
    result = wait_for(lambda: box.result(name), f"to {kind} {app}", timeout)
    if result.error:
        raise StreamUpdateError(f"could not {kind} {app}: {result.error}")
    wait_for(lambda: drivers.state(deployment) == target or None, f"to {kind} {app}", timeout)
