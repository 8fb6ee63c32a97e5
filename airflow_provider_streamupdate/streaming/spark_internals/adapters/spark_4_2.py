"""Spark 4.2 (verified with 4.2.1)."""

from __future__ import annotations

from typing import Any

PLAN_ARGUMENTS = (False,)  # isTerminatingTrigger
ANALYZES_WITH_CASE = False  # DataflowGraph.resolve()
GUARDS_JOIN_FORMAT = False
KEEPS_STATE_FORMAT = False  # MicroBatchExecution reads spark.sql.streaming.stateStore.checkpointFormatVersion


def write_metadata(execution: Any) -> None:
    """Nothing: planning has written it (StateSchemaAndOperatorMetadataRule, in the first batch)."""
