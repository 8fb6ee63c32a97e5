"""A new version that follows the running one: until it takes over, it runs the batches that the running one has logged,
on its own checkpoint and into nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.errors import DriverError
from ...core.plan.plan import QueryPlan
from ...core.snapshots.restore import record_stores, reorder_offsets, source_folders
from ..spark_internals import FollowedQuery


class Following:
    """One query that follows. Its checkpoint is restored from what the running version had committed; `old` and `new`
    are both versions' plans of it.

    behind: batches that the running version has logged and this one has not committed
    """

    def __init__(
        self,
        spark: SparkSession,
        writer: DataStreamWriter,
        old: QueryPlan,
        new: QueryPlan,
        running: Checkpoint,
        own: Checkpoint,
    ) -> None:
        self._spark, self._writer = spark, writer
        self._old, self._new = old, new
        self._running, self._own = running, own
        self._followed: FollowedQuery | None = None
        self._begun = -1  # the last batch that was begun here

    @property
    def behind(self) -> int:
        return (self._running.logged_batch() or 0) - (self._own.committed_batch() or 0)

    @property
    def committed(self) -> int:
        """The last batch that has committed here."""
        batch = self._own.committed_batch()
        assert batch is not None  # it was restored
        return batch

    @property
    def query(self) -> StreamingQuery | None:
        """None before the first batch that could be followed."""
        return self._followed.query if self._followed else None

    def step(self) -> bool:
        """Begin the next batch, if the running version has logged it and the one before has ended here."""
        committed, logged = self._own.committed_batch(), self._running.logged_batch()
        assert committed is not None  # it was restored
        if self._followed is not None and not self._rests(committed):
            return False
        if logged is None or logged <= committed:
            return False
        self._begun = committed + 1
        self._bring(self._begun)
        if self._followed is None:
            with tempfile.TemporaryDirectory(prefix="streamupdate-follow-") as scratch:
                uri = self._own.folder.uri
                self._followed = FollowedQuery(self._spark, self._writer, self._new.name, uri, Path(scratch))
        else:
            self._followed.run()
        return True

    def _rests(self, committed: int) -> bool:
        """Whether the batch that was begun has ended. A thread that waits may not have noticed yet that it is to go on,
        so that its commit has to be seen, too."""
        return self._followed is None or (self._followed.waits() and committed >= self._begun)

    def at(self, batch: int) -> bool:
        """Whether the query waits with this batch as its last."""
        committed = self._own.committed_batch()
        if committed is not None and committed > batch:
            raise DriverError(
                f"query {self._new.name} has followed to batch {committed}, but the other version ended with batch "
                f"{batch}: a batch that it had logged has not committed"
            )
        return committed == batch and self._rests(batch)

    def take_over(self) -> None:
        """Go on with batches of its own. The running version begins none, and all of its batches have ended here."""
        assert self._followed is not None and self.behind == 0
        self._followed.take_over()

    def _bring(self, batch: int) -> None:
        """Log a batch as the running version has: what its sources note of it first, as Spark does."""
        for path, to in self._source_files(batch):
            if not self._own.folder.exists(to):
                self._own.folder.copy_from(self._running.folder, path, to)
        entry = (self._running.folder.read(f"offsets/{batch}") or b"").decode()
        entry = record_stores(entry, self._new.stores)
        entry = reorder_offsets(entry, self._old.source_order, self._new.source_order)
        self._own.folder.write(f"offsets/{batch}", entry.encode())

    def _source_files(self, batch: int) -> list[tuple[str, str]]:
        """The files of the sources' logs that a batch needs, and where they go."""
        folders = source_folders(self._old, self._new)
        found = []
        for path in self._running.source_files(batch, self._old.source_order):
            _, folder, name = path.split("/", 2)
            to = folder if folders is None else folders.get(folder)
            if to is not None:
                found.append((path, f"sources/{to}/{name}"))
        return found
