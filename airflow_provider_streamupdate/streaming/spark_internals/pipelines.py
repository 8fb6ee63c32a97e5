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

from ...core.errors import ApplicationError, EnvironmentProblem, RefusedError, cut, describe
from .jvm import activate, identity_function, scala_map, scala_object, sequence
from .queries.writers import file_sink_batch, qualified
from .settings import session_setting
from .version import adapter, check_version

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_REMOTE = "SPARK_CONNECT_MODE_ENABLED"  # in the environment: PySpark's functions make Connect's expressions
_TESTING = "SPARK_TESTING"
_STREAMING = "StreamingFlow"  # the only kind that starts its own DataFrame as a query (StreamingTableWrite, SinkWrite)
_SESSION_CATALOG = "spark_catalog."
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
        if adapter().analyzes_with_case:
            self._arguments = (session_setting(self.spark, "spark.sql.caseSensitive") == "true",)
        resolved = holder.dataflowGraphRegistry().getDataflowGraphOrThrow(graph).toDataflowGraph()
        try:
            resolved = resolved.resolve(*self._arguments)
            self._graph = resolved.validate(*self._arguments)
        except Exception as error:
            told = "; ".join(_failures(resolved)) or describe(error)
            raise ApplicationError(f"Spark refuses the pipeline: {told}") from error
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
        """The tables of this pipeline that the flow reads and that have other columns than Spark gives them in a run:
        what it starts with them is not known before. A streaming table only gets more columns, a materialized view
        those that its query has now (DatasetManager)."""
        own, found = flow._flow.destinationIdentifier(), set()
        read = self._read(flow)
        for table in sequence(self._graph.tables()):
            target = table.identifier()
            if target.equals(own) or str(target.unquotedString()) not in read:
                continue
            there = self._table_columns(str(target.quotedString()))
            for writes in sequence(self._graph.resolvedFlowsTo().apply(target)):
                made = _columns(writes.schema())
                of_view = str(writes.getClass().getSimpleName()) == "CompleteFlow"
                if there is not None and (made != there if of_view else not made.items() <= there.items()):
                    found.add(str(target.unquotedString()))
        return sorted(found)

    def _read(self, flow: PipelineFlow) -> set[str]:
        """The tables and views of this pipeline that the flow reads, directly or through views
        (``catalog.database.table``): in the resolved graph each is an alias of its whole name
        (FlowAnalysis.readGraphInput). Spark's own list of inputs lacks what a streaming flow reads as a batch
        (measured)."""
        plan, found = flow._flow.df().queryExecution().analyzed(), set()
        for part in (plan, *sequence(plan.subqueriesAll())):
            for node in sequence(part.map(identity_function(self.spark._jvm))):
                if str(node.getClass().getSimpleName()) == "SubqueryAlias":
                    alias = node.identifier()
                    found.add(".".join([*map(str, sequence(alias.qualifier())), str(alias.name())]))
        return found

    def writer(self, flow: PipelineFlow) -> DataStreamWriter:
        """Return the writer that Spark starts for the flow (StreamingTableWrite.startStream, SinkWrite.startStream),
        without trigger, name and checkpoint. Call it, and use the writer, inside `configured`. Spark does not pass the
        table's partitions (measured: the files of a partitioned table lie in its folder)."""
        frame = DataFrame(self._graph.reanalyzeFlow(flow._flow, *self._arguments).df(), self.spark)
        writer = frame.writeStream.outputMode("append")
        if not flow.to_table:
            options = scala_map(flow._output.options())
            return writer.format(str(flow._output.format())).options(**options)
        provider, location = self._table(flow)
        return writer.format(provider).option("path", location) if location else writer.format(provider)

    def sink_batch(self, flow: PipelineFlow) -> int | None:
        """The last batch in the log of the files that the flow writes to (file_sink_batch)."""
        if flow.to_table:
            path = self._table(flow)[1] if self._table_columns(flow.destination) is not None else ""
        else:
            path = scala_map(flow._output.options()).get("path", "")
        return file_sink_batch(self.spark, path) if path else None

    def _table(self, flow: PipelineFlow) -> tuple[str, str]:
        """The provider and the location of the flow's table, or of the one that the run will make (DatasetManager); an
        empty text where it has none."""
        if self._table_columns(flow.destination) is None:
            made, catalog = flow._output, self.spark._jsparkSession.sessionState().catalog()
            name = made.identifier()
            if not str(name.unquotedString()).startswith(_SESSION_CATALOG):
                raise RefusedError(f"table {flow.shown} is not there, and its catalog does not tell where it will be")
            provider, path = made.format(), made.normalizedPath()
            place = path.get() if path.isDefined() else catalog.defaultTablePath(name).toString()
            default = session_setting(self.spark, "spark.sql.sources.default")
            return str(provider.get()) if provider.isDefined() else str(default), qualified(self.spark, str(place))
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {flow.destination}").collect()
        told = {str(row[0]): str(row[1] or "") for row in described}
        location = told.get("Location", "")
        return told.get("Provider") or "parquet", location and qualified(self.spark, location)


@contextlib.contextmanager
def classic() -> Iterator[None]:
    """Inside, PySpark's functions work on sessions of this JVM, as they do without Spark Connect."""
    before = os.environ.pop(_REMOTE, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[_REMOTE] = before


def _failures(graph: Any) -> Iterator[str]:
    """Why flows cannot be resolved: the error of the whole names the flows and no reason."""
    with contextlib.suppress(Exception):
        for flow in sequence(graph.resolutionFailedFlows()):
            for failure in sequence(flow.failure()):
                said = str(failure.getMessage() or failure.toString()).strip()
                if "upstream" not in str(failure.getClass().getSimpleName()).lower():
                    yield f"flow {flow.identifier().unquotedString()}: {cut(said, 1000)}"


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
