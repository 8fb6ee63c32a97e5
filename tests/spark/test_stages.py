"""Every kind of stage, carried by name under another operator id, and started empty: against oracles in plain Python.

In each carry test version 2 puts a new deduplication below (nearer to the sink), which takes operator id 0 and changes
nothing about the answer: every row is emitted once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pandas as pd
import pytest
from bench import JOIN_FORMAT, STORES, Bench, feed, row, set_join_format
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.streaming import stage
from tests.cases import one_is_fast


def slow(*values: object):
    """One more combination of what the others cover: for `make test-slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def make(spark, tmp_path) -> Callable[[str], Bench]:
    return lambda store: Bench(spark, tmp_path, *STORES[store])


def below(build: Callable) -> Callable:
    """The same with a stage more, nearest to the sink."""
    return lambda bench: stage("once", build(bench).dropDuplicates())


def passed_on(*columns: str) -> Callable:
    """A version without any state."""
    return lambda bench: bench.source().select(*columns)


def updated(bench: Bench, old: Callable, new: Callable, first: list, second: list) -> Counter:
    """Version 1 reads `first`, version 2 `second`; all that was emitted."""
    feed(bench, first)
    snapshot = bench.run(old, "append")
    feed(bench, second)
    bench.run(new, "append", snapshot=snapshot)
    return emitted(bench)


def carried(bench: Bench, build: Callable, first: list, second: list) -> Counter:
    """Version 2 has one stage more."""
    found = updated(bench, build, below(build), first, second)
    [before] = bench.registry.plan("d1").query("q").stages
    after = bench.registry.plan("d2").query("q").stage(before.name)
    assert (before.operator_id, after.operator_id) == (0, 1)
    return found


def started_empty(bench: Bench, build: Callable, first: list, second: list) -> Counter:
    """Version 1 has no state; what version 2 emitted."""
    updated(bench, passed_on("k"), build, first, second)
    passed = Counter((r["k"],) for rows in first for r in rows)
    return emitted(bench) - passed


def emitted(bench: Bench) -> Counter:
    return Counter(tuple(r.values()) for r in bench.all())


def minute_of(r: dict) -> int:
    return int(r["ts"][11:13]) * 60 + int(r["ts"][14:16])


END = [[row("end", 0, minute=900)], [row("end", 0, minute=901)]]  # everything before is closed by then


def sessions(bench: Bench):
    window = F.session_window("ts", "5 minutes")
    counted = stage("visits", bench.late().groupBy(window, "k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))
    return counted.select("k", F.date_format("session_window.start", "HH:mm").alias("start"), "n", "s")


def sessions_of(rows: list[dict], gap: int = 5) -> Counter:
    found: Counter = Counter()
    by_key: dict[str, list[dict]] = defaultdict(list)
    for r in rows:
        by_key[r["k"]].append(r)
    for key, mine in by_key.items():
        runs: list[list[dict]] = []
        for r in sorted(mine, key=minute_of):
            if runs and minute_of(r) <= minute_of(runs[-1][-1]) + gap:  # sessions that touch become one (measured)
                runs[-1].append(r)
            else:
                runs.append([r])
        for run in runs:
            found[key, run[0]["ts"][11:16], len(run), sum(r["a"] for r in run)] += 1
    return found


SESSION_FIRST = [[row("a", 1, minute=1), row("b", 2, minute=3)], [row("a", 3, minute=4)]]
SESSION_SECOND = [[row("a", 4, minute=7), row("b", 5, minute=20)], *END]  # a's session goes on, b's is another


def flat(*files: list[list[dict]]) -> list[dict]:
    return [r for part in files for rows in part for r in rows if r["k"] != "end"]


def repeats(bench: Bench):
    return stage("seen", bench.late().dropDuplicatesWithinWatermark(["k"])).select("k", "a")


def limit(number: int) -> Callable:
    return lambda bench: stage("first", bench.source().limit(number)).select("k", "a")


def unlike(bench: Bench):
    return stage("pairs", bench.source().select("k", "a").distinct())


def test_a_limit_in_complete_mode_has_no_state_and_the_aggregation_below_it_keeps_its_own(make) -> None:
    """There a limit only cuts each batch's result (StreamingGlobalLimitStrategy)."""

    def build(bench: Bench):
        counted = stage("totals", bench.source().groupBy("k").count())
        return counted.orderBy(F.desc("count"), "k").limit(1)

    bench = make("hdfs")
    bench.write([row("a", 1), row("a", 2), row("b", 3)])
    first = bench.run(build, "complete")
    bench.write([row("b", 4), row("b", 5)])
    bench.run(build, "complete", snapshot=first)
    assert [list(r.values()) for r in bench.emitted[1]] == [["b", 3]]


def join(kind: str) -> Callable:
    def build(bench: Bench):
        left = bench.source(name="left").withWatermark("ts", "10 minutes")
        right = bench.source(name="right").withWatermark("ts", "10 minutes")
        left = left.select(F.col("k").alias("lk"), F.col("a").alias("la"), F.col("ts").alias("lts"))
        right = right.select(F.col("k").alias("rk"), F.col("a").alias("ra"), F.col("ts").alias("rts"))
        on = F.expr("lk = rk AND rts >= lts AND rts <= lts + INTERVAL 5 MINUTES")
        joined = stage("pairs", left.join(right, on, kind))
        return joined.select("lk", "la", *([] if kind == "left_semi" else ["rk", "ra"]))

    return build


def joined(kind: str, left: list[dict], right: list[dict]) -> Counter:
    pairs = [(x, y) for x in left for y in right if x["k"] == y["k"] and 0 <= minute_of(y) - minute_of(x) <= 5]
    if kind == "left_semi":
        return Counter((x["k"], x["a"]) for x in left if any(x is p for p, _ in pairs))
    found = Counter((x["k"], x["a"], y["k"], y["a"]) for x, y in pairs)
    if kind in ("left_outer", "full_outer"):
        found += Counter((x["k"], x["a"], None, None) for x in left if all(x is not p for p, _ in pairs))
    if kind in ("right_outer", "full_outer"):
        found += Counter((None, None, y["k"], y["a"]) for y in right if all(y is not p for _, p in pairs))
    return found


LEFT = [row("a", 1, minute=1), row("b", 2, minute=2), row("c", 3, minute=3)]
RIGHT = [row("a", 10, minute=2), row("d", 40, minute=2)]
# b meets its partner only in version 2; c and d never do; a meets a second one
LEFT_LATER = [row("a", 4, minute=2)]
RIGHT_LATER = [row("b", 20, minute=4), row("a", 11, minute=4)]


def feed_join(bench: Bench, left: list[dict], right: list[dict], end: bool = False) -> None:
    """end: everything before is closed afterwards"""
    closing = [([row("end", 0, minute=at)],) * 2 for at in (900, 901)] if end else []
    for sides in ((left, right), *closing):
        for name, rows in zip(("left", "right"), sides, strict=True):
            bench.write(rows, name)


def without_end(found: Counter) -> Counter:
    return Counter({k: n for k, n in found.items() if "end" not in k})


@pytest.mark.parametrize(
    ("kind", "store", "version"),
    [
        ("full_outer", "rocksdb", 4),
        slow("inner", "hdfs", 2),
        slow("left_outer", "rocksdb", 3),
        slow("left_semi", "changelog", 2),
        slow("right_outer", "changelog", 4),
        slow("full_outer", "changelog-v2", 2),
        slow("left_outer", "rocksdb-v2", 3),
        slow("inner", "changelog-v2", 4),
    ],
)
def test_joins_of_every_type_and_state_format_go_on(make, kind: str, store: str, version: int) -> None:
    bench = make(store)
    set_join_format(bench.spark, version)
    feed_join(bench, LEFT, RIGHT)
    snapshot = bench.run(join(kind), "append")
    # The format is read from the offset log from now on, whatever the session says.
    bench.spark.conf.set(JOIN_FORMAT, "2")
    feed_join(bench, LEFT_LATER, RIGHT_LATER, end=True)
    bench.run(below(join(kind)), "append", snapshot=snapshot)
    assert without_end(emitted(bench)) == joined(kind, LEFT + LEFT_LATER, RIGHT + RIGHT_LATER)
    assert [s.operator_id for s in bench.registry.plan("d2").query("q").stages if s.name == "pairs"] == [1]


@pytest.mark.parametrize(
    ("store", "version"), [("hdfs", 2), slow("rocksdb", 4), slow("changelog-v2", 2), slow("rocksdb-v2", 4)]
)
def test_a_join_starts_empty(make, store: str, version: int) -> None:
    """Version 1 has the two sources, but puts their rows one below the other."""

    def union(bench: Bench):
        return bench.source(name="left").select("k").union(bench.source(name="right").select("k"))

    bench = make(store)
    set_join_format(bench.spark, version)
    feed_join(bench, LEFT, RIGHT)
    snapshot = bench.run(union, "append")
    bench.emitted.clear()
    feed_join(bench, LEFT_LATER, RIGHT_LATER, end=True)
    bench.run(join("left_outer"), "append", snapshot=snapshot)
    assert without_end(emitted(bench)) == joined("left_outer", LEFT_LATER, RIGHT_LATER)


def count_up(key, frames, state) -> Iterator[pd.DataFrame]:
    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["a"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "s": [total]})


def counting(bench: Bench):
    grouped = bench.source().groupBy("k")
    made = grouped.applyInPandasWithState(count_up, "k string, n long, s long", "n long, s long", "append", "NoTimeout")
    # Spark hands its rows to a shuffle as they are, which fails (measured; Spark 4.3): a projection has to come between
    return stage("counts", made).select("k", F.abs("n").alias("n"), "s")


def running_best(files: list[list[dict]]) -> Counter:
    found: Counter = Counter()
    seen: dict[str, list[int]] = defaultdict(list)
    for rows in files:
        for r in rows:
            seen[r["k"]].append(r["a"])
        found += Counter({(k, len(seen[k]), sum(seen[k]), max(seen[k])): 1 for k in {r["k"] for r in rows}})
    return found


def running(files: list[list[dict]]) -> Counter:
    """One row for each key of each batch: how many rows so far, and their sum."""
    return Counter((k, n, total) for k, n, total, _ in running_best(files).elements())


COUNT_FIRST = [[row("a", 1), row("b", 2)], [row("a", 3)]]
COUNT_SECOND = [[row("a", 4), row("b", 5)], [row("c", 6)]]


# a is still known at minute 5; it is forgotten in the batch whose watermark (30) has passed minute 1 + 10
REPEATED = [[row("a", 1, minute=1)], [row("b", 2, minute=2)]]
REPEATED_LATER = [[row(k, a, minute=m)] for k, a, m in (("a", 3, 5), ("c", 4, 40), ("d", 5, 41), ("a", 6, 42))]
ABCD = [[row(k, a)] for a, k in enumerate("abcd", 1)]
# The version, what versions 1 and 2 read, what is emitted; the stores, of which the first is fast.
GO_ON: dict[str, tuple] = {
    "session windows": (
        sessions, SESSION_FIRST, SESSION_SECOND, sessions_of(flat(SESSION_FIRST, SESSION_SECOND)),
        "hdfs changelog changelog-v2"),
    "a deduplication within the watermark": (
        repeats, REPEATED, REPEATED_LATER, {("a", 1): 1, ("b", 2): 1, ("c", 4): 1, ("d", 5): 1, ("a", 6): 1},
        "rocksdb hdfs changelog-v2"),
    "a limit": (
        limit(3), ABCD[:2], ABCD[2:], {("a", 1): 1, ("b", 2): 1, ("c", 3): 1}, "hdfs rocksdb changelog-v2"),
    "distinct rows": (
        unlike, [[row("a", 1), row("a", 1)]], [[row("a", 1), row("a", 2)]], {("a", 1): 1, ("a", 2): 1}, "hdfs"),
    "applyInPandasWithState": (
        counting, COUNT_FIRST, COUNT_SECOND, running(COUNT_FIRST + COUNT_SECOND), "changelog hdfs changelog-v2"),
}  # fmt: skip
STARTS_EMPTY: dict[str, tuple] = {
    "session windows": (sessions, SESSION_FIRST, SESSION_SECOND, sessions_of(flat(SESSION_SECOND)), "rocksdb"),
    "a deduplication within the watermark": (
        repeats, [[row("a", 1)]], [[row("a", 2)], [row("a", 3)]], {("a", 2): 1}, "hdfs"),
    "applyInPandasWithState": (counting, COUNT_FIRST, COUNT_SECOND, running(COUNT_SECOND), "rocksdb"),
    "a limit": (limit(2), ABCD[:1], ABCD[1:], {("b", 2): 1, ("c", 3): 1}, "rocksdb"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "store"),
    [each for n, row in GO_ON.items() for each in one_is_fast((n, store) for store in row[-1].split())],
)
def test_a_stage_goes_on(make, name: str, store: str) -> None:
    version, first, second, expected, _ = GO_ON[name]
    assert carried(make(store), version, first, second) == expected


@pytest.mark.parametrize("name", one_is_fast(STARTS_EMPTY, 3))
def test_a_stage_starts_empty(make, name: str) -> None:
    version, first, second, expected, store = STARTS_EMPTY[name]
    assert started_empty(make(store), version, first, second) == expected


class Kept(StatefulProcessor):
    """A value, a list and a map, each with a time to live of a day."""

    def init(self, handle) -> None:
        day = 24 * 3600 * 1000
        self.count = handle.getValueState("count", "n long", ttlDurationMs=day)
        self.amounts = handle.getListState("amounts", "a long", ttlDurationMs=day)
        self.largest = handle.getMapState("largest", "k2 string", "a long", ttlDurationMs=day)

    def take(self, rows: list[tuple[str, int]]) -> tuple[int, int, int]:
        self.count.update(((self.count.get()[0] if self.count.exists() else 0) + len(rows),))
        for k2, a in rows:
            self.amounts.appendValue((a,))
            before = self.largest.getValue((k2,))[0] if self.largest.containsKey((k2,)) else 0
            self.largest.updateValue((k2,), (max(before, a),))
        total = sum(value[0] for value in self.amounts.get())
        return self.count.get()[0], total, max(value[0] for _, value in self.largest.iterator())

    def close(self) -> None:
        pass


class KeptRows(Kept):
    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        n, total, best = self.take([(r.k2, r.a) for r in rows])
        yield Row(k=key[0], n=n, s=total, best=best)


class KeptFrames(Kept):
    def handleInputRows(self, key, rows, timers) -> Iterator[pd.DataFrame]:
        n, total, best = self.take([(k2, int(a)) for frame in rows for k2, a in zip(frame.k2, frame.a, strict=True)])
        yield pd.DataFrame({"k": [key[0]], "n": [n], "s": [total], "best": [best]})


def kept(processor: type[Kept], method: str) -> Callable:
    def build(bench: Bench):
        grouped = bench.source().groupBy("k")
        made = getattr(grouped, method)(processor(), "k string, n long, s long, best long", "Append", "ProcessingTime")
        return stage("kept", made)

    return build


ROWS, FRAMES = kept(KeptRows, "transformWithState"), kept(KeptFrames, "transformWithStateInPandas")


@pytest.mark.parametrize(
    ("version", "store"), one_is_fast([(ROWS, "changelog"), (ROWS, "changelog-v2"), (FRAMES, "rocksdb")])
)
def test_transform_with_state_keeps_values_lists_and_maps_with_time_to_live(make, version, store: str) -> None:
    found = updated(make(store), version, version, COUNT_FIRST, COUNT_SECOND)
    assert found == running_best(COUNT_FIRST + COUNT_SECOND)


class KeptOtherwise(KeptRows):
    """With a variable more."""

    def init(self, handle) -> None:
        super().init(handle)
        self.batches = handle.getValueState("batches", "n long")


class KeptLess(KeptRows):
    def init(self, handle) -> None:
        day = 24 * 3600 * 1000
        self.count = handle.getValueState("count", "n long", ttlDurationMs=day)
        self.batches = handle.getValueState("batches", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        self.count.update((self.count.get()[0] + len(list(rows)) if self.count.exists() else 1,))
        self.batches.update(((self.batches.get()[0] if self.batches.exists() else 0) + 1,))
        yield Row(k=key[0], n=self.count.get()[0], s=self.batches.get()[0], best=0)


@pytest.mark.slow  # 18 s
def test_state_variables_come_and_go(make) -> None:
    """Version 2 has one variable more; the others keep their values."""
    bench = make("rocksdb")
    bench.write([row("a", 1), row("a", 5)])
    first = bench.run(ROWS, "append")
    bench.write([row("a", 3)])
    more, less = (kept(processor, "transformWithState") for processor in (KeptOtherwise, KeptLess))
    second = bench.run(more, "append", snapshot=first, agree=("q/kept",))
    item = bench.item(second, less, "append")
    assert item.verdict == "carried with loss" and "stage.variable-gone" in item.rules
    bench.write([row("a", 9)])
    third = bench.run(less, "append", snapshot=second, agree=("q/kept",))
    bench.write([row("a", 2)])
    bench.run(more, "append", snapshot=third, agree=("q/kept",))
    assert emitted(bench) == Counter([("a", 2, 6, 5), ("a", 3, 9, 5), ("a", 4, 1, 0), ("a", 5, 2, 2)])


@pytest.mark.slow
def test_transform_with_state_starts_empty(make) -> None:
    found = started_empty(make("rocksdb"), ROWS, COUNT_FIRST, COUNT_SECOND)
    assert found == running_best(COUNT_SECOND)


class Alarm(StatefulProcessor):
    """Tells of a key ten minutes after its first row, by an event-time timer."""

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        rows = list(rows)
        if not self.count.exists():
            first = min(r.ts for r in rows)
            self.handle.registerTimer(int((first + timedelta(minutes=10)).timestamp() * 1000))
        self.count.update(((self.count.get()[0] if self.count.exists() else 0) + len(rows),))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        at = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, timezone.utc).strftime("%H:%M")
        yield Row(k=key[0], at=at, n=self.count.get()[0])

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_timers_set_by_the_old_version_fire_in_the_new_one(make) -> None:
    def build(bench: Bench):
        grouped = bench.late().groupBy("k")
        return stage("alarm", grouped.transformWithState(Alarm(), "k string, at string, n long", "Append", "EventTime"))

    first = [[row("a", 1, minute=1)], [row("b", 2, minute=2)]]
    second = [[row("a", 3, minute=5)], [row("c", 4, minute=30)], [row("c", 5, minute=31)]]
    found = updated(make("rocksdb"), build, build, first, second)
    # the watermark ends at 21: a's and b's timers have fired, c's has not
    assert found == Counter([("a", "00:11", 2), ("b", "00:12", 1)])


@pytest.mark.slow
def test_an_aggregation_without_keys_starts_empty_and_goes_on(make) -> None:
    """Its state is in partition 0 alone."""

    def build(bench: Bench):
        return stage("all", bench.source().groupBy().agg(F.count("*").alias("n")))

    bench = make("hdfs")
    bench.write([row("a", 1)])
    first = bench.run(passed_on("k"), "append")
    bench.write([row("b", 2), row("c", 3)])
    second = bench.run(build, "update", snapshot=first)
    bench.write([row("d", 4)])
    bench.run(build, "update", snapshot=second)
    assert [r["n"] for r in bench.all()[1:]] == [2, 3]
