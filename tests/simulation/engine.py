"""The fake engine of the driver's tests, whose state is a count of what its query has read, and whose sink belongs to
the world: so each batch can be judged."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from fake_engine import CONF, QUERY, FakeEngine

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.renumber import begun, put_back, renumber
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.streaming.engine.port import Session

from .invariants import Invariants
from .plan import BATCH_WRITTEN
from .storage import Storage
from .world import Process, World

BATCH_SECONDS = 0.3  # of work, before it comes to the sink, and after it
KEPT = 10  # batches whose files stay


@attrs.frozen
class Written:
    """A batch in the sink: the input from `start` up to `end`, and how much had been read with it."""

    start: int
    end: int
    count: int
    version: str
    epoch: int = 0
    begun: float = 0.0  # when its driver began it

    @property
    def content(self) -> tuple[int, int, int]:
        return self.start, self.end, self.count


class Sink:
    """What came out, by batch id. skips: a batch that comes again is skipped, as a file sink does; else it replaces the
    first one. renumbered: a version computed batches again under later ids, as after a rollback"""

    def __init__(self, skips: bool, beside: bool = False) -> None:
        self.skips, self.beside = skips, beside
        self.renumbered = False
        self.newest, self.version = 0, ""  # the latest epoch that has written, and whose it is
        self.writers: dict[int, float] = {}  # when each driver wrote last, by pid
        self.batches: dict[int, Written] = {}
        self.writes = 0
        self.late = 0  # batches that came after their driver was taken for dead

    def write(self, batch: int, written: Written, invariants: Invariants) -> None:
        self.writes += 1
        before = self.batches.get(batch)
        if written.count != written.end:
            invariants.broken(f"batch {batch} of {written.version} counts {written.count} of {written.end} rows")
        differs = before is None or before.content != written.content
        if invariants.resting and differs:
            invariants.broken(f"batch {batch} of {written.version} comes although the app is suspended")
        # Two drivers of one deployment share a log of offsets, which gives each batch to one of them.
        stale = written.epoch < self.newest and written.version != self.version
        if stale and self.skips and before is not None:
            return
        if stale and written.begun < invariants.claimed_at[self.newest]:
            self.late += 1  # a known limit (docs/crash-safety.md): a fence lets the batch under way end
            return
        if stale and differs:
            invariants.broken(f"batch {batch} comes from epoch {written.epoch}, and {self.newest} writes now: {before}")
        elif before is not None and differs and (self.skips or not _goes_back(before, written, invariants.current)):
            invariants.broken(f"batch {batch} comes again with other rows: {written} instead of {before}")
        if written.epoch >= self.newest:
            self.newest, self.version = written.epoch, written.version
        if not (self.skips and batch in self.batches):
            self.batches[batch] = written

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)

    def problems(self, last: int) -> list[str]:
        """What is lost or doubled up to a batch. Later ones may be of a version that was rolled back. A version that
        runs beside another one begins after its snapshot."""
        found, first = [], min(self.batches, default=0)
        at = self.batches[first].start if self.batches else 0
        if at and not self.beside:
            found.append(f"the sink begins at row {at}")
        for number in range(first, last + 1):
            if (batch := self.batches.get(number)) is None:
                found.append(f"the sink never got batch {number}")
                continue
            if batch.start > at:
                found.append(f"batch {number} ({batch.version}) begins at row {batch.start}: {batch.start - at} lost")
            elif batch.start < at and not self.renumbered:
                found.append(f"batch {number} ({batch.version}) begins at row {batch.start}: {at - batch.start} twice")
            at = batch.end
        return found


def rank(deployment: str) -> int:
    """The place of a deployment's version in the order of the updates."""
    return int(deployment.partition("-")[0].removeprefix("v"))


def _goes_back(before: Written, written: Written, current: Mapping[int, str]) -> bool:
    """Whether an earlier version was current in between: it computes again what the later one had."""
    between = range(before.epoch + 1, written.epoch + 1)
    return any(rank(current.get(epoch, before.version)) < rank(before.version) for epoch in between)


