"""A query that runs the batches which another version has logged, one at a time, into a sink that writes nothing; and
from a moment on its own batches into its own sink, without being started again.

Private fields and methods of Spark that this uses are in USED, each verified with javap;
`check_followable_here` looks for them in the Spark that runs.

How it works (*measured*, tests/spark/test_following*.py): the stream thread waits for a clock that only this module
sets (ManualClock). While it waits, the context of its next batch is given what the offset log's entry says, and is
marked as constructed, as on a restart that finds a batch which was logged and has not committed (populateStartOffsets);
so Spark neither asks the sources for offsets, nor decides whether a batch without data is due, nor tells the sources
that they may clean up. Then the clock passes the trigger's time once.

A stage that the other version has not would keep rows whose results nobody writes. So until the takeover there is a
filter below it that no row passes, and that Spark cannot see through; the plan without it is put in at the takeover.
Its state is empty then, as after a restart.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ....core.errors import RefusedError
from ..jvm import array, function, java_class, method, module, named, scala_seq, sequence, static
from ..version import CHECKPOINTING, RUNTIME, STREAMING, adapter
from .empty_sources import with_empty_sources
from .queries import execution_of, sleeping_between_batches, thread_alive
from .writers import writer_frame

_INTERNALS = adapter().stream
_EXECUTION, _STREAM = f"{RUNTIME}.MicroBatchExecution", f"{RUNTIME}.StreamExecution"
_CONTEXTS = (f"{RUNTIME}.MicroBatchExecutionContext", f"{RUNTIME}.ProgressContext")
_TIMER, _FILES = f"{RUNTIME}.ProcessingTimeExecutor", f"{RUNTIME}.FileStreamSource"
_SEEN, _ENTRY = f"{_FILES}$SeenFilesMap", f"{_FILES}$FileEntry"
_PATH = "org.apache.spark.paths.SparkPath"
_REPORTER = f"{RUNTIME}.ProgressReporter"
_TRACKER = f"{RUNTIME}.WatermarkTracker"
_WRITES = f"{STREAMING}.sources.WriteToMicroBatchDataSource"
_ARRAYS = "scala.runtime.ScalaRunTime"
_NEXT = f"{RUNTIME}.TriggerExecutor".replace(".", "$") + "$$execCtx"
SCRATCH = ".scratch"  # below a checkpoint
_STEP_MS = 3_600_000  # between two triggers, by the clock that is set

_STAGE = "__stage__"  # of the alias around what a stage reads (streaming/stages.py)
_NUMBER = -730_717_340  # by which the filter is known again
# Not deterministic, so that it is neither folded nor moved: below a join it would keep rows from the join, too. (A
# comparison with rand is folded: OptimizeRand.)
_NO_ROW = f"spark_partition_id() = {_NUMBER}"

# Class -> fields, methods (with the number of their arguments) and constructors (``<init>``) of it.
USED: dict[str, tuple[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    _EXECUTION: (
        ("logicalPlan", "watermarkPropagator"),
        (
            *((name, 0) for name in ("sources", "triggerExecutor", "watermarkTracker", "logicalPlan")),
            *((name, 0) for name in _INTERNALS.source_ids),
        ),
    ),
    _STREAM: (
        ("sink", "triggerClock"),
        (("offsetLog", 0), ("queryExecutionThread", 0), ("id", 0), ("progressReporter", 0)),
    ),
    _TIMER: (("clock", "intervalMs"), ((_NEXT, 0),)),
    _CONTEXTS[0]: (("sink", "triggerClock"), (("isCurrentBatchConstructed_$eq", 1),)),
    _CONTEXTS[1]: (("sink", "triggerClock"), ()),
    f"{RUNTIME}.StreamExecutionContext": ((), (("endOffsets_$eq", 1), ("offsetSeqMetadata_$eq", 1))),
    _REPORTER: (("triggerClock",), (("lastNoExecutionProgressEventTime_$eq", 1),)),
    f"{RUNTIME}.WatermarkPropagator": ((), (("purge", 1),)),
    _TRACKER: (("operatorToWatermarkMap",), (("setWatermark", 1),)),
    _FILES: (("metadataLog", "metadataLogCurrentOffset", "seenFiles"), ()),
    _SEEN: ((), (("add", 2), ("purge", 0))),
    _ENTRY: ((), (("sparkPath", 0), ("timestamp", 0))),
    _WRITES: (
        (),
        (
            ("<init>", 5 + len(_INTERNALS.written)),
            *((name, 0) for name in _INTERNALS.written),
            ("writeOptions", 0),
            ("outputMode", 0),
        ),
    ),
    f"{_WRITES}V1": ((), (("<init>", 7), ("catalogTable", 0), ("writeOptions", 0), ("outputMode", 0))),
    f"{CHECKPOINTING}.OffsetSeqLog": ((), (("getLatest", 0),)),
    f"{CHECKPOINTING}.{_INTERNALS.entry}": (
        (),
        (("toStreamProgress", 1 + len(_INTERNALS.source_ids)), (_INTERNALS.entry_metadata, 0)),
    ),
    "org.apache.spark.util.ManualClock": ((), (("<init>", 1), ("advance", 1))),
    "org.apache.spark.util.SystemClock": ((), (("<init>", 0),)),
    "org.apache.spark.sql.classic.StreamingQueryManager": ((), (("startQuery", 12 + _INTERNALS.sink_names),)),
    "org.apache.spark.sql.classic.DataStreamWriter": (("trigger", "extraOptions", "outputMode", "ds"), ()),
}


def check_followable_here(spark: SparkSession) -> None:
    """RefusedError unless the Spark that runs has all that this module uses of its inside."""
    for owner, (fields, methods) in USED.items():
        if missing := _missing(spark, owner, fields, methods):
            raise RefusedError(f"this Spark ({spark.version}) cannot be followed: {missing}")


def _missing(spark: SparkSession, owner: str, fields: Collection[str], methods: Collection[tuple[str, int]]) -> str:
    try:
        found = java_class(spark._jvm, owner)
    except Exception:  # py4j: ClassNotFoundException
        return f"there is no class {owner}"
    texts = module(spark, "scala.runtime.ScalaRunTime")
    given = set(re.findall(r"\.([^\s.,]+)(?=[,)])", str(texts.stringOf(found.getDeclaredFields()))))
    for field in fields:
        if field not in given:
            return f"class {owner} has no field {field}"
    signatures = str(texts.stringOf(found.getMethods())) + str(texts.stringOf(found.getDeclaredMethods()))
    made = str(texts.stringOf(found.getConstructors()))
    for name, arguments in methods:
        wanted, where = (owner, made) if name == "<init>" else (f".{name}", signatures)
        known = re.findall(rf"{re.escape(wanted)}\(([^()]*)\)", where)
        if not any(len([a for a in each.split(",") if a.strip()]) == arguments for each in known):
            return f"class {owner} has no {'constructor' if name == '<init>' else f'method {name}'} of {arguments}"
    return ""


class FollowedQuery:
    """A started query whose next batch runs when it is told. Its checkpoint's last logged batch has not committed: that
    is its first one.

    The swap takes 1 to 4 ms whatever was followed (*measured*: median 1.4 ms after 3, 30 and 100 batches, at load 5 on
    two cores), because the memory of file sources is brought up to date with each batch, in one call of the JVM for all
    files of a batch, and all else is made by `prepare`. Without either it took 27 ms, and 143 ms after 100 batches.
    """

    def __init__(
        self,
        spark: SparkSession,
        writer: DataStreamWriter,
        name: str,
        checkpoint: str,
        scratch: Path,
        new_stages: Collection[str] = (),
        record: Callable[[DataFrame, int], None] | None = None,
    ) -> None:
        """record: a function of foreachBatch that gets what is followed; None: nobody gets it. scratch: an empty local
        folder. new_stages: stages that the other version has not. RefusedError where the
        writer's trigger, sink or plan cannot be taken over.

        SCRATCH below the checkpoint may be removed afterwards. It is there, because a session's file manager may be for
        such places only (AbortableStreamBasedCheckpointFileManager refuses local folders), and a file sink keeps the
        one that the session had when the sink was made (HDFSMetadataLog.fileManager)."""
        self._spark, self._jvm = spark, spark._jvm
        self._interval_ms = _interval_ms(writer)
        self._write, self._sink = _own_write(writer, f"{checkpoint}/{SCRATCH}/own", scratch)
        nowhere = module(spark, "org.apache.spark.sql.execution.datasources.noop.NoopTable")
        self._muted = (
            nowhere if record is None else _sink_of(writer, record, f"{checkpoint}/{SCRATCH}/muted", scratch / "muted")
        )
        self._frame = _without_rows(writer_frame(writer), new_stages)
        self._clock = named(self._jvm, "org.apache.spark.util.ManualClock")(_now(self._jvm))
        self._made: tuple[Any, Any] | None = None  # the own plan, and a clock that goes by itself
        self._query = self._start(writer, name, checkpoint)
        execution = execution_of(self._query)
        if (kind := str(execution.getClass().getName())) != _EXECUTION:
            self._query.stop()
            raise RefusedError(f"the query is run by {kind}, which cannot be followed")

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
        self._set_batch()
        self._clock.advance(_STEP_MS)

    def _set_batch(self) -> None:
        execution = execution_of(self._query)
        batch, entry = _pair(execution.offsetLog().getLatest().get())
        context = self._next()
        ids = (getattr(execution, name)() for name in _INTERNALS.source_ids)
        getattr(context, "endOffsets_$eq")(entry.toStreamProgress(execution.sources(), *ids))
        getattr(context, "offsetSeqMetadata_$eq")(getattr(entry, _INTERNALS.entry_metadata)().get())
        getattr(context, "isCurrentBatchConstructed_$eq")(True)
        # As Spark does where it looks for data, which a query that follows does not (cleanUpLastExecutedMicroBatch):
        # else what it holds of each batch is held for good.
        self._field(_EXECUTION, "watermarkPropagator").get(execution).purge(int(batch) - 2)
        self._note_files()

    def prepare(self) -> None:
        """Make all that the takeover needs. It waits, and has run a batch."""
        if self._made is not None:
            return
        execution, write = execution_of(self._query), self._write
        version_1 = str(write.getClass().getName()).endswith("V1")
        names = ("catalogTable",) if version_1 else _INTERNALS.written
        into = (*(getattr(write, name)() for name in names), *([self._sink] if version_1 else ()))
        plan = named(self._jvm, str(write.getClass().getName()))(
            *into,
            _with_rows(self._jvm, execution.logicalPlan().children().apply(0)),
            str(execution.id().toString()),
            write.writeOptions(),
            write.outputMode(),
            static(self._jvm, "scala.Option#apply")(None),
        )
        for of, names in self._swapped:
            for name in names:
                self._field(of, name)
        self._made = plan, named(self._jvm, "org.apache.spark.util.SystemClock")()

    def take_over(self, watermark_ms: int = 0, again: bool = False) -> None:
        """Have it run batches of its own, into its own sink, from now on. It waits.

        again: the first one is the batch that was logged last, which another driver has not committed
        watermark_ms: that the other version's next batch would have had
        """
        self.prepare()
        assert self._made is not None
        plan, clock = self._made
        execution, executor, context = execution_of(self._query), self._executor, self._next()
        if again:
            self._set_batch()
        self._set_watermark(watermark_ms)
        self._put(execution, _EXECUTION, "logicalPlan", plan)
        self._put(execution, _STREAM, "sink", self._sink)
        self._put(execution, _STREAM, "triggerClock", clock)
        reporter = execution.progressReporter()
        self._put(reporter, _REPORTER, "triggerClock", clock)
        # It is of the clock that was set, hours ahead: until then no report would say that there is no data.
        getattr(reporter, "lastNoExecutionProgressEventTime_$eq")(0)
        for owner in _CONTEXTS:
            self._put(context, owner, "sink", self._sink)
            self._put(context, owner, "triggerClock", clock)
        self._put(executor, _TIMER, "clock", clock)
        self._field(_TIMER, "intervalMs").setLong(executor, self._interval_ms)
        self._clock.advance(_STEP_MS)

    def _set_watermark(self, watermark_ms: int) -> None:
        """Set the watermark that a restart from the other version's last batch would have. The query's own rows may
        have moved it otherwise when sources, filters or watermarks differ, and a new stage would drop rows as late."""
        self._watermarks.setWatermark(watermark_ms)
        seen = self._field(_TRACKER, "operatorToWatermarkMap").get(self._watermarks)
        nothing = static(self._jvm, "scala.Option#apply")(None)
        for node in sequence(seen.keys().toSeq()):
            seen.put(node, nothing)

    _swapped = (
        (_EXECUTION, ("logicalPlan",)),
        (_STREAM, ("sink", "triggerClock")),
        (_REPORTER, ("triggerClock",)),
        *((owner, ("sink", "triggerClock")) for owner in _CONTEXTS),
        (_TIMER, ("clock", "intervalMs")),
    )

    def _start(self, writer: DataStreamWriter, name: str, checkpoint: str) -> StreamingQuery:
        """Start a query like DataStreamWriter.startQuery, with another sink and another clock."""
        option = static(self._jvm, "scala.Option#apply")
        session = writer_frame(writer).sparkSession._jsparkSession
        started = (
            session.sessionState()
            .streamingQueryManager()
            .startQuery(
                option(name),
                *[option(None)] * _INTERNALS.sink_names,  # userSpecifiedSinkName
                option(checkpoint),
                self._frame._jdf,
                _value(writer._jwrite, "extraOptions").originalMap(),
                self._muted,
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

    @functools.cached_property
    def _executor(self) -> Any:
        return execution_of(self._query).triggerExecutor()

    @functools.cached_property
    def _watermarks(self) -> Any:
        return execution_of(self._query).watermarkTracker()

    @functools.cached_property
    def _file_sources(self) -> list[tuple[Any, Any, Any, Any]]:
        """Each with its log, the function that adds an entry of it to what the source has seen, and the one that has it
        forget what is too old."""
        sources = sequence(execution_of(self._query).sources())
        files = [source for source in sources if source.getClass().getName() == _FILES]
        log, seen = self._field(_FILES, "metadataLog"), self._field(_FILES, "seenFiles")
        return [
            (source, log.get(source), _adds(self._jvm, seen.get(source)), seen.get(source).purge) for source in files
        ]

    def _next(self) -> Any:
        """The context of the next batch."""
        return getattr(self._executor, _NEXT)()

    def _note_files(self) -> None:
        """A file source remembers what it has listed, and reads its log at its start only."""
        last, sequences = self._field(_FILES, "metadataLogCurrentOffset"), module(self._spark, _ARRAYS)
        for source, log, add, purge in self._file_sources:
            newest = log.getLatestBatchId()
            if not newest.isDefined():
                continue
            for number in range(int(last.getLong(source)) + 1, int(newest.get()) + 1):
                entries = log.get(number)
                if entries.isDefined():  # else a compaction that came later has it (FileStreamSourceLog.get)
                    sequences.genericWrapArray(entries.get()).foreach(add)
            last.setLong(source, int(newest.get()))
            purge()  # as Spark does after it has read the log: what is older than that is never read

    def _put(self, owner: Any, of: str, name: str, value: Any) -> None:
        self._field(of, name).set(owner, value)

    def _field(self, of: str, name: str) -> Any:
        return _field(self._jvm, of, name)


@functools.cache
def _field(jvm: Any, of: str, name: str) -> Any:
    return _accessible(java_class(jvm, of).getDeclaredField(name))


def _adds(jvm: Any, seen: Any) -> Any:
    """The scala.Function1 that adds an entry of the log to what a file source has seen: ``seen.add(entry.sparkPath,
    entry.timestamp)``. A call from Python for each file would take seconds for many files."""
    handles = jvm.java.lang.invoke.MethodHandles
    primitive = {name: java_class(jvm, f"java.lang.{name}").getField("TYPE").get(None) for name in ("Long", "Void")}
    kinds = array(jvm, "java.lang.Class", [java_class(jvm, _PATH), primitive["Long"]])
    add = handles.publicLookup().unreflect(java_class(jvm, _SEEN).getMethod("add", kinds)).bindTo(seen)
    asked = [method(jvm, _ENTRY, name) for name in ("sparkPath", "timestamp")]
    twice = handles.filterArguments(add, 0, array(jvm, "java.lang.invoke.MethodHandle", asked))  # takes two entries
    once = jvm.java.lang.invoke.MethodType.methodType(primitive["Void"], java_class(jvm, _ENTRY))
    both = jvm.java.lang.reflect.Array.newInstance(java_class(jvm, "java.lang.Integer").getField("TYPE").get(None), 2)
    entry = handles.permuteArguments(twice, once, both)
    return function(jvm, entry)


def _without_rows(df: DataFrame, stages: Collection[str]) -> DataFrame:
    """The same with a filter that no row passes below each of these stages."""
    if not stages:
        return df
    spark = df.sparkSession
    plan, done = _filtered(spark, df._jdf.queryExecution().analyzed(), {_STAGE + name for name in stages})
    if missing := sorted(set(stages) - {name.removeprefix(_STAGE) for name in done}):
        raise RefusedError(f"stage {missing[0]} is new and was not found in the plan by its name")
    made = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)


def _filtered(spark: SparkSession, plan: Any, names: Collection[str]) -> tuple[Any, set[str]]:
    """The plan with the filters, and the names that were found."""
    made = [_filtered(spark, child, names) for child in sequence(plan.children())]
    children, found = [child for child, _ in made], set().union(*(done for _, done in made))
    here = _marked(children, names)
    if here is not None:
        children = [_filter(spark, child) for child in children]
        found.add(here)
    if not found:
        return plan, found
    return plan.withNewChildren(scala_seq(spark._jvm, children)), found


def _marked(children: list[Any], names: Collection[str]) -> str | None:
    """The name in the first child of a stage: a projection above an alias (streaming/stages.py, markers.py)."""
    if not children or str(children[0].getClass().getSimpleName()) != "Project":
        return None
    alias = children[0].children().apply(0)
    if str(alias.getClass().getSimpleName()) != "SubqueryAlias":
        return None
    name = str(alias.alias())
    return name if name in names else None


def _filter(spark: SparkSession, plan: Any) -> Any:
    rows = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return rows.filter(_NO_ROW).queryExecution().analyzed()


def _with_rows(jvm: Any, plan: Any) -> Any:
    """The plan without those filters."""
    children = sequence(plan.children())
    if str(plan.getClass().getSimpleName()) == "Filter" and str(_NUMBER) in str(plan.condition().toString()):
        return _with_rows(jvm, children[0])
    made = [_with_rows(jvm, child) for child in children]
    if all(a is b for a, b in zip(children, made, strict=True)):
        return plan
    return plan.withNewChildren(scala_seq(jvm, made))


def _own_write(writer: DataStreamWriter, checkpoint: str, scratch: Path) -> tuple[Any, Any]:
    """The node at the top of the plan that writes into the writer's own sink, and the sink: of a query that Spark
    starts with all of the writer's settings but on sources without a file, so that it never runs a batch."""
    probe = with_empty_sources(writer_frame(writer), scratch, 0).writeStream
    other, own = probe._jwrite, writer._jwrite
    for field in own.getClass().getDeclaredFields():
        if str(field.getName()) != "ds":
            _accessible(field).set(other, field.get(own))
    query = probe.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    execution = execution_of(query)
    return execution.logicalPlan(), execution.sink()


def _sink_of(
    writer: DataStreamWriter, function: Callable[[DataFrame, int], None], checkpoint: str, scratch: Path
) -> Any:
    """The sink of a query with these rows that gives them to a function of foreachBatch."""
    scratch.mkdir()
    frame = with_empty_sources(writer_frame(writer), scratch, 0)
    muted = frame.writeStream.foreachBatch(function).outputMode(str(_value(writer._jwrite, "outputMode").toString()))
    started = muted.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
    started.awaitTermination()
    return execution_of(started).sink()


def check_trigger(writer: DataStreamWriter) -> None:
    """RefusedError where the query's trigger cannot be taken over."""
    _interval_ms(writer)


def _interval_ms(writer: DataStreamWriter) -> int:
    trigger = _value(writer._jwrite, "trigger")
    if trigger.getClass().getSimpleName() != "ProcessingTimeTrigger":
        raise RefusedError(
            f"its trigger is {trigger.getClass().getSimpleName()}: only a query that runs for good, with a processing-"
            "time trigger, can be followed"
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
