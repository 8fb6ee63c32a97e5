"""How a query's batches are made: only micro-batches that are logged before they run, and committed after, allow
snapshots, hand-overs and updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import ApplicationError

# Class of a trigger -> what it does, and where that is known from.
_TRIGGERS = {
    # MicroBatchExecution.markMicroBatchStart logs no offsets in this mode; AsyncProgressTrackingMicroBatchExecution
    "RealTimeTrigger": "real-time mode (trigger(realTime=...)) runs batches that last minutes (5 by default), and "
    "emits their rows before it logs their offsets: it cannot be drained soon, and what it has written when it is "
    "stopped is unknown",
    # ContinuousExecution: epochs, commits after the rows were written
    "ContinuousTrigger": "continuous processing (trigger(continuous=...)) has epochs instead of batches: it commits "
    "offsets after writing the rows, and there is no end of a batch at which a new version could begin",
}
# AsyncProgressTrackingMicroBatchExecution
_ASYNC = "asyncprogresstrackingenabled"


def check_batches(where: str, details: Mapping[str, Any]) -> None:
    """Raise ApplicationError when the writer (`details`: spark_internals.writer_details) asks for batches that are not
    logged and committed one by one. `where`: the query, for the message."""
    why = _TRIGGERS.get(details["trigger"])
    options = {name.lower(): value for name, value in details["options"].items()}
    if options.get(_ASYNC, "false").strip().lower() == "true":
        why = (
            "asynchronous progress tracking (asyncProgressTrackingEnabled) omits batches from the offset and commit "
            "logs, so what the sink has received when the query is stopped is unknown"
        )
    if why:
        raise ApplicationError(
            f"{where}: {why}; updates are not possible, and nothing was started. Use trigger(processingTime=...) or "
            "trigger(availableNow=True)"
        )
