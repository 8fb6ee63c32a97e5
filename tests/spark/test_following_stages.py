"""Every kind of stage is followed while the old version goes on, and gives every row once, by the right batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd
import pytest
from bench import HDFS, ROCKSDB, Bench, row, stage
from followed_pair import counts, minutes, running_pair, updated, values, wait_for
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from test_stages import (
    LEFT,
    LEFT_LATER,
    RIGHT,
    RIGHT_LATER,
    counting,
    join,
    joined,
    repeats,
    running,
    sessions,
    sessions_of,
    without_end,
)

from tests.cases import one_is_fast


def windows(bench: Bench):
    rows = bench.source().withWatermark("ts", "1 minute")
    counted = stage("windows", rows.groupBy(F.window("ts", "2 minutes"), "k").agg(F.count("*").alias("n")))
    return counted.select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n")


@pytest.mark.parametrize(
    "store", [(HDFS,), *(pytest.param(s, marks=pytest.mark.slow) for s in ((ROCKSDB, True), (ROCKSDB, True, 2)))]
)
def test_aggregations(spark, tmp_path, store) -> None:
    bench = Bench(spark, tmp_path, *store)
    with running_pair(bench, counts) as pair:
        updated(pair, minutes(0, 1), minutes(2, 3, 4, keys="abc"), minutes(5, 6))
        assert pair.last("k") == {(r["k"],): r for r in bench.batch(counts)}


@pytest.mark.parametrize("store", [(ROCKSDB,), pytest.param((HDFS,), marks=pytest.mark.slow)])
def test_windows_in_append_mode_with_batches_without_data(spark, tmp_path, store) -> None:
    bench = Bench(spark, tmp_path, *store)
    with running_pair(bench, windows, mode="append") as pair:
        updated(pair, minutes(0, 1), minutes(3, 6, 7), minutes(9, 12, 15))
        right = Counter({tuple(r.values()): 1 for r in bench.batch(windows) if r["start"] < "00:14"})
        assert values(pair.all()) == right


def test_deduplications(spark, tmp_path) -> None:
    def once(bench: Bench):
        return stage("once", bench.source().dropDuplicates(["k"])).select("k", "a")

    with running_pair(Bench(spark, tmp_path), once, mode="append") as pair:
        meanwhile = [[row("c", 3), row("a", 4)], [row("d", 5), row("c", 6)]]
        updated(pair, [[row("a", 1), row("b", 2)]], meanwhile, [[row("d", 7), row("e", 8), row("a", 9)]])
        assert values(pair.all()) == Counter([("a", 1), ("b", 2), ("c", 3), ("d", 5), ("e", 8)])


def test_an_aggregate_of_a_deduplication_s_keys(bench: Bench) -> None:
    """It was refused. Which of the rows that differ in `b` comes first does not matter."""

    def sums(bench: Bench):
        once = stage("once", bench.source().dropDuplicates(["k", "a"]))
        return stage("sums", once.groupBy("k").agg(F.sum("a").alias("s"), F.count("*").alias("n")))

    with running_pair(bench, sums) as pair:
        first = [[row("a", 1, b=1), row("a", 1, b=2), row("b", 2, b=3)]]
        meanwhile = [[row("a", 1, b=4), row("a", 5, b=5)], [row("c", 6, b=6), row("c", 6, b=7), row("b", 2, b=8)]]
        updated(pair, first, meanwhile, [[row("a", 5, b=9), row("c", 7, b=1), row("b", 9, b=1)]])
        assert pair.last("k") == {(r["k"],): r for r in bench.batch(sums)}


def test_deduplications_within_the_watermark(spark, tmp_path) -> None:
    meanwhile = [[row("a", 3, minute=5)], [row("c", 4, minute=40)], [row("d", 5, minute=41)]]
    with running_pair(Bench(spark, tmp_path), repeats, mode="append") as pair:
        updated(pair, [[row("a", 1, minute=1)], [row("b", 2, minute=2)]], meanwhile, [[row("a", 6, minute=42)]])
        assert values(pair.all()) == Counter([("a", 1), ("b", 2), ("c", 4), ("d", 5), ("a", 6)])


def test_session_windows(spark, tmp_path) -> None:
    first = [[row("a", 1, minute=1), row("b", 2, minute=3)]]
    meanwhile = [[row("a", 3, minute=4)], [row("b", 5, minute=20)], [row("a", 1, minute=40)]]
    after = [[row("a", 4, minute=43)], [row("end", 0, minute=900)], [row("end", 0, minute=901)]]
    with running_pair(Bench(spark, tmp_path), sessions, mode="append") as pair:
        updated(pair, first, meanwhile, after)
        rows = [r for f in first + meanwhile + after for r in f if r["k"] != "end"]
        assert values(pair.all()) == sessions_of(rows)


@pytest.mark.parametrize("kind", one_is_fast(["left_outer", "inner"]))
def test_joins_of_streams(bench: Bench, kind: str) -> None:
    end = [([row("end", 0, minute=at)], side) for at in (900, 901) for side in ("left", "right")]
    meanwhile = [(LEFT_LATER, "left"), (RIGHT_LATER[:1], "right")]
    with running_pair(bench, join(kind), mode="append") as pair:
        sides = ({"joinSide": "left"}, {"joinSide": "right"})
        updated(pair, [(LEFT, "left"), (RIGHT, "right")], meanwhile, [(RIGHT_LATER[1:], "right"), *end], states=sides)
        assert without_end(values(pair.all())) == joined(kind, LEFT + LEFT_LATER, RIGHT + RIGHT_LATER)


def test_a_limit(spark, tmp_path) -> None:
    def first(bench: Bench):
        return stage("first", bench.source().limit(4)).select("k", "a")

    with running_pair(Bench(spark, tmp_path), first, mode="append") as pair:
        updated(pair, [[row("a", 1)]], [[row("b", 2)], [row("c", 3)]], [[row("d", 4)], [row("e", 5)]])
        assert values(pair.all()) == Counter([("a", 1), ("b", 2), ("c", 3), ("d", 4)])


def test_two_stages_one_above_the_other(spark, tmp_path) -> None:
    def both(bench: Bench):
        counted = windows(bench)
        return stage("once", counted.dropDuplicates(["k", "n"])).select("k", "n")

    with running_pair(Bench(spark, tmp_path), both, mode="append") as pair:
        ids = ({"operatorId": "0"}, {"operatorId": "1"})
        updated(pair, minutes(0, 1), minutes(3, 6, 7, 9), minutes(12, 13, 16, 19), states=ids)
        # (k, n) of the windows that have closed: 2 rows in [0, 2), [6, 8) and [12, 14), else 1
        assert values(pair.all()) == Counter([(k, n) for k in "ab" for n in (1, 2)])


def test_a_state_function_without_timeouts(spark, tmp_path) -> None:
    first, meanwhile = [[row("a", 1), row("b", 2)]], [[row("a", 3)], [row("b", 4), row("c", 5)]]
    after = [[row("a", 6)], [row("c", 7), row("d", 8)]]
    with running_pair(Bench(spark, tmp_path), counting, mode="append") as pair:
        updated(pair, first, meanwhile, after)
        assert values(pair.all()) == running(first + meanwhile + after)


def told_when_quiet(key, frames, state) -> Iterator[pd.DataFrame]:
    """How many rows a key had, and by which time, once nothing has come for half a second of processing time."""
    if state.hasTimedOut:
        (n,) = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [n]})
    else:
        n = state.get[0] if state.exists else 0
        state.update((n + sum(len(frame) for frame in frames),))
        state.setTimeoutDuration(500)


def quiet(bench: Bench):
    grouped = bench.source().groupBy("k")
    made = grouped.applyInPandasWithState(
        told_when_quiet, "k string, n long", "n long", "append", "ProcessingTimeTimeout"
    )
    return stage("quiet", made).select("k", F.abs("n").alias("n"))


def test_timeouts_of_processing_time(spark, tmp_path) -> None:
    """Each row is in one of the counts, whichever version has told it."""
    first, meanwhile = [[row("a", 1), row("b", 2)]], [[row("a", 3)], [row("b", 4), row("c", 5)]]
    after = [[row("a", 6)], [row("c", 7), row("d", 8)]]
    with running_pair(Bench(spark, tmp_path), quiet, mode="append", trigger="1 second") as pair:
        updated(pair, first, meanwhile, after, clock=True)
        expected = Counter(r["k"] for f in first + meanwhile + after for r in f)

        def told() -> Counter:
            found: Counter = Counter()
            for r in [r for part in (pair.before, pair.bench.emitted) for rows in part.values() for r in rows]:
                found[r["k"]] += r["n"]
            return found

        wait_for(lambda: told().total() >= expected.total(), "all timeouts", 30)
        assert told() == expected
        assert pair.bench.emitted and pair.before


class Timed(StatefulProcessor):
    """A count that is told and forgotten by a timer of processing time, and a value that expires."""

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.recent = handle.getValueState("recent", "n long", ttlDurationMs=3_600_000)

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        n = self.count.get()[0] if self.count.exists() else 0
        if n == 0:
            self.handle.registerTimer(timers.getCurrentProcessingTimeInMs() + 400)
        self.count.update((n + len(list(rows)),))
        self.recent.update((timers.getCurrentProcessingTimeInMs(),))
        yield from ()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        n = self.count.get()[0]
        self.count.clear()
        yield Row(k=key[0], n=n)

    def close(self) -> None:
        pass


class TimedInPandas(Timed):
    """The same, in frames."""

    def handleInputRows(self, key, rows, timers) -> Iterator[pd.DataFrame]:
        for _ in super().handleInputRows(key, [n for frame in rows for n in range(len(frame))], timers):
            yield pd.DataFrame()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[pd.DataFrame]:
        for told in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield pd.DataFrame([told.asDict()])


def timed_in_pandas(bench: Bench):
    grouped, schema = bench.source().groupBy("k"), "k string, n long"
    return stage("timed", grouped.transformWithStateInPandas(TimedInPandas(), schema, "Append", "ProcessingTime"))


def timed(bench: Bench):
    made = bench.source().groupBy("k").transformWithState(Timed(), "k string, n long", "Append", "ProcessingTime")
    return stage("timed", made)


@pytest.mark.slow  # 40 s
@pytest.mark.parametrize(
    ("version", "store"), [(timed, (ROCKSDB,)), (timed, (ROCKSDB, True)), (timed_in_pandas, (ROCKSDB,))]
)
def test_timers_of_processing_time_and_values_that_expire(spark, tmp_path, version, store) -> None:
    """The times in the state are those of the old version's batches."""
    first, meanwhile = [[row("a", 1), row("b", 2)]], [[row("a", 3)], [row("b", 4), row("c", 5)]]
    after = [[row("a", 6)], [row("c", 7), row("d", 8)]]
    with running_pair(Bench(spark, tmp_path, *store), version, mode="append", trigger="1 second") as pair:
        recent = {"stateVarName": "recent"}
        updated(pair, first, meanwhile, after, clock=True, states=(recent, {"stateVarName": "count"}))
        expected = Counter(r["k"] for f in first + meanwhile + after for r in f)

        def told() -> Counter:
            found: Counter = Counter()
            for r in [r for part in (pair.before, pair.bench.emitted) for rows in part.values() for r in rows]:
                found[r["k"]] += int(r["n"])
            return found

        wait_for(lambda: told().total() >= expected.total(), "all timers", 30)
        assert told() == expected
