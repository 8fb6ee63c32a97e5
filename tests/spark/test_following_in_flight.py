"""A driver that died during a batch: who follows it takes over. The batch is written once, and its state is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from bench import Bench, by, deploy, feed, once, row
from followed_pair import wait_for
from test_skipped_batch import ONCE_ROWS, STORES, VALIDATION, written

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.streaming.engine.followers import Followers
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState


class Taken:
    """What follows a deployment `d1` that ended as if killed between its sink's commit and Spark's own."""

    def __init__(self, bench: Bench, build: Callable) -> None:
        bench.run(build, "append")
        self.bench, self.registry = bench, bench.registry
        there = bench.registry.checkpoint("d1", "q")
        self.in_flight = max(int(n) for n in there.names("commits"))
        there.remove(f"commits/{self.in_flight}")
        deploy(self.registry, "d2", 59)
        self.own = Checkpoint(self.registry.checkpoint("d2", "q"))
        self.build = build

    def reads_on(self, *batches: list[dict], done: Callable[[], object] | None = None) -> None:
        """Until it has committed them, after the batch in flight."""
        for rows in batches:
            self.bench.write(rows)
        last = self.in_flight + len(batches)
        wait_for(lambda: self.queries.ended() or (done() if done else self.own.committed_batch() >= last))

    @contextmanager
    def going_on(self, restored: bool, committed: bool = True) -> Iterator[None]:
        """It has taken over. restored: not going on with what it has followed."""
        self.queries, found = self.take_over(committed)
        try:
            assert found == restored
            yield
        finally:
            self.queries.stop()

    def take_over(self, committed: bool = True) -> tuple[RunningQueries, bool]:
        """The queries, and whether theirs was restored; committed: batches were followed once committed only."""
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
    return by("window(ts, '10 minutes'); k", name="windows", delay="0 minutes")(bench).select("k", "n")


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
    feed(bench, ONCE_ROWS)
    taken = Taken(bench, once)
    if not has:
        sink.has.discard(taken.in_flight)
        sink.rows -= Counter("c")
    with taken.going_on(restored=True):
        taken.reads_on([row("c", 5), row("d", 1)], [row("b", 5), row("e", 1)])
        assert sink.rows == Counter("abcde")


def test_a_batch_that_was_followed_before_its_driver_died_in_it(bench: Bench, spark) -> None:
    """Its rows went nowhere here, and perhaps there: it is run again, from the state before it."""
    spark.conf.set(VALIDATION, "false")
    feed(bench, ONCE_ROWS)
    taken = Taken(bench, once)
    in_flight = bench.emitted.pop(taken.in_flight)
    assert [r["k"] for r in in_flight] == ["c"]
    with taken.going_on(restored=True, committed=False):
        taken.reads_on([row("c", 5), row("d", 1)])
        assert bench.emitted[taken.in_flight] == in_flight
        assert Counter(r["k"] for rows in bench.emitted.values() for r in rows) == Counter("abcd")


def test_a_sink_that_cannot_have_the_batch_whose_state_is_not_whole(bench: Bench, spark) -> None:
    spark.conf.set(VALIDATION, "false")
    sink = LikeATable()
    bench.sink, bench.sink_seen_batch = sink, "skips"
    feed(bench, ([row("a", 1)], [row("b", 1)], [row("c", 1)]))
    taken = Taken(bench, once)
    sink.has.discard(taken.in_flight)
    sink.rows -= Counter("c")
    state = bench.registry.checkpoint("d1", "q")
    gone = [p for p in state.files("state") if p.rsplit("/", 1)[1].split(".")[0] == str(taken.in_flight + 1)]
    assert gone
    for path in gone[:1]:
        state.remove(f"state/{path}")
    with taken.going_on(restored=False):
        taken.reads_on([row("c", 5), row("d", 1)])
        assert sink.rows == Counter("abcd")


def test_the_watermark_of_a_batch_that_is_in_the_sink(bench: Bench, spark, tmp_path) -> None:
    """Found from outside: the watermark went back by a batch, so that windows which had ended were not written until
    more input came, and late rows counted."""
    bench.to_files()
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    for minute in (0, 1, 30):
        bench.write([row("abc"[min(minute, 2)], minute, minute=minute)])
    taken = Taken(bench, windows)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    with taken.going_on(restored=False):
        taken.reads_on(done=lambda: taken.own.committed_batch() > taken.in_flight)
        assert written(bench) == Counter("ab")
        late = [row("z", 1, minute=2), row("y", 1, minute=60)]
        taken.reads_on(late, done=lambda: written(bench) == Counter("abc"))
