"""Spark 4.3 (verified with 4.3.0)."""

from __future__ import annotations

from typing import Any

PLAN_ARGUMENTS = (False, False)  # isTerminatingTrigger, isRealTimeMode
KEEPS_STATE_FORMAT = True  # CheckpointVersionManager.resolveCommitLogVersion
ANALYZES_WITH_CASE = True  # DataflowGraph.resolve(sessionCaseSensitive)
GUARDS_JOIN_FORMAT = True  # MicroBatchExecution.applyJoinStateConfigGuardrails


def write_metadata(execution: Any) -> None:
    execution.writeRecordedStateMetadata()
