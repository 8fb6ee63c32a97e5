"""A fork goes on beside the app its state is from: both answers are right, against an oracle in plain Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import HDFS, ROCKSDB, Bench, feed, once_and_totals, row, totals, totals_of

from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

FIRST = [[row("a", 1), row("b", 2), row("a", 3)], [row("c", 4), row("a", 5)]]
SECOND = [[row("a", 10), row("d", 20)], [row("b", 30), row("a", 10)]]
AGREE = ("q:fork",)


class Fork(Bench):
    """Another app on the same input, from the snapshots of the first one."""

    def __init__(self, original: Bench, provider: str) -> None:
        super().__init__(original.spark, original.folder, provider)
        self.original = original
        self.registry = Registry(str(original.folder / "root")).app("fork")

    def saved(self, snapshot: str) -> SavedState:
        return SavedState.find(self.original.registry, f"snapshot:{snapshot}").forked(self.original.registry)


STORES = [pytest.param(ROCKSDB, id="rocksdb"), pytest.param(HDFS, id="hdfs", marks=pytest.mark.slow)]


@pytest.mark.parametrize("provider", STORES)
def test_a_fork_and_its_original_go_on_side_by_side(spark, tmp_path: Path, provider: str) -> None:
    bench = Bench(spark, tmp_path, provider)
    first = [r for rows in FIRST for r in rows]
    feed(bench, FIRST)
    snapshot = bench.run(totals)
    feed(bench, SECOND)
    second = [r for rows in SECOND for r in rows]
    fork = Fork(bench, provider)
    report = fork.check(snapshot, once_and_totals)
    assert [(i.name, i.rules) for i in report.items if i.blocks] == [("q:fork", ("fork.function",))]
    fork.emitted = dict(bench.emitted)  # what was there when it was forked
    fork.run(once_and_totals, snapshot=snapshot, agree=AGREE)
    bench.run(totals, snapshot=snapshot)

    assert bench.last("k") == totals_of(first + second)
    assert fork.last("k") == totals_of(first + second[:-1]), "its new deduplication drops the last row"
    assert sorted(bench.emitted) == sorted(fork.emitted) == [0, 1, 2, 3]
    ids = [SnapshotStore(r).get(s).queries["q"].query_id for r, s in ((bench.registry, "s2"), (fork.registry, "s1"))]
    assert ids[0] == SnapshotStore(bench.registry).get(snapshot).queries["q"].query_id != ids[1]
    for registry, deployment, query_id in ((bench.registry, "d2", ids[0]), (fork.registry, "d1", ids[1])):
        assert json.loads(registry.checkpoint(deployment, "q").read("metadata"))["id"] == query_id
    assert SnapshotStore(bench.registry).verify(snapshot), "the forked snapshot is as it was"
    # The fork is an app like any other: from its own snapshot it goes on under its own query id.
    fork.saved = lambda name: SavedState.find(fork.registry, f"snapshot:{name}")  # type: ignore[method-assign]
    bench.write([row("a", 7)])
    fork.run(once_and_totals, snapshot="s1")
    assert fork.last("k") == totals_of([*first, *second[:-1], row("a", 7)])
    assert SnapshotStore(fork.registry).get("s2").queries["q"].query_id == ids[1]
