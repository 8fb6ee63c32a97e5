"""The one door to Spark's JVM internals. Nothing else in this package touches ``_jdf``, ``_jvm`` and the like.

Class and field names are verified with javap on the released jars. What differs between minor versions is in
`adapters`; `check_version` refuses those that have none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ..state.errors import EnvironmentProblem
from ..state.plan import AggregateBuffer
from .adapters import ADAPTERS
from .code import code_digest

_STREAMING = "org.apache.spark.sql.execution.streaming"
# Options that say which files of a source are read and what becomes of them, not what is in them.
_WHICH_FILES = ("path", "latestfirst", "maxfileage", "maxbytespertrigger", "pathglobfilter", "cleansource")
# Where a batch is certain to commit: its execution (addBatch and what a V2 sink does), and the commit itself.
_SINK, _COMMIT = ".withNewExecutionId", ".markMicroBatchEnd("
# What Spark says of a Python worker that has not connected in time, and how often a plan is tried that needs one.
WORKER_LATE, WORKER_STARTS = "Python worker failed to connect back", 3
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# How files are written that are thrown away: on a local disk Spark's own way starts a process for a file's permissions
# and for each link it looks at (FileContextBasedCheckpointFileManager), and adds a file with a checksum
# (ChecksumCheckpointFileManager).
_SCRATCH = {
    FILE_MANAGER: f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
_PYTHON_UDF = "org.apache.spark.sql.catalyst.expressions.PythonUDF"


class DryRun:
    """What Spark planned. Read when it is asked for, since most dry runs are for what Spark checks or writes."""

    def __init__(self, spark: SparkSession, execution: Any) -> None:
        self._spark, self._execution = spark, execution

    @functools.cached_property
    def optimized(self) -> list[dict[str, Any]]:
        """The optimized logical plan as JSON."""
        return _plan_json(self._spark, self._execution.optimizedPlan())

    @functools.cached_property
    def buffers(self) -> dict[int, tuple[AggregateBuffer, ...]]:
        """The aggregates' buffers by operator id."""
        return _aggregate_buffers(self._spark._jvm, self._execution.executedPlan())


def check_version(spark: SparkSession) -> str:
    """Spark's version; EnvironmentProblem for one whose internals are not known, or for a mixed environment."""
    import pyspark

    version = spark.version
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} is driving Spark {version}: two installations are mixed "
            "(apache-airflow-providers-apache-spark brings pyspark-client, which overwrites pyspark's files); "
            "use an environment for Spark that does not hold Airflow"
        )
    _adapter(spark)
    return version


def _adapter(spark: SparkSession) -> ModuleType:
    """What this minor version of Spark has otherwise than the others."""
    minor = ".".join(spark.version.split(".")[:2])
    if minor not in ADAPTERS:
        raise EnvironmentProblem(
            f"Spark {spark.version} is not supported (supported: {', '.join(ADAPTERS)}); "
            f"install pyspark {max(ADAPTERS)}"
        )
    return ADAPTERS[minor]


def analyzed_plan(df: DataFrame) -> list[dict[str, Any]]:
    """The analyzed logical plan as Spark's own JSON (TreeNode.toJSON), nodes in pre-order."""
    return _plan_json(df.sparkSession, df._jdf.queryExecution().analyzed())


def optimized_inputs(df: DataFrame, position: int) -> list[list[dict[str, Any]]]:
    """What lies below a node of the analyzed plan (by its position in pre-order), each child optimized on its own: as
    it would be without the node and everything above it."""
    execution = df._jdf.queryExecution()
    node = _pre_order(execution.analyzed())[position]
    optimizer = execution.sparkSession().sessionState().optimizer()
    return [_plan_json(df.sparkSession, optimizer.execute(child)) for child in _sequence(node.children())]


def streaming_sources(df: DataFrame) -> list[dict[str, Any]]:
    """The streaming leaves of the analyzed plan, in pre-order: format, options and given name (or None) of each.

    TreeNode.toJSON leaves out a source's options and its name (``UserProvided`` becomes null; measured), so they are
    read from the nodes.
    """
    found = []
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if not leaf.isStreaming():
            continue
        kind = leaf.getClass().getSimpleName()
        options: dict[str, str] = {}
        if kind == "StreamingRelation":
            source = leaf.dataSource()
            format_name = source.className()
            options = _scala_map(source.options())
        elif kind == "StreamingRelationV2":
            format_name = leaf.sourceName()
            options = dict(leaf.extraOptions())
        else:
            format_name = kind
        found.append({"format": str(format_name), "options": options, "name": _source_name(leaf)})
    return found


