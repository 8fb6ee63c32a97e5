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
    committed_batch,
    logged_batch,
    newest_version,
    still_as,
    version_folder,
    write,
)


def settle(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Complete what a process that died had begun, and return the record as it is then.

    A change of checkpoints is completed, in the direction in which it went. A run has ended: what it logged, it logged
    with the recorded code. While checkpoints were carried nothing ran: what is logged beyond that is not known.
    """
    if record.phase == Phase.CARRYING:
        return _completed(storage, record)
    if record.phase == Phase.GOING_BACK:
        _remove(storage, record)
    if record.phase == Phase.IDLE:
        return record
    return noted(storage, record)


def foreseen(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """The record as `settle` will make it, with nothing written. RefusedError where it cannot be said before."""
    if record.phase == Phase.IDLE:
        return record
    if record.phase != Phase.RUNNING:
        raise RefusedError(
            f"a change of checkpoints in {storage.path()} is not complete, because its process is at work or has died: "
            "`streamupdate pipeline run` completes it, and compares what comes out of that"
        )
    return attrs.evolve(record, flows=_seen(storage, record), phase=Phase.IDLE, before={})


def carry(storage: Folder, record: PipelineRecord, flows: Mapping[str, FlowRecord]) -> PipelineRecord:
    """Put checkpoints that were made (`carried_folder`) in use. flows: those of all flows from now on"""
    before = {n: old for n, old in record.flows.items() if n not in flows or flows[n].version != old.version}
    changed = attrs.evolve(record, flows=dict(flows), before=before, phase=Phase.CARRYING, changed_at=clock.now())
    write(storage, changed)
    _number(storage, changed)
    return changed


def begin(storage: Folder, record: PipelineRecord, new: Mapping[str, FlowRecord] | None = None) -> PipelineRecord:
    """Note that Spark runs the pipeline from now on. new: flows that have no checkpoint yet"""
    flows = {**record.flows, **(new or {})}
    running = attrs.evolve(record, flows=flows, phase=Phase.RUNNING, changed_at=clock.now())
    write(storage, running)
    return running


def unused(storage: Folder, record: PipelineRecord) -> bool:
    """Whether the way back is open: no new checkpoint has logged a batch since it was made, or had one in flight, which
    the new code may have run again: that logs nothing."""
    carried = [(old, record.flows[name]) for name, old in record.before.items() if name in record.flows]
    return bool(record.before) and not any(
        logged_batch(storage, new.folder, new.version) != new.batch
        or committed_batch(storage, old.folder, old.version) < new.batch
        for old, new in carried
    )


def go_back(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Put the checkpoints of before in use again. Only where the new ones are `unused`."""
    flows = {**record.flows, **record.before}
    removed = {name: record.flows[name] for name in record.before if name in record.flows}
    changed = attrs.evolve(record, flows=flows, before=removed, phase=Phase.GOING_BACK, changed_at=clock.now())
    write(storage, changed)
    _remove(storage, changed)
    return noted(storage, changed)


def noted(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Note how far the flows are, with nothing under way. One that got no checkpoint is as new as before."""
    idle = attrs.evolve(record, flows=_seen(storage, record), phase=Phase.IDLE, before={}, changed_at=clock.now())
    write(storage, idle)
    return idle


def _seen(storage: Folder, record: PipelineRecord) -> dict[str, FlowRecord]:
    """The flows with the last batches of their checkpoints. One that had no checkpoint has what it got."""
    found = {}
    for name, flow in record.flows.items():
        version = newest_version(storage, flow.folder) if flow.version < 0 else flow.version
        if version < 0:
            continue
        batch, committed = (of(storage, flow.folder, version) for of in (logged_batch, committed_batch))
        found[name] = attrs.evolve(flow, version=version, batch=batch, committed=committed)
    return found


def _completed(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Every new version has its number; but one whose flow has run meanwhile on the version before is given up: what it
    holds is older."""
    stale = {
        name: old
        for name, old in record.before.items()
        if name in record.flows
        and storage.exists(f"{carried_folder(old.folder, record.flows[name].version)}/metadata")
        and not (newest_version(storage, old.folder) == old.version and still_as(storage, old))
    }
    if stale:
        before = {name: old for name, old in record.before.items() if name not in stale}
        given_up = [carried_folder(old.folder, record.flows[name].version) for name, old in stale.items()]
        record = attrs.evolve(record, flows={**record.flows, **stale}, before=before, changed_at=clock.now())
        write(storage, record)
        for made in given_up:
            storage.remove(made)
    _number(storage, record)
    idle = attrs.evolve(record, phase=Phase.IDLE, before={}, changed_at=clock.now())
    write(storage, idle)
    return idle


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


def lead_to(checkpoint: Folder, target: Folder) -> None:
    """transformWithState's description of an operator holds absolute paths, which must be those of the place where the
    checkpoint will be."""
    for operator in checkpoint.names("state"):
        described = f"state/{operator}/_metadata/v2"
        for name in checkpoint.files(described):
            text = checkpoint.read(path := f"{described}/{name}")
            assert text is not None  # it was listed
            moved = text.replace(_tail(checkpoint), _tail(target))
            if moved != text:
                checkpoint.write(path, moved)


def _tail(folder: Folder) -> bytes:
    """The end of a path that tells versions of a checkpoint apart: schemes and hosts are written in several ways."""
    return ("/" + "/".join(folder.path().rstrip("/").split("/")[-3:]) + "/").encode()
