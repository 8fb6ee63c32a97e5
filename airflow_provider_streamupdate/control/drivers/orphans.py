"""Drivers that run although their time is over, as far as their cluster can find them: a submitter that was lost
submitted one late, a node that was away has come back, a driver hangs at its end."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ...core import clock
from ...core.errors import StreamUpdateError
from ...core.registry import hot_standby
from ...core.registry.deployment import FINAL_STATES, Current, DriverState, Launch, Status
from .clusters import Cluster, RunningDriver, cluster_of
from .drivers import Drivers

END_SECONDS = 60.0  # a driver may take from its last status to its end


@attrs.frozen(kw_only=True)
class Orphan:
    """A driver, and why it should not run."""

    driver: RunningDriver
    why: str


@attrs.frozen
class Orphans:
    """problems: why some places could not be searched"""

    found: list[Orphan]
    problems: list[str]


def orphans(drivers: Drivers, everywhere: bool = True) -> Orphans:
    """Return those of an app whose drivers run in a cluster that can find them.

    everywhere: search all places where the app's drivers ever ran; else where the current one does, and read nothing
        else of the root while only that one is found
    """
    app = drivers.app
    current = app.current()
    last = app.launch(current.deployment) if current else None
    if everywhere:
        launches = [launch for spec in app.deployments() if (launch := app.launch(spec.deployment))]
    else:
        launches = [last] if last is not None else []
    places = {(cluster.name, cluster.place(launch)): (cluster, launch) for launch in launches
              if (cluster := cluster_of(launch)).finds}  # fmt: skip
    found, problems = list[tuple[Cluster, RunningDriver]](), list[str]()
    for cluster, launch in places.values():
        try:
            found += [(cluster, driver) for driver in cluster.running_drivers(launch)]
        except StreamUpdateError as error:
            problems.append(str(error))
    if current is not None and last is not None:  # the usual one
        its = cluster_of(last).label(current.deployment), last.epoch
        found = [(cluster, driver) for cluster, driver in found if (driver.label, driver.epoch) != its or last.killed]
    return Orphans(list(_orphans(drivers, found)) if found else [], problems)


def _orphans(drivers: Drivers, found: list[tuple[Cluster, RunningDriver]]) -> Iterator[Orphan]:
    # All of this is read after the look: what was started meanwhile is known here.
    app = drivers.app
    deployments = [spec.deployment for spec in app.deployments()]
    standby = hot_standby.read(app.folder)
    for cluster, driver in found:
        deployment = next((name for name in deployments if cluster.label(name) == driver.label), None)
        last = app.launch(deployment) if deployment else None
        if standby is not None and standby.deployment == deployment and last and driver.epoch == last.epoch:
            continue  # it outlives restarts of the driver that it follows, and is ended by its own command
        state, status = drivers.state_and_status(deployment) if deployment else ("", None)
        current = app.current()
        updating = app.update_under_way() is not None
        if why := why_over(driver, deployment, last, state, status, current, updating):
            yield Orphan(driver=driver, why=why)


def why_over(
    driver: RunningDriver,
    deployment: str | None,
    launch: Launch | None,
    state: DriverState | str,
    status: Status | None,
    current: Current | None,
    updating: bool,
) -> str | None:
    """Return why a driver that runs should not; None where it may. Pure.

    deployment: None: no deployment of the app is its own; launch: the last one of it
    """
    if deployment is None:
        return "no deployment of the app is its own any more"
    if launch is None:
        return None  # its launch is being written
    if driver.epoch < launch.epoch:
        return f"deployment {deployment} has a later driver, of epoch {launch.epoch}"
    if launch.killed:
        return f"deployment {deployment} was ended"
    if state in FINAL_STATES and status is not None and status.final:
        ended = clock.age(status.heartbeat_at)
        return f"it reported its end ({state}) {ended:.0f} s ago" if ended > END_SECONDS else None
    over = current is not None and current.deployment != deployment and current.epoch > driver.epoch
    if over and not updating and current is not None:
        return f"its epoch {driver.epoch} is over: {current.deployment} runs in epoch {current.epoch}"
    return None
