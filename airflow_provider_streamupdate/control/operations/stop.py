"""End or pause a deployment."""

from __future__ import annotations

import attrs

from ...core.boundaries import boundary
from ...core.coordination import commands
from ...core.coordination.commands import CommandBox, CommandResult
from ...core.errors import AppCancelledError, NotRunningError, StreamUpdateError
from ...core.registry.deployment import RUNNING, STANDBY, SUSPENDED, Cancellation
from ...core.registry.registry import AppRegistry
from ..app_lease import holding
from ..waiting import wait_for
from .context import Context

STOP_SECONDS = 15.0  # how long a driver gets to stop at once before its processes are killed


def claim_cancellation(registry: AppRegistry, cancellation: Cancellation) -> None:
    """Claim the app's next epoch with nobody to run in it, unless the app is cancelled already."""
    while registry.cancellation() is None:
        current = registry.current()
        if current is None:
            raise NotRunningError(f"app {registry.name} has no current deployment; submit it first")
        registry.claim(attrs.evolve(current, epoch=current.epoch + 1, cancelled=cancellation))


def drain(context: Context, app: str, deployment: str, timeout: float = 300.0) -> None:
    """End a deployment's driver after the batch in flight, and wait until it is gone."""
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    if status := drivers.status(deployment):
        CommandBox(registry.deployment_folder(deployment), status.epoch).issue(commands.DRAIN)
    boundary("drain-asked")
    what = f"the drain of {deployment} of {app}"
    wait_for(lambda: drivers.has_ended(deployment) or None, what, timeout, why=lambda: drivers.silence(deployment))


def current_silence(context: Context, app: str) -> str | None:
    """Return why the app's driver does not answer; None: it gives signs of life, or there is none."""
    registry = context.registry.existing(app)
    current = registry.current_id()
    return context.drivers(registry).silence(current) if current else None


def stop_deployment(context: Context, app: str, deployment: str) -> None:
    """End a deployment's driver at once, and kill it if necessary. Does nothing when none runs."""
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    if drivers.has_ended(deployment):
        return
    status = drivers.status(deployment)
    if status and drivers.state(deployment) in (STANDBY, RUNNING, SUSPENDED):
        CommandBox(registry.deployment_folder(deployment), status.epoch).issue(commands.CANCEL)
        try:
            wait_for(lambda: drivers.has_ended(deployment) or None, "the stop", STOP_SECONDS)
            return
        except TimeoutError:
            pass  # it does not stop by itself: end its processes
    drivers.kill(deployment)


def suspend(context: Context, app: str, timeout: float = 300.0) -> None:
    """Drain the queries but keep the driver; `resume` continues where they stopped.

    LeaseHeldError while an update is under way, or another process works on the app.
    """
    _command(context, app, commands.SUSPEND, RUNNING, SUSPENDED, timeout)


def resume(context: Context, app: str, timeout: float = 300.0) -> None:
    """Start the queries of a suspended app again. LeaseHeldError as for `suspend`."""
    _command(context, app, commands.RESUME, SUSPENDED, RUNNING, timeout)


def _command(context: Context, app: str, kind: str, wanted: str, target: str, timeout: float) -> None:
    registry = context.registry.existing(app)
    drivers = context.drivers(registry)
    deployment, _ = registry.running()
    _check_state(registry, drivers.state(deployment), kind, wanted)
    with holding(registry, deployment, f"it is told to {kind}"):
        deployment, epoch = registry.running()
        _check_state(registry, drivers.state(deployment), kind, wanted)
        box = CommandBox(registry.deployment_folder(deployment), epoch)
        name = box.issue(kind)
        boundary("rest-asked")

        def poll() -> CommandResult | None:
            if cancellation := registry.cancellation():
                raise AppCancelledError(f"{app} was {cancellation}, before it could {kind}")
            return box.result(name)

        result = wait_for(poll, f"to {kind} {app}", timeout, why=lambda: drivers.silence(deployment))
        if result.error:
            raise StreamUpdateError(f"could not {kind} {app}: {result.error}")
        wait_for(lambda: drivers.state(deployment) == target or None, f"to {kind} {app}", timeout)


def _check_state(registry: AppRegistry, state: str, kind: str, wanted: str) -> None:
    if state != wanted:
        raise NotRunningError(f"app {registry.name} is {state}; to {kind} it, it must be {wanted}")
