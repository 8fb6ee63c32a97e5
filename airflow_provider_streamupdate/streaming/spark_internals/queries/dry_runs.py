"""One micro-batch planned as Spark would, without running it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ....core.errors import EnvironmentProblem
from ....core.plan.plan import AggregateBuffer
from ..jvm import STREAMING, class_names, itself, module, named, static
from ..plans.clocks import at_one_time
from ..plans.plans import plan_json
from ..settings import FILE_MANAGER, with_file_manager_for
from ..version import adapter_of
from .buffers import aggregate_buffers, event_times

# What Spark says of a Python worker that has not connected in time, and how often a plan is tried that needs one.
WORKER_LATE, WORKER_STARTS = "Python worker failed to connect back", 3
# How files are written that are thrown away: on a local disk Spark's own way starts a process for a file's permissions
# and for each link it looks at (FileContextBasedCheckpointFileManager), and adds a file with a checksum
# (ChecksumCheckpointFileManager); Hadoop's own adds one more, and a process for each of the two (LocalFileSystem;
# measured: 20 of 40 of a plan of five stages).
_SCRATCH = {
    FILE_MANAGER: f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class DryRun:
    """What Spark planned. Read when it is asked for, each time: most dry runs are for what Spark checks or writes, and
    are kept for long."""

    def __init__(self, spark: SparkSession, execution: Any, timeless: Any | None = None) -> None:
        """timeless: of the same plan, in which it is always the same time (clocks.py); where it asks for that"""
        self._spark, self._execution, self._timeless = spark, execution, timeless

    @property
    def physical(self) -> Any:
        """The physical plan before Spark prepares it for a batch."""
        return self._execution.sparkPlan()

    @property
    def optimized(self) -> list[dict[str, Any]]:
        """The optimized logical plan as JSON. It is that of another time where it would have the same nodes then, so
        that it is the same whenever it is made."""
        jvm, plan = self._spark._jvm, self._execution.optimizedPlan()
        other = self._timeless.optimizedPlan() if self._timeless is not None else plan
        alike = other is plan or class_names(jvm, plan.map(itself(jvm))) == class_names(jvm, other.map(itself(jvm)))
        return plan_json(self._spark, other if alike else plan)

    @property
    def buffers(self) -> dict[int, tuple[AggregateBuffer, ...]]:
        """The aggregates' buffers by operator id."""
        return aggregate_buffers(self._spark._jvm, self._execution.executedPlan())

    @property
    def event_times(self) -> dict[int, dict[int, int]]:
        """The columns with the event time of each stateful operator's inputs, by operator id."""
        return event_times(self._spark._jvm, self._execution.executedPlan())


def dry_run(
    df: DataFrame,
    output_mode: str,
    checkpoint: str,
    batch: int,
    conf: dict[str, str] | None = None,
    write: bool = False,
    scratch: bool = False,
    planned: DryRun | None = None,
    begun: Callable[[DryRun], None] | None = None,
) -> DryRun:
    """Plan one micro-batch as Spark would, without running it.

    An IncrementalExecution assigns operator ids, and checks state schemas and operators against what lies under
    `checkpoint` (a URI), raising Spark's own errors. `write` makes it write its operator metadata there (state schemas
    are written in any case). `conf` is the configuration recorded in an offset log; it wins over the session's.
    `scratch`: what is written under `checkpoint` is thrown away afterwards.
    For `batch` B a file ``offsets/B`` must exist (OperatorStateMetadataV2Reader looks for it).
    `planned`: another dry run of the same query under the same configuration. Then nothing is planned again, but for
    what has to do with the checkpoint: all of that, Spark's checks with it, is one rule (IncrementalExecution.state),
    and neither the optimizer nor the planner's strategies look at the checkpoint or the batch.
    `begun` is given the dry run before anything is planned, for what can be read of it beside the planning. It is not
    told of a second try.

    To plan transformWithState Spark starts a Python worker, and gives it 10 s (PythonWorkerFactory.createSimpleWorker;
    not to be set). A busy machine takes longer, which says nothing about the query: it is tried again, with a new
    execution, because one keeps its failure. EnvironmentProblem when that does not help.
    """
    late: Exception | None = None
    for attempt in range(WORKER_STARTS):
        try:
            tell = None if attempt else begun
            return _dry_run(df, output_mode, checkpoint, batch, conf, write, scratch, planned, tell)
        except Exception as error:
            if WORKER_LATE not in str(error):
                raise
            late = error
    raise EnvironmentProblem(
        f"Spark could not start a Python worker within its 10 s, {WORKER_STARTS} times: the machine is too busy to "
        "check whether the query can be planned; try again when it is less busy"
    ) from late


def _dry_run(
    df: DataFrame,
    output_mode: str,
    checkpoint: str,
    batch: int,
    conf: dict[str, str] | None,
    write: bool,
    scratch: bool,
    before: DryRun | None,
    begun: Callable[[DryRun], None] | None,
) -> DryRun:
    spark = df.sparkSession
    adapter = adapter_of(spark)
    jvm = spark._jvm
    session = spark._jsparkSession.cloneSession()  # MicroBatchExecution works in a clone as well
    session.conf().set("spark.sql.adaptive.enabled", "false")  # and switches AQE off for stateful plans
    with_file_manager_for(checkpoint, session)
    meta_class = module(spark, f"{STREAMING}.checkpointing.OffsetSeqMetadata")
    metadata = meta_class.apply(
        json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": dict(conf or {})})
    )
    if conf:
        meta_class.setSessionConf(metadata, session.sessionState().conf())
    for key, value in _SCRATCH.items() if scratch else ():
        session.conf().set(key, value)
    none = static(jvm, "scala.Option#apply")(None)
    mode = static(jvm, f"org.apache.spark.sql.streaming.OutputMode#{output_mode.capitalize()}")()
    state_ids = named(jvm, "scala.collection.mutable.HashMap")
    query_id = static(jvm, "java.util.UUID#randomUUID")()

    def planned(analyzed: Any) -> Any:
        return named(jvm, f"{STREAMING}.runtime.IncrementalExecution")(
            session,
            analyzed,
            mode,
            f"{checkpoint}/state",
            query_id,
            query_id,
            batch,
            none,
            metadata,
            module(spark, f"{STREAMING}.runtime.WatermarkPropagator").apply(session.sessionState().conf()),
            True,  # isFirstBatch: the batch that checks and records schemas
            state_ids(),
            state_ids(),
            module(spark, "org.apache.spark.sql.execution.CommandExecutionMode").ALL(),
            *adapter.PLAN_ARGUMENTS,
        )

    analyzed = df._jdf.queryExecution().analyzed()
    if before is not None and not write:
        execution = planned(analyzed)
        with _active(spark, session):
            execution.state().apply(before.physical.clone())
        return DryRun(spark, execution)
    execution, other = planned(analyzed), at_one_time(spark, analyzed)
    run = DryRun(spark, execution, None if other is None else planned(other))
    if begun is not None:
        begun(run)
    execution.executedPlan()
    if write:
        adapter.write_metadata(execution)
    return run


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
