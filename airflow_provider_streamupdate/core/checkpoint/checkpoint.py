"""Reading a Spark checkpoint (formats v1 and v2) from its files, without Spark.

Sources: StreamExecution, OffsetSeqLog, CommitLog, RocksDBFileManager and HDFSBackedStateStoreProvider of Spark 4.3;
docs/spark-facts.md. Batch N is committed when ``commits/N`` exists; its state is store version N + 1. What a restart
needs: the last two offset entries, the last commit, the sources' own logs, and the files of that state version. In
format v2 the commit says by id which files these are (commit_log.py).
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

from ..errors import CorruptError, NotFoundError
from ..names import check_path
from ..serde import parse_json
from ..storage import Folder
from ..storage.listing import Listing
from .commit_log import LINEAGE_BYTES, CommitEntry, read_lineage
from .named_files import check_named_files, files_of_zip, is_store_file, names_files
from .offset_log import OffsetEntry
from .snapshot import QuerySnapshot, SnapshotFile

FENCE = b"fenced: another deployment of the app runs\n"  # in the place of an offset log's entry, see fence.py

ASIDE = "aside"  # state files of a checkpoint that is being renumbered, and a file called after its last batch
STATE_ENDINGS = ("zip", "changelog", "delta", "snapshot")

_NUMBER = re.compile(r"[0-9]+")


class Checkpoint:
    """One query's checkpoint folder. It is not trusted: no symbolic link in it is followed, and no name in its files
    leads out of it."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._known: set[str] = set()  # folders that are no links

    def committed_batch(self) -> int | None:
        """The last committed batch; None before the first commit."""
        return max(self._numbers("commits"), default=None)

    def logged_batch(self) -> int | None:
        """The last batch in the offset log (it may not have committed)."""
        logged = sorted(self._numbers("offsets"))
        if logged and self._is_fence(logged[-1]):
            logged.pop()
        return logged[-1] if logged else None

    def fenced(self) -> int | None:
        """The batch that a fence blocks; None where there is no fence."""
        last = max(self._numbers("offsets"), default=None)
        return last if last is not None and self._is_fence(last) else None

    def _is_fence(self, batch: int) -> bool:
        self.folder.check_regular(f"offsets/{batch}", self._known)
        return self.folder.read(f"offsets/{batch}", len(FENCE)) == FENCE

    def query_id(self) -> str:
        described = parse_json(self._need("metadata"), self.folder.path("metadata"))
        if not isinstance(described, dict) or "id" not in described:
            raise CorruptError(f"{self.folder.path('metadata')} holds no query id, which the checkpoint needs")
        return str(described["id"])

    def commit_time(self, batch: int) -> float:
        """Return when `batch` committed, in seconds since the epoch (the commit file's time)."""
        return self.folder.modified(f"commits/{batch}")

    def offsets(self, batch: int) -> OffsetEntry:
        """The offset log's entry of a batch; CorruptError when it is missing or of an unknown version."""
        path = f"offsets/{batch}"
        return OffsetEntry.parse(self._need(path), self.folder.path(path))

    def next_watermark_ms(self, batch: int) -> int:
        """The watermark the batch after `batch` starts with."""
        return self.commit(batch).next_watermark_ms

    def commit(self, batch: int) -> CommitEntry:
        """The commit log's entry of a batch; CorruptError when it is missing or of an unknown version."""
        path = f"commits/{batch}"
        return CommitEntry.parse(self._need(path), self.folder.path(path))

    def is_set_aside(self, batch: int) -> bool:
        """Whether a driver died while it renumbered (renumber.py), so that state may be in other files."""
        return self.folder.exists(f"{ASIDE}/{batch}")

    def operator_ids(self) -> list[int]:
        return self._numbers("state")

    def export(
        self, carry_in_flight: bool, source_order: tuple[str, ...] = (), again: int = 0, with_files: bool = True
    ) -> QuerySnapshot:
        """List what a restart after the last committed batch needs. Nothing is copied: `object` is the path again.

        The batch is chosen from the commit log, never from state files: a stopped batch may have left some already
        (measured). `carry_in_flight` keeps the offsets of a logged, uncommitted batch, for a stopped driver.
        It also keeps the state of that batch when all of its tasks have written theirs: a sink that already has the
        batch skips it, so the state is not made again (FileStreamSink.addBatch). Not in format v2, where Spark itself
        does not find it.
        `source_order` is the plan's; without it, every line of an offset entry counts as a separate source.
        `again`: how many of the last batches are to run again; fewer where there are no more.
        `with_files`: False: without any, for who has run the same batches. Where each call is a request, they cost at
        least one for each store: 20 s of a pause (*measured* with 600).
        Before the first commit there is nothing to carry: batch -1, no files.
        """
        batch = self.committed_batch()
        if batch is None:
            return self._nothing(carry_in_flight)
        batch = max(batch - again, 0)
        if self.is_set_aside(batch):
            raise CorruptError(
                f"{self.folder.path()} is half renumbered: its driver died while it changed the batch ids; start this "
                "deployment again, which completes the change"
            )
        entry = self.offsets(batch)
        logged = self.logged_batch()
        in_flight = batch + 1 if carry_in_flight and logged == batch + 1 else None
        commit = self.commit(batch)
        files, ahead = self._exported(batch, in_flight, commit, source_order) if with_files else ((), False)
        return QuerySnapshot(
            batch=batch,
            query_id=self.query_id(),
            files=files,
            watermark_ms=max(entry.watermark_ms, commit.next_watermark_ms),
            in_flight=in_flight,
            state_ahead=ahead,
            conf=entry.conf,
            state_format=1 if commit.state_ids is None else 2,
        )

    def _exported(
        self, batch: int, in_flight: int | None, commit: CommitEntry, source_order: tuple[str, ...]
    ) -> tuple[tuple[SnapshotFile, ...], bool]:
        """Return the files, and whether the state of the batch in flight is among them."""
        wanted = [b for b in (batch - 1, batch) if b >= 0]
        paths = ["metadata"]
        paths += [f"offsets/{b}" for b in (*wanted, *([in_flight] if in_flight is not None else []))]
        paths += [f"commits/{b}" for b in wanted if self.folder.exists(f"commits/{b}")]
        paths += self.source_files(batch if in_flight is None else in_flight, source_order)
        state = Listing.of(self.folder, "state")  # after the commit: what it needs is there
        for operator in sorted({*_numbers(state.names("state")), *(commit.state_ids or {})}):
            ids = None
            if commit.state_ids is not None:
                ids = commit.stores(operator, self.folder.path(f"commits/{batch}"))
            paths += self._operator_files(state, operator, batch + 1, ids)
        ahead = self._files_ahead(state, batch + 2) if in_flight is not None else []
        if commit.state_ids is None:
            paths += [path for left in ahead for path in self._with_named(left)]
        paths = list(dict.fromkeys(paths))
        for path in paths:
            if names_files(path) and not is_store_file(path):  # those were checked when they were listed
                check_named_files(path, self._need(path), self.folder.path(path))
        return tuple(SnapshotFile(path=p, size=self._size(p, state), object=p) for p in paths), bool(ahead)

    def _nothing(self, carry_in_flight: bool) -> QuerySnapshot:
        if carry_in_flight and self.logged_batch() is not None:
            raise NotFoundError(
                f"{self.folder.path()} was stopped during its first batch, which did not commit; start the deployment "
                "again and let that batch finish"
            )
        return QuerySnapshot(batch=-1, query_id="", files=())

    def source_file_log(self, position: int | str, upto: int | None = None, since: int = 0) -> list[dict[str, Any]]:
        """Entries (path, timestamp, batchId) of a file source's log, as far as they were kept. position: the source's,
        or its name when Spark has it. since: the first number that is asked for; some before it may come, too"""
        entries: dict[str, dict[str, Any]] = {}
        for name in self.folder.names(f"sources/{position}"):
            number = _log_number(name)
            if number is None or number < since or (upto is not None and number > upto):
                continue
            for line in self._need(f"sources/{position}/{name}").decode().split("\n")[1:]:
                if line:
                    entry = parse_json(line.encode(), self.folder.path(f"sources/{position}/{name}"))
                    entries[entry["path"]] = entry
        return sorted(entries.values(), key=lambda e: (e["batchId"], e["timestamp"], e["path"]))

    def source_files(self, batch: int, source_order: tuple[str, ...] = ()) -> list[str]:
        """The files of the sources' own logs up to a batch that is logged. `source_order`: as `export` has it."""
        entry = self.offsets(batch)
        if entry.names:
            named = list(zip(entry.names, entry.sources, strict=True))
        else:
            lines = _first_lines(source_order, len(entry.sources))
            named = [(str(number), entry.sources[line]) for number, line in enumerate(lines)]
        return [path for name, offset in named for path in self._source_files(name, offset)]

    def _source_files(self, own: str, offset: str) -> list[str]:
        """A source's own files: its folder is called after its position, or its `.name()`. A file source's log is cut
        at its offset: later entries name files of no batch, which the next listing finds again."""
        folder = f"sources/{own}"
        names = self.folder.files(folder)  # Iceberg keeps its first offset in a folder below
        parsed = parse_json(offset.encode(), self.folder.path("offsets")) if offset.strip() not in ("-", "") else None
        if not (isinstance(parsed, dict) and set(parsed) == {"logOffset"}):
            return [f"{folder}/{n}" for n in names]
        last = int(parsed["logOffset"])
        numbered = [(number, n) for n in names if (number := _log_number(n)) is not None and number <= last]
        compacts = sorted(number for number, n in numbered if n.endswith(".compact"))
        # From the last but one compaction on: Spark derives its compaction interval from the last two.
        first = compacts[-2:][0] if compacts else 0
        kept = sorted((number, n) for number, n in numbered if number >= first)
        if last >= 0 and (not kept or kept[-1][0] != last):
            raise CorruptError(f"{self.folder.path(folder)} has no entry {last}, which the offset log names")
        return [f"{folder}/{n}" for _, n in kept]

    def _operator_files(
        self, state: Listing, operator: int, version: int, ids: list[dict[str, str]] | None
    ) -> list[str]:
        """The files of one operator's state at a store version, and Spark's own description of it. `ids`: of each
        partition's stores, in format v2."""
        top = f"state/{operator}"
        paths = [f"{top}/{d}/{f}" for d in ("_metadata", "_stateSchema") for f in state.files(f"{top}/{d}")]
        stores: list[tuple[str, str | None]] = []
        for partition in _numbers(state.names(top)) if ids is None else range(len(ids)):
            folder = f"{top}/{partition}"
            paths += [f"{folder}/_metadata/{f}" for f in state.files(f"{folder}/_metadata")]
            for store in _stores(state, folder) if ids is None else ids[partition]:
                stores.append((_store_folder(folder, store), ids[partition][store] if ids is not None else None))

        def store_files(store: tuple[str, str | None]) -> list[str]:
            return self._store_files(store[0], state.names(store[0]), version, store[1])

        return [
            *paths,
            *chain.from_iterable(self.folder.read_many(store_files, stores)),
        ]  # reads the files that name others

    def _files_ahead(self, state: Listing, version: int) -> list[str]:
        """Return the files written at a version that is not committed; none unless every store of
        every partition has some."""
        paths = []
        for operator in _numbers(state.names("state")):
            for partition in _numbers(state.names(f"state/{operator}")):
                for store in _stores(state, f"state/{operator}/{partition}"):
                    folder = _store_folder(f"state/{operator}/{partition}", store)
                    names = state.names(folder)
                    made = [n for n in names if _is_state_file(n, version) and not n.endswith(".crc")]
                    if not made:
                        return []
                    paths += [f"{folder}/{n}" for n in names if n.removesuffix(".crc") in made]
        return paths

    def _with_named(self, path: str) -> list[str]:
        """A state file and those it refers to."""
        folder = path.rpartition("/")[0]
        return [path, *(f"{folder}/{f}" for f in (self._files_of_zip(path) if path.endswith(".zip") else ()))]

    def _store_files(self, folder: str, names: list[str], version: int, state_id: str | None) -> list[str]:
        have = set(names)
        if state_id is None:
            base, changes = _full_and_changes(have, version)
        else:
            base, changes = self._full_and_changes_by_id(folder, have, version, state_id)
        if base is None and (not changes or not re.match(r"1[._]", changes[0])):
            named = f" and id {state_id}" if state_id else ""
            raise CorruptError(
                f"the state at {self.folder.path(folder)} has no files for version {version}{named}: they were removed "
                "or are of a format that is not understood"
            )
        files = ([base] if base else []) + changes
        paths = [f"{folder}/{f}" for f in files]
        paths += [f"{folder}/{f}.crc" for f in files if f"{f}.crc" in have]
        if base and base.endswith(".zip"):
            paths += [f"{folder}/{f}" for f in self._files_of_zip(f"{folder}/{base}")]
        return paths

    def _full_and_changes_by_id(
        self, folder: str, have: set[str], version: int, state_id: str
    ) -> tuple[str | None, list[str]]:
        """Do the same as `_full_and_changes` in format v2, like RocksDB.loadWithCheckpointId: return the zip with the
        id, or the changelog with the id on top of the files that its lineage names."""
        last = f"{version}_{state_id}"
        if f"{last}.zip" in have:
            return f"{last}.zip", []
        if f"{last}.changelog" not in have:
            return None, []
        path = f"{folder}/{last}.changelog"
        lineage = read_lineage(self._need(path, LINEAGE_BYTES), self.folder.path(path))
        changes = [f"{last}.changelog"]
        for at in range(version - 1, 0, -1):
            name = f"{at}_{lineage.get(at)}"
            if f"{name}.zip" in have:
                return f"{name}.zip", changes[::-1]
            if f"{name}.changelog" not in have:
                return None, []
            changes.append(f"{name}.changelog")
        return None, changes[::-1]

    def _files_of_zip(self, path: str) -> list[str]:
        """Return the SSTs and archived logs that a RocksDB version's zip names in its ``metadata`` entry."""
        return files_of_zip(self._need(path), self.folder.path(path))

    def _numbers(self, relative: str) -> list[int]:
        return _numbers(self.folder.names(relative))

    def _size(self, path: str, state: Listing) -> int:
        check_path(path, self.folder.path())
        self.folder.check_regular(path, self._known)
        try:
            return state.size(path)
        except FileNotFoundError:
            raise CorruptError(f"{self.folder.path(path)} is missing, but the checkpoint refers to it") from None

    def _need(self, path: str, first: int | None = None) -> bytes:
        check_path(path, self.folder.path())
        self.folder.check_regular(path, self._known)
        text = self.folder.read(path, first)
        if text is None:
            raise CorruptError(f"{self.folder.path(path)} is missing, but the checkpoint needs it")
        return text


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _stores(state: Listing, partition: str) -> list[str]:
    """The stores that have files in a partition's folder, in format v1."""
    names = state.names(partition)
    # named stores, for example a join's four
    stores = [n for n in names if n not in ("_metadata", "SSTs", "logs") and not _is_state_file(n)]
    return ["default", *stores] if any(_is_state_file(n) for n in names) else stores


