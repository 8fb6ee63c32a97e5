"""Cancel an app: end its drivers, whatever they do, and the update under way.

A cancellation claims the app's next epoch, with nobody to run in it. That is one exclusive creation, as every start of
a driver is. So each start either came before it, and is ended by it, or finds the app cancelled. Every driver of the
app sees it with its next heartbeat, even if whoever cancelled has died by then.
"""

from __future__ import annotations

import contextlib

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination import commands
from ...core.coordination.commands import CommandBox
from ...core.errors import LeaseHeldError, StreamUpdateError, WaitTimeoutError
from ...core.registry.deployment import (
    CANCELLED,
    DRAINING,
    FINAL_STATES,
    FINISHED,
    NEW,
    RUNNING,
    SUSPENDED,
    Cancellation,
    DriverState,
)
from ...core.registry.registry import AppRegistry
from ...core.registry.update import Outcome, UpdateRecord
from ...core.users import user_and_host
from ..app_lease import check_free, holding
from ..drivers.drivers import Drivers
from ..operations.context import Context
from ..operations.stop import claim_cancellation, current_silence, stop_deployment
from ..waiting import Phase, Progress, discard_progress, wait_for
from . import record as records
from .strategies import strategy_named

NOTICE_SECONDS = 30.0  # how long a process that works on an update may take to notice that it was cancelled


@attrs.frozen(kw_only=True)
class Cancelled:
    """The result of a cancellation: what it ended."""

    app: str
    state: DriverState  # of the current deployment
    ended: tuple[str, ...] = ()  # deployments whose drivers were ended; empty: none ran
    update: str | None = None  # the new deployment of the update under way that ended with it

    def __str__(self) -> str:
        if not self.ended and self.update is None:
            return f"{self.app} is {self.state}; no driver of it ran"
        what = [f"the driver{'s' if len(self.ended) > 1 else ''} of {', '.join(self.ended)}"] if self.ended else []
        what += [f"the update to {self.update}"] if self.update is not None else []
        return f"{self.app} is {self.state}; ended: {' and '.join(what)}"


def cancel(
    context: Context,
    app: str,
    drain: bool = True,
    timeout: float = 300.0,
    progress: Progress = discard_progress,
    asked_by: str | None = None,
) -> Cancelled:
    """End every driver of the app and the update under way, and wait until they are gone.

    It stays down until somebody starts it: no supervisor does, no hot standby, no rollback of the update. Nothing is
    done to an app that has ended already.

    With `drain`, WaitTimeoutError after `timeout` seconds, while the drain continues. Without it, a driver that does
    not stop in time is killed.
    """
    registry = context.registry.existing(app)
    under_way = registry.update_under_way()
    ended = begin_cancel(context, app, drain, asked_by)
    if ended:
        progress(Phase(f"{'draining' if drain else 'cancelling'} {app}: {', '.join(ended)}"))
    if not drain:
        for deployment in ended:
            stop_deployment(context, app, deployment)
    what = f"the {'drain' if drain else 'end'} of {app}"
    wait_for(lambda: poll_cancel(context, app) or None, what, timeout, why=lambda: current_silence(context, app))
    if under_way is not None and (problem := _wait_noticed(context, registry, under_way.new)):
        progress(problem)
    state = context.drivers(registry).state(registry.running()[0])
    update = registry.update(under_way.new) if under_way is not None else None
    promoted = update is not None and update.outcome not in (None, Outcome.CANCELLED)  # or it ended otherwise
    return Cancelled(app=app, state=state, ended=ended, update=None if update is None or promoted else update.new)


def begin_cancel(context: Context, app: str, drain: bool = True, asked_by: str | None = None) -> tuple[str, ...]:
    """Cancel the app, and tell its drivers to end. Return the deployments whose drivers were told."""
    registry = context.registry.existing(app)
    registry.running()  # NotRunningError when it has no deployment that ever ran
    cancellation = Cancellation(by=asked_by or user_and_host(), at=clock.now(), drain=drain)
    if _may_run(context, registry):
        claim_cancellation(registry, cancellation)
        boundary("cancelled")
    living = living_drivers(context, registry)
    for deployment in living if registry.cancellation() is not None else ():  # else somebody has started it since
        tell_to_end(registry, context.drivers(registry, watch=False), deployment, drain)
    return living


