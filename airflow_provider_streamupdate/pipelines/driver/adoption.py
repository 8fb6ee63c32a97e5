"""Whether the code of a pipeline is that of checkpoints which it did not make."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.compatibility.verdict import CARRIED, ReportItem
from ...core.errors import RefusedError
from ...core.plan.plan import AppPlan
from ...core.storage import Folder
from ...streaming import spark_internals
from ...streaming.restore.adoption import check_adoptable
from ..record import FlowRecord, is_unchanged, logged_batch, newest_version, version_folder
from .pipeline import Pipeline
from .verdict import missing_table


def adopt_flow(
    pipeline: Pipeline, storage: Folder, flow: spark_internals.PipelineFlow, known: FlowRecord | None
) -> tuple[FlowRecord, tuple[ReportItem, ...]] | None:
    """A flow's record with this code, and what speaks for it or against it; None where there is nothing to adopt.

    known: what is recorded of it
    RefusedError when its table is missing.
    """
    version = newest_version(storage, flow.folder)
    logged = logged_batch(storage, flow.folder, version)
    if flow.unknown or logged < 0:
        return None
    if known and (known.folder, known.version) == (flow.folder, version) and is_unchanged(storage, known):
        # Nothing has run since: no other code can have written it.
        return known, (ReportItem(thing="query", name=flow.name, verdict=CARRIED, reason="its code is known already"),)
    folder = storage.sub(version_folder(flow.folder, version))
    checkpoint = Checkpoint(folder)
    batch = checkpoint.committed_batch()
    if batch is None:  # it holds nothing: its first batch runs again with this code, or with other code anew
        return FlowRecord(plan=pipeline.plan(flow), folder=flow.folder, version=version, batch=logged), ()
    if problem := missing_table(pipeline, flow, batch):
        raise RefusedError(f"flow {flow.name} cannot be adopted: {problem}")
    query = pipeline.plan(flow, checkpoint.offsets(batch).conf)
    plan = AppPlan(app=pipeline.name, spark_version=pipeline.version, queries=(query,))
    with tempfile.TemporaryDirectory(prefix="streamupdate-adopt-") as scratch, pipeline.started(flow) as writer:
        report = check_adoptable(plan, {flow.name: writer}, {flow.name: folder}, Path(scratch))
    record = FlowRecord(plan=query, folder=flow.folder, version=version, batch=logged, committed=batch)
    return record, report.items
