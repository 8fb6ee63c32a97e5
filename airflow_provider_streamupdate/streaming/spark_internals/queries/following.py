"""A query that runs the batches which another version has logged, one at a time, into a sink that writes nothing; and
from a moment on its own batches into its own sink, without being started again.

Private fields and methods of Spark 4.2 and 4.3 that this uses, each verified with javap:

    MicroBatchExecution      logicalPlan, sources(), sourceIdMap(), triggerExecutor()
    StreamExecution          sink, triggerClock, offsetLog()
    ProcessingTimeExecutor   clock, intervalMs, the context of the next batch (TriggerExecutor.execCtx)
    MicroBatchExecutionContext, ProgressContext   sink, triggerClock
    FileStreamSource         metadataLog, metadataLogCurrentOffset, seenFiles
    DataStreamWriter         all fields but the Dataset's

How it works (*measured*, tests/spark/test_following.py): the stream thread waits for a clock that only this module sets
(ManualClock). While it waits, the context of its next batch is given what the offset log's entry says, and is marked as
constructed, as on a restart that finds a batch which was logged and has not committed (populateStartOffsets); so Spark
neither asks the sources for offsets, nor decides whether a batch without data is due, nor tells the sources that they
may clean up. Then the clock passes the trigger's time once.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ....core.errors import RefusedError
from ..jvm import STREAMING, java_class, module, named, sequence, static
from .empty_sources import with_empty_sources
from .queries import execution_of, sleeping_between_batches, thread_alive
from .writers import writer_frame

_RUNTIME = f"{STREAMING}.runtime"
_EXECUTION, _STREAM = f"{_RUNTIME}.MicroBatchExecution", f"{_RUNTIME}.StreamExecution"
_CONTEXTS = (f"{_RUNTIME}.MicroBatchExecutionContext", f"{_RUNTIME}.ProgressContext")
_TIMER, _FILES = f"{_RUNTIME}.ProcessingTimeExecutor", f"{_RUNTIME}.FileStreamSource"
_NEXT = "org$apache$spark$sql$execution$streaming$runtime$TriggerExecutor$$execCtx"
_WRITES = f"{STREAMING}.sources"
_STEP_MS = 3_600_000  # between two triggers, by the clock that is set


class FollowedQuery:
    """A started query whose next batch runs when it is told. Its checkpoint's last logged batch has not committed: that
    is its first one."""

    def __init__(
        self, spark: SparkSession, writer: DataStreamWriter, name: str, checkpoint: str, scratch: Path
    ) -> None:
        """scratch: an empty local folder. RefusedError where the writer's trigger or sink cannot be taken over."""
        self._spark, self._jvm = spark, spark._jvm
        self._interval_ms = _interval_ms(writer)
        self._plan, self._sink = _own_write(writer, scratch)
        self._clock = named(self._jvm, "org.apache.spark.util.ManualClock")(_now(self._jvm))
        self._query = self._start(writer, name, checkpoint)

    @property
    def query(self) -> StreamingQuery:
        return self._query

    def waits(self) -> bool:
        """Whether the batch before has ended, so that the next one may be run. Raises the query's error."""
        if not thread_alive(self._query):
            raise self._query.exception() or RuntimeError("the query that follows has ended")
        return sleeping_between_batches(self._spark, self._query)

    def run(self) -> None:
        """Have it run the batch that was logged last. It waits."""
        execution = execution_of(self._query)
        _, entry = _pair(execution.offsetLog().getLatest().get())
        context = getattr(execution.triggerExecutor(), _NEXT)()
        getattr(context, "endOffsets_$eq")(entry.toStreamProgress(execution.sources(), execution.sourceIdMap()))
        getattr(context, "offsetSeqMetadata_$eq")(entry.metadataOpt().get())
        getattr(context, "isCurrentBatchConstructed_$eq")(True)
        self._clock.advance(_STEP_MS)

    def take_over(self) -> None:
        """Have it run batches of its own, into its own sink, from now on. It waits."""
        execution = execution_of(self._query)
        executor, clock = execution.triggerExecutor(), named(self._jvm, "org.apache.spark.util.SystemClock")()
        context = getattr(executor, _NEXT)()
        for source in sequence(execution.sources()):
            if source.getClass().getName() == _FILES:
                self._note_files(source)
        below = execution.logicalPlan().children().apply(0)
        write = self._plan
        version_1 = str(write.getClass().getSimpleName()).endswith("V1")
        into = (write.catalogTable(), self._sink) if version_1 else (write.relation(),)
        made = named(self._jvm, str(write.getClass().getName()))(
            *into,
            below,
            str(execution.id().toString()),
            write.writeOptions(),
            write.outputMode(),
            static(self._jvm, "scala.Option#apply")(None),
        )
        self._put(execution, _EXECUTION, "logicalPlan", made)
        self._put(execution, _STREAM, "sink", self._sink)
        self._put(execution, _STREAM, "triggerClock", clock)
        for owner in _CONTEXTS:
            self._put(context, owner, "sink", self._sink)
            self._put(context, owner, "triggerClock", clock)
        self._put(executor, _TIMER, "clock", clock)
        self._field(_TIMER, "intervalMs").setLong(executor, self._interval_ms)
        self._clock.advance(_STEP_MS)

    def _start(self, writer: DataStreamWriter, name: str, checkpoint: str) -> StreamingQuery:
        """As DataStreamWriter.startQuery does, with another sink and another clock."""
        option = static(self._jvm, "scala.Option#apply")
        session = writer_frame(writer).sparkSession._jsparkSession
        started = (
            session.sessionState()
            .streamingQueryManager()
            .startQuery(
                option(name),
                option(None),  # userSpecifiedSinkName
                option(checkpoint),
                writer_frame(writer)._jdf,
                _value(writer._jwrite, "extraOptions").originalMap(),
                module(self._spark, "org.apache.spark.sql.execution.datasources.noop.NoopTable"),
                _value(writer._jwrite, "outputMode"),
                False,  # useTempCheckpointLocation
                True,  # recoverFromCheckpointLocation
                static(self._jvm, "org.apache.spark.sql.streaming.Trigger#ProcessingTime")(_STEP_MS),
                self._clock,
                option(None),  # catalogAndIdent
                option(None),  # catalogTable
            )
        )
        return StreamingQuery(started)

    def _note_files(self, source: Any) -> None:
        """A file source remembers what it has listed, and reads its log at its start only."""
        log, seen = (self._field(_FILES, name).get(source) for name in ("metadataLog", "seenFiles"))
        last = self._field(_FILES, "metadataLogCurrentOffset")
        newest = log.getLatestBatchId()
        if not newest.isDefined():
            return
        for number in itertools.count(int(last.get(source)) + 1):
            if number > int(newest.get()):
                break
            for entry in log.get(number).get():
                seen.add(entry.sparkPath(), entry.timestamp())
        last.setLong(source, int(newest.get()))

    def _put(self, owner: Any, of: str, name: str, value: Any) -> None:
        self._field(of, name).set(owner, value)

    def _field(self, of: str, name: str) -> Any:
        return _accessible(java_class(self._jvm, of).getDeclaredField(name))


