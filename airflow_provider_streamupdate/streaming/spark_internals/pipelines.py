"""A Spark Declarative Pipeline, analyzed by Spark itself.

`spark-pipelines` registers a pipeline's flows with a Spark Connect server, which runs in the JVM of the same process
where the master is no server of its own. There they are found in the session's DataflowGraphRegistry.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.errors import ApplicationError, EnvironmentProblem, describe
from .jvm import activate, scala_map, scala_object, sequence
from .queries.writers import qualified
from .settings import session_setting
from .version import adapter_of, check_version

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_REMOTE = "SPARK_CONNECT_MODE_ENABLED"  # in the environment: PySpark's functions make Connect's expressions
_TESTING = "SPARK_TESTING"
_STREAMING = "StreamingFlow"  # the only kind that starts its own DataFrame as a query (StreamingTableWrite, SinkWrite)
_WITHOUT_CHECKPOINT = ("CompleteFlow", "AppendOnceFlow")  # they run as batches


@attrs.frozen(kw_only=True)
class PipelineFlow:
    """A flow that Spark would start as a query with a checkpoint.

    name: ``catalog.database.flow``; folder: of its checkpoints, below the pipeline's storage
    destination: of what it writes, quoted for SQL; shown: the same for people; to_table: else to a sink
    conf: the settings that Spark makes for it
    unknown: its kind, where this is none whose query is known
    """

    name: str
    folder: str
    destination: str
    shown: str
    to_table: bool
    conf: dict[str, str]
    unknown: str | None
    _flow: Any = attrs.field(repr=False, eq=False)
    _output: Any = attrs.field(repr=False, eq=False)


class PipelineGraph:
    """The graph of a pipeline whose elements were registered."""

    def __init__(self, connect: Any, graph: str) -> None:
        """connect: the session of Spark Connect that registered them; graph: its id

        ApplicationError with what Spark says where it refuses the pipeline."""
        context = SparkContext._active_spark_context
        if context is None:
            raise EnvironmentProblem(
                "the pipeline runs on a Spark Connect server in another process, where its flows cannot be read; give "
                "a master (--master), not a server (spark.remote)"
            )
        service = scala_object(context._jvm, _SERVICE)
        holder = service.getOrCreateIsolatedSession(connect.client._user_id or "", connect.session_id)
        with classic():
            self.spark = SparkSession(context, holder.session())
        check_version(self.spark)
        activate(self.spark)
        self._arguments: tuple[bool, ...] = ()
        if adapter_of(self.spark).ANALYZES_WITH_CASE:
            self._arguments = (session_setting(self.spark, "spark.sql.caseSensitive") == "true",)
        registered = holder.dataflowGraphRegistry().getDataflowGraphOrThrow(graph).toDataflowGraph()
        try:
            self._graph = registered.resolve(*self._arguments).validate(*self._arguments)
        except Exception as error:
            raise ApplicationError(f"Spark refuses the pipeline: {describe(error)}") from error
        self.flows = tuple(self._flows())

    def _flows(self) -> Iterator[PipelineFlow]:
        for flow in sequence(self._graph.materializedFlows()):
            kind = str(flow.getClass().getSimpleName())
            if kind in _WITHOUT_CHECKPOINT:
                continue
            target = flow.destinationIdentifier()
            parts = [str(part) for part in sequence(target.nameParts())]
            output = self._graph.output().apply(target)
            yield PipelineFlow(
                name=str(flow.identifier().unquotedString()),
                folder="/".join(("_checkpoints", *parts, str(flow.identifier().table()))),
                destination=str(target.quotedString()),
                shown=str(target.unquotedString()),
                to_table=bool(self._graph.table().contains(target)),
                conf=scala_map(flow.sqlConf()),
                unknown=None if kind == _STREAMING else kind,
                flow=flow,
                output=output,
            )

    @contextlib.contextmanager
    def configured(self, flow: PipelineFlow) -> Iterator[None]:
        """The session as it is when Spark starts the flow (SparkSessionUtils.withSqlConf)."""
        conf = self.spark._jsparkSession.conf()
        before = {key: conf.getOption(key) for key in flow.conf}
        try:
            for key, value in flow.conf.items():
                conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                if value.isDefined():
                    conf.set(key, value.get())
                else:
                    conf.unset(key)

    def has_table(self, flow: PipelineFlow) -> bool:
        """Whether what the flow writes to is there. A sink that is no table always is."""
        return not flow.to_table or self._table_columns(flow.destination) is not None

    def _table_columns(self, table: str) -> dict[str, str] | None:
        """The columns of a table as it is; None where there is no such table yet."""
        if not self.spark._jsparkSession.catalog().tableExists(table):
            return None
        return _columns(self.spark._jsparkSession.table(table).schema())

    def changed_inputs(self, flow: PipelineFlow) -> list[str]:
        """The tables of this pipeline that the flow reads, directly or through views, and that have other columns than
        Spark will give them before the flow starts: what it starts then is not known. A streaming table only gets more
        columns, a materialized view those that its query has now (DatasetManager)."""
        found = set()
        for target in sequence(self._graph.dfsInternal(flow._flow.destinationIdentifier(), False, True).toSeq()):
            if not self._graph.table().contains(target) or target.equals(flow._flow.destinationIdentifier()):
                continue
            there = self._table_columns(str(target.quotedString()))
            for writes in sequence(self._graph.resolvedFlowsTo().apply(target)):
                made = _columns(writes.schema())
                of_view = str(writes.getClass().getSimpleName()) == "CompleteFlow"
                if there is not None and (made != there if of_view else not made.items() <= there.items()):
                    found.add(str(target.unquotedString()))
        return sorted(found)

    def writer(self, flow: PipelineFlow) -> DataStreamWriter:
        """What Spark will start for the flow (StreamingTableWrite.startStream, SinkWrite.startStream), but for its
        trigger, name and checkpoint. To be called, and the writer to be used, where it is `configured`. Spark does not
        give its writer the table's partitions (measured: files of a partitioned table lie in its folder)."""
        frame = DataFrame(self._graph.reanalyzeFlow(flow._flow, *self._arguments).df(), self.spark)
        writer = frame.writeStream.outputMode("append")
        if not flow.to_table:
            options = scala_map(flow._output.options())
            return writer.format(str(flow._output.format())).options(**options)
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {flow.destination}").collect()
        told = {str(row[0]): str(row[1] or "") for row in described}
        writer = writer.format(told.get("Provider") or "parquet")
        location = told.get("Location")
        return writer.option("path", qualified(self.spark, location)) if location else writer


@contextlib.contextmanager
def classic() -> Iterator[None]:
    """Inside, PySpark's functions work on sessions of this JVM, as they do without Spark Connect."""
    before = os.environ.pop(_REMOTE, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[_REMOTE] = before


def _columns(schema: Any) -> dict[str, str]:
    return {str(field.name()): str(field.dataType().sql()) for field in schema.fields()}


def connected(configuration: Mapping[str, str]) -> Any:
    """A session of Spark Connect whose server runs in this process's JVM, with a pipeline's configuration.

    PySpark starts that server with master ``local``, whatever spark-submit was told, unless the session is told the
    master as well (SparkSession.Builder.getOrCreate); and on a fixed port, of which a machine has one, unless
    SPARK_TESTING asks for a free one (RemoteSparkSession._start_connect_server, DefaultChannelBuilder.default_port).
    """
    master = SparkConf(loadDefaults=True).get("spark.master") or "local"
    settings = {
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.api.mode": "connect",
        **configuration,
        "spark.master": master,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    testing = os.environ.get(_TESTING)
    os.environ[_TESTING] = "1"
    try:
        return builder.getOrCreate()
    finally:
        if testing is None:
            del os.environ[_TESTING]
        else:
            os.environ[_TESTING] = testing
