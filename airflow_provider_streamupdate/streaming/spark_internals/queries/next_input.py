"""What a streaming source answers when it is asked for its next rows, as Spark asks it when a query starts again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ....core.compatibility.rules.sources.next_input import MISSING_FILE
from ..jvm import STREAMING, named, sequence, static
from ..plans.sources import streaming_leaves

FILES_LOOKED_FOR = 1000  # of the next rows, the oldest first: those are deleted first


@attrs.frozen(kw_only=True)
class Asked:
    """The offsets of a source, as JSON. None: it has none yet.

    start, place: of the last batch that was logged; from `place` the query goes on
    in_flight: that batch has not committed, so that it runs again
    """

    start: str | None = None
    place: str | None = None
    in_flight: bool = False


def next_input_problem(df: DataFrame, line: int, asked: Asked, folder: str) -> str | None:
    """Why the source of a line of the offset log does not give its next rows, in its own words; None where it does. No
    row is read.

    folder: the URI of what it keeps in a checkpoint; it may write there
    """
    spark, leaf = df.sparkSession, streaming_leaves(df)[line]
    try:
        source = _v1(leaf)
        return _ask(spark, source, asked, folder) if source is not None else _ask_v2(leaf, asked, folder)
    except (Py4JJavaError, PySparkException) as error:
        return _said(error)


def _v1(leaf: Any) -> Any | None:
    """The DataSource of a source of the first kind (MicroBatchExecution.logicalPlan)."""
    if leaf.getClass().getSimpleName() == "StreamingRelation":
        return leaf.dataSource()
    reads = any(str(c.name()) == "MICRO_BATCH_READ" for c in leaf.table().capabilities())
    return leaf.v1Relation().get().dataSource() if not reads and leaf.v1Relation().isDefined() else None


def _ask(spark: SparkSession, data: Any, asked: Asked, folder: str) -> str | None:
    jvm, limit = spark._jvm, _no_limit(spark)
    serialized, option = named(jvm, f"{STREAMING}.runtime.SerializedOffset"), static(jvm, "scala.Option#apply")

    def place(offset: str | None) -> Any | None:
        return None if offset is None else serialized(offset)

    source = data.createSource(folder)
    try:
        if asked.place is not None:  # whether or not it has committed (MicroBatchExecution.populateStartOffsets)
            source.getBatch(option(place(asked.start)), place(asked.place))
        latest = source.latestOffset(place(asked.place), limit)
        if latest is None:
            return None
        batch = source.getBatch(option(place(asked.place)), latest)
        return _missing(spark, _files(batch)[:FILES_LOOKED_FOR])
    finally:
        source.stop()


def _ask_v2(leaf: Any, asked: Asked, folder: str) -> str | None:
    stream = leaf.table().newScanBuilder(leaf.extraOptions()).build().toMicroBatchStream(folder)
    try:

        def place(offset: str | None) -> Any:
            return stream.initialOffset() if offset is None else stream.deserializeOffset(offset)

        if asked.in_flight:
            stream.planInputPartitions(place(asked.start), place(asked.place))
        latest = stream.latestOffset(place(asked.place), stream.getDefaultReadLimit())
        if latest is not None:
            stream.planInputPartitions(place(asked.place), latest)
    finally:
        stream.stop()
    return None


def _no_limit(spark: SparkSession) -> Any:
    return static(spark._jvm, "org.apache.spark.sql.connector.read.streaming.ReadLimit#allAvailable")()


def _files(batch: Any) -> list[str]:
    """The files of a batch, from its plan: Spark plans none of a stream outside of one (so not Dataset.inputFiles)."""
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


def _said(error: Py4JJavaError | PySparkException) -> str:
    """The Java error's own message on one line, its condition first. Not by way of PySpark: its classes look for the
    words of a condition among Spark's, and fail where it is a connector's (measured)."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    text = str(error) if cause is None else str(cause.getMessage() or cause.getClass().getName())
    shown = " ".join(text.split())
    if shown.startswith("["):  # [CONDITION] words
        condition, _, words = shown[1:].partition("]")
        shown = f"{condition}: {words.strip()}"
    return shown[:600]