def _source_name(leaf: Any) -> str | None:
    """What ``.name()`` was given (HasStreamingSourceIdentifyingName: UserProvided)."""
    if all(m.getName() != "sourceIdentifyingName" for m in leaf.getClass().getMethods()):
        return None
    name = leaf.sourceIdentifyingName()
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None


def session_setting(spark: SparkSession, key: str) -> str:
    """A setting of the session, with Spark's default when it is not set."""
    return str(spark._jsparkSession.sessionState().conf().getConfString(key))


def given_settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    """Those of the settings that the session was given (in its configuration or in code), not left at their default."""
    conf = spark._jsparkSession.sessionState().conf()
    return {key: str(conf.getConfString(key)) for key in keys if conf.contains(key)}


def next_state_format(spark: SparkSession, recorded: int) -> int:
    """The checkpoint format a query will write that continues from a checkpoint in format `recorded`."""
    if _adapter(spark).KEEPS_STATE_FORMAT:
        return recorded
    return int(session_setting(spark, "spark.sql.streaming.stateStore.checkpointFormatVersion"))


def writer_frame(writer: DataStreamWriter) -> DataFrame:
    """The DataFrame a writer writes."""
    return writer._df


def writer_details(writer: DataStreamWriter) -> dict[str, Any]:
    """What a DataStreamWriter was told: format, output_mode, options, and whether it has a function as its sink."""
    jwriter = writer._jwrite

    def field(name: str) -> Any:
        declared = jwriter.getClass().getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(jwriter)

    options = _scala_map(field("extraOptions").originalMap())
    format_name = str(field("source") or "")
    if field("foreachBatchWriter") is not None:
        format_name = "foreachBatch"
    elif field("foreachWriter") is not None:
        format_name = "foreach"
    return {
        "format": format_name or "default",
        "options": {k: str(v) for k, v in options.items()},
        "output_mode": str(field("outputMode").toString()).lower(),
    }


def dry_run(
    df: DataFrame,
    output_mode: str,
    checkpoint: str,
    batch: int,
    conf: dict[str, str] | None = None,
    write: bool = False,
    scratch: bool = False,
) -> DryRun:
    """Plan one micro-batch as Spark would, without running it.

    An IncrementalExecution assigns operator ids, and checks state schemas and operators against what lies under
    `checkpoint` (a URI), raising Spark's own errors. `write` makes it write its operator metadata there (state schemas
    are written in any case). `conf` is the configuration recorded in an offset log; it wins over the session's.
    `scratch`: what is written under `checkpoint` is thrown away afterwards.
    For `batch` B a file ``offsets/B`` must exist (OperatorStateMetadataV2Reader looks for it).

    To plan transformWithState Spark starts a Python worker, and gives it 10 s (PythonWorkerFactory.createSimpleWorker;
    not to be set). A busy machine takes longer, which says nothing about the query: it is tried again, with a new
    execution, because one keeps its failure. EnvironmentProblem when that does not help.
    """
    late: Exception | None = None
    for _ in range(WORKER_STARTS):
        try:
            return _dry_run(df, output_mode, checkpoint, batch, conf, write, scratch)
        except Exception as error:
            if WORKER_LATE not in str(error):
                raise
            late = error
    raise EnvironmentProblem(
        f"Spark could not start a Python worker within its 10 s, {WORKER_STARTS} times: the machine is too busy to "
        "tell whether the query can be planned; try again when it is less so"
    ) from late


