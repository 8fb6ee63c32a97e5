"""The thread of a running query, and its end at a batch boundary."""

from __future__ import annotations

import re
from typing import Any

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from ..jvm import module, scala_map
from ..version import RUNTIME

# Where a batch is certain to commit: its execution (addBatch and what a V2 sink does), and the commit itself.
# Operators that give as many rows as they are given, and do not count them (Spark: *Exec.scala).
_KEEPS_ROWS = frozenset(
    {"ProjectExec", "WholeStageCodegenExec", "InputAdapter", "ShuffleExchangeExec", "SortExec", "CollectMetricsExec"}
)
_SINK, _COMMIT = ".withNewExecutionId", ".markMicroBatchEnd("


EXECUTIONS_LOOKED_AT = 100  # the last ones


@attrs.frozen(kw_only=True)
class OperatorReport:
    """A stateful operator in a batch. rows: that it holds; removed: that left; stores: how many were opened for it.
    All are added up over tasks: a foreachBatch function that asks for a batch twice has all of it counted twice, and
    one that asks for a part (``isEmpty``) that part once more (*measured*)."""

    rows: int
    removed: int
    stores: int
    partitions: int


@attrs.frozen(kw_only=True)
class ExecutedBatch:
    """Spark's report of a batch."""

    batch: int
    rows_in: int  # counted like rows of operators
    rows_out: int  # to the sink; -1: not reported
    seconds: float  # of its execution, sink included (``addBatch``)
    stages: tuple[OperatorReport, ...]  # in the order of operator ids


def stop_after_batch(spark: SparkSession, query: StreamingQuery) -> bool:
    """Try to end a query at its next batch boundary; False when it is at a point where that cannot be guaranteed.

    Sets StreamExecution.state to TERMINATED: a batch in flight runs to its commit, and MicroBatchExecution begins no
    other. But a batch whose offsets are logged and which has not come to its sink interrupts itself when it sees that
    (runBatch, after planning; measured: logged, not committed, its sink possibly entered). So the state is set only
    while the thread sleeps or works in the sink. It needs awaitProgressLock to log offsets and to commit, so that it
    cannot get from one to the other while that is held here.
    """
    execution = execution_of(query)
    thread, lock, state = execution.queryExecutionThread(), execution.awaitProgressLock(), execution.state()
    lock.lock()
    try:
        if not thread.isAlive():
            # It may have ended on seeing the state of an attempt that was taken back below, after its own last word.
            state.set(module(spark, f"{RUNTIME}.TERMINATED"))
            return True
        frames = _frames(spark, thread)
        if not (_sleeps(frames) or _SINK in frames or _COMMIT in frames):
            return False
        before = state.getAndSet(module(spark, f"{RUNTIME}.TERMINATED"))
        if _sleeps(frames) and not _sleeps(_frames(spark, thread)):
            state.set(before)  # it woke up meanwhile, and may have begun a batch before the state was set
            return False
        return True
    finally:
        lock.unlock()


def _frames(spark: SparkSession, thread: Any) -> str:
    """A thread's stack in one call."""
    return str(module(spark, "scala.runtime.ScalaRunTime").stringOf(thread.getStackTrace()))


def _sleeps(frames: str) -> bool:
    """Between triggers (Clock.waitTillTime), or after one that found no data (Thread.sleep in executeOneBatch)."""
    return ".waitTillTime(" in frames or ("java.lang.Thread.sleep" in frames and ".runBatch(" not in frames)


def thread_alive(query: StreamingQuery) -> bool:
    """Whether the stream thread still works. `isActive` and `awaitTermination(timeout)` do not tell: both only look at
    the state that `stop_after_batch` has set (StreamExecution.awaitTermination returns ``!isActive``; measured)."""
    return bool(execution_of(query).queryExecutionThread().isAlive())


def join_thread(query: StreamingQuery, seconds: float) -> None:
    """Wait for the stream thread to end, at most `seconds`."""
    execution_of(query).queryExecutionThread().join(int(seconds * 1000))


