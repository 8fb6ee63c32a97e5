"""Every kind of stage is followed while the old version goes on, and gives every row once, by the right batch."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, ROCKSDB, Bench, by, distinct, once, row, stage
from followed_pair import check_followed, counts, minutes, running_pair, updated, values, wait_for
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from test_stages import (
    END,
    LEFT,
    LEFT_LATER,
    RIGHT,
    RIGHT_LATER,
    counting,
    flat,
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
    counted = by("window(ts, '2 minutes'); k", name="windows", delay="1 minute")(bench)
    return counted.select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n")


@pytest.mark.parametrize("store", one_is_fast(map(pytest.param, [(HDFS,), (ROCKSDB, True), (ROCKSDB, True, 2)])))
def test_aggregations(spark, tmp_path, store) -> None:
    bench = Bench(spark, tmp_path, *store)
    with running_pair(bench, counts) as pair:
        updated(pair, minutes(0, 1), minutes(2, 3, 4, keys="abc"), minutes(5, 6))
        pair.right(counts)


@pytest.mark.parametrize("store", one_is_fast(map(pytest.param, [(ROCKSDB,), (HDFS,), (ROCKSDB, True, 2)])))
def test_windows_in_append_mode_with_batches_without_data(spark, tmp_path, store) -> None:
    bench = Bench(spark, tmp_path, *store)
    with running_pair(bench, windows, mode="append") as pair:
        updated(pair, minutes(0, 1), minutes(3, 6, 7), minutes(9, 12, 15))
        right = Counter({tuple(r.values()): 1 for r in bench.batch(windows) if r["start"] < "00:14"})
        assert values(pair.all()) == right


def test_an_aggregate_of_a_deduplication_s_keys(bench: Bench) -> None:
    """It was refused. Which of the rows that differ in `b` comes first does not matter."""

    def sums(bench: Bench):
        rows = distinct("k", "a")(bench)
        return stage("sums", rows.groupBy("k").agg(F.sum("a").alias("s"), F.count("*").alias("n")))

    with running_pair(bench, sums) as pair:
        first = [[row("a", 1, b=1), row("a", 1, b=2), row("b", 2, b=3)]]
        meanwhile = [[row("a", 1, b=4), row("a", 5, b=5)], [row("c", 6, b=6), row("c", 6, b=7), row("b", 2, b=8)]]
        updated(pair, first, meanwhile, [[row("a", 5, b=9), row("c", 7, b=1), row("b", 9, b=1)]])
        pair.right(sums)


def limit(bench: Bench):
    return stage("first", bench.source().limit(4)).select("k", "a")


def two_stages(bench: Bench):
    return stage("twice", windows(bench).dropDuplicates(["k", "n"])).select("k", "n")


def files(*keys: str, minutes: tuple[int, ...] = ()) -> list[list[dict]]:
    """A file for each text of keys; `a` numbers the rows."""
    numbers, at = itertools.count(1), iter(minutes or [0] * sum(map(len, keys)))
    return [[row(k, next(numbers), minute=next(at)) for k in each] for each in keys]


def parted(made: list[list[dict]], first: int, meanwhile: int) -> tuple:
    return made[:first], made[first : first + meanwhile], made[first + meanwhile :]


FUNCTION = files("ab", "a", "bc", "a", "cd")
SESSIONS = [[row("a", 1, minute=1), row("b", 2, minute=3)], [row("a", 3, minute=4)], [row("b", 5, minute=20)],
            [row("a", 1, minute=40)], [row("a", 4, minute=43)]]  # fmt: skip
ONE_EACH: tuple[dict, ...] = ({},)
# The version; files that come before it follows, while it does, and after it has taken over; the rows that are written.
SAME: dict[str, tuple] = {
    "deduplications": (once, parted(files("ab", "ca", "dc", "dea"), 1, 2), "a1 b2 c3 d5 e8", ONE_EACH),
    "deduplications within the watermark": (
        repeats, parted(files(*"abacda", minutes=(1, 2, 5, 40, 41, 42)), 2, 3), "a1 b2 c4 d5 a6", ONE_EACH),
    "a limit": (limit, parted(files(*"abcde"), 1, 2), "a1 b2 c3 d4", ONE_EACH),
    "a state function without timeouts": (counting, parted(FUNCTION, 1, 2), running(FUNCTION), ONE_EACH),
    "session windows": (sessions, parted([*SESSIONS, *END], 1, 3), sessions_of(flat(SESSIONS)), ONE_EACH),
    # (k, n) of the windows that have closed: 2 rows in [0, 2), [6, 8) and [12, 14), else 1
    "two stages one above the other": (
        two_stages, (minutes(0, 1), minutes(3, 6, 7, 9), minutes(12, 13, 16, 19)), "a1 b1 a2 b2",
        ({"operatorId": "0"}, {"operatorId": "1"})),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_stage_gives_every_row_once(spark, tmp_path, name: str) -> None:
    version, parts, expected, states = SAME[name]
    wanted = Counter((k[0], int(k[1])) for k in expected.split()) if isinstance(expected, str) else expected
    check_followed(Bench(spark, tmp_path), version, version, *parts, expected=wanted, states=states)


@pytest.mark.parametrize("kind", one_is_fast(["left_outer", "inner"]))
def test_joins_of_streams(bench: Bench, kind: str) -> None:
    end = [([row("end", 0, minute=at)], side) for at in (900, 901) for side in ("left", "right")]
    meanwhile = [(LEFT_LATER, "left"), (RIGHT_LATER[:1], "right")]
    with running_pair(bench, join(kind), mode="append") as pair:
        sides = ({"joinSide": "left"}, {"joinSide": "right"})
        updated(pair, [(LEFT, "left"), (RIGHT, "right")], meanwhile, [(RIGHT_LATER[1:], "right"), *end], states=sides)
        assert without_end(values(pair.all())) == joined(kind, LEFT + LEFT_LATER, RIGHT + RIGHT_LATER)


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


SCHEMA = "k string, n long"


def quiet(bench: Bench):
    grouped, timeout = bench.source().groupBy("k"), "ProcessingTimeTimeout"
    made = grouped.applyInPandasWithState(told_when_quiet, SCHEMA, "n long", "append", timeout)
    return stage("quiet", made).select("k", F.abs("n").alias("n"))


def check_all_are_told(spark, folder, version: Callable, store: tuple, states: tuple) -> None:
    """Each row is in one of the counts, whichever version has told it."""
    with running_pair(Bench(spark, folder, *store), version, mode="append", trigger="1 second") as pair:
        updated(pair, *parted(FUNCTION, 1, 2), clock=True, states=states)
        expected = Counter(r["k"] for file in FUNCTION for r in file)

        def told() -> Counter:
            found: Counter = Counter()
            for r in [r for part in (pair.before, pair.bench.emitted) for rows in part.values() for r in rows]:
                found[r["k"]] += int(r["n"])
            return found

        wait_for(lambda: told().total() >= expected.total(), "all timeouts", 30)
        assert told() == expected
        assert pair.bench.emitted and pair.before


def test_timeouts_of_processing_time(spark, tmp_path) -> None:
    check_all_are_told(spark, tmp_path, quiet, (), ({},))


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


def timed(processor: type[Timed], method: str) -> Callable:
    def build(bench: Bench):
        return stage(
            "timed", getattr(bench.source().groupBy("k"), method)(processor(), SCHEMA, "Append", "ProcessingTime")
        )

    return build


ROWS, FRAMES = timed(Timed, "transformWithState"), timed(TimedInPandas, "transformWithStateInPandas")


@pytest.mark.slow  # 40 s
@pytest.mark.parametrize(("version", "store"), [(ROWS, (ROCKSDB,)), (ROWS, (ROCKSDB, True)), (FRAMES, (ROCKSDB,))])
def test_timers_of_processing_time_and_values_that_expire(spark, tmp_path, version, store) -> None:
    """The times in the state are those of the old version's batches."""
    check_all_are_told(spark, tmp_path, version, store, ({"stateVarName": "recent"}, {"stateVarName": "count"}))
