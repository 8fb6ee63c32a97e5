"""A driver that died during a batch: who follows it takes over. The batch is written once, and its state is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from bench import Bench, deploy, row, stage
from followed_pair import wait_for
from pyspark.sql import functions as F
from test_skipped_batch import STORES, VALIDATION, once, written

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.streaming.engine.followers import Followers
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState


class Taken:
    """Of a deployment `d1` that has ended as if it had been killed between its sink's commit and Spark's own: one that
    followed it, with what it has taken over."""

    def __init__(self, bench: Bench, build: Callable) -> None:
        bench.run(build, "append")
        self.bench, self.registry = bench, bench.registry
        there = bench.registry.checkpoint("d1", "q")
        self.in_flight = max(int(n) for n in there.names("commits"))
        there.remove(f"commits/{self.in_flight}")
        deploy(self.registry, "d2", 59)
        self.own = Checkpoint(self.registry.checkpoint("d2", "q"))
        self.build = build

    def take_over(self, committed: bool = True) -> tuple[RunningQueries, bool]:
        """The queries, and whether theirs was restored from what the other one has left. committed: batches were
        followed only once they had committed"""
        bench, registry = self.bench, self.registry
        plan, writers = bench.plan(self.build, "append")
        followers = Followers(bench.spark, plan, writers, registry, "d2", {}, committed)
        followers.begin(lambda: SavedState.find(registry, "deployment:d1", 1))
        last = self.in_flight - committed
        wait_for(lambda: followers.keep_up() and self.own.committed_batch() == last)
        followed = followers.queries()
        saved = SavedState.find(registry, "drained:d1", without=followed)
        assert saved.queries["q"].in_flight == self.in_flight and followed == frozenset("q")
        if doubtful := followers.queries_with_unclear_commit(saved):
            saved = SavedState.find(registry, "drained:d1", without=followed - doubtful)
        followers.catch_up(saved)
        restored = not followers.queries()
        restore_app(saved, plan, writers, registry, "d2")
        queries = RunningQueries(bench.spark, writers, {"q": self.own.folder}, plan)
        followers.take_over(queries)
        queries.start()
        return queries, restored


def windows(bench: Bench):
    rows = bench.source().withWatermark("ts", "0 minutes").groupBy(F.window("ts", "10 minutes"), "k")
    return stage("windows", rows.agg(F.count("*").alias("n"))).select("k", "n")


class LikeATable:
    """A sink that skips a batch which it has, without computing it, and of which only it knows which: as Delta's."""

    def __init__(self, *has: int) -> None:
        self.has, self.rows = set(has), Counter()

    def __call__(self, writer):
        def write(batch, number: int) -> None:
            if number not in self.has:
                self.rows += Counter(r["k"] for r in batch.collect())
                self.has.add(number)

        return writer.foreachBatch(write)


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("store", STORES)
def test_a_sink_that_may_have_the_batch(spark, tmp_path, store: tuple, has: bool) -> None:
    """Found from outside: a sink of which that is unknown skipped it, its state was missing, and no driver of the app
    could run any more."""
    spark.conf.set(VALIDATION, "false")
    bench = Bench(spark, tmp_path, *store)
    sink = LikeATable()
    bench.sink, bench.sink_seen_batch = sink, "skips"
    for rows in ([row("a", 1)], [row("b", 1), row("a", 2)], [row("c", 1), row("a", 3)]):
        bench.write(rows)
    taken = Taken(bench, once)
    if not has:
        sink.has.discard(taken.in_flight)
        sink.rows -= Counter("c")
    queries, restored = taken.take_over()
    try:
        assert restored
        bench.write([row("c", 5), row("d", 1)])
        bench.write([row("b", 5), row("e", 1)])
        wait_for(lambda: queries.ended() or taken.own.committed_batch() >= taken.in_flight + 2)
        assert sink.rows == Counter("abcde")
    finally:
        queries.stop()


def test_a_batch_that_was_followed_before_its_driver_died_in_it(bench: Bench, spark) -> None:
    """Its rows went nowhere here, and perhaps there: it is run again, from the state before it."""
    spark.conf.set(VALIDATION, "false")
    for rows in ([row("a", 1)], [row("b", 1), row("a", 2)], [row("c", 1), row("a", 3)]):
        bench.write(rows)
    taken = Taken(bench, once)
    in_flight = bench.emitted.pop(taken.in_flight)
    assert [r["k"] for r in in_flight] == ["c"]
    queries, restored = taken.take_over(committed=False)
    try:
        assert restored
        bench.write([row("c", 5), row("d", 1)])
        wait_for(lambda: queries.ended() or taken.own.committed_batch() >= taken.in_flight + 1)
        assert bench.emitted[taken.in_flight] == in_flight
        assert Counter(r["k"] for rows in bench.emitted.values() for r in rows) == Counter("abcd")
    finally:
        queries.stop()


def test_a_sink_that_cannot_have_the_batch_whose_state_is_not_whole(bench: Bench, spark) -> None:
    spark.conf.set(VALIDATION, "false")
    sink = LikeATable()
    bench.sink, bench.sink_seen_batch = sink, "skips"
    for rows in ([row("a", 1)], [row("b", 1)], [row("c", 1)]):
        bench.write(rows)
    taken = Taken(bench, once)
    sink.has.discard(taken.in_flight)
    sink.rows -= Counter("c")
    state = bench.registry.checkpoint("d1", "q")
    gone = [p for p in state.files("state") if p.rsplit("/", 1)[1].split(".")[0] == str(taken.in_flight + 1)]
    assert gone
    for path in gone[:1]:
        state.remove(f"state/{path}")
    queries, restored = taken.take_over()
    try:
        assert not restored, "it goes on with what it has followed"
        bench.write([row("c", 5), row("d", 1)])
        wait_for(lambda: queries.ended() or taken.own.committed_batch() > taken.in_flight)
        assert sink.rows == Counter("abcd")
    finally:
        queries.stop()


def test_the_watermark_of_a_batch_that_is_in_the_sink(bench: Bench, spark, tmp_path) -> None:
    """Found from outside: the watermark went back by a batch, so that windows which had ended were not written until
    more input came, and late rows counted."""
    bench.sink = lambda writer: writer.format("json").option("path", str(tmp_path / "out"))
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    for minute in (0, 1, 30):
        bench.write([row("abc"[min(minute, 2)], minute, minute=minute)])
    taken = Taken(bench, windows)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    queries, restored = taken.take_over()
    try:
        assert not restored
        wait_for(lambda: queries.ended() or taken.own.committed_batch() > taken.in_flight)
        assert written(bench) == Counter("ab")
        bench.write([row("z", 1, minute=2), row("y", 1, minute=60)])
        wait_for(lambda: queries.ended() or written(bench) == Counter("abc"))
    finally:
        queries.stop()
