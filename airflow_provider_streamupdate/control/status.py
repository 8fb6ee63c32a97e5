"""Read-only operations on one app: its state, its deployments, the end of a driver's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ..core.registry.deployment import (
    DEAD_STATES,
    FAILED,
    FINAL_STATES,
    LOST,
    NEW,
    SILENT,
    STARTING,
    Current,
    DeploymentSpec,
    DriverState,
    Launch,
    Status,
)
from ..core.registry.registry import AppRegistry
from ..core.registry.update import UpdateRecord
from .attention import Kind, Need, assess
from .drivers import driver_log as logs
from .drivers.drivers import Drivers
from .operations import hot_standby
from .operations.context import Context
from .operations.hot_standby import StandsBy
from .update.strategies import strategy_named

# In these states the driver itself may not say what is the matter.
UNEXPLAINED_STATES = (STARTING, LOST, FAILED, SILENT)


@attrs.frozen(kw_only=True)
class UnpromotedVersion:
    """The new version of an update whose versions run side by side, before it is promoted."""

    deployment: str
    state: DriverState
    status: Status | None


@attrs.frozen(kw_only=True)
class Glance:
    """An app as a list shows it, and what it needs a person for."""

    app: str
    state: DriverState  # its current deployment's; `new` before the first
    current: Current | None = None
    status: Status | None = None
    last_update: UpdateRecord | None = None  # the one under way, else the last one
    beside: UnpromotedVersion | None = None
    needs: tuple[Need, ...] = ()  # the most urgent first

    @property
    def outage(self) -> Need | None:
        """The need of an app whose driver is dead or silent, or whose update no process works on."""
        down = self.state in (*DEAD_STATES, SILENT)
        return next((need for need in self.needs if down or need.kind in (Kind.INTERRUPTED, Kind.WAITS)), None)

    @property
    def update(self) -> UpdateRecord | None:
        """The update under way."""
        last, current = self.last_update, self.current
        return last if last and current and last.under_way(current.deployment) else None


@attrs.frozen(kw_only=True)
class AppStatus(Glance):
    """The status of an app."""

    spec: DeploymentSpec | None = None
    launch: Launch | None = None
    hot_standby: StandsBy | None = None  # the driver that takes over when the current one dies; None: none is wanted
    cluster: str | None = None  # what the cluster says of a driver that does not run: why it waits, or why it ended


def glance(registry: AppRegistry, drivers: Drivers, last_update: UpdateRecord | None) -> Glance:
    """Return an app at a glance. Reads a handful of files, whatever its size."""
    current = registry.current()
    if current is None:
        return Glance(app=registry.name, state=NEW, last_update=last_update)
    state, driver = drivers.state_and_status(current.deployment)
    return Glance(
        app=registry.name,
        state=state,
        current=current,
        status=driver,
        last_update=last_update,
        beside=unpromoted_version(registry, drivers, current, last_update),
        needs=assess(registry, current, state, driver, last_update),
    )


def status(context: Context, app: str, watch: bool = True) -> AppStatus:
    """Return the app's status. NotFoundError for an unknown app.

    watch: see `Drivers`; False answers at once
    """
    registry = context.registry.existing(app)
    drivers = context.drivers(registry, watch)
    found = glance(registry, drivers, registry.update_under_way() or registry.last_update())
    known = attrs.asdict(found, recurse=False)
    if found.current is None:
        return AppStatus(**known)
    deployment = found.current.deployment
    return AppStatus(
        **known,
        spec=registry.spec(deployment),
        launch=registry.launch(deployment),
        hot_standby=hot_standby.wanted_standby(registry, drivers),
        cluster=drivers.cluster_message(deployment) if found.state in UNEXPLAINED_STATES else None,
    )


def unpromoted_version(
    registry: AppRegistry, drivers: Drivers, current: Current, update: UpdateRecord | None
) -> UnpromotedVersion | None:
    """Return the new version that the last update runs beside the current deployment; None when there is none."""
    if update is None or update.outcome is not None or not strategy_named(update.strategy).runs_beside:
        return None
    if update.new == current.deployment or registry.launch(update.new) is None:
        return None
    state, status = drivers.state_and_status(update.new)
    return UnpromotedVersion(deployment=update.new, state=state, status=status)


def apps(context: Context) -> list[str]:
    return context.registry.apps()


def deployments(context: Context, app: str) -> list[DeploymentSpec]:
    return context.registry.existing(app).deployments()


def deployment_state(context: Context, app: str, deployment: str) -> DriverState:
    registry = context.registry.existing(app)
    registry.spec(deployment)
    return context.drivers(registry, watch=False).state(deployment)


def drivers(context: Context, app: str, watch: bool = True) -> Drivers:
    """Return the app's drivers, for callers that need more than one operation."""
    return context.drivers(context.registry.existing(app), watch)


def follow_log(
    context: Context, app: str, deployment: str, lines: int = logs.LINES, over: Callable[[], bool] = lambda: False
) -> Iterator[str]:
    """Yield the last lines of a driver's log and each later one until it has ended. NotFoundError for an unknown
    deployment, or when the log cannot be read here.

    over: asked now and then, also while nothing is written: whether nobody wants more
    """
    drivers = context.drivers(context.registry.existing(app), watch=False)
    return logs.follow_log(drivers.app, deployment, lines, lambda: drivers.state(deployment) in FINAL_STATES, over)


def driver_log(
    context: Context, app: str, deployment: str, lines: int = logs.LINES, end: bool = False
) -> logs.DriverLog:
    """Return the end of a driver's log, or, of one that failed, the lines around its error, unless the `end` is wanted.
    NotFoundError for an unknown deployment."""
    registry = context.registry.existing(app)
    failed = context.drivers(registry, watch=False).state(deployment) == FAILED
    return logs.driver_log(registry, deployment, lines, around=failed and not end)
