"""Objects that nothing needs: bytes of failed exports, and those that no snapshot refers to.

Garbage stays garbage: an export refers only to its own bytes and to what an existing manifest refers to. So a process
that removes garbage needs no lock, and may be paused meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from ..checkpoint.snapshot import DamagedSnapshot, Snapshot
from ..storage import Folder
from . import pending_exports as exports
from .pending_exports import Export


@attrs.frozen(kw_only=True)
class Garbage:
    """Objects that nothing needs, as paths below the app's folder."""

    failed: dict[Export, list[str]]  # of dead exports
    orphans: list[str]  # of no snapshot, and of no export that has a mark
    kept: list[str]  # why some objects stay, in words

    @property
    def paths(self) -> list[str]:
        return [path for paths in self.failed.values() for path in paths] + self.orphans


def find(
    folder: Folder,
    read: Callable[[], tuple[list[Snapshot], list[DamagedSnapshot]]],
    own: Collection[str] = (),
    only_look: bool = False,
) -> Garbage:
    """The objects in an app's folder that nothing needs. Marks of dead exports are removed on the way, unless
    `only_look`.

    read: the snapshots there are, and the damaged ones
    own: objects of a deleted snapshot that no export shares; they are garbage, no matter what runs

    The order counts. An export that wrote one of the listed objects, or that may refer to one because it read a
    manifest that is gone now, still has its mark when the marks are listed, or else its own manifest is read
    afterwards. One that is taken for dead has lost its mark before the manifests are read: either its manifest is among
    them, or it will not acknowledge it (pending_exports.py).
    """
    found = [f"objects/{path}" for path in folder.files("objects")]
    marks = exports.marks(folder)
    living = exports.living(folder, marks)
    dead = [export for export in marks if export not in living]
    if not only_look:
        for export in dead:
            exports.end(folder, export)
    snapshots, damaged = read()
    needed = {f.object for s in snapshots for q in s.queries.values() for f in q.files}
    unneeded = [path for path in found if path not in needed]
    doubtful = {d.name for d in damaged}
    failed = {
        export: [path for path in unneeded if export.export and _of(path) == export.export]
        for export in dead
        if export.snapshot not in doubtful
    }
    taken = {path for paths in failed.values() for path in paths}
    alive = {export.export for export in living}
    orphans = [path for path in unneeded if path not in taken and _of(path) not in alive]
    kept = []
    if damaged and orphans:
        names, app = ", ".join(sorted(doubtful)), damaged[0].app
        kept.append(
            f"no bytes are freed, because {names} of {app} is damaged and may need them: restore its snapshot.json "
            "from a backup, or delete it too"
        )
        orphans = []
    elif living:
        left = [path for path in orphans if path not in set(own)]
        if left:
            kept.append(
                f"{len(left)} state files that no snapshot needs stay for now, because a snapshot that is being taken "
                f"may share them ({'; '.join(map(str, living))}); the next delete or gc frees them"
            )
        orphans = [path for path in orphans if path in set(own)]
    return Garbage(failed=failed, orphans=orphans, kept=kept)


def remove(folder: Folder, garbage: Garbage) -> int:
    """The bytes of the files that were removed."""
    removed = 0
    paths = garbage.paths
    for path in paths:
        try:
            removed += folder.size(path)
        except FileNotFoundError:
            continue  # somebody else frees, too
        folder.remove(path)
    for export in {_of(path) for path in paths}:
        if not folder.files(f"objects/{export}"):
            folder.remove_empty(f"objects/{export}")
    return removed


def _of(path: str) -> str:
    """The export whose folder an object lies in."""
    return path.split("/")[1]
