"""End or pause a deployment."""

from __future__ import annotations

import contextlib

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination import commands
from ...core.coordination.commands import CommandBox
from ...core.errors import LeaseHeldError, NotRunningError, StreamUpdateError, WaitTimeoutError
from ...core.registry.deployment import (
    CANCELLED,
    FAILED,
    FINAL_STATES,
    FINISHED,
    LOST,
    NEW,
    RUNNING,
    STANDBY,
    SUSPENDED,
)
from ...core.registry.registry import AppRegistry
from ..app_lease import holding
from ..waiting import Progress, quiet, wait_for
from .context import Context

STOP_SECONDS = 15.0  # how long a driver gets to stop at once before its processes are killed
CLAIM_SECONDS = 60.0  # how long whoever starts a dead driver may take until it shows
_DEAD = (FAILED, LOST)


def begin_cancel(context: Context, app: str, drain: bool = True) -> None:
    """Ask the running deployment to end. One whose driver failed or was lost counts as cancelled from then on, so that
    no supervisor starts it again.

    NotRunningError when it has ended on request, or was never started; LeaseHeldError when its driver is dead and an
    update is under way, or another process works on the app.
    """
    registry = context.registry.existing(app)
    held: LeaseHeldError | None = None

    def ask() -> bool | None:
        nonlocal held
        deployment, epoch = registry.running()
        state = context.drivers(registry).state(deployment)
        if state in (NEW, CANCELLED, FINISHED):
            raise NotRunningError(f"app {app} is not running (deployment {deployment} is {state}); nothing to cancel")
        if state in _DEAD:
            _no_update(registry, deployment, state)
        # To a dead one as well: it may only seem dead, and no supervisor begins to start what was told to end.
        CommandBox(registry.deployment_folder(deployment), epoch).issue(commands.DRAIN if drain else commands.CANCEL)
        boundary("drain-asked")
        if state not in _DEAD:
            return True
        try:
            return count_as_cancelled(context, registry, deployment) or None
        except LeaseHeldError as error:  # it is just being started: its new driver is asked as soon as it shows
            held = error
            return None

    try:
        wait_for(ask, f"the end of {app}", CLAIM_SECONDS)
    except WaitTimeoutError as error:
        raise held or error from error


def poll_cancel(context: Context, app: str) -> bool:
    """Return whether the app has ended and its driver is gone. One that failed while it ended counts as cancelled."""
    registry = context.registry.existing(app)
    deployment, _ = registry.running()
    drivers = context.drivers(registry)
    state = drivers.state(deployment)
    if state not in (*FINAL_STATES, NEW) or not drivers.gone(deployment):
        return False
    if state in _DEAD and registry.update_under_way() is None:  # an update ends what it began by itself
        with contextlib.suppress(LeaseHeldError):
            return count_as_cancelled(context, registry, deployment)
        return False
    return True


def _no_update(registry: AppRegistry, deployment: str, state: str) -> None:
    update = registry.update_under_way()
    if update is not None:
        raise LeaseHeldError(
            f"the driver of {registry.name} is dead already (deployment {deployment} is {state}), during an update to "
            f"{update.new}: run that update again to complete it, or streamupdate rollback {registry.name}; then cancel"
        )


def count_as_cancelled(context: Context, registry: AppRegistry, deployment: str) -> bool:
    """Note that a dead deployment was cancelled; False when it is not dead any more."""
    with holding(registry, deployment, f"cancel notes that {deployment} is cancelled"):
        drivers, launch = context.drivers(registry), registry.launch(deployment)
        if registry.current_id() != deployment or launch is None:
            return False
        state = drivers.state(deployment)
        if state in _DEAD:
            registry.set_launch(deployment, attrs.evolve(launch, cancelled_at=clock.now()))
        return state in (*_DEAD, CANCELLED)


def cancel(context: Context, app: str, drain: bool = True, timeout: float = 300.0, progress: Progress = quiet) -> str:
    """End the app, wait for its end, and return the final state. A dead app counts as cancelled from then on.

    With `drain`, WaitTimeoutError after `timeout` seconds, while the drain continues. Without it, a driver that does
    not stop in time is killed.
    """
    begin_cancel(context, app, drain)
    progress(f"{'draining' if drain else 'cancelling'} {app}")
    registry = context.registry.existing(app)
    deployment, _ = registry.running()
    if not drain:
        stop_deployment(context, app, deployment)
    what = f"the {'drain' if drain else 'end'} of {app}"
    wait_for(lambda: poll_cancel(context, app) or None, what, timeout, why=lambda: current_silence(context, app))
    return context.drivers(registry).state(deployment)


def current_silence(context: Context, app: str) -> str | None:
    """Return why the app's driver does not answer; None: it gives signs of life, or there is none."""
    registry = context.registry.existing(app)
    current = registry.current_id()
    return context.drivers(registry).silence(current) if current else None


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
    result = wait_for(lambda: box.result(name), f"to {kind} {app}", timeout, why=lambda: drivers.silence(deployment))
    if result.error:
        raise StreamUpdateError(f"could not {kind} {app}: {result.error}")
    wait_for(lambda: drivers.state(deployment) == target or None, f"to {kind} {app}", timeout)
