"""The app's own function rewrites the state of stages that are no aggregations: against oracles in plain Python.

All keys have rows before and after, enough for every partition to have some: a row in a wrong partition, or with other
bytes, would not be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, ROCKSDB, Bench, by, row, set_join_format, stores
from bench import feed as feed_all
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from test_stages import END, emitted, feed_join, minute_of, sessions_of

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS
from airflow_provider_streamupdate.streaming import stage

KEYS = [f"key{i}" for i in range(12)]


@pytest.fixture(params=stores("rocksdb hdfs"))
def bench(request, spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, *request.param)


def feed(bench: Bench, files: list[list[dict]]) -> list[dict]:
    return [r for r in feed_all(bench, files) if r["k"] != "end"]


def asked_for(reason: str) -> str:
    """The state whose migration function a reason asks for."""
    return reason.rpartition("write a migration function for '")[2].partition("' (@app.migrate)")[0]


def migrated(bench: Bench, snapshot: str, build: Callable, name: str, function: Callable, mode: str = "append") -> str:
    """Register the function for the state as the report names it; that state."""
    before = bench.item(snapshot, build, mode)
    steps = " ".join(before.next_steps)
    assert before.verdict == "refused" and "carry it: write a migration function for " in steps, before
    state = asked_for(steps)
    bench.migrations[name, state] = function
    assert f"the app's own function rewrites {state}" in bench.item(snapshot, build, mode).reason
    return state


def visits(*keys: str, made: tuple[str, ...] = ("count(*) n",), gap: str = "5 minutes") -> Callable:
    grouped = by("; ".join([*keys, f"session_window(ts, '{gap}')"]), *made, name="visits", delay="10 minutes")
    start = "date_format(session_window.start, 'HH:mm') start"
    shown = [start, *(text.split()[-1] for text in made)]
    return lambda bench: grouped(bench).selectExpr("k", *shown)


BOTH = ("count(*) n", "sum(a) s")
SESSION_FIRST = [[row(k, i, minute=1) for i, k in enumerate(KEYS)], [row(k, 1, minute=4) for k in KEYS[::2]]]
SESSION_SECOND = [[row(k, 2, minute=8) for k in KEYS], *END]  # every second key's session goes on


@pytest.mark.slow
def test_sessions_lose_a_key_and_an_aggregate(bench: Bench) -> None:
    """The key that goes is the same for all rows of a key, so that no sessions have to be merged."""
    old, new = visits("k2", "k", made=BOTH), visits("k")

    def without(state: DataFrame) -> DataFrame:
        return state.select(
            F.struct("key.k", "key.sessionStartTime").alias("key"),
            F.struct("value.k", "value.session_window", "value.count").alias("value"),
        )

    before = feed(bench, SESSION_FIRST)
    first = bench.run(old, "append")
    assert migrated(bench, first, new, "visits", without).startswith(
        "k2 string, k string, sessionStartTime timestamp ->"
    )
    after = feed(bench, SESSION_SECOND)
    bench.run(new, "append", snapshot=first)
    wanted: Counter = Counter()
    for (k, start, n, _), times in sessions_of(before + after).items():
        wanted[k, start, n] += times
    assert emitted(bench) == wanted and max(n for _, _, n in wanted) == 3


@pytest.mark.slow
def test_a_session_whose_key_is_not_its_value_s_is_an_error(rocksdb: Bench) -> None:
    old, new = visits("k2", "k", made=BOTH), visits("k")

    def late_by_a_minute(state: DataFrame) -> DataFrame:
        start = (F.col("key.sessionStartTime") + F.expr("interval 1 minute")).alias("sessionStartTime")
        value = F.struct("value.k", "value.session_window", "value.count")
        return state.select(F.struct("key.k", start).alias("key"), value.alias("value"))

    feed(rocksdb, SESSION_FIRST)
    first = rocksdb.run(old, "append")
    migrated(rocksdb, first, new, "visits", late_by_a_minute)
    with pytest.raises(ApplicationError, match="a row whose key does not match its value"):
        rocksdb.run(new, "append", snapshot=first)


@pytest.mark.slow
def test_another_gap_has_no_other_form_so_that_no_function_is_asked(rocksdb: Bench) -> None:
    other = visits("k", gap="9 minutes")
    feed(rocksdb, SESSION_FIRST)
    first = rocksdb.run(visits("k"), "append")
    state = asked_for(" ".join(rocksdb.item(first, other, "append").next_steps))
    rocksdb.migrations["visits", state] = lambda rows: rows
    found = rocksdb.item(first, other, "append")
    assert found.verdict == "refused" and "before and after the change" in f"{found.reason} {found.details}"


def seen(*columns: str, within: bool = False) -> Callable:
    method = "dropDuplicatesWithinWatermark" if within else "dropDuplicates"
    return lambda bench: stage("seen", getattr(bench.late(), method)([*columns])).select("k", "a")


@pytest.mark.slow
@pytest.mark.parametrize("within", [False, True])
def test_a_deduplication_by_fewer_columns_knows_what_it_saw(bench: Bench, within: bool) -> None:
    def by_name(state: DataFrame) -> DataFrame:
        key = F.struct("key.k").alias("key")
        if not within:
            return state.select(key, "value").dropDuplicates(["key"])
        until = F.max("value.expiresAtMicros").alias("until")
        return state.groupBy("key.k").agg(until).select(F.struct("k").alias("key"), F.struct("until").alias("value"))

    old, new = seen("k", "a", within=within), seen("k", within=within)
    before = feed(bench, [[row(k, a, minute=a) for k in KEYS[:6] for a in (1, 2)]])
    first = bench.run(old, "append")
    migrated(bench, first, new, "seen", by_name)
    after = feed(bench, [[row(k, 3, minute=3) for k in KEYS]])
    last = bench.run(new, "append", snapshot=first)
    assert emitted(bench) == Counter([(r["k"], r["a"]) for r in before] + [(k, 3) for k in KEYS[6:]])
    # minute 40 closes what expires at 13; the batch after it forgets
    more = feed(bench, [[row("z", 1, minute=40)], [row("z", 2, minute=41)], [row(k, 4, minute=42) for k in KEYS]])
    bench.run(new, "append", snapshot=last)
    assert len(before) + len(after) + len(more) == 12 + 12 + 14
    again = Counter((k, 4) for k in KEYS) if within else Counter()
    assert emitted(bench) - Counter([(r["k"], r["a"]) for r in before + after]) == Counter([("z", 1)]) + again


def watching(fields: str) -> Callable:
    """Tells of a key that has had no row for ten minutes of event time, and how many it had."""
    names = [field.split()[0] for field in fields.split(", ")]

    def watch(key, frames, state) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            found = dict(zip(names, state.get, strict=True))
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [found["n"]], "last": [found.get("last")]})
            return
        rows = pd.concat(list(frames)).sort_values("ts")
        found = dict(zip(names, state.get, strict=True)) if state.exists else {"n": 0}
        found |= {"n": found["n"] + len(rows), "last": str(rows["a"].iloc[-1])}
        state.update(tuple(found[name] for name in names))
        state.setTimeoutTimestamp(int(rows["ts"].max().timestamp() * 1000) + 10 * 60_000)

    def build(bench: Bench):
        grouped = bench.source().withWatermark("ts", "0 minutes").groupBy("k")
        schema = "k string, n long, last string"
        made = grouped.applyInPandasWithState(watch, schema, fields, "append", "EventTimeTimeout")
        return stage("watch", made).select("k", F.abs("n").alias("n"), "last")

    return build


def test_a_state_function_s_state_gains_a_field_and_keeps_its_timeouts(bench: Bench) -> None:
    old, new = watching("n int"), watching("last string, n bigint")

    def told(state: DataFrame) -> DataFrame:
        n = F.col("value.groupState.n")
        kept = F.when(F.col("value.groupState").isNotNull(), F.struct(F.concat(F.lit("after "), n), n.cast("bigint")))
        value = F.struct(kept.cast("struct<last:string,n:bigint>").alias("groupState"), "value.timeoutTimestamp")
        return state.select("key", value.alias("value"))

    before = feed(bench, [[row(k, 1, minute=1) for k in KEYS], [row(k, 2, minute=2) for k in KEYS[:8]]])
    first = bench.run(old, "append")
    state = migrated(bench, first, new, "watch", told)
    assert state == "k string -> groupState struct<n:int>, timeoutTimestamp bigint"
    after = feed(
        bench, [[row(k, 3, minute=9) for k in KEYS[:4]], [row("end", 0, minute=30)], [row("end", 0, minute=31)]]
    )
    bench.run(new, "append", snapshot=first, agree=("q/watch",))
    wanted = {}
    for k in KEYS:
        rows = [r for r in before + after if r["k"] == k]
        old_rows = [r for r in before if r["k"] == k]
        wanted[k] = (k, len(rows), str(rows[-1]["a"]) if rows[-1] in after else f"after {len(old_rows)}")
    assert emitted(bench) == Counter(wanted.values())


def pairs(*more: str) -> Callable:
    """Left rows with what is right of them within five minutes, or with null; `more` columns of the left are told."""

    def build(bench: Bench):
        left, right = (bench.source(name=side).withWatermark("ts", "10 minutes") for side in ("left", "right"))
        left = left.select(*(F.col(c).alias(f"l{c}") for c in ("k", "a", *more, "ts")))
        right = right.select(F.col("k").alias("rk"), F.col("a").alias("ra"), F.col("ts").alias("rts"))
        on = F.expr("lk = rk AND rts >= lts AND rts <= lts + INTERVAL 5 MINUTES")
        made = stage("pairs", left.join(right, on, "left_outer"))
        return made.select("lk", "la", *(f"l{c}" for c in more), "ra")

    return build


def with_b(state: DataFrame) -> DataFrame:
    old = F.lit(-1).cast("bigint").alias("lb")
    return state.select("key", F.struct("value.lk", "value.la", old, "value.lts", "value.matched").alias("value"))


def for_the_left(bench: Bench, snapshot: str, build: Callable, function: Callable) -> None:
    item = bench.item(snapshot, build, "append")  # without a function the column is null in these rows
    state = " ".join(item.next_steps).partition("a migration function for pairs/left from '")[2].partition("'")[0]
    assert state.endswith(" timestamp, matched boolean"), state
    bench.migrations["pairs/left", state] = function
    assert f"rewrites the left side: {state}" in bench.item(snapshot, build, "append").reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "format"),
    [
        ((HDFS,), 2),
        ((ROCKSDB,), 2),
        ((ROCKSDB, True), 3),
        ((ROCKSDB, True, 2), 3),
        ((ROCKSDB,), 4),
        ((ROCKSDB, True, 2), 4),
    ],
)
def test_a_join_s_left_rows_gain_a_column(spark, tmp_path, store: tuple, format: int) -> None:
    """Some keys have several rows; some rows have found a match before, which the end must know."""
    bench = Bench(spark, tmp_path, *store)
    set_join_format(spark, format)
    left = [row(k, i, 7, minute=1) for i, k in enumerate(KEYS)] + [row(k, 100, 7, minute=2) for k in KEYS[::2]]
    right = [row(k, 1, minute=3) for k in KEYS[:4]]
    feed_join(bench, left, right)
    first = bench.run(pairs(), "append")
    for_the_left(bench, first, pairs("b"), with_b)
    bench.spark.conf.set(PARTITIONS, "3")
    left_later = [row(k, 200, 8, minute=4) for k in KEYS[3:6]]
    right_later = [row(k, 2, minute=6) for k in KEYS[2:8]]
    feed_join(bench, left_later, right_later, end=True)
    bench.run(pairs("b"), "append", snapshot=first)
    wanted: Counter = Counter()
    for x in left + left_later:
        near = [y for y in right + right_later if y["k"] == x["k"] and 0 <= minute_of(y) - minute_of(x) <= 5]
        for y in near:
            told = () if x in left and y in right else (x["b"] if x in left_later else -1,)
            wanted[(x["k"], x["a"], *told, y["a"])] += 1
        if not near:
            wanted[(x["k"], x["a"], -1 if x in left else x["b"], None)] += 1
    assert Counter({k: n for k, n in emitted(bench).items() if "end" not in k}) == wanted


@pytest.mark.slow
def test_a_side_s_function_that_does_not_say_what_matched_is_named(rocksdb: Bench) -> None:
    def forgets(state: DataFrame) -> DataFrame:
        return with_b(state).withColumn("value", F.col("value").withField("matched", F.lit(None).cast("boolean")))

    feed_join(rocksdb, [row("a", 1, 1, minute=1)], [row("a", 2, minute=2)])
    first = rocksdb.run(pairs(), "append")
    for_the_left(rocksdb, first, pairs("b"), forgets)
    feed_join(rocksdb, [row("a", 1, 1, minute=3)], [])
    with pytest.raises(ApplicationError, match=r"migration function of pairs/left .* a row whose `matched` is null"):
        rocksdb.run(pairs("b"), "append", snapshot=first)


def test_a_function_that_the_old_version_had_is_not_taken_for_another_change(rocksdb: Bench) -> None:
    """An aggregation's state may have one form before and after: then it cannot be told what the function is for."""
    rocksdb.write([row("a", 1)])
    hundreds = by("k", "sum(a * 100) s")
    first = rocksdb.run(by("k", "sum(a) s"))
    sums = "named_struct('sum', value.sum * 100) AS value"
    rocksdb.migrations["totals", "k string -> sum bigint"] = lambda rows: rows.selectExpr("key", sums)
    assert rocksdb.item(first, hundreds).verdict == "migrated"
    second = rocksdb.run(hundreds, snapshot=first)
    assert rocksdb.item(second, hundreds).verdict == "carried"
    other = rocksdb.item(second, by("k", "sum(b) s"))
    assert other.verdict == "refused" and "had a migration function for" in other.details, other.reason
