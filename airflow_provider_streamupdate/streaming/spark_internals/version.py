"""The Spark versions that are supported, and how they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pyspark
from pyspark.sql import SparkSession

from ...core.errors import EnvironmentProblem

STREAMING = "org.apache.spark.sql.execution.streaming"


@attrs.frozen(kw_only=True)
class StreamInternals:
    """The parts of a running query that `queries/following.py` uses."""

    entry: str  # class of an offset log's entry
    entry_metadata: str  # its method that returns the batch's metadata
    source_ids: tuple[str, ...]  # methods of the execution whose values its ``toStreamProgress`` takes beside sources
    written: tuple[str, ...]  # methods of WriteToMicroBatchDataSource: the first arguments of its constructor
    sink_names: int  # how many arguments of startQuery name the sink


_UNNAMED = StreamInternals(
    entry="OffsetSeq", entry_metadata="metadata", source_ids=(), written=("relation", "table"), sink_names=0
)
_NAMED = StreamInternals(
    entry="OffsetSeqBase",
    entry_metadata="metadataOpt",
    source_ids=("sourceIdMap",),
    written=("relation",),
    sink_names=1,
)


@attrs.frozen(kw_only=True)
class Adapter:
    """The differences of a minor version of Spark from the others (compared with javap on the released jars)."""

    has_packages: bool  # classes of Structured Streaming lie in packages by what they are for, not in one
    plan_arguments: tuple[bool, ...]  # of IncrementalExecution's constructor after ``mode``
    keeps_state_format: bool  # a restart goes on in the commit log's checkpoint format, not in the session's
    analyzes_with_case: bool  # a pipeline's graph is told by its caller whether names have a case
    guards_join_format: bool  # a first start gives a store without column families joins of a format without
    store_arguments: tuple[bool, ...]  # of StateStoreProvider.getStore after the version and its id
    rewrites_families: bool  # there is a StateRewriter, which writes column families
    stream: StreamInternals
    write_metadata: Callable[[Any], object]  # have a planned IncrementalExecution write its operators' metadata


_SPARK_40 = Adapter(  # verified with 4.0.5
    has_packages=False,
    plan_arguments=(),
    keeps_state_format=False,  # MicroBatchExecution reads spark.sql.streaming.stateStore.checkpointFormatVersion
    analyzes_with_case=False,  # it has no pipelines
    guards_join_format=False,
    store_arguments=(),
    rewrites_families=False,
    stream=_UNNAMED,
    write_metadata=lambda _: None,  # the first batch has (StateSchemaAndOperatorMetadataRule)
)
_SPARK_41 = attrs.evolve(_SPARK_40, has_packages=True, plan_arguments=(False,))  # isTerminatingTrigger; 4.1.4
_SPARK_42 = attrs.evolve(  # verified with 4.2.1
    _SPARK_41,
    store_arguments=(False, False),  # forceSnapshotOnCommit, loadEmpty
    rewrites_families=True,
    stream=_NAMED,
)
_SPARK_43 = attrs.evolve(  # verified with 4.3.0
    _SPARK_42,
    plan_arguments=(False, False),  # isTerminatingTrigger, isRealTimeMode
    keeps_state_format=True,  # CheckpointVersionManager.resolveCommitLogVersion
    analyzes_with_case=True,  # DataflowGraph.resolve(sessionCaseSensitive)
    guards_join_format=True,  # MicroBatchExecution.applyJoinStateConfigGuardrails
    write_metadata=lambda execution: execution.writeRecordedStateMetadata(),
)
ADAPTERS = {"4.0": _SPARK_40, "4.1": _SPARK_41, "4.2": _SPARK_42, "4.3": _SPARK_43}


def check_version(spark: SparkSession) -> str:
    """Return Spark's version; EnvironmentProblem when it is not supported, or for a mixed environment."""
    version = spark.version
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} is driving Spark {version}: two installations are mixed "
            "(apache-airflow-providers-apache-spark brings pyspark-client, which overwrites pyspark's files); "
            "use an environment for Spark that does not hold Airflow"
        )
    adapter()
    return version


def adapter() -> Adapter:
    """Return the differences of this minor version of Spark, which PySpark has, too (`check_version`);
    EnvironmentProblem when it is not supported."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    if minor not in ADAPTERS:
        raise EnvironmentProblem(
            f"Spark {pyspark.__version__} is not supported (supported: {', '.join(ADAPTERS)}); "
            f"install pyspark {max(ADAPTERS)}"
        )
    return ADAPTERS[minor]


def families_problem() -> str | None:
    """Return why this Spark cannot rewrite a store with column families; None: it can."""
    if adapter().rewrites_families:
        return None
    able = [minor for minor, each in ADAPTERS.items() if each.rewrites_families]
    return (
        f"Spark {pyspark.__version__} cannot rewrite state in column families: it has no StateRewriter, which Spark "
        f"{', '.join(able)} have"
    )


def _package(name: str) -> str:
    return f"{STREAMING}.{name}" if adapter().has_packages else STREAMING


RUNTIME, CHECKPOINTING, STATEFUL = map(_package, ("runtime", "checkpointing", "operators.stateful"))
