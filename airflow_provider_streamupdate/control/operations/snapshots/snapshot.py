"""Requests on snapshots: list, take, verify, delete."""

from __future__ import annotations

import contextlib

from ....core import clock
from ....core.boundaries import boundary
from ....core.checkpoint.checkpoint import Checkpoint
from ....core.checkpoint.snapshot import DamagedSnapshot, Snapshot
from ....core.coordination import commands
from ....core.coordination.commands import CommandBox
from ....core.errors import AlreadyExistsError, CorruptError, NotRunningError, StorageError, StreamUpdateError
from ....core.names import check_name
from ....core.registry.deployment import DEAD_STATES, FINAL_STATES, NEW, Cancellation
from ....core.registry.registry import AppRegistry
from ....core.snapshots.export import check_whole, export
from ....core.snapshots.snapshots import SnapshotStore
from ....core.users import user_and_host
from ...app_lease import check_free
from ...waiting import Phase, Progress, discard_progress, wait_for
from ..context import Context
from ..stop import claim_cancellation, current_silence
from .delete import deleting


def snapshots(context: Context, app: str | None = None) -> list[Snapshot]:
    """Return the snapshots of one app or of all, oldest first, without damaged ones."""
    return sorted((s for store in _stores(context, app) for s in store.all()), key=lambda s: s.created_at)


def damaged_snapshots(context: Context, app: str | None = None) -> list[DamagedSnapshot]:
    """Return the snapshots of one app or of all whose description cannot be read."""
    return [damaged for store in _stores(context, app) for damaged in store.damaged()]


def snapshot(context: Context, app: str, name: str) -> Snapshot:
    return SnapshotStore(context.registry.with_snapshots(app)).get(name)


def verify_snapshot(context: Context, app: str, name: str, progress: Progress | None = None) -> int:
    """Compare every file with its checksum, and return the number of files. CorruptError lists what is wrong.

    The result is stored beside the snapshot, if the root can be written.
    """
    store = SnapshotStore(context.registry.with_snapshots(app))
    files, problem = 0, None
    try:
        files = store.verify(name, progress)
    except CorruptError as error:
        problem = str(error)
        raise
    finally:
        if files or problem:
            with contextlib.suppress(StorageError):
                store.note_verified(name, files, problem)
    return files


def delete_snapshot(context: Context, app: str, name: str, progress: Progress | None = None) -> int:
    """Delete a snapshot, and return the bytes freed.

    InUseError for the last snapshot and for one in use; LeaseHeldError during an update. A damaged snapshot can be
    deleted. `progress` is told what is deleted with it, and when a damaged snapshot keeps bytes from being freed.
    """
    registry = context.registry.existing(app)
    check_name("snapshot", name)
    store, say = SnapshotStore(registry), progress or discard_progress
    return deleting(registry, f"delete-snapshot {name}", lambda: store.delete(name, say), say)


def begin_snapshot(context: Context, app: str, name: str, cancel: bool = False, again: bool = False) -> None:
    """Ask the running deployment for a snapshot, unless this one is under way.

    AlreadyExistsError for a name in use, except in a rerun: then the name may be that of the snapshot the app ended
    with (`cancel`) or, with `again`, of one this driver took. NotRunningError when nothing runs, except with `cancel`:
    everything that an ended app has committed can be saved, however it ended. A dead app is cancelled then.
    LeaseHeldError, with `cancel`, while an update is under way.
    """
    registry = context.registry.existing(app)
    check_name("snapshot", name)
    store, drivers = SnapshotStore(registry), context.drivers(registry)
    deployment, epoch = registry.running()
    if cancel and registry.update_under_way() is not None:
        check_free(registry, deployment)  # the update's own process may
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    asked = box.issued(commands.SNAPSHOT, name)
    state = drivers.state(deployment)
    ended = state in FINAL_STATES and drivers.has_ended(deployment)
    if store.exists(name):
        taken = store.get(name)
        known = asked or (cancel and ended and _all_of_it(registry, taken))
        same = known and taken.deployment == deployment and (taken.kind == "cancelled") == cancel
        if same and (cancel or again):
            return
        raise AlreadyExistsError(f"app {app} already has a snapshot {name!r}; choose another name")
    if state in FINAL_STATES or state == NEW:
        if cancel and (asked or ended):
            if (plan := registry.plan(deployment)) is not None:
                check_whole(registry, deployment, plan)
            if state in DEAD_STATES and registry.update_under_way() is None:  # no supervisor starts it from here on
                claim_cancellation(registry, Cancellation(by=user_and_host(), at=clock.now()))
            return  # poll_snapshot exports what it committed
        raise NotRunningError(
            f"app {app} is not running (deployment {deployment} is {state}), so it cannot take a snapshot; "
            "save-snapshot --cancel saves what it committed before it ended, to continue from"
        )
    box.issue(commands.SNAPSHOT, snapshot=name, cancel=cancel)
    boundary("snapshot-asked")