def _first_lines(source_order: tuple[str, ...], lines: int) -> list[int]:
    """Return the first line with the offset of each source, in the order of the sources' folder numbers."""
    if not source_order:
        return list(range(lines))
    if len(source_order) != lines:
        raise CorruptError(f"the offset log has {lines} lines per entry, but the plan has {len(source_order)} sources")
    return [source_order.index(name) for name in dict.fromkeys(source_order)]


def _log_number(name: str) -> int | None:
    stem = name.removesuffix(".compact")
    return int(stem) if _NUMBER.fullmatch(stem) else None


def _store_folder(partition: str, store: str) -> str:
    return partition if store == "default" else f"{partition}/{store}"


def is_state_at(path: str, version: int) -> bool:
    """Whether a file of a checkpoint in format v1 is what a store has written at a version."""
    return re.fullmatch(rf"state/.+/{version}\.({'|'.join(STATE_ENDINGS)})(\.crc)?", path) is not None


def _is_state_file(name: str, version: int | None = None) -> bool:
    number = r"\d+" if version is None else version
    return re.fullmatch(rf"{number}(_\S+)?\.({'|'.join(STATE_ENDINGS)})(\.crc)?", name) is not None


def _full_and_changes(have: set[str], version: int) -> tuple[str | None, list[str]]:
    """The newest full file not after `version` and the unbroken run of changes from it (from 1 without one)."""
    for kind, change in (("zip", "changelog"), ("snapshot", "delta")):
        changes: list[str] = []
        at = version
        while at > 0:
            if f"{at}.{kind}" in have:
                return f"{at}.{kind}", changes[::-1]
            if f"{at}.{change}" not in have:
                break
            changes.append(f"{at}.{change}")
            at -= 1
        if changes and at == 0:
            return None, changes[::-1]
    return None, []
