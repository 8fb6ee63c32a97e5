"""The state of a pipeline's flows becomes that of its new code: each gets a new version of its checkpoint."""

from __future__ import annotations

import json
import uuid

import attrs

from ...core.errors import RefusedError
from ...core.plan.plan import QueryPlan
from ...core.storage import Folder
from ...streaming.restore.restorer import restore_query
from ..record import (
    FlowRecord,
    PipelineRecord,
    newest_version,
    staging_folder,
    version_folder,
)
from ..steps import rewrite_paths
from .pipeline import Pipeline
from .verdict import Verdicts, alike


def transfer_state(
    pipeline: Pipeline, storage: Folder, record: PipelineRecord | None, verdicts: Verdicts
) -> dict[str, FlowRecord]:
    """Make the checkpoints of the flows whose code has changed, where Spark takes no notice of them; the flows' records
    with them. The checkpoints in use are only read.

    RefusedError for a storage that cannot rename a folder in one step: Spark would use what is there by half."""
    flows = {}
    for query in verdicts.plan.queries:
        assert record is not None  # there are flows with a checkpoint that is known
        before = record.flows[query.name]
        if before.batch < 0 or alike(before.plan, query):
            flows[query.name] = attrs.evolve(before, plan=query)
            continue
        if not storage.renames:
            raise RefusedError(
                f"the state of flow {query.name} has to be carried over, but {storage.path()} cannot rename a folder "
                "in one step: Spark could use a checkpoint that is half written. Use a local disk or HDFS for the "
                "pipeline's storage"
            )
        version = newest_version(storage, before.folder) + 1
        if not verdicts.saved.holds(query.name):
            _begin_anew(storage, before.folder, version)
            flows[query.name] = FlowRecord(plan=query, folder=before.folder, version=version)
            continue
        _restore(pipeline, storage, query, verdicts, before.folder, version)
        snapshot = verdicts.saved.queries[query.name]
        batch = snapshot.batch if snapshot.in_flight is None else snapshot.in_flight
        flows[query.name] = FlowRecord(
            plan=query, folder=before.folder, version=version, batch=batch, committed=snapshot.batch
        )
    for name in verdicts.left:
        if record is not None and name in record.flows:
            flows[name] = record.flows[name]
    return flows


def _restore(
    pipeline: Pipeline, storage: Folder, query: QueryPlan, verdicts: Verdicts, folder: str, version: int
) -> None:
    made = staging_folder(folder, version)
    storage.remove(made)  # of a process that died
    checkpoint = storage.sub(made)
    with pipeline.started(pipeline.flows[query.name]) as writer:
        restore_query(verdicts.saved, query, writer, checkpoint)
    rewrite_paths(checkpoint, storage.sub(version_folder(folder, version)))


def _begin_anew(storage: Folder, folder: str, version: int) -> None:
    """A checkpoint without a batch, in place of one whose first batch did not commit under other code."""
    made = staging_folder(folder, version)
    storage.remove(made)
    storage.write(f"{made}/metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