def poll_snapshot(context: Context, app: str, name: str, cancel: bool = False) -> Snapshot | None:
    """Return the snapshot once it is complete (with `cancel`: and no driver runs any more); None while under way.

    StreamUpdateError, with the driver's message, when it failed.
    """
    registry = context.registry.existing(app)
    store, drivers = SnapshotStore(registry), context.drivers(registry)
    deployment, epoch = registry.running()
    state = drivers.state(deployment)
    over = state in FINAL_STATES and drivers.has_ended(deployment)
    box = CommandBox(registry.deployment_folder(deployment), epoch)
    pending = any(c.snapshot == name for c in box.pending())  # until it is answered, the driver may withdraw it
    if store.exists(name) and (over or not (cancel or pending)):
        return store.get(name)
    failures = [answer.error for answer in box.answers(commands.SNAPSHOT, name) if answer.error]
    if failures and not pending and not over:
        raise StreamUpdateError(f"snapshot {name} of {app} failed: {failures[-1]}; the app keeps running")
    if not over:
        return None
    plan = registry.plan(deployment)
    if not cancel or plan is None:
        raise NotRunningError(f"app {app} ended before snapshot {name} was taken: {drivers.death(deployment, state)}")
    # No driver runs any more, so what it committed is final and can be exported from here: one that is only silent, on
    # another machine, begins no other batch when it goes on.
    drivers.fence(deployment)
    check_whole(registry, deployment, plan)
    status = registry.status(deployment)
    return export(registry, deployment, name, plan, True, status.queries if status else {})


def save_snapshot(
    context: Context,
    app: str,
    name: str,
    cancel: bool = False,
    timeout: float = 300.0,
    progress: Progress = discard_progress,
    again: bool = False,
) -> Snapshot:
    """Take a snapshot and wait for it. With `cancel` the app ends with it, and no batch runs afterwards.

    See `begin_snapshot` for a name in use and for `again`.
    """
    progress(Phase(f"asking {app} for snapshot {name}{' with cancel' if cancel else ''}"))
    begin_snapshot(context, app, name, cancel, again)
    what = f"snapshot {name} of {app}"
    snapshot = wait_for(
        lambda: poll_snapshot(context, app, name, cancel), what, timeout, why=lambda: current_silence(context, app)
    )
    boundary("snapshot-seen")
    progress(f"snapshot {name}: {snapshot.position}, {snapshot.size} bytes ({snapshot.bytes_new} new)")
    return snapshot


def _stores(context: Context, app: str | None) -> list[SnapshotStore]:
    registry = context.registry
    return [SnapshotStore(a) for a in ([registry.with_snapshots(app)] if app else registry.all_with_snapshots())]


def _all_of_it(registry: AppRegistry, taken: Snapshot) -> bool:
    """Return whether the snapshot's deployment has committed nothing since. It may have run again, by a rollback."""
    folders = {query: registry.checkpoint(taken.deployment, query) for query in taken.queries}
    return all(Checkpoint(folders[q]).committed_batch() in (s.batch, None) for q, s in taken.queries.items())