def _own_write(writer: DataStreamWriter, scratch: Path) -> tuple[Any, Any]:
    """The node at the top of the plan that writes into the writer's own sink, and the sink: of a query that Spark
    starts with all of the writer's settings but on sources without a file, so that it never runs a batch."""
    probe = with_empty_sources(writer_frame(writer), scratch, 0).writeStream
    other, own = probe._jwrite, writer._jwrite
    for field in own.getClass().getDeclaredFields():
        if str(field.getName()) != "ds":
            _accessible(field).set(other, field.get(own))
    query = probe.trigger(availableNow=True).option("checkpointLocation", (scratch / "checkpoint").as_uri()).start()
    query.awaitTermination()
    execution = execution_of(query)
    return execution.logicalPlan(), execution.sink()


def _interval_ms(writer: DataStreamWriter) -> int:
    trigger = _value(writer._jwrite, "trigger")
    if trigger.getClass().getSimpleName() != "ProcessingTimeTrigger":
        raise RefusedError(
            f"its trigger is {trigger.getClass().getSimpleName()}: only a query that runs for good, with a processing-"
            "time trigger, can be followed; use strategy standby"
        )
    return int(trigger.intervalMs())


def _value(owner: Any, name: str) -> Any:
    return _accessible(owner.getClass().getDeclaredField(name)).get(owner)


def _accessible(field: Any) -> Any:
    field.setAccessible(True)
    return field


def _pair(pair: Any) -> tuple[Any, Any]:
    return pair._1(), pair._2()


def _now(jvm: Any) -> int:
    return int(static(jvm, "java.lang.System#currentTimeMillis")())
