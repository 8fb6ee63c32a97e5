"""The steps by which a pipeline's record and checkpoints change. Each can be repeated after a crash at any point."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .. import clock
from ..errors import RefusedError
from ..storage import Folder
from .record import (
    FlowRecord,
    Phase,
    PipelineRecord,
    carried_folder,
    logged_batch,
    newest_version,
    version_folder,
    write,
)


def settle(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Complete what a process that died had begun, and return the record as it is then.

    A change of checkpoints is completed, in the direction in which it went. A run has ended: what it logged, it logged
    with the recorded code.
    """
    if record.phase == Phase.CARRYING:
        _number(storage, record)
    if record.phase == Phase.GOING_BACK:
        _remove(storage, record)
    if record.phase == Phase.IDLE:
        return record
    return noted(storage, record)


def carry(storage: Folder, record: PipelineRecord, flows: Mapping[str, FlowRecord]) -> PipelineRecord:
    """Put checkpoints that were made (`carried_folder`) in use. flows: those of all flows from now on"""
    before = {n: old for n, old in record.flows.items() if n not in flows or flows[n].version != old.version}
    changed = attrs.evolve(record, flows=dict(flows), before=before, phase=Phase.CARRYING, changed_at=clock.now())
    write(storage, changed)
    _number(storage, changed)
    return changed


def begin(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Note that Spark runs the pipeline from now on."""
    running = attrs.evolve(record, phase=Phase.RUNNING, changed_at=clock.now())
    write(storage, running)
    return running


def unused(storage: Folder, record: PipelineRecord) -> bool:
    """Whether the way back is open: no new checkpoint has logged a batch since it was made."""
    carried = [record.flows[name] for name in record.before if name in record.flows]
    return bool(record.before) and all(logged_batch(storage, f.folder, f.version) == f.batch for f in carried)


def go_back(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Put the checkpoints of before in use again. Only where the new ones are `unused`."""
    flows = {**record.flows, **record.before}
    removed = {name: record.flows[name] for name in record.before if name in record.flows}
    changed = attrs.evolve(record, flows=flows, before=removed, phase=Phase.GOING_BACK, changed_at=clock.now())
    write(storage, changed)
    _remove(storage, changed)
    return noted(storage, changed)


def noted(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Note how far the flows are, with nothing under way."""
    flows = {name: seen(storage, flow) for name, flow in record.flows.items()}
    idle = attrs.evolve(record, flows=flows, phase=Phase.IDLE, before={}, changed_at=clock.now())
    write(storage, idle)
    return idle


def as_seen(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """The record with what its flows have logged, as a run leaves it. Nothing is written.

    RefusedError where checkpoints are being changed: what is there is neither the old nor the new state."""
    if record.phase == Phase.IDLE:
        return record
    if record.phase != Phase.RUNNING:
        raise RefusedError(
            f"the checkpoints in {storage.path()} are being changed ({record.phase} since {record.changed_at}), or the "
            "process that did it has died; wait for it, or complete it with streamupdate pipeline run"
        )
    return attrs.evolve(record, flows={name: seen(storage, flow) for name, flow in record.flows.items()})


def seen(storage: Folder, flow: FlowRecord) -> FlowRecord:
    """A flow's record with the last batch of its checkpoint. One that had no checkpoint has what it got."""
    version = newest_version(storage, flow.folder) if flow.version < 0 else flow.version
    return attrs.evolve(flow, version=version, batch=logged_batch(storage, flow.folder, version))


def _number(storage: Folder, record: PipelineRecord) -> None:
    for name in sorted(record.before.keys() & record.flows.keys()):
        flow = record.flows[name]
        made, target = carried_folder(flow.folder, flow.version), version_folder(flow.folder, flow.version)
        if not storage.exists(f"{target}/metadata"):
            storage.rename(made, target)


def _remove(storage: Folder, record: PipelineRecord) -> None:
    """The versions that are in use no more. They get another name first: one that is half removed counts for Spark."""
    for name in sorted(record.before):
        flow = record.before[name]
        made, target = carried_folder(flow.folder, flow.version), version_folder(flow.folder, flow.version)
        if storage.exists(f"{target}/metadata"):
            storage.rename(target, made)
        storage.remove(made)
