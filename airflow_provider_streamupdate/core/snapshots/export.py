"""Taking a snapshot of a deployment: by its own agent while it runs, or by any process once its driver is gone."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .. import clock
from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.snapshot import Snapshot, SnapshotKind
from ..plan.plan import AppPlan
from ..registry.deployment import QueryStatus
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
            lag=status.lag,
            source_lag=status.source_lag,
        )
    kind = SnapshotKind.CANCELLED if cancelled else SnapshotKind.LIVE
    return SnapshotStore(app).save(name, deployment, kind, plan, exports, checkpoints)


def _commit_time(checkpoint: Checkpoint, batch: int) -> str | None:
    return clock.from_epoch_ms(checkpoint.commit_time(batch) * 1000) if batch >= 0 else None
