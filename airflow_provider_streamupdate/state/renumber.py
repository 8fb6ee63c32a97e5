"""A stopped query's checkpoint under later batch ids: its sink has what another version has written since then, under
the same query id, and a sink that tells repeats by their ids (files; tables of Delta Lake, Iceberg or Hudi) would skip
the batches of these ids, most without computing them. Their rows would be lost, and their state not made.

Nothing of what the query has read or kept changes. Files of the state are linked under the numbers they would have, the
last entries of the offset log are written again, and that of the commit log comes last: until it is there, the
checkpoint is the one it was, and all of this can be done again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .checkpoint import Checkpoint
from .errors import StreamUpdateError
from .storage import Folder

_NUMBERED = re.compile(r"(state/(\d+)/(?:.+/)?)(\d+)\.(zip|snapshot|changelog|delta)(\.crc)?")
_WHOLE = ("zip", "snapshot")


def renumber(
    checkpoint: Checkpoint, last: int, source_order: tuple[str, ...], empty: Callable[[int, str], None]
) -> None:
    """Have the batch after the last committed one called `last` + 1, not committed ones left aside.

    empty: makes the files of stores without rows for an operator, under a name: where a store has nothing but changes,
        from its very first version on
    StreamUpdateError in checkpoint format v2, whose changelogs name the versions before them (commit_log.py)
    """
    saved, folder = checkpoint.export(carry_in_flight=False, source_order=source_order), checkpoint.folder
    batch, numbered = saved.batch, [m for f in saved.files if (m := _NUMBERED.fullmatch(f.path))]
    if saved.state_format == 2 and any(f.path.startswith("state/") for f in saved.files):
        raise StreamUpdateError(
            f"{folder.path()}: its sink has batches up to {last} of another version, which it would skip, and state in "
            "checkpoint format v2 cannot be called after later ones; go on with that version, or from a snapshot into "
            "another sink (submit --fork)"
        )
    shift = last - batch
    for found in numbered:
        top, version, ending = found[1], int(found[3]) + shift, f"{found[4]}{found[5] or ''}"
        _clear(folder, f"{top}{version}.{ending}")
        folder.copy_from(folder, found[0], f"{top}{version}.{ending}")
    whole = {m[1] for m in numbered if m[4] in _WHOLE}
    for operator in sorted({int(m[2]) for m in numbered if m[1] not in whole}):
        empty(operator, str(shift))
    entry, commit = (folder.read(f"{log}/{batch}") or b"" for log in ("offsets", "commits"))
    for number in range(max(batch + 1, last - 1), last + 1):  # a restart needs two
        _clear(folder, f"offsets/{number}")
        folder.write(f"offsets/{number}", entry)
    folder.write(f"commits/{last}", commit)


def begun(checkpoint: Checkpoint, batch: int, logged: int) -> bool:
    """Whether `renumber` has come as far as the offset log, and not to its end: an entry of a batch in flight is never
    the same as that of the last committed one, because it has the time in it (OffsetSeqMetadata)."""
    first, last = (checkpoint.folder.read(f"offsets/{number}") for number in (batch, logged))
    return first == last


def _clear(folder: Folder, path: str) -> None:
    """Remove what an unfinished batch left there, and the checksums beside it (Hadoop's, hidden, and Spark's)."""
    parent, _, name = path.rpartition("/")
    for each in (path, f"{parent}/.{name}.crc", f"{path}.crc"):
        folder.remove(each)
