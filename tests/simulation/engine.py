"""The fake engine of the driver's tests, whose state is a count of what its query has read, and whose sink belongs to
the world: so each batch can be judged."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

import attrs

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.renumber import begun, put_back, renumber
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from fake_engine import CONF, QUERY, FakeEngine

from .storage import Storage
from .world import Process, World

BATCH_SECONDS = 0.3  # of work
KEPT = 20  # batches whose files stay


@attrs.frozen
class Written:
    """A batch in the sink: the input from `start` up to `end`, and how much had been read with it."""

    start: int
    end: int
    count: int
    version: str


class Sink:
    """What came out, by batch id. skips: a batch that comes again is skipped, as a file sink does; else it replaces the
    first one. wrong: what can never be right; renumbered: a version computed batches again under later ids, as after a
    rollback"""

    def __init__(self, skips: bool) -> None:
        self.skips = skips
        self.renumbered = False
        self.batches: dict[int, Written] = {}
        self.wrong: list[str] = []
        self.writes = 0

    def write(self, batch: int, written: Written) -> None:
        self.writes += 1
        if written.count != written.end:
            self.wrong.append(f"batch {batch} of {written.version} counts {written.count} of {written.end} rows")
        if not (self.skips and batch in self.batches):
            self.batches[batch] = written

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)

    def problems(self, last: int) -> list[str]:
        """What is lost or doubled up to a batch. Later ones may be of a version that was rolled back."""
        found, at = list(self.wrong), 0
        for number in range(last + 1):
            if (batch := self.batches.get(number)) is None:
                found.append(f"the sink never got batch {number}")
                continue
            if batch.start > at:
                found.append(f"batch {number} ({batch.version}) begins at row {batch.start}: {batch.start - at} lost")
            elif batch.start < at and not self.renumbered:
                found.append(f"batch {number} ({batch.version}) begins at row {batch.start}: {at - batch.start} twice")
            at = batch.end
        return found


class CountingEngine(FakeEngine):
    """process: the driver's"""

    def __init__(
        self,
        application: Mapping[str, Any],
        registry: AppRegistry,
        deployment: str,
        world: World,
        sink: Sink,
        storage: Storage,
        process: Process,
    ) -> None:
        super().__init__(application, registry, deployment)
        self._world, self._sink, self._storage, self._process = world, sink, storage, process

    def _batch(self) -> None:
        folder, batch = self._checkpoint.folder, self.committed()[QUERY] + 1
        if not folder.exists("metadata"):
            folder.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        start = self._end_of(batch - 1)
        if self._checkpoint.logged_batch() != batch:
            end = start + self._world.chance.randrange(1, 5)
            head = json.dumps({"batchWatermarkMs": 0, "conf": CONF}).encode()
            if not folder.create(f"offsets/{batch}", b"v1\n%s\n%d" % (head, end)):
                raise RuntimeError(f"[CONCURRENT_STREAM_LOG_UPDATE] somebody else has begun batch {batch}")
        clock.sleep(BATCH_SECONDS * self._world.chance.random())
        written = self._count(batch)
        self._sink.write(batch, written)
        self._world.note(f"  {self._process.name}: batch {batch}: {written}")
        self._commit(batch)

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
        return Written(start, end, count, self._deployment)

    def _end_of(self, batch: int) -> int:
        if batch < 0:
            return 0
        entry = self._checkpoint.folder.read(f"offsets/{batch}")
        assert entry is not None, f"{self._deployment}: the offsets of batch {batch} are gone"
        return int(entry.rpartition(b"\n")[2])

    def used_beyond(self, parent: str) -> bool:
        logged = Checkpoint(self._registry.checkpoint(parent, QUERY)).logged_batch()
        return self._sink.skips and self._sink.last > (-1 if logged is None else logged)

    def go_on_after_others(self) -> Mapping[str, tuple[int, int]]:
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

    def progress(self) -> dict[str, QueryStatus]:
        found = super().progress()
        return {name: attrs.evolve(status, figures=status.figures[-1:]) for name, status in found.items()}

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
