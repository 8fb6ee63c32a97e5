"""A batch in flight that the new version's sink already has: the sink skips it, mostly without computing it, so the
state of that batch is not made again."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.rules.sinks import kind_of
from ...core.plan.plan import QueryPlan
from ...core.plan.state_stores import single_partition
from ...core.snapshots.restore import plan_restore
from .. import spark_internals

_VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"  # Spark's default is true
_FINISH = "start the old version again so that it finishes that batch, then update"


def in_sink(query: QueryPlan, batch: int | None, fork: bool = False) -> bool | None:
    """Whether the sink has a batch and skips it; None where this is unknown. A file sink's log shows it
    (FileStreamSink.addBatch); a table's sink also compares query ids, and that of a `fork` is new."""
    kind = kind_of(query.sink.format)
    if batch is None or kind.forgets or (fork and kind.skips_ids and not kind.has_log):
        return False
    if not kind.has_log or query.sink.path is None:
        return None
    last = spark_internals.file_sink_batch(SparkSession.active(), query.sink.path)
    return last is not None and last >= batch


def _must_compute(query: QueryPlan) -> bool:
    """Return whether every batch must be computed, even one that the sink has: otherwise Spark ends the query."""
    validated = SparkSession.active().conf.get(_VALIDATION) == "true" and not any(map(single_partition, query.stages))
    return validated and kind_of(query.sink.format).must_compute


def may_be_skipped(snapshot: QuerySnapshot, query: QueryPlan, ahead: bool | None = None) -> bool:
    """Whether the sink may have the batch in flight, and skip it without making its state. What is not computed whole
    is in no sink. In checkpoint format v2 Spark finds the state of a skipped batch in no driver, so that nothing is
    gained by that of another one.

    ahead: whether that batch's state is whole; None: as the snapshot says
    """
    whole = snapshot.state_ahead if ahead is None else ahead
    return (
        snapshot.in_flight is not None
        and bool(query.stages)
        and whole
        and snapshot.state_format != 2
        and in_sink(query, snapshot.in_flight) is None
        and not _must_compute(query)
    )


def skipped_problem(snapshot: QuerySnapshot, old: QueryPlan, new: QueryPlan, fork: bool = False) -> str | None:
    """Why the new version would fail a batch later, or continue from a wrong state: its sink has, or may have, the
    batch in flight, and it cannot continue from the state which that batch has left."""
    has = in_sink(new, snapshot.in_flight, fork)
    unfinished = bool(old.stages) and not snapshot.state_ahead  # what is not computed whole is in no sink
    if has is False or not new.stages or (has is None and (unfinished or _must_compute(new))):
        return None
    if plan_restore(snapshot, old, new, has).ahead:
        return None
    known = "has" if has else "may have"
    sink = f"its sink ({new.sink.format}) {known} batch {snapshot.in_flight}, which did not commit"
    if snapshot.state_format == 2:
        step = "fork it into another sink (submit --fork)" if has else _FINISH
        return f"{sink}; in checkpoint format v2, Spark does not find the state of a skipped batch: {step}"
    if unfinished:
        return f"{sink}, and the state of that batch is incomplete: {_FINISH}"
    return f"{sink}; when a batch may be skipped, its state cannot be migrated and no stage can be added: {_FINISH}"