def _dry_run(
    df: DataFrame,
    output_mode: str,
    checkpoint: str,
    batch: int,
    conf: dict[str, str] | None,
    write: bool,
    scratch: bool,
) -> DryRun:
    spark = df.sparkSession
    adapter = _adapter(spark)
    jvm = spark._jvm
    session = spark._jsparkSession.cloneSession()  # MicroBatchExecution works in a clone as well
    session.conf().set("spark.sql.adaptive.enabled", "false")  # and switches AQE off for stateful plans
    _with_file_manager_for(checkpoint, session)
    meta_class = _module(spark, f"{_STREAMING}.checkpointing.OffsetSeqMetadata")
    metadata = meta_class.apply(
        json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": dict(conf or {})})
    )
    if conf:
        meta_class.setSessionConf(metadata, session.sessionState().conf())
    for key, value in _SCRATCH.items() if scratch else ():
        session.conf().set(key, value)
    none = jvm.scala.Option.apply(None)
    query_id = jvm.java.util.UUID.randomUUID()
    execution = getattr(jvm, f"{_STREAMING}.runtime.IncrementalExecution")(
        session,
        df._jdf.queryExecution().analyzed(),
        getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())(),
        f"{checkpoint}/state",
        query_id,
        query_id,
        batch,
        none,
        metadata,
        _module(spark, f"{_STREAMING}.runtime.WatermarkPropagator").apply(session.sessionState().conf()),
        True,  # isFirstBatch: the batch that checks and records schemas
        jvm.scala.collection.mutable.HashMap(),
        jvm.scala.collection.mutable.HashMap(),
        _module(spark, "org.apache.spark.sql.execution.CommandExecutionMode").ALL(),
        *adapter.PLAN_ARGUMENTS,
    )
    execution.executedPlan()
    if write:
        adapter.write_metadata(execution)
    return DryRun(spark, execution)


def _aggregate_buffers(jvm: Any, plan: Any) -> dict[int, tuple[AggregateBuffer, ...]]:
    """For each StateStoreSaveExec the buffers of its aggregates in the order of the state row
    (StreamingAggregationStateManager: the value is the aggregation's input without the keys, and that input is the
    aggregates' aggBufferAttributes, one after the other)."""
    aggregate = "org.apache.spark.sql.catalyst.expressions.aggregate"
    declarative, typed = (_class(jvm, f"{aggregate}.{n}Aggregate") for n in ("Declarative", "TypedImperative"))
    found = {}
    for node in _pre_order(plan):
        if node.getClass().getSimpleName() == "StateStoreSaveExec":
            # The nearest below: with code generation there are nodes in between.
            below = next(n for n in _pre_order(node.child()) if "Aggregate" in n.getClass().getSimpleName())
            expressions = below.aggregateExpressions()
            made = [expressions.apply(i).aggregateFunction() for i in range(expressions.size())]
            found[int(node.stateInfo().get().operatorId())] = tuple(
                _aggregate_buffer(f, declarative.isInstance(f), typed.isInstance(f)) for f in made
            )
    return found


def _aggregate_buffer(function: Any, declarative: bool, typed: bool) -> AggregateBuffer:
    """DeclarativeAggregate has initial values as expressions; TypedImperativeAggregate keeps one serialized object.
    Other ImperativeAggregates (a HyperLogLog, for example) fill their buffer in code: not known."""
    initial: tuple[str, ...] = ()
    if declarative:
        values = function.initialValues()
        initial = tuple(str(values.apply(i).sql()) for i in range(values.size()))
    elif typed:
        initial = (f"X'{bytes(function.serialize(function.createAggregationBuffer())).hex()}'",)
    return AggregateBuffer(
        function=str(function.getClass().getSimpleName()),
        columns=int(function.aggBufferAttributes().size()),
        initial=initial,
    )


def with_empty_sources(df: DataFrame, folder: Path, files: int) -> DataFrame:
    """The same streaming query with every source replaced by `files` files without rows, read one a batch, that are
    written to `folder` (local): JSON files for a source of JSON files, whose reader is worth warming too, else Parquet.
    The plan above the sources is not made anew, so that it keeps its shape and the code that Spark generates for it."""
    spark = df.sparkSession
    plan = df._jdf.queryExecution().analyzed()
    empty: list[Any] = []
    leaves = plan.collectLeaves()
    for index in range(leaves.size()):
        if (leaf := leaves.apply(index)).isStreaming():
            empty.append(_empty_source(spark, leaf, folder / str(len(empty)), files))
    made = _module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(
        spark._jsparkSession, _with_sources(spark, plan, empty)
    )
    return DataFrame(made, spark)


