"""Drivers that run although their time is over, as far as their cluster can find them: a submitter that was lost
submitted one late, a node that was away has come back, a driver hangs at its end."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ...core import clock
from ...core.registry import hot_standby
from ...core.registry.deployment import FINAL_STATES, Current, DriverState, Launch, Status
from ...core.registry.registry import AppRegistry
from .clusters import Cluster, Found, cluster_of
from .drivers import Drivers

END_SECONDS = 60.0  # a driver may take from its last status to its end


@attrs.frozen(kw_only=True)
class Orphan:
    """A driver, and why it should not run."""

    driver: Found
    why: str


def orphans(drivers: Drivers) -> list[Orphan]:
    """Return those of an app whose drivers run in a cluster that can find them. DriverError when it could not be
    asked."""
    current = drivers.app.current_id()
    last = drivers.app.launch(current) if current else None
    if last is None or not cluster_of(last).finds:
        return []
    launches = _launches(drivers.app)
    return list(_orphans(drivers, launches))


def _launches(app: AppRegistry) -> dict[str, Launch]:
    return {spec.deployment: launch for spec in app.deployments() if (launch := app.launch(spec.deployment))}


def _orphans(drivers: Drivers, launches: dict[str, Launch]) -> Iterator[Orphan]:
    app, of = drivers.app, dict[Cluster, dict[str, Launch]]()
    for name, launch in launches.items():
        of.setdefault(cluster_of(launch), {})[name] = launch
    for cluster, in_it in of.items():
        found = cluster.found(in_it) if cluster.finds else []
        if any(driver.deployment is None for driver in found):  # made since the launches were read
            known = {cluster.label(spec.deployment): spec.deployment for spec in app.deployments()}
            found = [attrs.evolve(d, deployment=d.deployment or known.get(d.label)) for d in found]
        # All that follows is read after the look: what was started meanwhile is known here.
        standby = hot_standby.read(app.folder) if found else None
        for driver in found:
            last = app.launch(driver.deployment) if driver.deployment else None
            if standby is not None and standby.deployment == driver.deployment and last and driver.epoch == last.epoch:
                continue  # it outlives restarts of the driver that it follows, and is ended by its own command
            state, status = drivers.look(driver.deployment) if driver.deployment else ("", None)
            updating = app.update_under_way() is not None
            if why := why_over(driver, last, state, status, app.current(), updating):
                yield Orphan(driver=driver, why=why)


def why_over(
    driver: Found,
    launch: Launch | None,
    state: DriverState | str,
    status: Status | None,
    current: Current | None,
    updating: bool,
) -> str | None:
    """Return why a driver that runs should not; None where it may. Pure.

    launch: the last one of its deployment
    """
    if driver.deployment is None:
        return "no deployment of the app is its own any more"
    if launch is None:
        return None  # its launch is being written
    if driver.epoch < launch.epoch:
        return f"deployment {driver.deployment} has a later driver, of epoch {launch.epoch}"
    if launch.killed:
        return f"deployment {driver.deployment} was ended"
    if state in FINAL_STATES and status is not None and status.final:
        ended = clock.age(status.heartbeat_at)
        return f"it reported its end ({state}) {ended:.0f} s ago" if ended > END_SECONDS else None
    over = current is not None and current.deployment != driver.deployment and current.epoch > driver.epoch
    if over and not updating and current is not None:
        return f"its epoch {driver.epoch} is over: {current.deployment} runs in epoch {current.epoch}"
    return None
