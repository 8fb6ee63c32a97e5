"""The queries of a driver: start, drain, stop, and what they report."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ...core import clock
from ...core.boundaries import boundary
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.errors import describe
from ...core.plan.plan import AppPlan, StagePlan
from ...core.registry.deployment import QueryStatus
from ...core.storage import Folder
from .. import spark_internals
from .batch_reports import BatchReports
from .state_rows import StateRows

_FILES = "rocksdbSstFileSize"  # RocksDBStateStoreProvider.CUSTOM_METRIC_SST_FILE_SIZE: bytes of all its SST files


def state_bytes(progress: Mapping[str, Any]) -> int | None:
    """Bytes of all stages in a progress report (StreamingQueryProgress.json): of RocksDB's files where its provider
    tells them, else ``memoryUsedBytes``. None without a stage."""
    operators = progress.get("stateOperators") or ()
    if not operators:
        return None
    return sum(int((o.get("customMetrics") or {}).get(_FILES) or o.get("memoryUsedBytes") or 0) for o in operators)


DRAIN_POLL_SECONDS = 0.05
MOMENT_SECONDS = 0.01  # between attempts to catch a query where it can be ended
# While a trigger is active (MicroBatchExecution.executeOneBatch): not while it looks for data, which it does all the
# time where nothing comes in, nor in a batch without data, which may take as long as it likes.
_AT_A_BATCH = "Processing new data"


class RunningQueries:
    """All queries of one app in one driver."""

    def __init__(
        self,
        spark: SparkSession,
        writers: Mapping[str, DataStreamWriter],
        checkpoints: Mapping[str, Folder],
        plan: AppPlan,
    ) -> None:
        self._spark = spark
        self._writers = writers
        self._checkpoints = {name: Checkpoint(folder) for name, folder in checkpoints.items()}
        self._plan = plan
        self._queries: dict[str, StreamingQuery] = {}
        self._status = {name: QueryStatus() for name in writers}
        self._rows: dict[str, StateRows] = {}
        self._reports: dict[str, BatchReports] = {}
        self._began: dict[str, float] = {}  # when the batch in flight was first seen, on the monotonic clock
        self._before: dict[str, int] = {}  # the last batch committed before this driver's first start
        self._reported: dict[str, dict[str, Any] | None] = {}  # the last report before a query was adopted

    def start(self) -> None:
        """Start every query on its checkpoint; those that run already are left alone."""
        for name, writer in self._writers.items():
            if name in self._queries and self._queries[name].isActive:
                continue
            checkpoint = self._checkpoints[name]
            if name not in self._before:
                committed = checkpoint.committed_batch()
                self._before[name] = -1 if committed is None else committed
                self._rows[name] = StateRows.since(self._before[name])
            location = checkpoint.folder.uri
            self._queries[name] = writer.queryName(name).option("checkpointLocation", location).start()

    def adopt(self, name: str, query: StreamingQuery) -> None:
        """Take a query that runs already, and has committed all batches so far for somebody else: neither these nor
        what it reports of them count as this driver's."""
        committed = self._checkpoints[name].committed_batch()
        self._before[name] = -1 if committed is None else committed
        self._rows[name] = StateRows.since(self._before[name])
        self._reported[name] = _last_progress(query)
        self._queries[name] = query

    @property
    def writers(self) -> Mapping[str, DataStreamWriter]:
        return self._writers

    @property
    def plan(self) -> AppPlan:
        return self._plan

    def replace(self, writers: Mapping[str, DataStreamWriter], plan: AppPlan) -> None:
        """Make the next start use other writers of the same queries, which are drained or stopped."""
        self._writers, self._plan = writers, plan

    def committed(self) -> dict[str, int]:
        """The last committed batch of each query, -1 before the first."""
        found = {name: checkpoint.committed_batch() for name, checkpoint in self._checkpoints.items()}
        return {name: -1 if batch is None else batch for name, batch in found.items()}

    def has_settled(self, since: Mapping[str, int]) -> bool:
        """Whether every query has committed a batch after those in `since`, or has looked for data and found none.
        Raises the error of one that failed."""
        committed, progress = self.committed(), self.progress()
        for query in self._queries.values():
            if not query.isActive and (error := query.exception()):
                raise error
        return all(committed[n] > since[n] or s.idle or not s.active for n, s in progress.items())

    def ended(self) -> bool:
        """Whether all queries ended by themselves; raises the error of one that failed."""
        # Looked at once: one that fails between two looks would seem to have ended by itself.
        over = [query for query in self._queries.values() if not query.isActive]
        for query in over:
            if error := query.exception():
                raise error
        return len(over) == len(self._queries)

    def drain(self) -> None:
        """Let every query finish the batch in flight and begin no other.

        Only a query that sleeps until its next trigger is interrupted: it has no batch in flight and, once told to
        stop, begins none (spark_internals.stop_after_batch).
        """
        boundary("draining")
        for query in self._queries.values():
            while not spark_internals.stop_after_batch(self._spark, query):
                spark_internals.join_thread(query, MOMENT_SECONDS)
        for query in self._queries.values():
            while spark_internals.thread_alive(query):
                if spark_internals.sleeping_between_batches(self._spark, query):
                    query.stop()
                else:
                    spark_internals.join_thread(query, DRAIN_POLL_SECONDS)
            if error := query.exception():
                raise error
        boundary("drained")

    def stop(self) -> None:
        """Stop at once, even during a batch."""
        for query in self._queries.values():
            with contextlib.suppress(Exception):  # the JVM may be gone already
                query.stop()

    def progress(self) -> dict[str, QueryStatus]:
        """Each query's status: batches from the commit log (what counts), rates and rows from Spark's last progress."""
        for name, query in self._queries.items():
            self._status[name] = self._one(name, query)
        return dict(self._status)

    def _one(self, name: str, query: StreamingQuery) -> QueryStatus:
        status = self._status[name]
        checkpoint = self._checkpoints[name]
        begun = query.status  # before the commits, so that a batch that ends in between is seen to have ended
        batch = checkpoint.committed_batch()
        same_batch = batch in (None, status.batch)
        running = self._batch_running(name, begun, same_batch)
        was_idle = status.idle and same_batch
        if batch is not None and batch != status.batch:
            if status.first_batch is None and batch > self._before[name]:
                first = self._before[name] + 1
                began = _commit_time(checkpoint, first) or _commit_time(checkpoint, batch)
                status = attrs.evolve(status, first_batch=first, first_commit_at=began)
                boundary("first-commit-seen")
            status = attrs.evolve(status, batch=batch, last_commit_at=_commit_time(checkpoint, batch))
        progress = _last_progress(query)
        if progress is not None and progress == self._reported.get(name):
            progress = None
        after = query.status  # after the report
        # Until its next look for data ends, a query that found none has none: else many queries, each of which looks
        # most of the time, would hardly ever be seen idle together.
        no_data = query.isActive and not after["isDataAvailable"] and (was_idle or not after["isTriggerActive"])
        # Before its first trigger a query looks the same: only a progress report says that it has looked for data.
        status = attrs.evolve(
            status,
            active=query.isActive,
            idle=no_data and progress is not None,
            batch_running=running,
            error=_failure(query),
        )
        if progress is None:
            return status
        operators = self._plan.query(name)
        stages = operators.stages if operators else ()
        reports = self._reports.setdefault(name, BatchReports(self._before[name]))
        executed = reports.update(query, stages, status.batch)
        rows = self._rows[name] = self._rows[name].after(executed, stages)
        order = operators.source_order if operators else ()
        behind = rows_behind(progress, order)
        return attrs.evolve(
            status,
            input_rows_per_second=progress.get("inputRowsPerSecond"),
            processed_rows_per_second=progress.get("processedRowsPerSecond"),
            batch_seconds=progress.get("durationMs", {}).get("triggerExecution", 0) / 1000,
            watermark=progress.get("eventTime", {}).get("watermark"),
            lag=float(sum(behind.values())) if behind else None,
            source_lag=behind,
            source_rates=rows_arriving(progress, order),
            state_rows=_by_stage(stages, rows.rows) or {},
            rows_batch=rows.batch if rows.exact else None,
            state_bytes=state_bytes(progress),
            removed_rows=_by_stage(stages, rows.removed),
            removed_since=rows.start,
            figures=reports.known,
        )

    def _batch_running(self, name: str, spark_status: Mapping[str, Any], same: bool) -> float:
        """Seconds that the batch in flight has been seen. same: none was committed since the last look"""
        if not (spark_status["isTriggerActive"] and spark_status["message"] == _AT_A_BATCH):
            self._began.pop(name, None)
            return 0.0
        now = time.monotonic()
        if not same:
            self._began[name] = now
        return now - self._began.setdefault(name, now)


