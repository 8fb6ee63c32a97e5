"""How a query's batches are made: only micro-batches that are logged before they run, and committed after, can be
snapshotted, handed over and gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import ApplicationError

# Class of a trigger -> what it does, and where that is known from.
_TRIGGERS = {
    # MicroBatchExecution.markMicroBatchStart logs no offsets in this mode; AsyncProgressTrackingMicroBatchExecution
    "RealTimeTrigger": "real-time mode (trigger(realTime=...)) runs batches of minutes (5 unless told otherwise), and "
    "emits their rows before their offsets are logged: it can neither be drained soon, nor is it known what it has "
    "written when it is stopped",
    # ContinuousExecution: epochs, commits after the rows were written
    "ContinuousTrigger": "continuous processing (trigger(continuous=...)) has epochs in place of batches: its offsets "
    "are committed after its rows were written, and no batch ends at which a new version could begin",
}
# AsyncProgressTrackingMicroBatchExecution
_ASYNC = "asyncprogresstrackingenabled"


def check_batches(where: str, details: Mapping[str, Any]) -> None:
    """ApplicationError when the writer (`details`: spark_internals.writer_details) asks for batches that are not logged
    and committed one by one. `where`: the query, for the message."""
    why = _TRIGGERS.get(details["trigger"])
    options = {name.lower(): value for name, value in details["options"].items()}
    if options.get(_ASYNC, "false").strip().lower() == "true":
        why = (
            "asynchronous progress tracking (asyncProgressTrackingEnabled) leaves batches out of the offset and commit "
            "logs, so that what the sink has been given is not known when it is stopped"
        )
    if why:
        raise ApplicationError(
            f"{where}: {why}; updates are not possible, and nothing was started. Use trigger(processingTime=...) or "
            "trigger(availableNow=True)"
        )