def poll_cancel(context: Context, app: str) -> bool:
    """Return whether the app has ended and its drivers are gone, or somebody has started it since.

    The update under way has ended then, too, unless another process works on it, which ends it as soon as it notices.
    """
    registry = context.registry.existing(app)
    deployment, _ = registry.running()
    drivers = context.drivers(registry)
    if registry.cancellation() is None and drivers.state(deployment) not in (CANCELLED, FINISHED):
        return True
    if drivers.state(deployment) not in (*FINAL_STATES, NEW) or not drivers.has_ended(deployment):
        return False
    if living_drivers(context, registry):
        return False
    with contextlib.suppress(LeaseHeldError):
        end_updates(context, registry)
    return True


def living_drivers(context: Context, registry: AppRegistry) -> tuple[str, ...]:
    """Return the deployments that have a driver: the current one first, then those beside it."""
    drivers, current = context.drivers(registry, watch=False), registry.current_id()
    living = [name for name in registry.deployment_ids() if not _ended(drivers, name)]
    return tuple(sorted(living, key=lambda name: name != current))


def tell_to_end(registry: AppRegistry, drivers: Drivers, deployment: str, drain: bool) -> None:
    """Command a driver to end, without waiting for its next look at the epoch."""
    state, status = drivers.state_and_status(deployment)
    launch = registry.launch(deployment)
    if launch is None:
        return
    serves = state in (RUNNING, DRAINING, SUSPENDED)
    epoch = status.epoch if status is not None else launch.epoch
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    box.issue(commands.DRAIN if drain and serves else commands.CANCEL)


def end_updates(context: Context, registry: AppRegistry) -> None:
    """End the updates and rollbacks under way of a cancelled app. LeaseHeldError while another process works on one."""
    cancellation = registry.cancellation()
    current = registry.current_id()
    for update in registry.updates() if cancellation is not None else ():
        if update.under_way(current):
            with holding(registry, update.new):
                end_cancelled(context, registry, update)


def end_cancelled(context: Context, registry: AppRegistry, update: UpdateRecord | None) -> None:
    """Record that an update, and what was rolled back, ended because the app was cancelled. The caller holds the
    lease."""
    why = str(registry.cancellation())
    for rollback in registry.rollbacks():
        if rollback.ended_at is None:
            registry.set_rollback(attrs.evolve(rollback, ended_at=clock.now(), reason=f"not completed: {why}"))
    if update is not None and update.outcome is None:
        with contextlib.suppress(StreamUpdateError):  # of no use to an app that is down
            strategy_named(update.strategy).clear(context, registry, update.new)
        records.end(context, registry.name, update.new, Outcome.CANCELLED, why)


def _may_run(context: Context, registry: AppRegistry) -> bool:
    """Return whether something of the app runs, or may be started: it did not end on request, or somebody works on
    it, or did so and died."""
    drivers, (deployment, _) = context.drivers(registry), registry.running()
    state = drivers.state(deployment)
    if state not in (CANCELLED, FINISHED) or registry.update_under_way() is not None:
        return True
    current = registry.current()
    if state == CANCELLED and current is not None and registry.rollback_under_way(current) is not None:
        return True
    try:
        check_free(registry, "")
    except LeaseHeldError:
        return True
    return bool(living_drivers(context, registry))


def _ended(drivers: Drivers, deployment: str) -> bool:
    return drivers.state(deployment) in (*FINAL_STATES, NEW) and drivers.has_ended(deployment)


def _wait_noticed(context: Context, registry: AppRegistry, new: str) -> str | None:
    """Wait until the update has ended. Return what is left, if its process has not noticed yet."""
    held: list[LeaseHeldError] = []

    def poll() -> bool | None:
        record = registry.update(new)
        if record is None or record.outcome is not None:
            return True
        try:
            end_updates(context, registry)
        except LeaseHeldError as error:
            held[:] = [error]
            return None
        return True

    try:
        wait_for(poll, f"the end of the update to {new}", NOTICE_SECONDS)
    except WaitTimeoutError:
        return f"the update to {new} can start nothing any more; its process has not noticed yet: {held[-1]}"
    return None
