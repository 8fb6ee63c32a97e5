"""Refuse a start without state when the app has state, unless the caller asked for a fresh start."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.errors import RefusedError
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry
from ...core.snapshots.fresh_start import committed
from ...core.snapshots.snapshots import SnapshotStore
from ..drivers.drivers import Drivers


def check_start(registry: AppRegistry, drivers: Drivers, wanted: DeploymentSpec) -> None:
    """Raise RefusedError when `wanted` would start without state although the app has some.

    A deployment that has itself committed batches continues from those.
    """
    if wanted.from_snapshot is None and not wanted.fresh and not committed(registry, wanted.deployment):
        check_no_state(registry, drivers)


def check_no_state(registry: AppRegistry, drivers: Drivers) -> None:
    """Raise RefusedError when the app has state: committed batches, or a snapshot. It names them and the choices."""
    deployment, batches = _last_to_commit(registry)
    snapshot = _newest_snapshot(registry)
    if deployment is None and snapshot is None:
        return
    app, has, restart = registry.name, [], ""
    if deployment is not None:
        has.append(f"deployment {deployment} ({drivers.state(deployment)}, {format_batches(batches)})")
        if deployment == registry.current_id():
            restart = (
                f"`streamupdate restart {app}` starts {deployment} again from its own checkpoint; then "
                "`streamupdate update FILE` brings a new version in; "
            )
    if snapshot is not None:
        has.append(f"snapshot {snapshot[0]} ({snapshot[1]})")
    raise RefusedError(
        f"app {app} has state and would be started without it; nothing was started. It has {' and '.join(has)}. "
        f"Choose one: {restart}`streamupdate submit FILE --snapshot {snapshot[0] if snapshot else 'NAME'}` starts from "
        f"a snapshot (`streamupdate save-snapshot {app} NAME --cancel` takes one of the app's latest state); "
        "`streamupdate submit FILE --fresh` starts without state on purpose. In Airflow: StreamRestartOperator, or "
        "from_snapshot or fresh of StreamSubmitOperator"
    )


def format_batches(batches: Mapping[str, int]) -> str:
    """E.g. ``windows up to batch 14``."""
    return ", ".join(f"{query} up to batch {batch}" for query, batch in sorted(batches.items()))


def _last_to_commit(registry: AppRegistry) -> tuple[str | None, Mapping[str, int]]:
    """Return the current deployment if it has committed batches, else the newest one that has, with its batches."""
    newest_first = [spec.deployment for spec in reversed(registry.deployments())]
    current = registry.current_id()
    for deployment in sorted(newest_first, key=lambda name: name != current):
        if batches := committed(registry, deployment):
            return deployment, batches
    return None, {}


def _newest_snapshot(registry: AppRegistry) -> tuple[str, str] | None:
    """Return its name and its batches. A damaged snapshot counts as state too: it may be repaired."""
    store = SnapshotStore(registry)
    if found := store.all():
        return found[-1].name, found[-1].position
    return next(((damaged.name, "damaged") for damaged in store.damaged()), None)
