"""Checkpoint format v2: ids in the state files' names, named by the commit log. What every store is tested for, the
other files here do with this format, too."""

from __future__ import annotations

import re

import pytest
from bench import ROCKSDB, Bench, feed, once_and_totals, row, totals, totals_of

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    """With changelogs, and zips made of them early: at every third version, by the maintenance thread."""
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "3")
    return Bench(spark, tmp_path, ROCKSDB, True, 2)


def state_files(bench: Bench, snapshot: str) -> list[str]:
    files = SnapshotStore(bench.registry).get(snapshot).queries["q"].files
    return [f.path for f in files if re.search(r"state/\d+/\d+/\d", f.path) and not f.path.endswith(".crc")]


def test_a_lineage_goes_on_over_restores(bench: Bench) -> None:
    """The second snapshot's changelogs build on files from before the first."""
    rows = feed(bench, [[row("a", n), row("b", n)] for n in range(2)])
    first = bench.run(totals)
    assert len(state_files(bench, first)) == 4  # two partitions, two changelogs
    more = [[row("a", 10), row("c", 11)], [row("a", 12)]]
    rows += feed(bench, more)
    second = bench.run(once_and_totals, snapshot=first)
    assert bench.last("k") == totals_of(rows)
    assert bench.spark_check(second, once_and_totals).compatible
    rows += feed(bench, [[row("b", 13), row("d", 14)]])
    bench.run(totals, snapshot=second, agree=("q/once",))
    assert bench.last("k") == totals_of(rows)
    assert set(Checkpoint(bench.registry.checkpoint("d3", "q")).commit(4).state_ids or {}) == {0}


def test_a_snapshot_of_a_running_query(bench: Bench) -> None:
    """It is taken in the sink of batch 4: the state of that batch is written, but nothing says yet that it counts."""

    class Emitted(dict):
        def __setitem__(self, batch: int, rows: list[dict]) -> None:
            super().__setitem__(batch, rows)
            if batch == 4:
                export(bench.registry, "d1", "live", bench.registry.plan("d1"), False, {})

    rows = feed(bench, [[row("a", n), row("b", n), row("c", n)] for n in range(6)])
    bench.emitted = Emitted()
    bench.run(once_and_totals)
    query = SnapshotStore(bench.registry).get("live").queries["q"]
    assert (query.batch, query.in_flight, query.state_format) == (3, None, 2)
    written = bench.registry.checkpoint("d1", "q").names("state/0/0")
    assert any(name.startswith("5_") for name in written)
    assert not any("/5_" in path for path in state_files(bench, "live"))
    bench.emitted = {batch: bench.emitted[batch] for batch in range(4)}
    rows += feed(bench, [[row("a", 20), row("d", 21)]])
    bench.unread = 7
    bench.run(once_and_totals, snapshot="live")
    assert bench.last("k") == totals_of(rows)
    assert sorted(bench.emitted) == list(range(7))
