"""Check of objects that a deployment's next snapshot would share with earlier ones: are their bytes unchanged?

A snapshot an app is stopped with refers to state files stored before by name and size, since reading them would make
the pause grow with the state. So they are read before the app is stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.snapshot import SnapshotFile
from ..errors import CorruptError
from ..registry.registry import AppRegistry
from ..storage import Folder
from .snapshots import COPIES_AT_ONCE, SnapshotStore


def check_shared(app: AppRegistry, deployment: str, progress: Callable[[str], None]) -> int:
    """Verify the files that a snapshot of the running deployment would share with earlier ones; return their number.

    One that is damaged gets its bytes again from the deployment's checkpoint, if they are whole there, which heals the
    earlier snapshots too. CorruptError when they are damaged there as well (on one disk both are the same file).
    """
    plan = app.plan(deployment)
    known = SnapshotStore(app).shared(deployment) if plan else {}
    if not plan or not known:
        return 0
    found: list[tuple[Folder, SnapshotFile]] = []
    for query in plan.queries:
        checkpoint = app.checkpoint(deployment, query.name)
        exported = Checkpoint(checkpoint).export(carry_in_flight=False, source_order=query.source_order)
        shared = (known.get((query.name, file.path, file.size)) for file in exported.files)
        found += [(checkpoint, file) for file in shared if file]
    if found:
        progress(f"verifying {len(found)} state files that the snapshot will share with earlier ones")

    def check(item: tuple[Folder, SnapshotFile]) -> str | None:
        checkpoint, file = item
        if _holds(app.folder, file.object, file):
            return None
        if not _holds(checkpoint, file.path, file):
            return f"{app.folder.path(file.object)} and {checkpoint.path(file.path)}"
        app.folder.remove(file.object)
        app.folder.copy_from(checkpoint, file.path, file.object)
        app.folder.sync([file.object])
        progress(f"{app.folder.path(file.object)} was damaged; it was stored again from {checkpoint.path(file.path)}")
        return None

    with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        damaged = [problem for problem in pool.map(check, found) if problem]
    if damaged:
        raise CorruptError(
            f"state files of the running deployment {deployment} of {app.name} have changed since they were stored: "
            f"{'; '.join(damaged[:5])}{' ...' if len(damaged) > 5 else ''}. They were altered on the disk: check it, "
            "restore them from a backup, or start from a whole snapshot (verify-snapshot, update --snapshot)"
        )
    return len(found)


def _holds(folder: Folder, path: str, file: SnapshotFile) -> bool:
    try:
        return folder.sha256(path) == (file.sha256, file.size)
    except FileNotFoundError:
        return False
