"""What a streaming source answers when it is asked for its next rows, as Spark asks it when a query starts again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ....core.compatibility.rules.sources.next_input import MISSING_FILE
from ....core.errors import cut
from ..jvm import named, sequence, static
from ..plans.sources import streaming_leaves
from ..version import RUNTIME

FILES_LOOKED_FOR = 1000  # of the next rows, the oldest first: those are deleted first


@attrs.frozen(kw_only=True)
class SourceOffsets:
    """The offsets of a source in the last logged batch, as JSON. None: it has none yet."""

    start: str | None = None  # before the batch
    place: str | None = None  # after it: the query continues from here
    in_flight: bool = False  # the batch has not committed, so it runs again


def next_input_problem(df: DataFrame, line: int, offsets: SourceOffsets, folder: str) -> str | None:
    """Return why a source does not give its next rows, in its own words; None when it does. No row is read.

    line: of the source in the offset log
    folder: the URI of the source's own files in a checkpoint; it may write there
    """
    spark, leaf = df.sparkSession, streaming_leaves(df)[line]
    try:
        source = _v1(leaf)
        return _ask(spark, source, offsets, folder) if source is not None else _ask_v2(leaf, offsets, folder)
    except (Py4JJavaError, PySparkException) as error:
        return _message(error)


def _v1(leaf: Any) -> Any | None:
    """Return the DataSource of a DSv1 source, None for a DSv2 one (MicroBatchExecution.logicalPlan)."""
    if leaf.getClass().getSimpleName() == "StreamingRelation":
        return leaf.dataSource()
    reads = any(str(c.name()) == "MICRO_BATCH_READ" for c in leaf.table().capabilities())
    return leaf.v1Relation().get().dataSource() if not reads and leaf.v1Relation().isDefined() else None


def _ask(spark: SparkSession, data: Any, offsets: SourceOffsets, folder: str) -> str | None:
    jvm, limit = spark._jvm, _no_limit(spark)
    serialized, option = named(jvm, f"{RUNTIME}.SerializedOffset"), static(jvm, "scala.Option#apply")

    def place(offset: str | None) -> Any | None:
        return None if offset is None else serialized(offset)

    source = data.createSource(folder)
    try:
        if offsets.place is not None:  # whether or not it has committed (MicroBatchExecution.populateStartOffsets)
            source.getBatch(option(place(offsets.start)), place(offsets.place))
        latest = source.latestOffset(place(offsets.place), limit)
        if latest is None:
            return None
        batch = source.getBatch(option(place(offsets.place)), latest)
        return _missing(spark, _files(batch)[:FILES_LOOKED_FOR])
    finally:
        source.stop()


def _ask_v2(leaf: Any, offsets: SourceOffsets, folder: str) -> str | None:
    stream = leaf.table().newScanBuilder(leaf.extraOptions()).build().toMicroBatchStream(folder)
    try:

        def place(offset: str | None) -> Any:
            return stream.initialOffset() if offset is None else stream.deserializeOffset(offset)

        if offsets.in_flight:
            stream.planInputPartitions(place(offsets.start), place(offsets.place))
        latest = stream.latestOffset(place(offsets.place), stream.getDefaultReadLimit())
        if latest is not None:
            stream.planInputPartitions(place(offsets.place), latest)
    finally:
        stream.stop()
    return None


def _no_limit(spark: SparkSession) -> Any:
    return static(spark._jvm, "org.apache.spark.sql.connector.read.streaming.ReadLimit#allAvailable")()


def _files(batch: Any) -> list[str]:
    """Return the files of a batch, from its logical plan. Dataset.inputFiles does not work: Spark plans a batch of a
    stream only inside the stream."""
    found: list[str] = []
    for leaf in sequence(batch.queryExecution().logical().collectLeaves()):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                found += [str(file) for file in relation.location().inputFiles()]
    return found


def _missing(spark: SparkSession, files: Iterable[str]) -> str | None:
    conf, path = spark._jsparkSession.sessionState().newHadoopConf(), named(spark._jvm, "org.apache.hadoop.fs.Path")
    for file in files:
        if not (found := path(file)).getFileSystem(conf).exists(found):
            return f"{MISSING_FILE}: {file}"
    return None


def _message(error: Py4JJavaError | PySparkException) -> str:
    """Return the Java error's message on one line, its condition first. PySpark's own classes fail for conditions of
    connectors (measured): they look them up among Spark's."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    text = str(error) if cause is None else str(cause.getMessage() or cause.getClass().getName())
    shown = " ".join(text.split())
    if shown.startswith("["):  # [CONDITION] words
        condition, _, words = shown[1:].partition("]")
        shown = f"{condition}: {words.strip()}"
    return cut(shown, 600)


def changed_file(spark: SparkSession, files: Mapping[str, int]) -> str | None:
    """Return the first of these files that is gone or was changed since; None when all are as they were.

    files: their names in the log of a file source (SparkPath.urlEncoded), with their times in milliseconds
    """
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for name, changed_at in files.items():
        path = named(spark._jvm, "org.apache.hadoop.fs.Path")(named(spark._jvm, "java.net.URI")(name))
        try:
            if int(path.getFileSystem(conf).getFileStatus(path).getModificationTime()) != changed_at:
                return name
        except Py4JJavaError as error:
            if "FileNotFoundException" not in str(error.java_exception.getClass().getName()):
                raise
            return name
    return None
