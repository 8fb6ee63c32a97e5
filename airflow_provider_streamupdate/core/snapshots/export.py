"""Taking a snapshot of a deployment: by its own agent while it runs, or by any process once its driver is gone."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .. import clock
from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.snapshot import Snapshot, SnapshotKind
from ..errors import RefusedError
from ..plan.plan import AppPlan
from ..registry.deployment import DeploymentSpec, QueryStatus
from ..registry.registry import AppRegistry
from .snapshots import SnapshotStore


def export(
    app: AppRegistry,
    deployment: str,
    name: str,
    plan: AppPlan,
    cancelled: bool,
    progress: Mapping[str, QueryStatus],
) -> Snapshot:
    """Snapshot `name` of the deployment's last committed batches. With `cancelled` (nothing runs any more) a batch that
    was logged but not committed keeps its offsets; of a running deployment it is left out, since the deployment itself
    will commit it. `progress` is kept as a baseline."""
    checkpoints = {q.name: app.checkpoint(deployment, q.name) for q in plan.queries}
    orders = {q.name: q.source_order for q in plan.queries}
    exports = {}
    for query, folder in checkpoints.items():
        checkpoint = Checkpoint(folder)
        exported = checkpoint.export(carry_in_flight=cancelled, source_order=orders[query])
        status = progress.get(query, QueryStatus())
        exports[query] = attrs.evolve(
            exported,
            committed_at=_commit_time(checkpoint, exported.batch),
            state_rows=status.state_rows,
            rows_batch=status.rows_batch,
            source_lag=status.source_lag,
        )
    kind = SnapshotKind.CANCELLED if cancelled else SnapshotKind.LIVE
    return SnapshotStore(app).save(name, deployment, kind, plan, exports, checkpoints)


def check_whole(app: AppRegistry, deployment: str, plan: AppPlan) -> None:
    """Raise RefusedError when the deployment's driver died before it had made a checkpoint from saved state."""
    if (query := unmade(app, deployment, plan)) is not None:
        raise RefusedError(
            f"the driver of deployment {deployment} of {app.name} died before the checkpoint of query {query} was "
            f"whole, so it has no state of its own to save: run streamupdate restart {app.name} first, which makes the "
            "checkpoint again"
        )


def unmade(app: AppRegistry, deployment: str, plan: AppPlan) -> str | None:
    """Return a query whose checkpoint the deployment was to make from saved state, and has not; None: all are whole.
    What is there may be older than what the deployment before it has committed."""
    spec, marked = app.spec(deployment), set(app.deployment_folder(deployment).names("restored"))
    names = (query.name for query in plan.queries if f"{query.name}.json" not in marked)
    return next((name for name in names if _had_state(app, spec, name)), None)


def _had_state(app: AppRegistry, spec: DeploymentSpec, query: str) -> bool:
    """Return whether a deployment was to continue from saved state of a query."""
    if spec.from_snapshot is None:
        return False
    snapshots = SnapshotStore(app.sibling(spec.from_app) if spec.from_app else app)
    if snapshots.exists(spec.from_snapshot):
        saved = snapshots.get(spec.from_snapshot).queries.get(query)
        return saved is not None and saved.batch >= 0
    # A standby's is stored after the hand-over, a hot standby's never.
    return spec.parent is not None and Checkpoint(app.checkpoint(spec.parent, query)).committed_batch() is not None


def _commit_time(checkpoint: Checkpoint, batch: int) -> str | None:
    return clock.from_epoch_ms(checkpoint.commit_time(batch) * 1000) if batch >= 0 else None
