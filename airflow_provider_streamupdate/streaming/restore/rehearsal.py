"""The rehearsal of a version: its queries on a clone of a snapshot, on real input, into no sink."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ...core.checkpoint.snapshot import Snapshot
from ...core.difference.figures import BatchFigures
from ...core.errors import CorruptError, StorageError
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.snapshots.rehearsal import BATCHES, ERROR, INPUT, RehearsedQuery
from ...core.storage import Folder
from .. import spark_internals
from ..planning.author import describe_failure
from .migrator import MigrationFunctions
from .restorer import restore_query
from .saved_state import SavedState

POLL_SECONDS = 0.05
TASKS_END_SECONDS = 30.0  # how long tasks that were told to end are waited for


def rehearse(
    saved: SavedState,
    plan: AppPlan,
    writers: Mapping[str, DataStreamWriter],
    migrations: MigrationFunctions,
    batches: int,
    scratch: Folder,
) -> tuple[RehearsedQuery, ...]:
    """Run `batches` batches of every query, one query after the other, from `saved` as restored under `scratch` (which
    executors can reach). Sources are read; the app's sinks and foreachBatch functions are not called. An error of a
    query, or of its restore, is its result."""
    found = []
    for query in plan.queries:
        writer, checkpoint = writers[query.name], scratch.sub(query.name)
        try:
            if saved.holds(query.name):
                restore_query(saved, query, writer, checkpoint, migrations)
            found.append(_run(query, writer, checkpoint, batches))
        except (CorruptError, StorageError):
            raise  # says nothing about the version
        except Exception as error:
            found.append(RehearsedQuery(name=query.name, ended=ERROR, error=describe_failure(error)))
    return tuple(found)


def saved_rows(snapshot: Snapshot, saved: SavedState) -> dict[str, dict[str, int]]:
    """State rows in the snapshot by query and stage, these under the names they have in `saved` (renames)."""
    return {
        before.name: {
            stage.name: rows[was.name]
            for was, stage in zip(before.stages, now.stages, strict=True)
            if was.name in (rows := snapshot.queries[before.name].state_rows)
        }
        for before, now in zip(snapshot.plan.queries, saved.plan.queries, strict=True)
    }


def _run(query: QueryPlan, writer: DataStreamWriter, checkpoint: Folder, batches: int) -> RehearsedQuery:
    """Trigger.AvailableNow ends when the input that was there at the start is used up, in batches of the sizes that the
    sources' own limits allow; a source that does not know it (rate) gives all it has in one batch
    (AvailableNowMicroBatchStreamWrapper)."""
    frame = spark_internals.writer_frame(writer)
    muted = frame.writeStream.format("noop").outputMode(query.output_mode)
    running = muted.option("checkpointLocation", checkpoint.uri).trigger(availableNow=True).start()
    seen: dict[int, BatchFigures] = {}
    try:
        while len(seen) < batches:
            active = running.isActive  # before the reports, so that the last ones are not missed
            seen |= _reported(query, running)
            if not active:
                break
            time.sleep(POLL_SECONDS)
        error = running.exception()
    finally:
        running.stop()
        _wait_for_tasks(frame.sparkSession)
    kept = tuple(seen[number] for number in sorted(seen)[:batches])
    if error is not None and len(kept) < batches:
        return RehearsedQuery(name=query.name, batches=kept, ended=ERROR, error=describe_failure(error))
    return RehearsedQuery(name=query.name, batches=kept, ended=BATCHES if len(kept) == batches else INPUT)


def _wait_for_tasks(spark: SparkSession) -> None:
    """Wait so that nothing is written into the scratch folder while it is removed; not forever, since a task that does
    not end does not make the rehearsal wrong."""
    until = time.monotonic() + TASKS_END_SECONDS
    while spark_internals.tasks_running(spark) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _reported(query: QueryPlan, running: StreamingQuery) -> dict[int, BatchFigures]:
    """The batches Spark has reported; a trigger that found nothing to do is reported too, without ``addBatch``."""
    reports = (dict(p) for p in running.recentProgress)
    return {p["batchId"]: _batch(query, p) for p in reports if "addBatch" in p["durationMs"]}


def _batch(query: QueryPlan, progress: Mapping[str, Any]) -> BatchFigures:
    rows = [int(o["numRowsTotal"]) for o in progress["stateOperators"]]
    return BatchFigures(
        batch=progress["batchId"],
        seconds=progress["durationMs"]["triggerExecution"] / 1000,
        rows_in=progress["numInputRows"],
        rows_out=int(progress["sink"]["numOutputRows"]),
        state_rows={s.name: n for s, n in zip(query.stages, rows, strict=True)},
    )
