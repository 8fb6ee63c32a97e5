"""A query that is started again after another version has written to its sink (a rollback, a successor that failed)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.renumber import begun, put_back, renumber
from ...core.compatibility.rules.sinks import declares_skips, is_function, kind_of
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.plan.state_stores import PARTITIONS
from ...core.registry.registry import AppRegistry
from ...core.snapshots.repeated_batches import checkpoints_of
from .. import spark_internals
from ..restore.restorer import empty_stores


def skip_used_batch_ids(app: AppRegistry, deployment: str, plan: AppPlan) -> dict[str, tuple[int, int]]:
    """Let no query use batch ids that its sink has from another version and would skip: such a query computes what it
    has not committed again, under later ids. Return, for each changed query, its last batch and that batch's new id.
    Nothing may run on the deployment's checkpoints."""
    changed, skipping = {}, said_to_skip(app, deployment)
    for query in plan.queries:
        checkpoint = Checkpoint(app.checkpoint(deployment, query.name))
        put_back(checkpoint)
        batch, logged = checkpoint.committed_batch(), checkpoint.logged_batch()
        if batch is None or logged is None:
            continue
        last = _last_in_sink(app, query, checkpoint, query.name in skipping)
        if last is None or last <= batch or (last <= logged and not begun(checkpoint, batch, logged)):
            continue  # what is in its log beyond its last commit is its own, in flight, and carried with its state
        _renumber(query, checkpoint, checkpoint.offsets(batch).conf, last)
        changed[query.name] = (batch, last)
    return changed


def used_beyond(app: AppRegistry, parent: str, plan: AppPlan) -> bool:
    """Whether a sink that compares batch ids may have later ids than `parent` has logged, from a deployment that was
    rolled back to it: a version that continues from `parent` must not use these. The parent may run."""
    skipping = said_to_skip(app, parent)
    for query in plan.queries:
        checkpoint = Checkpoint(app.checkpoint(parent, query.name))
        if not checkpoint.folder.exists("metadata") or not _looks_at_ids(query, query.name in skipping):
            continue
        last, own = _last_logged(app, query, checkpoint), checkpoint.logged_batch()
        if last is not None and (own is None or last > own):
            return True
    return False


def said_to_skip(app: AppRegistry, deployment: str) -> tuple[str, ...]:
    """The queries whose functions skip ids, as declared with rollbacks to a deployment."""
    return tuple({query for record in app.rollbacks() if record.back_to == deployment for query in record.later_ids})


def _last_in_sink(app: AppRegistry, query: QueryPlan, checkpoint: Checkpoint, said: bool) -> int | None:
    """The last batch id that the sink has, or (of a table, or a function that skips ids) may have, of a query with
    this one's id; None where the sink does not look at ids. A log of files may have no gap
    (CompactibleFileStreamLog.compact), so it is asked. `said`: the function was said to skip ids, which counts when the
    app does not tell."""
    if kind_of(query.sink.format).has_log:
        path = query.sink.path
        return spark_internals.file_sink_batch(SparkSession.active(), path) if path else None
    return _last_logged(app, query, checkpoint) if _looks_at_ids(query, said) else None


def _looks_at_ids(query: QueryPlan, said: bool) -> bool:
    said = said and is_function(query) and query.sink.seen_batch is None
    return kind_of(query.sink.format).skips_ids or declares_skips(query) or said


def _last_logged(app: AppRegistry, query: QueryPlan, checkpoint: Checkpoint) -> int | None:
    batches = (each.logged_batch() for each in checkpoints_of(app, query.name, checkpoint.query_id()))
    return max((batch for batch in batches if batch is not None), default=None)


def _renumber(query: QueryPlan, checkpoint: Checkpoint, conf: Mapping[str, str], last: int) -> None:
    stages = {stage.operator_id: stage for stage in query.stages}

    def empty(operator: int, name: str) -> None:
        empty_stores(
            SparkSession.active(), stages[operator], checkpoint.folder, (name,), int(conf[PARTITIONS]), dict(conf)
        )

    renumber(checkpoint, last, query.source_order, empty)