def _empty_source(spark: SparkSession, leaf: Any, folder: Path, files: int) -> Any:
    """A relation with the leaf's own attributes, so that what is above needs no change."""
    session, schema = spark._jsparkSession, leaf.schema()
    reader = session.readStream().schema(schema)
    source = leaf.dataSource() if leaf.getClass().getSimpleName() == "StreamingRelation" else None
    if source is not None and str(source.className()).lower() == "json":
        file, kind = folder.with_suffix(".once"), "json"
        file.write_text("\n")  # not empty, so that it is read
        for key, value in _scala_map(source.options()).items():
            if key.lower() not in _WHICH_FILES:
                reader = reader.option(key, value)
    else:
        written, kind = folder.with_suffix(".once"), "parquet"
        session.createDataFrame(spark._jvm.java.util.ArrayList(), schema).coalesce(1).write().parquet(written.as_uri())
        (file,) = written.glob("*.parquet")
    folder.mkdir()
    for number in range(files):
        shutil.copyfile(file, folder / str(number))
    relation = reader.option("maxFilesPerTrigger", "1").format(kind).load(folder.as_uri()).queryExecution().analyzed()
    return relation.copy(relation.dataSource(), relation.sourceName(), leaf.output(), relation.sourceIdentifyingName())


def _with_sources(spark: SparkSession, plan: Any, empty: list[Any]) -> Any:
    """The plan with its streaming leaves, in pre-order, replaced by the relations, which are used up."""
    children = _sequence(plan.children())
    if not children:
        return empty.pop(0) if plan.isStreaming() else plan
    made = [_with_sources(spark, child, empty) for child in children]
    return plan.withNewChildren(spark._jvm.PythonUtils.toSeq(made))


def write_empty_store(
    spark: SparkSession,
    checkpoint: str,
    conf: dict[str, str],
    families: bool,
) -> None:
    """Commit a state store without rows at version 1 of operator 0, partition 0 under `checkpoint`/state.

    The store's provider does it, so that the files are its own (``1.zip``, or ``1.delta``). They hold no schema, so any
    will do (schemas lie in files beside the store); `families`: whether the operator uses virtual column families.
    Changelog checkpointing is off here, because a changelog alone cannot stand for another version.
    """
    jvm = spark._jvm
    state = f"{_STREAMING}.state"
    session = _store_session(spark, conf)
    _with_file_manager_for(checkpoint, session)
    hadoop = session.sessionState().newHadoopConf()
    run_id = jvm.java.util.UUID.randomUUID()
    hadoop.set("sql.streaming.runId", run_id.toString())
    row = _module(spark, "org.apache.spark.sql.types.StructType").fromDDL("anything bigint")
    store_id = getattr(jvm, f"{state}.StateStoreId")(f"{checkpoint}/state", 0, 0, "default")
    provider = _module(spark, f"{state}.StateStoreProvider").createAndInit(
        getattr(jvm, f"{state}.StateStoreProviderId")(store_id, run_id),
        row,
        row,
        getattr(jvm, f"{state}.NoPrefixKeyStateEncoderSpec")(row),
        families,
        getattr(jvm, f"{state}.StateStoreConf")(
            session.sessionState().conf(), _module(spark, "scala.collection.immutable.Map").empty()
        ),
        hadoop,
        False,
        jvm.scala.Option.apply(None),
    )
    try:
        provider.getStore(0, jvm.scala.Option.apply(None), False, False).commit()
    finally:
        provider.close()


def _with_file_manager_for(checkpoint: str, session: Any) -> None:
    """A session's file manager is for where its checkpoints are (AbortableStreamBasedCheckpointFileManager, for object
    stores, refuses others); a folder on this machine gets Spark's own choice."""
    if checkpoint.startswith("file:"):
        session.conf().unset(FILE_MANAGER)


def stop_after_batch(spark: SparkSession, query: StreamingQuery) -> bool:
    """Try to end a query at its next batch boundary; False when it is at a point where that cannot be promised.

    Sets StreamExecution.state to TERMINATED: a batch in flight runs to its commit, and MicroBatchExecution begins no
    other. But a batch whose offsets are logged and which has not come to its sink interrupts itself when it sees that
    (runBatch, after planning; measured: logged, not committed, its sink possibly entered). So the state is set only
    while the thread sleeps or works in the sink. It needs awaitProgressLock to log offsets and to commit, so that it
    cannot get from one to the other while that is held here.
    """
    execution = _execution(query)
    thread, lock, state = execution.queryExecutionThread(), execution.awaitProgressLock(), execution.state()
    lock.lock()
    try:
        if not thread.isAlive():
            # It may have ended on seeing the state of an attempt that was taken back below, after its own last word.
            state.set(_module(spark, f"{_STREAMING}.runtime.TERMINATED"))
            return True
        frames = _frames(spark, thread)
        if not (_sleeps(frames) or _SINK in frames or _COMMIT in frames):
            return False
        before = state.getAndSet(_module(spark, f"{_STREAMING}.runtime.TERMINATED"))
        if _sleeps(frames) and not _sleeps(_frames(spark, thread)):
            state.set(before)  # it woke up meanwhile, and may have begun a batch before the state was set
            return False
        return True
    finally:
        lock.unlock()


