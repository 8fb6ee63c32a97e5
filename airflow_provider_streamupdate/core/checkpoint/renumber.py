"""Renumbering of a stopped query's checkpoint to later batch ids. Its sink has what another version has written since
then under the same query id. A sink that detects repeats by id (files; tables of Delta Lake, Iceberg or Hudi) would
skip the batches with these ids, most without computing them: their rows would be lost, and their state not made.

What the query has read and kept does not change. State files are linked under their new numbers (changelogs of
checkpoint format v2, which name earlier files, are rewritten for that), the last entries of the offset log are written
again, and the entry of the commit log comes last: until it exists, the checkpoint is unchanged, and everything can be
done again.

A store with many files may already have some under the new numbers. They are set aside first, and put back (`put_back`)
before a repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

from ..storage import Folder
from .checkpoint import ASIDE, STATE_ENDINGS, Checkpoint
from .commit_log import read_lineage, with_lineage
from .snapshot import QuerySnapshot

_NUMBERED = re.compile(rf"(state/(\d+)/(?:.+/)?)(\d+)(_[^/.]+)?\.({'|'.join(STATE_ENDINGS)})(\.crc)?")
_WHOLE = ("zip", "snapshot")


@attrs.frozen(kw_only=True)
class _StateFile:
    """A file that a store has written at a version. name: the version's, with its id in checkpoint format v2."""

    path: str
    top: str
    operator: int
    version: int
    id: str | None
    ending: str
    crc: str

    @classmethod
    def parse(cls, path: str) -> _StateFile | None:
        if (found := _NUMBERED.fullmatch(path)) is None:
            return None
        top, operator, version, state_id, ending, crc = found.groups()
        state_id = state_id and state_id[1:]
        return cls(
            path=path, top=top, operator=int(operator), version=int(version), id=state_id, ending=ending, crc=crc or ""
        )

    @property
    def has_lineage(self) -> bool:
        return self.ending == "changelog" and self.id is not None

    def stem(self, shift: int) -> str:
        return self.top + _name(self.version + shift, self.id)

    def target(self, shift: int) -> str:
        return f"{self.stem(shift)}.{self.ending}{self.crc}"


def renumber(
    checkpoint: Checkpoint, last: int, source_order: tuple[str, ...], empty: Callable[[int, str], None]
) -> None:
    """Renumber so that the batch after the last committed one is `last` + 1; uncommitted batches are left out.

    empty: makes the files of stores without rows for an operator, under a name: where a store has nothing but changes,
        from its very first version on
    """
    put_back(checkpoint)
    saved, folder = checkpoint.export(carry_in_flight=False, source_order=source_order), checkpoint.folder
    batch, shift = saved.batch, last - saved.batch
    files = _state_files(file.path for file in saved.files)
    whole = {file.top for file in files if file.ending in _WHOLE}
    operators = sorted({file.operator for file in files if file.top not in whole})
    first = _name(shift, saved.made_state_id)
    stems = {file.stem(shift) for file in files} | {file.top + first for file in files if file.operator in operators}
    source = folder
    if not stems.isdisjoint(file.stem(0) for file in files):
        source = _set_aside(folder, batch, files)
    _clear(folder, stems)
    for operator in operators:
        empty(operator, first)
    for file in files:
        if file.has_lineage:
            _bring_changelog(source, folder, file, shift, None if file.top in whole else saved)
        else:
            folder.copy_from(source, file.path, file.target(shift))
    folder.sync(_written(folder, stems))
    entry, commit = (folder.read(f"{log}/{batch}") or b"" for log in ("offsets", "commits"))
    for number in range(max(batch + 1, last - 1), last + 1):  # a restart needs two
        _remove(folder, f"offsets/{number}")
        folder.write(f"offsets/{number}", entry)
    folder.write(f"commits/{last}", commit)
    folder.remove(ASIDE)


def put_back(checkpoint: Checkpoint) -> None:
    """Undo the work of a driver that died while it renumbered."""
    folder, batch = checkpoint.folder, checkpoint.committed_batch()
    if not folder.names(ASIDE):
        return
    if batch is not None and checkpoint.is_set_aside(batch):
        aside = folder.sub(ASIDE)
        files = _state_files(aside.files())
        tops = sorted({file.top for file in files})
        _clear(folder, {f.stem(0) for f in _state_files(f"{top}{name}" for top in tops for name in folder.names(top))})
        for file in files:
            folder.copy_from(aside, file.path, file.path)
        folder.sync(file.path for file in files)
        folder.remove(f"{ASIDE}/{batch}")  # before the files it speaks of
    folder.remove(ASIDE)


def begun(checkpoint: Checkpoint, batch: int, logged: int) -> bool:
    """Whether `renumber` has come as far as the offset log, and not to its end: an entry of a batch in flight is never
    the same as that of the last committed one, because it has the time in it (OffsetSeqMetadata)."""
    first, last = (checkpoint.folder.read(f"offsets/{number}") for number in (batch, logged))
    return first == last


def _set_aside(folder: Folder, batch: int, files: list[_StateFile]) -> Folder:
    """Link the files where nothing is written over them; from then on the checkpoint is not read as it is."""
    aside = folder.sub(ASIDE)
    for file in files:
        aside.copy_from(folder, file.path, file.path)
    folder.sync([ASIDE])
    aside.write(str(batch), b"")
    return aside


def _bring_changelog(source: Folder, folder: Folder, file: _StateFile, shift: int, bare: QuerySnapshot | None) -> None:
    """Bring a changelog under its new number. bare: of a store with nothing but changes, where the lineage has to lead
    to the empty store below them (RocksDB.loadWithCheckpointId takes it for granted below version 1 only). Spark's
    checksum would be another one; it reads a file without (ChecksumCheckpointFileManager)."""
    if file.crc:
        return
    where, data = source.path(file.path), source.read(file.path) or b""
    lineage = {version + shift: state_id for version, state_id in read_lineage(data, where).items()}
    if bare is not None:
        lineage[shift] = str(bare.made_state_id)
    folder.write(file.target(shift), with_lineage(data, lineage, where))


def _state_files(paths: Iterable[str]) -> list[_StateFile]:
    return [file for path in paths if (file := _StateFile.parse(path)) is not None]


def _name(version: int, state_id: str | None) -> str:
    return str(version) if state_id is None else f"{version}_{state_id}"


def _clear(folder: Folder, stems: set[str]) -> None:
    """Remove all files of stores at these versions: what an unfinished batch left there, of any kind."""
    there = {path.removesuffix(".crc") for path in _written(folder, stems)}
    if folder.hadoop_checksums:  # perhaps one of them alone
        there |= {f"{stem}.{ending}" for stem in stems for ending in STATE_ENDINGS}
    for path in sorted(there):
        _remove(folder, path)


def _written(folder: Folder, stems: set[str]) -> list[str]:
    """The files that stores have at these versions."""
    tops = sorted({stem[: stem.rindex("/") + 1] for stem in stems})
    files = _state_files(f"{top}{name}" for top in tops for name in folder.names(top))
    return [file.path for file in files if file.stem(0) in stems]


def _remove(folder: Folder, path: str) -> None:
    """Remove a file, and before it the checksums beside it (Hadoop's, hidden, and Spark's)."""
    parent, _, name = path.rpartition("/")
    for each in (f"{parent}/.{name}.crc", f"{path}.crc", path):
        folder.remove(each)
