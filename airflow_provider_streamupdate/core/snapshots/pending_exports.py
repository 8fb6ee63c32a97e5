"""Exports that are under way, and the remains of failed ones.

An export stores the bytes of one snapshot. It has an id that is never used again, a folder for its bytes
(``objects/<id>/``), and a mark from its first step to its last (``snapshots/_<id>/exporting.json``). While it works it
gives signs of life: on a local disk the mark's time of writing moves, which needs no space; elsewhere ``alive.json``
beside the mark is rewritten.

Whether an export lives is decided by these signs alone, not by a process table (its process outlives a failed export)
and not by one clock. A process that takes it for dead removes its mark *before* anything else; and an export looks for
its mark *after* it has written its snapshot's manifest: one that was wrongly taken for dead notices, and withdraws.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from collections.abc import Iterable, Iterator

import attrs

from .. import clock
from ..errors import CorruptError, StorageError
from ..names import check_part
from ..processes.kernel import own_pid
from ..processes.threads import repeating
from ..serde import from_json, to_json
from ..storage import Folder

BEAT_SECONDS = 5.0  # between an export's signs of life
WATCH_SECONDS = 20.0  # one that gives none for so long is dead; as of the holder of a lease (control/app_lease.py)
_LOOK_SECONDS = 0.2


@attrs.frozen(kw_only=True)
class Export:
    """An export under way, or the remains of one."""

    export: str = ""
    started_at: str = ""
    snapshot: str = ""  # the name it is to have
    deployment: str = ""
    host: str = ""  # host and pid are for people
    pid: int | None = None
    mark: str = ""  # where the mark lies; empty in the mark itself

    def __str__(self) -> str:
        by = f" by process {self.pid} on {self.host}" if self.pid else ""
        return f"export of snapshot {self.snapshot} (begun {self.started_at}{by})"


@contextlib.contextmanager
def begun(folder: Folder, snapshot: str, deployment: str) -> Iterator[Export]:
    """An export under way for as long as the block takes. The mark is not removed by this, but its signs end."""
    number = uuid.uuid4().hex
    export = Export(
        export=number,
        snapshot=snapshot,
        deployment=deployment,
        started_at=clock.now(),
        host=socket.gethostname(),
        pid=own_pid(),
    )
    marked = attrs.evolve(export, mark=f"snapshots/_{number}/exporting.json")
    folder.write(marked.mark, to_json(export))

    def beat() -> None:
        if folder.touches:
            folder.touch(marked.mark)
        else:
            folder.write(_alive(marked), clock.now().encode())

    with repeating(BEAT_SECONDS, beat, StorageError, FileNotFoundError):
        yield marked


def stands(folder: Folder, export: Export) -> bool:
    """Whether no process has taken it for dead."""
    return folder.read(export.mark) is not None  # read it: NFS caches for a minute whether a file exists


def end(folder: Folder, export: Export) -> None:
    """Remove the mark: the export has ended, or is taken for dead."""
    folder.remove(export.mark)
    folder.remove(_alive(export))
    folder.remove_empty(os.path.dirname(export.mark))


def marks(folder: Folder) -> list[Export]:
    """All exports that have a mark, dead or alive."""
    names = (name for name in folder.names("snapshots") if len(name) == 33 and name.startswith("_"))
    found = (_read(folder, name) for name in names)
    return [export for export in found if export]


def living(folder: Folder, found: Iterable[Export]) -> list[Export]:
    """Return the exports that give a sign of life, or end, within WATCH_SECONDS. No clock of another machine is
    trusted."""
    lives, watched = [], {}
    for export in found:
        sign = _sign(folder, export)
        if sign is None:
            lives.append(export)  # its mark went: it has ended since it was listed
        else:
            watched[export.export] = (export, sign)
    until = clock.monotonic() + WATCH_SECONDS
    while watched and clock.monotonic() < until:
        clock.sleep(_LOOK_SECONDS)
        for number, (export, before) in list(watched.items()):
            if _sign(folder, export) != before:
                lives.append(export)
                del watched[number]
    return lives


def _sign(folder: Folder, export: Export) -> tuple[float, bytes | None] | None:
    """The last sign of life: when, and what; None without a mark."""
    try:
        if folder.touches:
            folder.read(export.mark)  # NFS looks at a file's times anew when it is opened
            return folder.modified(export.mark), None
        beat = folder.read(_alive(export))
        return folder.modified(export.mark if beat is None else _alive(export)), beat
    except FileNotFoundError:
        return None


def _alive(export: Export) -> str:
    return f"snapshots/_{export.export}/alive.json"


def _read(folder: Folder, name: str) -> Export | None:
    """The export whose mark is in the folder `name`; of a damaged mark what is known without it."""
    mark = f"snapshots/{name}/exporting.json"
    if (text := folder.read(mark)) is None:
        return None
    try:
        found = from_json(text, Export, folder.path(mark))
        check_part(found.export, folder.path(mark))  # a folder of this name is removed with it
    except CorruptError:
        try:
            at = clock.from_epoch_ms(folder.modified(mark) * 1000)
        except FileNotFoundError:
            return None
        found = Export(export=name[1:], started_at=at, snapshot=name)
    return attrs.evolve(found, mark=mark)
