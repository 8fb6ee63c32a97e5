"""The Spark versions that are supported, and how they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import SparkSession

from ...core.errors import EnvironmentProblem


@attrs.frozen(kw_only=True)
class Adapter:
    """The differences of a minor version of Spark from the others (compared with javap on the released jars)."""

    plan_arguments: tuple[bool, ...]  # of IncrementalExecution's constructor after ``mode``
    keeps_state_format: bool  # a restart goes on in the commit log's checkpoint format, not in the session's
    analyzes_with_case: bool  # a pipeline's graph is told by its caller whether names have a case
    guards_join_format: bool  # a first start gives a store without column families joins of a format without
    write_metadata: Callable[[Any], object]  # have a planned IncrementalExecution write its operators' metadata


ADAPTERS = {
    "4.2": Adapter(  # verified with 4.2.1
        plan_arguments=(False,),  # isTerminatingTrigger
        keeps_state_format=False,  # MicroBatchExecution reads spark.sql.streaming.stateStore.checkpointFormatVersion
        analyzes_with_case=False,  # DataflowGraph.resolve()
        guards_join_format=False,
        write_metadata=lambda _: None,  # the first batch has (StateSchemaAndOperatorMetadataRule)
    ),
    "4.3": Adapter(  # verified with 4.3.0
        plan_arguments=(False, False),  # isTerminatingTrigger, isRealTimeMode
        keeps_state_format=True,  # CheckpointVersionManager.resolveCommitLogVersion
        analyzes_with_case=True,  # DataflowGraph.resolve(sessionCaseSensitive)
        guards_join_format=True,  # MicroBatchExecution.applyJoinStateConfigGuardrails
        write_metadata=lambda execution: execution.writeRecordedStateMetadata(),
    ),
}


def check_version(spark: SparkSession) -> str:
    """Return Spark's version; EnvironmentProblem when it is not supported, or for a mixed environment."""
    import pyspark

    version = spark.version
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} is driving Spark {version}: two installations are mixed "
            "(apache-airflow-providers-apache-spark brings pyspark-client, which overwrites pyspark's files); "
            "use an environment for Spark that does not hold Airflow"
        )
    adapter_of(spark)
    return version


def adapter_of(spark: SparkSession) -> Adapter:
    """Return the differences of this minor version of Spark; EnvironmentProblem when it is not supported."""
    minor = ".".join(spark.version.split(".")[:2])
    if minor not in ADAPTERS:
        raise EnvironmentProblem(
            f"Spark {spark.version} is not supported (supported: {', '.join(ADAPTERS)}); "
            f"install pyspark {max(ADAPTERS)}"
        )
    return ADAPTERS[minor]