def sleeping_between_batches(spark: SparkSession, query: StreamingQuery) -> bool:
    """Whether the stream thread sleeps: no batch is in flight there, and after `stop_after_batch` none begins, so that
    it may be interrupted."""
    return _sleeps(_frames(spark, execution_of(query).queryExecutionThread()))


def executed_batches(query: StreamingQuery, after: int) -> list[ExecutedBatch]:
    """The batches after `after` that Spark reports as executed, oldest first. Spark keeps a hundred reports
    (numRecentProgressUpdates), so that the first one may be later than ``after + 1``. A trigger that found nothing to
    do is reported too, without ``addBatch``."""
    found: list[ExecutedBatch] = []
    reports = query._jsq.recentProgress()
    for index in range(len(reports) - 1, -1, -1):
        report = reports[index]
        if not report.durationMs().containsKey("addBatch"):
            continue
        if (batch := int(report.batchId())) <= after:
            break
        found.append(
            ExecutedBatch(
                batch=batch,
                rows_in=int(report.numInputRows()),
                rows_out=int(report.sink().numOutputRows()),
                seconds=int(report.durationMs().get("addBatch")) / 1000,
                stages=tuple(_report(operator) for operator in report.stateOperators()),
            )
        )
    return found[::-1]


def execution_seconds(spark: SparkSession, query: StreamingQuery, first: int) -> dict[int, float]:
    """How long the executions of a query's batches from `first` on took, by batch, as Spark's list of SQL executions
    has it. By a clock that goes by itself: a query's own reports are by its trigger's clock, which stands still while
    it follows (FollowedQuery). A batch whose execution has not ended, or is not listed yet, is missing."""
    store = spark._jsparkSession.sharedState().statusStore()
    count, run = int(store.executionsCount()), f"runId = {query.runId}"
    listed = store.executionsList(max(count - EXECUTIONS_LOOKED_AT, 0), EXECUTIONS_LOOKED_AT)
    found: dict[int, float] = {}
    for index in range(int(listed.size()) - 1, -1, -1):  # the newest ones first: each costs calls of the JVM
        execution = listed.apply(index)
        text = str(execution.description())  # StreamExecution.getBatchDescriptionString
        batch = re.search(r"\bbatch = (\d+)$", text)
        if batch is None or run not in text:
            continue
        if int(batch[1]) < first:
            break
        if (ended := execution.completionTime()).isDefined():
            seconds = (int(ended.get().getTime()) - int(execution.submissionTime())) / 1000
            found[int(batch[1])] = max(seconds, found.get(int(batch[1]), 0.0))  # a sink's own ones are inside of it
    return found


def rows_written(query: StreamingQuery) -> tuple[int, int] | None:
    """The batch that was executed last, and how many rows it gave its sink, from the metrics of its plan, for a sink
    that does not say (SinkProgress: version 1 reports -1). None where the plan does not tell. Counted as often as the
    sink asked for the batch, and while it runs, in part."""
    execution = execution_of(query).lastExecution()
    if execution is None:
        return None
    plan = execution.executedPlan()
    while str(plan.getClass().getSimpleName()) in _KEEPS_ROWS:
        plan = plan.children().apply(0)
    rows = plan.metrics().get("numOutputRows")
    return (int(execution.currentBatchId()), int(rows.get().value())) if rows.isDefined() else None


def _report(operator: Any) -> OperatorReport:
    return OperatorReport(
        rows=int(operator.numRowsTotal()),
        removed=int(operator.numRowsRemoved()),
        stores=int(operator.numStateStoreInstances()),
        partitions=int(operator.numShufflePartitions()),
    )


def tasks_running(spark: SparkSession) -> int:
    """Tasks that executors still work on. A query that was stopped has ended when its thread has; its tasks were told
    to end, and write files of state until they do (measured: RocksDB's commit, into a checkpoint being removed)."""
    by_executor = spark._jsc.sc().taskScheduler().runningTasksByExecutors()
    return sum(int(n) for n in scala_map(by_executor).values())


def execution_of(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()
