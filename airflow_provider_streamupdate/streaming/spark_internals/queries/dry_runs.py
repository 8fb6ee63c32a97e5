"""One micro-batch planned as Spark would, without running it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from ....core.errors import EnvironmentProblem
from ....core.plan.plan import AggregateBuffer
from ..jvm import class_names, identity_function, module, named, static
from ..plans.clocks import at_one_time
from ..plans.plans import plan_json
from ..settings import FILE_MANAGER, with_file_manager_for
from ..version import CHECKPOINTING, RUNTIME, adapter
from .buffers import aggregate_buffers, event_times

# What Spark says of a Python worker that has not connected in time, and how often a plan is tried that needs one.
WORKER_LATE, WORKER_STARTS = "Python worker failed to connect back", 3
# How files are written that are thrown away: on a local disk Spark's own way starts a process for a file's permissions
# and for each link it looks at (FileContextBasedCheckpointFileManager), and adds a file with a checksum
# (ChecksumCheckpointFileManager); Hadoop's own adds one more, and a process for each of the two (LocalFileSystem;
# measured: 20 of 40 of a plan of five stages).
_SCRATCH = {
    FILE_MANAGER: f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class DryRun:
    """The plan of a micro-batch that was not run. Each property reads it from the JVM: most dry runs are made for what
    Spark checks or writes, and are kept for long."""

    def __init__(self, spark: SparkSession, execution: Any, timeless: Any | None = None) -> None:
        """timeless: the execution of the same plan at a fixed time (clocks.py); None: it does not ask for the time"""
        self._spark, self._execution, self._timeless = spark, execution, timeless

    @property
    def physical(self) -> Any:
        """The physical plan before Spark prepares it for a batch."""
        return self._execution.sparkPlan()

    @property
    def optimized(self) -> list[dict[str, Any]]:
        """The optimized logical plan as JSON: the one at a fixed time, where that has the same nodes, so that it does
        not depend on when it is made."""
        jvm, plan = self._spark._jvm, self._execution.optimizedPlan()
        other = self._timeless.optimizedPlan() if self._timeless is not None else plan
        nodes = identity_function(jvm)
        alike = other is plan or class_names(jvm, plan.map(nodes)) == class_names(jvm, other.map(nodes))
        return plan_json(self._spark, other if alike else plan)

    @property
    def buffers(self) -> dict[int, tuple[AggregateBuffer, ...]]:
        """The aggregates' buffers by operator id."""
        return aggregate_buffers(self._spark._jvm, self._execution.executedPlan())

    @property
    def event_times(self) -> dict[int, dict[int, int]]:
        """The columns with the event time of each stateful operator's inputs, by operator id."""
        return event_times(self._spark._jvm, self._execution.executedPlan())


@attrs.frozen(kw_only=True)
class DryRunOptions:
    """Options of a dry run."""

    write: bool = False  # Spark's operator metadata, under the checkpoint; state schemas are written in any case
    scratch: bool = False  # what is written is thrown away afterwards
    # Another dry run of the same query under the same configuration: only what depends on the checkpoint is planned
    # again. All of that, with Spark's checks, is one rule (IncrementalExecution.state); the optimizer and the planner's
    # strategies look at neither the checkpoint nor the batch.
    planned: DryRun | None = None
    # Gets the dry run before anything is planned, to read what is known by then. Not called for a second try.
    begun: Callable[[DryRun], None] | None = None


NO_OPTIONS = DryRunOptions()


