"""The steps by which a pipeline's record and checkpoints change. Each can be repeated after a crash at any point."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..core import clock
from ..core.errors import RefusedError
from ..core.storage import Folder
from .record import (
    FlowRecord,
    Phase,
    PipelineRecord,
    committed_batch,
    is_unchanged,
    logged_batch,
    newest_version,
    staging_folder,
    version_folder,
    write,
)


def complete_interrupted(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Complete what a process that died had begun, and return the record as it is then.

    A change of checkpoints is completed, in the direction in which it went. A run has ended: what it logged, it logged
    with the recorded code. While checkpoints were carried nothing ran: what is logged beyond that is not known.
    """
    if record.phase == Phase.CARRYING:
        return _complete_transfer(storage, record)
    if record.phase == Phase.GOING_BACK:
        _remove(storage, record)
    if record.phase == Phase.IDLE:
        return record
    return write_idle(storage, record)


def expected_record(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Return the record as `complete_interrupted` will leave it; write nothing. RefusedError when that is unknown."""
    if record.phase == Phase.IDLE:
        return record
    if record.phase != Phase.RUNNING:
        raise RefusedError(
            f"a change of checkpoints in {storage.path()} is not complete, because its process is at work or has died: "
            "`streamupdate pipeline run` completes it, and compares what comes out of that"
        )
    return attrs.evolve(record, flows=_with_latest_batches(storage, record), phase=Phase.IDLE, before={})


def carry(storage: Folder, record: PipelineRecord, flows: Mapping[str, FlowRecord]) -> PipelineRecord:
    """Put staged checkpoints (`staging_folder`) in use. flows: the records of all flows from now on"""
    before = {n: old for n, old in record.flows.items() if n not in flows or flows[n].version != old.version}
    changed = attrs.evolve(record, flows=dict(flows), before=before, phase=Phase.CARRYING, changed_at=clock.now())
    write(storage, changed)
    _number(storage, changed)
    return changed


def begin(storage: Folder, record: PipelineRecord, new: Mapping[str, FlowRecord] | None = None) -> PipelineRecord:
    """Record that Spark runs the pipeline from now on. new: flows without a checkpoint yet"""
    flows = {**record.flows, **(new or {})}
    running = attrs.evolve(record, flows=flows, phase=Phase.RUNNING, changed_at=clock.now())
    write(storage, running)
    return running


def can_go_back(storage: Folder, record: PipelineRecord) -> bool:
    """Whether the previous checkpoints can be used again: no new one has logged a batch since it was made. One with a
    batch in flight cannot go back: running that batch again logs nothing."""
    carried = [(old, record.flows[name]) for name, old in record.before.items() if name in record.flows]
    return bool(record.before) and not any(
        logged_batch(storage, new.folder, new.version) != new.batch
        or committed_batch(storage, old.folder, old.version) < new.batch
        for old, new in carried
    )


def go_back(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Put the previous checkpoints in use again. The new ones must be unused (`can_go_back`)."""
    flows = {**record.flows, **record.before}
    removed = {name: record.flows[name] for name in record.before if name in record.flows}
    changed = attrs.evolve(record, flows=flows, before=removed, phase=Phase.GOING_BACK, changed_at=clock.now())
    write(storage, changed)
    _remove(storage, changed)
    return write_idle(storage, changed)


def write_idle(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Record the latest batch of each flow, with nothing under way. A flow without a checkpoint stays new."""
    idle = attrs.evolve(
        record, flows=_with_latest_batches(storage, record), phase=Phase.IDLE, before={}, changed_at=clock.now()
    )
    write(storage, idle)
    return idle


def _with_latest_batches(storage: Folder, record: PipelineRecord) -> dict[str, FlowRecord]:
    """Return the flows with the latest batches of their checkpoints, also of checkpoints that this run made."""
    found = {}
    for name, flow in record.flows.items():
        version = newest_version(storage, flow.folder) if flow.version < 0 else flow.version
        if version < 0:
            continue
        batch, committed = (of(storage, flow.folder, version) for of in (logged_batch, committed_batch))
        found[name] = attrs.evolve(flow, version=version, batch=batch, committed=committed)
    return found


def _complete_transfer(storage: Folder, record: PipelineRecord) -> PipelineRecord:
    """Give every new version its number. Drop the versions whose flow has run on the previous one meanwhile: they are
    older."""
    stale = {
        name: old
        for name, old in record.before.items()
        if name in record.flows
        and storage.exists(f"{staging_folder(old.folder, record.flows[name].version)}/metadata")
        and not (newest_version(storage, old.folder) == old.version and is_unchanged(storage, old))
    }
    if stale:
        before = {name: old for name, old in record.before.items() if name not in stale}
        given_up = [staging_folder(old.folder, record.flows[name].version) for name, old in stale.items()]
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
        made, target = staging_folder(flow.folder, flow.version), version_folder(flow.folder, flow.version)
        if not storage.exists(f"{target}/metadata"):
            storage.rename(made, target)


def _remove(storage: Folder, record: PipelineRecord) -> None:
    """Remove the versions that are no longer used. They are renamed first: Spark would use a half-removed one."""
    for name in sorted(record.before):
        flow = record.before[name]
        made, target = staging_folder(flow.folder, flow.version), version_folder(flow.folder, flow.version)
        if storage.exists(f"{target}/metadata"):
            storage.rename(target, made)
        storage.remove(made)


def rewrite_paths(checkpoint: Folder, target: Folder) -> None:
    """Rewrite the absolute paths in transformWithState's operator metadata to the checkpoint's final place."""
    for operator in checkpoint.names("state"):
        described = f"state/{operator}/_metadata/v2"
        for name in checkpoint.files(described):
            text = checkpoint.read(path := f"{described}/{name}")
            assert text is not None  # it was listed
            moved = text.replace(_tail(checkpoint), _tail(target))
            if moved != text:
                checkpoint.write(path, moved)


def _tail(folder: Folder) -> bytes:
    """Return the last three parts of the path. Schemes and hosts are written in several ways, these parts in one."""
    return ("/" + "/".join(folder.path().rstrip("/").split("/")[-3:]) + "/").encode()
