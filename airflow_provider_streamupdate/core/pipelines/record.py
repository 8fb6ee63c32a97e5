"""The record of a pipeline: which code the checkpoints of its flows belong to.

Spark keeps each flow's checkpoints as numbered folders, the *versions*, and uses the largest number
(SystemMetadata.getLatestCheckpointDir). Nothing in them tells the code. The record does; it lies beside them, in the
pipeline's storage.
"""

from __future__ import annotations

import re

import attrs

from ..checkpoint.checkpoint import Checkpoint
from ..compatibility.report import CompatibilityReport
from ..errors import NotFoundError
from ..names import check_path
from ..plan.plan import QueryPlan
from ..serde import from_json, to_json
from ..snapshots.plan_answer import PlanError
from ..storage import Folder
from ..text_enum import TextEnum


@attrs.frozen(kw_only=True)
class PipelineAnswer:
    """record: as it was left; None: nothing was recorded
    report: on the flows that have a checkpoint; None: none has
    new: flows that had no checkpoint; carried: flows that got a new version of theirs
    went_back: whether the checkpoints of before are in use again, because the run failed before it used the new ones
    error: what is wrong with the pipeline, or why its run failed
    """

    record: PipelineRecord | None = None
    report: CompatibilityReport | None = None
    new: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    went_back: bool = False
    error: PlanError | None = None


RECORD = "_streamupdate/pipeline.json"  # in the pipeline's storage
_NUMBER = re.compile(r"[0-9]{1,9}")


class Phase(TextEnum):
    """What is under way. After a crash it says how to go on.

    IDLE: nothing
    CARRYING: new versions of checkpoints are there under other names, and get their numbers
    RUNNING: Spark runs the pipeline
    GOING_BACK: new versions are removed, so that the ones before are in use again
    """

    IDLE = "idle"
    CARRYING = "carrying"
    RUNNING = "running"
    GOING_BACK = "going-back"


@attrs.frozen(kw_only=True)
class FlowRecord:
    """plan: of the code that the checkpoint belongs to
    folder: of the flow's checkpoints, below the storage
    version: the checkpoint's number; -1: there is none yet
    batch: the last batch in its offset log when the record was written; -1: none
    committed: the last one in its commit log; None: not known
    """

    plan: QueryPlan
    folder: str
    version: int = -1
    batch: int = -1
    committed: int | None = None


@attrs.frozen(kw_only=True)
class PipelineRecord:
    """pipeline: its name; spark_version: of the plans
    flows: by name (``catalog.database.flow``)
    before: what the flows were that got a new version of their checkpoint, or that the new code has no more; while the
        pipeline goes back, what they were before that; empty when `phase` is IDLE
    changed_at: ISO, UTC
    """

    pipeline: str
    spark_version: str
    flows: dict[str, FlowRecord]
    phase: Phase = Phase.IDLE
    before: dict[str, FlowRecord] = attrs.field(factory=dict)
    changed_at: str = ""


def read(storage: Folder) -> PipelineRecord | None:
    """The record; None where there is none."""
    text = storage.read(RECORD)
    return None if text is None else from_json(text, PipelineRecord, storage.path(RECORD))


def need(storage: Folder) -> PipelineRecord:
    """The record; NotFoundError where there is none."""
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
    """Of one version of a flow's checkpoint, below the storage."""
    return f"{check_path(folder, RECORD)}/{version}"


def carried_folder(folder: str, version: int) -> str:
    """Where a version is made. Spark takes no notice of it: it is no number."""
    return f"{check_path(folder, RECORD)}/streamupdate-{version}"


def newest_version(storage: Folder, folder: str) -> int:
    """The version that Spark will use; -1 where there is none."""
    return max((int(name) for name in storage.names(folder) if _NUMBER.fullmatch(name)), default=-1)


def logged_batch(storage: Folder, folder: str, version: int) -> int:
    """The last batch in the offset log of a version; -1 where there is none."""
    if version < 0:
        return -1
    batch = Checkpoint(storage.sub(version_folder(folder, version))).logged_batch()
    return -1 if batch is None else batch


def committed_batch(storage: Folder, folder: str, version: int) -> int:
    """The last batch in the commit log of a version; -1 where there is none."""
    if version < 0:
        return -1
    batch = Checkpoint(storage.sub(version_folder(folder, version))).committed_batch()
    return -1 if batch is None else batch


def still_as(storage: Folder, flow: FlowRecord) -> bool:
    """Whether no batch has been logged or committed since the record was written: to run one again logs nothing."""
    known = flow.committed is None or committed_batch(storage, flow.folder, flow.version) == flow.committed
    return known and logged_batch(storage, flow.folder, flow.version) == flow.batch