class CountingEngine(FakeEngine):
    """process: the driver's; epoch: returns the one that it has; reached: is told that a batch has come to the sink"""

    def __init__(
        self,
        application: Mapping[str, Any],
        registry: AppRegistry,
        deployment: str,
        world: World,
        sink: Sink,
        storage: Storage,
        process: Process,
        invariants: Invariants,
    ) -> None:
        super().__init__(application, registry, deployment)
        self.epoch: Callable[[], int] = lambda: 0
        self.reached: Callable[[str], None] = lambda _: None
        self._invariants = invariants
        invariants.running[process.pid] = lambda: self._active
        self._world, self._sink, self._storage, self._process = world, sink, storage, process
        self._ends: dict[int, int] = {-1: 0}  # the end of a batch's input, as Spark keeps it in memory
        self._next: int | None = None  # the number of the next batch; None before the first one since a start
        self._described = False

    @property
    def params(self) -> Mapping[str, str]:
        return self._params

    def open(self, title: str, practises: bool = False) -> Session:
        if self._fails("start"):
            self._world.at(0.0, lambda: self._world.kill(self._process, "dies at its start"))
            clock.sleep(1.0)
        return super().open(title, practises)

    def _batch(self) -> None:
        folder, noise = self._checkpoint.folder, self._process.noise
        batch, starts = self.committed()[QUERY] + 1 if self._next is None else self._next, self._next is None
        if not self._described and not folder.exists("metadata"):
            folder.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        self._described = True
        logged = self._checkpoint.logged_batch()
        if not (starts and logged == batch):  # else it was in flight
            if logged is not None and logged > batch:  # Spark keeps 100 entries, so it would find its own
                raise RuntimeError(f"[CONCURRENT_STREAM_LOG_UPDATE] somebody else has come to batch {logged}")
            end = self._end_of(batch - 1) + noise.randrange(1, 5)
            head = json.dumps({"batchWatermarkMs": 0, "conf": CONF}).encode()
            if not folder.create(f"offsets/{batch}", b"v1\n%s\n%d" % (head, end)):
                raise RuntimeError(f"[CONCURRENT_STREAM_LOG_UPDATE] somebody else has begun batch {batch}")
            self._ends[batch] = end
        begun = self._world.seconds
        clock.sleep(BATCH_SECONDS * noise.random())
        written = attrs.evolve(self._count(batch), begun=begun)
        self._world.running()
        self._world.note(f"  {self._process.name}: batch {batch}: {written}")
        self._sink.write(batch, written, self._invariants)
        self._sink.writers[self._process.pid] = self._world.seconds
        self.reached(BATCH_WRITTEN)
        clock.sleep(BATCH_SECONDS * noise.random())
        self._commit(batch)
        self._next = batch + 1

    def _count(self, batch: int) -> Written:
        """Read the state of the batch before, and write that of this one."""
        folder = self._checkpoint.folder
        start, end = self._end_of(batch - 1), self._end_of(batch)
        before = 0
        if batch:
            saved = folder.read(f"state/0/0/{batch}.snapshot")
            assert saved is not None, f"{self._deployment}: the state of batch {batch - 1} is gone"
            before = int(saved)
        count = before + end - start
        folder.write(f"state/0/0/{batch + 1}.snapshot", b"%d" % count)
        return Written(start, end, count, self._deployment, self.epoch())

    def _end_of(self, batch: int) -> int:
        if batch not in self._ends:
            entry = self._checkpoint.folder.read(f"offsets/{batch}")
            assert entry is not None, f"{self._deployment}: the offsets of batch {batch} are gone"
            self._ends[batch] = int(entry.rpartition(b"\n")[2])
        return self._ends[batch]

    def start(self) -> None:
        if not self._active:
            self._ends, self._next = {-1: 0}, None  # a query that is started reads its log
        super().start()

    def used_beyond(self, parent: str) -> bool:
        last = self._sink.last  # first: the parent may run
        logged = Checkpoint(self._registry.checkpoint(parent, QUERY)).logged_batch()
        return self._sink.skips and last > (-1 if logged is None else logged)

    def skip_used_batch_ids(self) -> Mapping[str, tuple[int, int]]:
        """As Spark's engine does it for a file sink (streaming/engine/renumbering.py)."""
        checkpoint, last = self._checkpoint, self._sink.last
        put_back(checkpoint)
        batch, logged = checkpoint.committed_batch(), checkpoint.logged_batch()
        if not self._sink.skips or batch is None or logged is None or last <= batch:
            return {}
        if last <= logged and not begun(checkpoint, batch, logged):
            return {}
        renumber(checkpoint, last, ("source-1",), lambda operator, name: None)
        self._sink.renumbered = True
        return {QUERY: (batch, last)}

    def _figures(self, batch: int) -> BatchFigures:
        return BatchFigures(batch=batch, rows_in=10, rows_out=10, state_rows={}, seconds=0.1)

    def _commit(self, batch: int) -> None:
        if self._followed is not None and self._thread is None:
            self._count(batch)  # muted
        self._checkpoint.folder.write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}', lasting=False)
        if (old := batch - KEPT) >= 0:
            self._purge(old)

    def _purge(self, batch: int) -> None:
        """As Spark does, of the checkpoint's files."""
        for path in (f"offsets/{batch}", f"commits/{batch}", f"state/0/0/{batch}.snapshot"):
            with contextlib.suppress(FileNotFoundError):
                self._storage.remove(self._checkpoint.folder.path(path))
