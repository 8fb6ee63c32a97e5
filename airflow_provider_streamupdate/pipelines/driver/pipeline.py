"""A pipeline as its spec says: its flows, what Spark will start for each, and its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.pipelines import cli
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, handle_pipeline_events, start_run
from pyspark.sql.streaming import DataStreamWriter

from ...core.errors import ApplicationError, InvalidInputError, describe
from ...core.plan.plan import QueryPlan
from ...core.storage import Folder, options
from ...streaming import spark_internals
from ...streaming.planning.author import Declarations, place
from ...streaming.planning.planner import plan_app


class Pipeline:
    """Registered with Spark as `spark-pipelines run` does it (pyspark.pipelines.cli.run), so that what is analyzed here
    is what runs."""

    def __init__(self, spec_path: Path) -> None:
        """InvalidInputError for a spec that Spark does not accept; ApplicationError where the code of the pipeline, or
        Spark with it, fails."""
        try:
            spec = cli.load_pipeline_spec(spec_path)
        except (PySparkException, OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"the pipeline's spec {spec_path} cannot be read: {describe(error)}") from error
        self.name, self._storage = spec.name, spec.storage
        self.connect = spark_internals.connected(spec.configuration)
        try:
            self._define(spec_path, spec)
        except BaseException:
            self.connect.stop()
            raise

    @classmethod
    @contextmanager
    def opened(cls, spec_path: Path) -> Iterator[Pipeline]:
        """Open the pipeline for a block and stop Spark after it."""
        pipeline = cls(spec_path)
        try:
            yield pipeline
        finally:
            pipeline.connect.stop()

    def _define(self, spec_path: Path, spec: cli.PipelineSpec) -> None:
        try:
            self._id = create_dataflow_graph(
                self.connect, default_catalog=spec.catalog, default_database=spec.database, sql_conf=spec.configuration
            )
            registry = SparkConnectGraphElementRegistry(self.connect, self._id)
            cli.register_definitions(spec_path, registry, spec, self.connect, self._id)
        except Exception as error:
            where = place(error)
            raise ApplicationError(
                f"the pipeline of {spec_path} cannot be defined: {where + ': ' if where else ''}{describe(error)}"
            ) from error
        self._graph = spark_internals.PipelineGraph(self.connect, self._id)
        self.flows = {flow.name: flow for flow in self._graph.flows}
        self.version = spark_internals.check_version(self._graph.spark)

    @property
    def storage(self) -> Folder:
        uri = spark_internals.qualified(self._graph.spark, self._storage)
        return Folder.open(uri, options.from_environment())

    @contextmanager
    def started(self, flow: spark_internals.PipelineFlow) -> Iterator[DataStreamWriter]:
        """Yield the writer that Spark will start for the flow, under the settings that it is started with."""
        with spark_internals.classic(), self._graph.configured(flow):
            try:
                writer = self._graph.writer(flow)
            except Exception as error:
                raise ApplicationError(f"flow {flow.name} cannot be analyzed: {describe(error)}") from error
            yield writer

    def plan(self, flow: spark_internals.PipelineFlow, recorded: Mapping[str, str] | None = None) -> QueryPlan:
        """recorded: the configuration in the offset log that it will go on from"""
        with self.started(flow) as writer:
            known = {flow.name: recorded} if recorded else None
            made = plan_app(self._graph.spark, Declarations(self.name), {flow.name: writer}, known)
        return made.queries[0]

    def changed_inputs(self, flow: spark_internals.PipelineFlow) -> list[str]:
        """Tables of this pipeline that the flow reads, and that this version gives other columns."""
        return self._graph.changed_inputs(flow)

    def has_table(self, flow: spark_internals.PipelineFlow) -> bool:
        """Whether what the flow writes to is there."""
        return self._graph.has_table(flow)

    def sink_batch(self, flow: spark_internals.PipelineFlow) -> int | None:
        """The last batch of the files that the flow writes to; None where there is none, or no files."""
        return self._graph.sink_batch(flow)

    def run(self, tell: Callable[[str], None]) -> None:
        """Have Spark run it to its end, and tell each line of what it says of it. Raises what Spark raises."""
        events = start_run(
            self.connect,
            self._id,
            full_refresh=[],
            full_refresh_all=False,
            refresh=[],
            dry=False,
            storage=self._storage,
        )
        handle_pipeline_events(_telling(events, tell))


def _telling(events: Iterator[dict[str, Any]], tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    for event in events:
        if "pipeline_event_result" in event:
            for line in event["pipeline_event_result"].event.message.splitlines():
                tell(line)
        yield event