def _frames(spark: SparkSession, thread: Any) -> str:
    """A thread's stack in one call."""
    return str(_module(spark, "scala.runtime.ScalaRunTime").stringOf(thread.getStackTrace()))


def _sleeps(frames: str) -> bool:
    """Between triggers (Clock.waitTillTime), or after one that found no data (Thread.sleep in executeOneBatch)."""
    return ".waitTillTime(" in frames or ("java.lang.Thread.sleep" in frames and ".runBatch(" not in frames)


def thread_alive(query: StreamingQuery) -> bool:
    """Whether the stream thread still works. `isActive` and `awaitTermination(timeout)` do not tell: both only look at
    the state that `stop_after_batch` has set (StreamExecution.awaitTermination returns ``!isActive``; measured)."""
    return bool(_execution(query).queryExecutionThread().isAlive())


def join_thread(query: StreamingQuery, seconds: float) -> None:
    """Wait for the stream thread to end, at most `seconds`."""
    _execution(query).queryExecutionThread().join(int(seconds * 1000))


def sleeping_between_batches(spark: SparkSession, query: StreamingQuery) -> bool:
    """Whether the stream thread sleeps: no batch is in flight there, and after `stop_after_batch` none begins, so that
    it may be interrupted."""
    return _sleeps(_frames(spark, _execution(query).queryExecutionThread()))


def _plan_json(spark: SparkSession, plan: Any) -> list[dict[str, Any]]:
    """TreeNode.toJSON, with what it leaves out (measured): watermark delays (a CalendarInterval becomes null) as
    ``delay_ms``, what a leaf that is no stream reads as ``identity`` (absent: not known), and the digests of Python
    functions' code as ``code`` of each PythonUDF (None: not comparable)."""
    text = plan.toJSON()
    nodes: list[dict[str, Any]] = json.loads(text)
    for node, jnode in zip(nodes, _pre_order(plan), strict=True):
        if node["class"].endswith(".EventTimeWatermark"):
            companion = _module(spark, "org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark")
            node["delay_ms"] = companion.getDelayMs(jnode.delay())
        if not node["num-children"] and (identity := _identity(node["class"].rsplit(".", 1)[-1], jnode)):
            node["identity"] = identity
    if _PYTHON_UDF in text:
        digests: dict[int, str | None] = {}
        byte = _module(spark, "scala.reflect.ClassTag").Byte()
        for jnode in _pre_order(plan):
            for expression in _sequence(jnode.expressions()):
                for inner in _pre_order(expression):
                    if inner.getClass().getName() == _PYTHON_UDF:
                        digests[inner.resultId().id()] = code_digest(bytes(inner.func().command().toArray(byte)))
        _add_digests(nodes, digests)
    return nodes


def _identity(kind: str, leaf: Any) -> str | None:
    """What a leaf reads: a table, files under their paths, or rows given in the code."""
    if kind == "LocalRelation":
        return "rows#" + hashlib.sha256(leaf.data().mkString("\n").encode()).hexdigest()[:8]
    if kind == "Range":
        return f"range({leaf.start()}, {leaf.end()}, {leaf.step()})"
    if kind == "DataSourceV2Relation":
        return str(leaf.name())
    if kind != "LogicalRelation":
        return None
    if leaf.catalogTable().isDefined():
        return str(leaf.catalogTable().get().identifier().toString())
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    return ",".join(sorted(str(path.toString()) for path in _sequence(relation.location().rootPaths())))


def _add_digests(value: Any, digests: dict[int, str | None]) -> None:
    if isinstance(value, dict):
        if value.get("class") == _PYTHON_UDF:
            value["code"] = digests.get(value["resultId"]["id"])
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _add_digests(inner, digests)


