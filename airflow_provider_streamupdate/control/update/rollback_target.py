"""The version that a rollback goes back to: the one before, or the one that is named."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import attrs

from ...core.errors import NotFoundError, RefusedError
from ...core.registry.deployment import FAILED, LOST, DeploymentSpec
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.supervision import EVICTED
from ...core.registry.update import UpdateRecord
from ...core.snapshots.superseded import is_freed, version_before
from ..drivers.drivers import Drivers
from ..operations.batch_ids import committed_since


@attrs.frozen(kw_only=True)
class WayBack:
    """The version that a rollback goes back to.

    to: the version before
    failure: why that one's driver ended, where it failed or was lost; None: it did not
    healthy: where it failed, the last version before it that did not and that is kept; None: there is none
    """

    to: str
    failure: str | None = None
    healthy: str | None = None


def way_back(registry: AppRegistry, drivers: Drivers, versions: list[str]) -> WayBack:
    """Return the way back among the versions before one, the newest first."""
    failure = _failure(drivers, versions[0])
    shown = failure and Hiding.in_app(registry).text(failure)
    others = versions[1:] if failure else []
    healthy = next((v for v in others if _failure(drivers, v) is None and not is_freed(registry, v)), None)
    return WayBack(to=versions[0], failure=shown, healthy=healthy)


def versions_before(deployment: str, specs: Sequence[DeploymentSpec], updates: Sequence[UpdateRecord]) -> list[str]:
    """Return the versions before a deployment, the newest first."""
    found = [deployment]
    while (before := version_before(found[-1], specs, updates)) is not None and before not in found:
        found.append(before)
    return found[1:]


def _failure(drivers: Drivers, deployment: str) -> str | None:
    status, state = drivers.status(deployment), drivers.state(deployment)
    if status is not None and status.state == FAILED and status.reason != EVICTED:
        return f"it failed: {status.error or status.reason or 'no reason given'}"
    return "its driver was lost" if state == LOST else None


def choose_version(registry: AppRegistry, drivers: Drivers, left: str, to: str | None) -> str:
    """Return the deployment that a rollback of `left` goes back to.

    RefusedError when the one before failed and none was named: it would fail again. A rollback that ends an update
    under way goes back to what ran, whatever its state.
    """
    record = registry.update(left)
    if record is None:
        registry.spec(left)  # NotFoundError when there is no such deployment
    versions = versions_before(left, registry.deployments(), registry.updates())
    if not versions:
        raise NotFoundError(f"app {registry.name} has no deployment before {left}, so there is nothing to roll back to")
    under_way = record is not None and record.outcome is None
    if to is not None and to not in versions:
        raise NotFoundError(
            f"app {registry.name} has no deployment {to} before {left}; name one of these: {', '.join(versions)}"
        )
    if to not in (None, versions[0]) and (under_way or registry.current_id() != left):
        raise RefusedError(
            f"{left} of {registry.name} is not what runs, so a rollback of it can only go back to {versions[0]}. "
            f"Do that first, then roll back to {to}"
        )
    if to is not None or under_way:
        return to or versions[0]
    back = way_back(registry, drivers, versions)
    if back.failure is None:
        return back.to
    lines = [
        f"deployment {back.to} of {registry.name}, which ran before {left}, is no version to go back to: "
        f"{back.failure}. Nothing was stopped. Name the version (--to, or to):"
    ]
    for version, what in ((back.healthy, "the last one that did not fail"), (back.to, "to run it once more")):
        if version is not None:
            batches = "; ".join(written_between(registry, [left, *versions], version))
            lines.append(f"- {version}: {what}. It computes again what was written since: {batches or 'nothing'}")
    raise RefusedError("\n".join(lines))


def written_between(registry: AppRegistry, versions: Sequence[str], old: str) -> Iterator[str]:
    """Yield what the versions before `old` in the list have written: a line for each query's batches."""
    for version in itertools.takewhile(lambda name: name != old, versions):
        yield from written_batches(registry, version)


def written_batches(registry: AppRegistry, deployment: str) -> Iterator[str]:
    """Yield, for each query, the batches that a deployment has committed and the sink that has them."""
    plan = registry.plan(deployment) if deployment in registry.deployment_ids() else None
    for name, batches in committed_since(registry, deployment).items() if plan else ():
        query = plan.query(name) if plan else None
        where = f" ({query.sink.format}{f' {query.sink.path}' if query.sink.path else ''})" if query else ""
        yield f"{deployment}'s batches {batches} of query {name}{where}"