def _by_stage(stages: Sequence[StagePlan], rows: Sequence[int] | None) -> dict[str, int] | None:
    if rows is None or len(rows) != len(stages):
        return None
    return {stage.name: n for stage, n in zip(stages, rows, strict=True)}


def _commit_time(checkpoint: Checkpoint, batch: int) -> str | None:
    """The time of a commit; None where Spark has removed it: a low spark.sql.streaming.minBatchesToRetain keeps few."""
    try:
        return clock.from_epoch_ms(checkpoint.commit_time(batch) * 1000)
    except FileNotFoundError:
        return None


def _failure(query: StreamingQuery) -> str | None:
    """Describe why a query failed."""
    with contextlib.suppress(Exception):  # a query whose JVM is going down tells nothing
        error = None if query.isActive else query.exception()
        return None if error is None else describe(error)
    return None


def _last_progress(query: StreamingQuery) -> dict[str, Any] | None:
    with contextlib.suppress(Exception):  # a query whose JVM is going down has none
        progress = query.lastProgress
        return None if progress is None else dict(progress)
    return None


def rows_behind(progress: Mapping[str, Any], order: Sequence[str]) -> dict[str, float]:
    """How many rows each source is behind, for sources that report it (Kafka).

    order: the sources' names in the offset log; a progress report has each of them once (finishTrigger)

    Kafka's own figure, ``avgOffsetsBehindLatest``, is the average of its partitions (KafkaMicroBatchStream.metrics), so
    that all are added up here, from what there is and what was read: ``{"topic": {"partition": offset}}``.
    """
    unread = {name: _unread(source) for name, source in _by_source(progress, order).items()}
    return {name: float(n) for name, n in unread.items() if n is not None}


def rows_arriving(progress: Mapping[str, Any], order: Sequence[str]) -> dict[str, float]:
    """How many rows a second arrive from each source; without those of which Spark does not know it (no trigger before,
    or none that took time)."""
    rates = {name: source.get("inputRowsPerSecond") for name, source in _by_source(progress, order).items()}
    return {name: float(n) for name, n in rates.items() if isinstance(n, (int, float)) and math.isfinite(n)}


def _by_source(progress: Mapping[str, Any], order: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a progress report by source name; empty when it is unknown which is which."""
    names, sources = list(dict.fromkeys(order)), progress.get("sources", [])
    return dict(zip(names, sources, strict=True)) if len(names) == len(sources) else {}


def _unread(source: Mapping[str, Any]) -> int | None:
    if "avgOffsetsBehindLatest" not in (source.get("metrics") or {}):
        return None
    try:
        latest, read = (json.loads(source[offset]) or {} for offset in ("latestOffset", "endOffset"))
        return sum(n - read.get(topic, {}).get(p, n) for topic, all_ in latest.items() for p, n in all_.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # not Kafka's offsets; a heartbeat must not end for it
