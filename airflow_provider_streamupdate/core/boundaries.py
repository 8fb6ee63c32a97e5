"""The moments between two lasting effects of an update, or of a supervisor, by name: where a process may die.

`boundary(name)` marks one in the code. It does nothing, unless a test has named a folder in STREAMUPDATE_BOUNDARIES:
then `scripts/crash.py` strikes there. docs/crash-safety.md says what happens when a process dies.

What the folder holds: ``armed/<name>`` with an action, which the first process that gets there takes by moving it to
``reached/``, as ``<name>.<pid>``.

    kill    the process ends itself with SIGKILL
    wait    it waits until ``go/<name>`` is there
    fail    the next storage call of the thread that got there raises OSError
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from . import clock

# In the order of an update that goes well; then what only a way back, a cancellation, or a supervisor meets.
BOUNDARIES = {
    # the update's process
    "planned": "nothing is written; with strategy restart the new version is planned and checked",
    "begun": "the update's record is written",
    "checked": "the record says that the new version can continue",
    "code-stored": "the new deployment's code is copied; there is no deployment yet",
    "deployment-made": "the new deployment's spec is written; it has no driver",
    "driver-forked": "the new driver's process is there, and waits to be noted",
    "driver-noted": "launch.json names the process, which begins",
    "standby-ready": "the new driver was seen to stand by",
    "beside-asked": "the new driver was told to run beside the old one",
    "beside-seen": "it was seen to do so",
    "standby-noted": "the record says that the new driver stands by, or runs beside the old one",
    "snapshot-asked": "the old driver was asked to end with a snapshot",
    "handover-asked": "the old driver was asked to hand over",
    "caught-up": "the new version was seen to have caught up with the old one",
    "drain-asked": "the old driver was asked to end after the batch under way",
    "old-drained": "it is gone; its epoch is still the current one",
    "change-asked": "the driver was asked to continue with other parameters",
    # the old driver
    "command-taken": "it has read the command",
    "draining": "its status says that it drains",
    "drained": "its last batch is committed, and no other begins",
    # who changes the epoch: the update's process (restart, a way back), or the old driver (standby)
    "epoch-claimed": "the next epoch is claimed; current.json names the one before",
    "current-replaced": "current.json names it",
    # the old driver again
    "handed-over": "its epoch is over, and it waits for its successor's first batch",
    # the driver whose parameters are changed (where it cannot, on a way back, the update's process)
    "change-recorded": "the other parameters are recorded: whoever starts the queries uses them",
    # the new driver
    "plan-written": "plan.json is written",
    "plan-answered": "its plan and report are written",
    "practised": "it has restored and run on scratch",
    "following": "it has restored a copy of the running version's state, to run that one's batches on",
    "stands-by": "its status says that it stands by",
    "epoch-seen": "it has seen that its epoch has begun",
    "driver-claimed": "it is the only driver of its epoch",
    "restoring": "its status says that it restores",
    "checkpoint-built": "a query's checkpoint is whole, but not marked so",
    "checkpoint-marked": "it is marked",
    "queries-started": "its queries have started",
    "running-reported": "its status says so",
    "first-commit-seen": "it has committed a batch of its own; its status does not say so",
    # the driver whose parameters were changed
    "change-settled": "each query has committed a batch with them; the command is not answered",
    # the old driver again
    "successor-committed": "it has seen its successor's first batch",
    "files-copied": "the snapshot's files are stored; it has no manifest",
    "snapshot-stored": "the manifest makes it exist",
    "answered": "the command is answered; the driver's final state is not written",
    # the update's process again
    "snapshot-seen": "the snapshot is there, and the old driver is gone",
    "handover-seen": "the new driver runs, and the old one is gone",
    "handover-completed": "the old one's snapshot is stored",
    "change-seen": "the driver has answered that it continues with the other parameters",
    "stop-noted": "the record says that what the new version starts from was read",
    "snapshotted": "the record says that the old version was stopped",
    "new-running": "the new driver was seen to run its queries",
    "submitted": "the record says so",
    "healthy": "the new version was found healthy",
    "verified": "the record says so",
    "promoted": "current.json says that a way back ends here",
    "pause-noted": "the record says how long the pause was",
    "ended": "the record says that the update has ended; the lease is held",
    # a way back
    "rollback-noted": "the rollback's record is written; nothing is stopped for it",
    "taken-back": "the old driver, whose successor died, has the epoch again; its queries have not started",
    "new-stopped": "the new driver is gone",
    "old-settled": "the old driver runs, with nothing left to do, or is gone",
    "old-runs": "the old version was seen to run",
    "rollback-ended": "the rollback's record says that it has ended; the lease is held",
    "gone-back": "the record says that the update has ended; the lease is held",
    # who suspends the app or lets it go on, switches its hot standby off, removes files, cancels or deletes the app
    "standby-unwanted": "the app is to have no hot standby; its driver was not told",
    "rest-asked": "the driver was asked to suspend, or to resume",
    "removing": "the app is locked; nothing is removed",
    "cancelled": "the next epoch is claimed so that no driver has one; no driver was told",
    "deletion-noted": "deletion.json says that the app is deleted; nothing is removed",
    "records-removed": "its current deployment, claims and records are removed; its deployments are not",
    "deployments-removed": "its deployments are removed; its snapshots and deletion.json are not",
    "snapshots-removed": "only deletion.json and the lease are left",
    # a supervisor
    "watching": "its lease says that it watches the app",
    "start-decided": "it has found the driver dead; the app is not locked",
    "start-counted": "the app is locked, and supervision.json counts a start; nothing is started",
    "restarted": "the driver that was started again was seen to run; the lease is held",
    "recovery-noted": "supervision.json says that the driver has recovered",
}

VARIABLE = "STREAMUPDATE_BOUNDARIES"
KILL, WAIT, FAIL = "kill", "wait", "fail"
_folder = os.environ.get(VARIABLE)
_watcher: Callable[[str], None] | None = None
_failing = threading.local()


def boundary(name: str) -> None:
    """Mark that a process has reached a boundary. ValueError for a name that is not declared."""
    if name not in BOUNDARIES:
        raise ValueError(f"{name!r} is no boundary; declare it in {__name__}")
    if _folder is not None:
        _strike(Path(_folder), name)
    if _watcher is not None:
        _watcher(name)


def watch(watcher: Callable[[str], None] | None) -> None:
    """Call `watcher` with the name of each boundary that is reached from now on; None: nobody."""
    global _watcher
    _watcher = watcher


def storage_call() -> None:
    """Mark that a storage call begins; OSError when a test wants it to fail."""
    if _folder is not None and getattr(_failing, "next", False):
        _failing.next = False
        raise OSError(errno.EIO, "this call fails because a test wants it to")


def _strike(folder: Path, name: str) -> None:
    reached = folder / "reached" / f"{name}.{os.getpid()}"
    try:
        os.rename(folder / "armed" / name, reached)
    except FileNotFoundError:
        return
    action = reached.read_text()
    if action == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == FAIL:
        _failing.next = True
    while action == WAIT and not (folder / "go" / name).exists():
        clock.sleep(0.01)
