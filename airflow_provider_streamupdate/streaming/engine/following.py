"""A new version that follows the running one: until it takes over, it runs the batches that the running one has logged,
on its own checkpoint and into nothing."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.offset_log import OffsetEntry
from ...core.errors import CorruptError, DriverError, StorageError
from ...core.plan.plan import QueryPlan
from ...core.snapshots.restore import record_stores, reorder_offsets, source_folders
from ..spark_internals import SCRATCH, FollowedQuery, changed_file

PURGED_EVERY = 20  # batches


class Following:
    """One query that follows. Its checkpoint is restored from what the running version had committed; `old` and `new`
    are both versions' plans of it.

    behind: batches that the running version had logged, and this one had not committed, at the last step: where each
        look is a request, one for both is enough
    """

    def __init__(
        self,
        spark: SparkSession,
        writer: DataStreamWriter,
        old: QueryPlan,
        new: QueryPlan,
        running: Checkpoint,
        own: Checkpoint,
        only_committed: bool = False,
        record: Callable[[DataFrame, int], None] | None = None,
    ) -> None:
        """only_committed: follow a batch only once the running version has committed it
        record: called with the rows of each batch that is followed, as a function of foreachBatch
        """
        self._spark, self._writer = spark, writer
        self._old, self._new = old, new
        self._running, self._own = running, own
        self._only_committed = only_committed
        self._record = record
        self._folders = source_folders(old, new)
        self._followed: FollowedQuery | None = None
        self._behind: int | None = None
        self._begun = -1  # the last batch that was begun here
        self._brought: set[str] = set()  # files of the sources' logs that are here
        self._read: dict[str, int] = {}  # the input files of the batch that was begun, with their times

    @property
    def behind(self) -> int:
        if self._behind is None:
            return (self._there() or 0) - (self._own.committed_batch() or 0)
        return self._behind

    @property
    def committed(self) -> int:
        """The last batch that has committed here."""
        batch = self._own.committed_batch()
        assert batch is not None  # it was restored
        return batch

    @property
    def begun(self) -> int:
        """The last batch that was begun here; -1 before the first one."""
        return self._begun

    @property
    def query(self) -> StreamingQuery | None:
        """The query; None before the first batch that could be followed."""
        return self._followed.query if self._followed else None

    def _there(self) -> int | None:
        """The last batch that may be followed."""
        return self._running.committed_batch() if self._only_committed else self._running.logged_batch()

    def step(self, last: int | None = None) -> bool:
        """Begin the next batch, if the running version has logged it and the one before has ended here. DriverError
        when the running version has removed what it takes.

        last: the last batch to run, logged there for certain; None: as far as the running version has come
        """
        committed, logged = self._own.committed_batch(), self._there() if last is None else last
        assert committed is not None  # it was restored
        self._behind = (logged or 0) - committed
        if self._followed is not None and not self._rests(committed):
            return False
        if logged is None or logged <= committed:
            if self._followed is not None:
                self._followed.prepare()  # nothing else is to be done
            return False
        try:
            self._bring(committed + 1)
        except (CorruptError, FileNotFoundError) as error:
            raise DriverError(
                f"query {self._new.name} fell too far behind the running version to follow it: it is at batch "
                f"{committed}, {logged - committed} behind, and entry {committed + 1} or a file of a source's log that "
                f"it needs was removed ({error}); use strategy standby, or a higher "
                "spark.sql.streaming.minBatchesToRetain"
            ) from error
        if self._followed is None:
            self._followed = self._started()
        else:
            self._followed.run()
        self._begun = committed + 1  # not before: where the storage fails, this is tried again
        if self._begun % PURGED_EVERY == 0:
            with contextlib.suppress(StorageError):  # the next time removes what is left
                self._purge(committed)
        return True

    def _purge(self, committed: int) -> None:
        """Remove what no restart needs, as Spark would when it plans a batch of its own (StreamExecution.purge,
        CompactibleFileStreamLog): old entries of the logs, and of the sources' logs what was compacted."""
        keep = int(self._spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or "100")
        for log in ("offsets", "commits"):
            for name in self._own.folder.names(log):
                if name.isdigit() and int(name) <= committed - keep:
                    self._own.folder.remove(f"{log}/{name}")
        needed = set(self._own.source_files(committed + 1, self._new.source_order))
        for path in sorted(self._brought - needed):
            self._own.folder.remove(path)
            self._brought.discard(path)

    def _started(self) -> FollowedQuery:
        new = [stage.name for stage in self._new.stages if self._old.stage(stage.name) is None]
        with tempfile.TemporaryDirectory(prefix="streamupdate-follow-") as scratch:
            uri, name = self._own.folder.uri, self._new.name
            self._own.folder.remove(SCRATCH)  # of an earlier driver
            followed = FollowedQuery(self._spark, self._writer, name, uri, Path(scratch), new, self._record)
        with contextlib.suppress(StorageError):
            self._own.folder.remove(SCRATCH)
        return followed

    def _rests(self, committed: int) -> bool:
        """Whether the batch that was begun has ended. A thread that waits may not have noticed yet that it is to go on,
        so that its commit has to be seen, too."""
        if self._followed is None:
            return True
        rests = self._followed.waits() and committed >= self._begun
        if rests and self._read:
            self._check_input()
        return rests

    def _check_input(self) -> None:
        """DriverError unless the files of the batch that has ended are what the running version has read: Spark takes
        one that is missing for an empty one (InMemoryFileIndex; *measured*)."""
        files, self._read = self._read, {}
        if (changed := changed_file(self._spark, files)) is not None:
            raise DriverError(
                f"query {self._new.name} cannot be followed: input file {changed}, which the running version read in "
                f"batch {self._begun}, was removed or changed since; use strategy standby, or keep input files longer"
            )

    def at(self, batch: int) -> bool:
        """Whether the query waits with this batch as its last."""
        committed = self._own.committed_batch()
        if committed is not None and committed > batch:
            raise DriverError(
                f"query {self._new.name} has followed to batch {committed}, but the other version ended with batch "
                f"{batch}: a batch that it had logged has not committed"
            )
        return committed == batch and self._rests(batch)

    def prepare(self) -> None:
        """Make what the takeover needs, while there is time. The query waits."""
        if self._followed is not None:
            self._followed.prepare()

    def log_in_flight(self, batch: int) -> None:
        """Log the batch that the running version had begun when it died, and that has not committed there."""
        self._bring(batch)

    def take_over(self) -> None:
        """Go on with batches of its own; first with one that is logged here and has not been run. The running version
        begins none, and all that it has committed has ended here."""
        assert self._followed is not None
        logged, committed = self._own.logged_batch(), self._own.committed_batch()
        self._followed.take_over(self._watermark_ms(), again=logged != committed)

    def _watermark_ms(self) -> int:
        """Return the watermark of the running version's next batch, or of the one after its batch in flight if that was
        run here."""
        batch, own = self._running.committed_batch(), self._own.committed_batch()
        if own is not None and (batch is None or own > batch):
            return self._own.next_watermark_ms(own)
        return 0 if batch is None else self._running.next_watermark_ms(batch)

    def _bring(self, batch: int) -> None:
        """Log a batch as the running version has: what its sources note of it first, as Spark does."""
        entry = self._running.offsets(batch)
        paths = self._running.source_files(batch, self._old.source_order)
        self._check_whole(batch, entry, paths)
        self._read = self._input_files(batch, entry)
        for path, to in self._moved(paths):
            if to not in self._brought:
                if not self._own.folder.exists(to):
                    self._own.folder.copy_from(self._running.folder, path, to)
                self._brought.add(to)
        text = (self._running.folder.read(f"offsets/{batch}") or b"").decode()
        OffsetEntry.parse(text.encode(), self._running.folder.path(f"offsets/{batch}"))  # it may be gone by now
        text = record_stores(text, self._new.stores)
        text = reorder_offsets(text, self._old.source_order, self._new.source_order)
        self._own.folder.write(f"offsets/{batch}", text.encode())

    def _moved(self, paths: list[str]) -> Iterator[tuple[str, str]]:
        """The files of the sources' logs that a batch needs, and where they go."""
        for path in paths:
            _, folder, name = path.split("/", 2)
            to = folder if self._folders is None else self._folders.get(folder)
            if to is not None:
                yield path, f"sources/{to}/{name}"

    def _check_whole(self, batch: int, entry: OffsetEntry, paths: list[str]) -> None:
        """CorruptError unless all entries of file sources' logs that came with a batch are there. A batch has several
        where the running version listed files and was ended before it logged them (FileStreamSource.fetchMaxOffset),
        and the running version removes them by their age (CompactibleFileStreamLog.deleteExpiredLog)."""
        before = dict(self._log_offsets(self._own_entry(batch - 1), self._new.source_order))
        for name, last in self._log_offsets(entry, self._old.source_order):
            folder = self._folder_of(name, entry)
            numbers = {p.rsplit("/", 1)[1] for p in paths if p.startswith(f"sources/{folder}/")}
            compacted = max((int(n.removesuffix(".compact")) for n in numbers if n.endswith(".compact")), default=-1)
            for number in range(max(before.get(name, last - 1), compacted) + 1, last + 1):
                if str(number) not in numbers:
                    where = self._running.folder.path(f"sources/{folder}")
                    raise CorruptError(f"{where} has no entry {number}, which batch {batch} needs")

    def _input_files(self, batch: int, entry: OffsetEntry) -> dict[str, int]:
        """The files that file sources have read in a batch, as their logs name them, and when each was changed."""
        before = dict(self._log_offsets(self._own_entry(batch - 1), self._new.source_order))
        found: dict[str, int] = {}
        for name, last in self._log_offsets(entry, self._old.source_order):
            if name not in self._new.source_order:  # it is left out
                continue
            first = before.get(name, last - 1) + 1
            log = self._running.source_file_log(self._folder_of(name, entry), last, first)
            found |= {e["path"]: int(e["timestamp"]) for e in log if first <= int(e["batchId"]) <= last}
        return found

    def _own_entry(self, batch: int) -> OffsetEntry:
        return self._own.offsets(batch)

    def _folder_of(self, name: str, entry: OffsetEntry) -> str:
        return name if entry.names else str(list(dict.fromkeys(self._old.source_order)).index(name))

    def _log_offsets(self, entry: OffsetEntry, order: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """The file sources of an entry, and how far they have come in their logs."""
        for name, text in zip(entry.names or order, entry.sources, strict=False):
            offset = json.loads(text) if text.strip() not in ("-", "") else None
            if isinstance(offset, dict) and set(offset) == {"logOffset"}:
                yield name, int(offset["logOffset"])
