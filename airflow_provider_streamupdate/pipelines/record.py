"""The record of a pipeline: which code the checkpoints of its flows belong to.

Spark keeps each flow's checkpoints as numbered folders, the *versions*, and uses the largest number
(SystemMetadata.getLatestCheckpointDir). Nothing in them tells the code. The record does; it lies beside them, in the
pipeline's storage.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from ..core.checkpoint.checkpoint import Checkpoint
from ..core.compatibility.report import CompatibilityReport
from ..core.errors import NotFoundError
from ..core.names import check_path
from ..core.plan.plan import QueryPlan
from ..core.serde import from_json, to_json
from ..core.snapshots.plan_answer import PlanError
from ..core.storage import Folder
from ..core.text_enum import TextEnum


@attrs.frozen(kw_only=True)
class PipelineAnswer:
    """The driver's answer to one command.

    record: the record at the end; None: there is none
    report: verdicts on the flows that have a checkpoint; None: no flow has one
    new: flows that had no checkpoint
    carried: flows that got a new version of their checkpoint
    went_back: whether the previous checkpoints are used again, because the run failed before it used the new ones
    error: why the pipeline is wrong, or why its run failed
    """

    record: PipelineRecord | None = None
    report: CompatibilityReport | None = None
    new: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    went_back: bool = False
    error: PlanError | None = None

    def summary(self) -> dict[str, Any]:
        """Return the flows with version and batch, which of them are new, and which were carried over, for people."""
        flows = self.record.flows.items() if self.record else ()
        return {
            "flows": {name: {"version": flow.version, "batch": flow.batch} for name, flow in flows},
            "new": list(self.new),
            "carried": list(self.carried),
        }


RECORD = "_streamupdate/pipeline.json"  # in the pipeline's storage
_NUMBER = re.compile(r"[0-9]{1,9}")


class Phase(TextEnum):
    """The step that is under way. After a crash it decides what has to be completed.

    IDLE: none
    CARRYING: staged versions of checkpoints get their numbers
    RUNNING: Spark runs the pipeline
    GOING_BACK: new versions are removed, so that the previous ones are used again
    """

    IDLE = "idle"
    CARRYING = "carrying"
    RUNNING = "running"
    GOING_BACK = "going-back"


@attrs.frozen(kw_only=True)
class FlowRecord:
    """One flow and the code that its checkpoint belongs to.

    plan: the plan of that code
    folder: the folder of the flow's checkpoints, relative to the storage
    version: the checkpoint's number; -1: none yet
    batch: the last batch in its offset log when the record was written; -1: none
    committed: the last batch in its commit log; None: unknown
    """

    plan: QueryPlan
    folder: str
    version: int = -1
    batch: int = -1
    committed: int | None = None


@attrs.frozen(kw_only=True)
class PipelineRecord:
    """The record of a pipeline.

    pipeline: its name
    spark_version: the Spark version that made the plans
    flows: records by flow name (``catalog.database.flow``)
    before: previous records of the flows that got a new checkpoint version or were removed; while the pipeline goes
        back, their newer records; empty when `phase` is IDLE
    changed_at: ISO 8601, UTC
    """

    pipeline: str
    spark_version: str
    flows: dict[str, FlowRecord]
    phase: Phase = Phase.IDLE
    before: dict[str, FlowRecord] = attrs.field(factory=dict)
    changed_at: str = ""


def read(storage: Folder) -> PipelineRecord | None:
    """Return the record; None: there is none."""
    text = storage.read(RECORD)
    return None if text is None else from_json(text, PipelineRecord, storage.path(RECORD))


def need(storage: Folder) -> PipelineRecord:
    """Return the record. NotFoundError when there is none."""
    record = read(storage)
    if record is None:
        raise NotFoundError(
            f"there is no record of a pipeline in {storage.path()}: `streamupdate pipeline run` or `streamupdate "
            "pipeline adopt` makes one; give the spec whose storage that is"
        )
    return record


def write(storage: Folder, record: PipelineRecord) -> None:
    storage.write(RECORD, to_json(record))


def version_folder(folder: str, version: int) -> str:
    """Return the path of one checkpoint version, relative to the storage."""
    return f"{check_path(folder, RECORD)}/{version}"


def staging_folder(folder: str, version: int) -> str:
    """Return the path at which a version is prepared. Spark ignores non-numeric names."""
    return f"{check_path(folder, RECORD)}/streamupdate-{version}"


def newest_version(storage: Folder, folder: str) -> int:
    """Return the version that Spark will use; -1: none."""
    return max((int(name) for name in storage.names(folder) if _NUMBER.fullmatch(name)), default=-1)


def logged_batch(storage: Folder, folder: str, version: int) -> int:
    """Return the last batch in the offset log of a version; -1: none."""
    if version < 0:
        return -1
    batch = Checkpoint(storage.sub(version_folder(folder, version))).logged_batch()
    return -1 if batch is None else batch


def committed_batch(storage: Folder, folder: str, version: int) -> int:
    """Return the last batch in the commit log of a version; -1: none."""
    if version < 0:
        return -1
    batch = Checkpoint(storage.sub(version_folder(folder, version))).committed_batch()
    return -1 if batch is None else batch


def is_unchanged(storage: Folder, flow: FlowRecord) -> bool:
    """Whether no batch was logged or committed since the record was written."""
    known = flow.committed is None or committed_batch(storage, flow.folder, flow.version) == flow.committed
    return known and logged_batch(storage, flow.folder, flow.version) == flow.batch