def dry_run(
    df: DataFrame,
    output_mode: str,
    checkpoint: str,
    batch: int,
    conf: dict[str, str] | None = None,
    options: DryRunOptions = NO_OPTIONS,
) -> DryRun:
    """Plan one micro-batch as Spark would, without running it.

    An IncrementalExecution assigns operator ids, and checks state schemas and operators against the files under
    `checkpoint` (a URI), raising Spark's own errors. `conf` is the configuration recorded in an offset log; it replaces
    the session's. For `batch` B a file ``offsets/B`` must exist (OperatorStateMetadataV2Reader looks for it).

    To plan transformWithState Spark starts a Python worker, and gives it 10 s (PythonWorkerFactory.createSimpleWorker;
    not to be set). A busy machine takes longer, which says nothing about the query: it is tried again, with a new
    execution, because one keeps its failure. Raise EnvironmentProblem when that does not help.
    """
    late: Exception | None = None
    for _ in range(WORKER_STARTS):
        try:
            return _dry_run(df, output_mode, checkpoint, batch, conf or {}, options)
        except Exception as error:
            if WORKER_LATE not in str(error):
                raise
            late, options = error, attrs.evolve(options, begun=None)
    raise EnvironmentProblem(
        f"Spark could not start a Python worker within its 10 s, {WORKER_STARTS} times: the machine is too busy to "
        "check whether the query can be planned; try again when it is less busy"
    ) from late


def _dry_run(
    df: DataFrame, output_mode: str, checkpoint: str, batch: int, conf: dict[str, str], options: DryRunOptions
) -> DryRun:
    spark, analyzed = df.sparkSession, df._jdf.queryExecution().analyzed()
    session, metadata = _session(spark, checkpoint, conf, options.scratch)

    def execution_of(plan: Any) -> Any:
        return _execution(spark, session, metadata, plan, output_mode, checkpoint, batch)

    execution = execution_of(analyzed)
    if options.planned is not None and not options.write:
        with _active(spark, session):
            execution.state().apply(options.planned.physical.clone())
        return DryRun(spark, execution)
    other = at_one_time(spark, analyzed)
    run = DryRun(spark, execution, None if other is None else execution_of(other))
    if options.begun is not None:
        options.begun(run)
    execution.executedPlan()
    if options.write:
        adapter().write_metadata(execution)
    return run


def _session(spark: SparkSession, checkpoint: str, conf: dict[str, str], scratch: bool) -> tuple[Any, Any]:
    """Return a session like the one that would run the batch, and the metadata of its offset log entry."""
    session = spark._jsparkSession.cloneSession()  # MicroBatchExecution works in a clone as well
    session.conf().set("spark.sql.adaptive.enabled", "false")  # and switches AQE off for stateful plans
    with_file_manager_for(checkpoint, session)
    meta_class = module(spark, f"{CHECKPOINTING}.OffsetSeqMetadata")
    metadata = meta_class.apply(
        json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": conf})
    )
    if conf:
        meta_class.setSessionConf(metadata, session.sessionState().conf())
    for key, value in _SCRATCH.items() if scratch else ():
        session.conf().set(key, value)
    return session, metadata


def _execution(
    spark: SparkSession, session: Any, metadata: Any, analyzed: Any, output_mode: str, checkpoint: str, batch: int
) -> Any:
    """Return an IncrementalExecution of an analyzed plan."""
    jvm, state_ids = spark._jvm, named(spark._jvm, "scala.collection.mutable.HashMap")
    query_id = static(jvm, "java.util.UUID#randomUUID")()
    return named(jvm, f"{RUNTIME}.IncrementalExecution")(
        session,
        analyzed,
        static(jvm, f"org.apache.spark.sql.streaming.OutputMode#{output_mode.capitalize()}")(),
        f"{checkpoint}/state",
        query_id,
        query_id,
        batch,
        static(jvm, "scala.Option#apply")(None),
        metadata,
        module(spark, f"{RUNTIME}.WatermarkPropagator").apply(session.sessionState().conf()),
        True,  # isFirstBatch: the batch that checks and records schemas
        state_ids(),
        state_ids(),
        module(spark, "org.apache.spark.sql.execution.CommandExecutionMode").ALL(),
        *adapter().plan_arguments,
    )


@contextlib.contextmanager
def _active(spark: SparkSession, session: Any) -> Iterator[None]:
    """Work in a session, as Spark does where it plans (SparkSession.withActive)."""
    sessions = module(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
