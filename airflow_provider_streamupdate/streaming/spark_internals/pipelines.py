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
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.errors import ApplicationError, EnvironmentProblem, describe
from .jvm import activate, scala_map, scala_object, sequence
from .queries.file_sink import file_sink_batch
from .queries.writers import qualified
from .settings import session_setting
from .version import adapter_of, check_version

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
_REMOTE = "SPARK_CONNECT_MODE_ENABLED"  # in the environment: PySpark's functions make Connect's expressions
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

    def columns(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """What each flow into a table writes, those into materialized views as well: the table, quoted and for people,
        and type by column."""
        for flow in sequence(self._graph.materializedFlows()):
            target = flow.destinationIdentifier()
            if self._graph.table().contains(target):
                yield str(target.quotedString()), str(target.unquotedString()), _columns(flow.schema())

    def table_columns(self, destination: str) -> dict[str, str] | None:
        """The columns of a table (quoted) as it is; None where there is no such table yet."""
        if not self.spark._jsparkSession.catalog().tableExists(destination):
            return None
        return _columns(self.spark._jsparkSession.table(destination).schema())

    def inputs(self, flow: PipelineFlow) -> set[str]:
        """The tables of this pipeline that the flow reads, directly or through views (quoted, as destinations)."""
        target = flow._flow.destinationIdentifier()
        return {
            str(found.quotedString())
            for found in sequence(self._graph.dfsInternal(target, False, True).toSeq())
            if self._graph.table().contains(found)
        }

    def writer(self, flow: PipelineFlow) -> DataStreamWriter:
        """What Spark will start for the flow (StreamingTableWrite.startStream, SinkWrite.startStream), but for its
        trigger, name and checkpoint. To be called, and the writer to be used, where it is `configured`."""
        frame = DataFrame(self._graph.reanalyzeFlow(flow._flow, *self._arguments).df(), self.spark)
        writer = frame.writeStream.outputMode("append")
        if not flow.to_table:
            options = scala_map(flow._output.options())
            return writer.format(str(flow._output.format())).options(**options)
        provider, location, partitions = self._table(flow)
        writer = writer.format(provider).partitionBy(*partitions) if partitions else writer.format(provider)
        return writer.option("path", location) if location else writer

    def sink_batch(self, flow: PipelineFlow) -> int | None:
        """The last batch in the log of the files that the flow writes to (file_sink_batch)."""
        if flow.to_table:
            path = self._table(flow)[1] if self.table_columns(flow.destination) is not None else ""
        else:
            path = scala_map(flow._output.options()).get("path", "")
        return file_sink_batch(self.spark, path) if path else None

    def _table(self, flow: PipelineFlow) -> tuple[str, str, list[str]]:
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {flow.destination}").collect()
        told = {str(row[0]): str(row[1] or "") for row in described}
        names = [str(row[0]) for row in described]
        partitions: list[str] = []
        if "# Partition Information" in names:
            for row in described[names.index("# Partition Information") + 2 :]:
                if not row[0]:
                    break
                partitions.append(str(row[0]))
        location = told.get("Location", "")
        return told.get("Provider") or "parquet", location and qualified(self.spark, location), partitions


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
                    yield f"flow {flow.identifier().unquotedString()}: {said[:1000]}"


def _columns(schema: Any) -> dict[str, str]:
    return {str(field.name()): str(field.dataType().sql()) for field in schema.fields()}


def pipeline_settings(given: Mapping[str, str]) -> dict[str, str]:
    """A pipeline's configuration with what makes its session one of Spark Connect in this process."""
    return {"spark.sql.connect.serverStacktrace.enabled": "false", "spark.api.mode": "connect", **given}