def _pre_order(plan: Any) -> list[Any]:
    """A tree's nodes (of a plan or of an expression)."""
    return [plan, *(node for child in _sequence(plan.children()) for node in _pre_order(child))]


def _sequence(value: Any) -> list[Any]:
    return [value.apply(index) for index in range(value.size())]


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


def _module(spark: SparkSession, name: str) -> Any:
    """A Scala object (its MODULE$)."""
    return _object(spark._jvm, name)


@functools.cache
def _object(jvm: Any, name: str) -> Any:
    return _class(jvm, f"{name}$").getField("MODULE$").get(None)


@functools.cache  # to find one takes several calls of the JVM
def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def _scala_map(value: Any) -> dict[str, str]:
    iterator, result = value.iterator(), {}
    while iterator.hasNext():
        pair = iterator.next()
        result[str(pair._1())] = str(pair._2())
    return result


def save_aggregation(rows: DataFrame, keys: int, folder: str, conf: dict[str, str], window: int | None = None) -> None:
    """Commit rows as the state of an aggregation without a past: version 1 of operator 0 under `folder`/state (a URI).

    rows: the first `keys` columns are the grouping keys, the others the aggregates' buffers; one partition for each of
        the store's, in their order
    window: the place of the session window among the keys, where there is one; rows are then sorted by the keys
    conf: configuration as an offset log records it; it decides which store is written, and how

    Spark's own operator does it on the executors, one task a partition: StateStoreSaveExec in update mode puts each row
    it is given (keys and values projected as in a running query, so their bytes are the ones it will look for) and
    commits. Spark 4.3's StateRewriter would read and write RocksDB only: it needs a store that can be opened empty,
    which HDFSBackedStateStoreProvider refuses (measured).
    """
    spark = rows.sparkSession
    jvm = spark._jvm
    run_id = jvm.java.util.UUID.randomUUID()
    session = _store_session(spark, {**conf, "sql.streaming.runId": run_id.toString()})
    stateful = f"{_STREAMING}.operators.stateful"
    none = jvm.scala.Option.apply(None)
    dataset = _module(spark, "org.apache.spark.sql.classic.Dataset")
    child = dataset.ofRows(session, rows._jdf.queryExecution().analyzed()).queryExecution().executedPlan()
    info = getattr(jvm, f"{stateful}.StatefulOperatorStateInfo")(
        f"{folder}/state", run_id, 0, 0, child.execute().getNumPartitions(), none, none
    )
    active = jvm.org.apache.spark.sql.classic.SparkSession
    active.setActiveSession(session)  # a physical operator takes the session that is active when it is made
    try:
        columns, some, modes = child.output(), jvm.scala.Option.apply, jvm.org.apache.spark.sql.streaming.OutputMode
        if window is None:
            save = getattr(jvm, f"{stateful}.StateStoreSaveExec")(
                columns.take(keys), some(info), some(modes.Update()), none, none, 2, child
            )
        else:  # update mode is not for sessions; their rows are stored whole, keys and all
            save = getattr(jvm, f"{stateful}.SessionWindowStateStoreSaveExec")(
                columns.take(window).concat(columns.slice(window + 1, keys)),
                columns.apply(window),
                some(info),
                some(modes.Complete()),
                none,
                none,
                1,
                child,
            )
        save.execute().count()
    finally:
        active.setActiveSession(spark._jsparkSession)
        session.streams().stateStoreCoordinator().deactivateInstances(run_id)  # executors may let go of the stores


def _store_session(spark: SparkSession, conf: dict[str, str]) -> Any:
    """A session of its own with the state store's part of a recorded configuration. Changelog checkpointing is off,
    because a changelog alone cannot stand for another version; files get names without ids (format v1), since who
    brings them where they belong gives them their names. A state without rows has its partitions, too: plans are not
    cut down to an empty relation, neither before they run nor while they do (AQEPropagateEmptyRelation)."""
    session = spark._jsparkSession.cloneSession()
    own = {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    }
    session.conf().set("spark.sql.adaptive.enabled", "false")
    session.conf().set(
        "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
    )
    for key, value in {**conf, **own}.items():
        if key.startswith(("spark.sql.streaming.stateStore.", "sql.streaming.")):
            session.conf().set(key, value)
    return session
