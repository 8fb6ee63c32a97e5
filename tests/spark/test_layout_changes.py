"""Changes of how a stage's rows lie in its state, which are done by rule: keys and columns in another order, columns
that a join's side has no longer or newly, aggregates of sessions. Against oracles in plain Python, in every kind of
store.

All keys have rows before and after, enough for every partition to have some: a row in a wrong partition, or with other
bytes, would not be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from bench import HDFS, ROCKSDB, Bench, row, set_join_format, stage, stores
from pyspark.sql import functions as F
from test_own_migration import BOTH, KEYS, SESSION_FIRST, SESSION_SECOND, feed, seen, visits
from test_stages import emitted, feed_join, minute_of, sessions_of, without_end

from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS
from tests.cases import one_is_fast


@pytest.fixture(params=stores("rocksdb hdfs"))
def bench(request, spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, *request.param)


def migrated(bench: Bench, snapshot: str, build: Callable, loss: str = "") -> str:
    """The reason; a loss has to be agreed to."""
    item = bench.item(snapshot, build, "append")
    assert (item.verdict, item.blocks) == (("carried with loss", True) if loss else ("migrated", False)), item
    assert loss in item.reason
    return item.reason


def sessions_before_and_after(bench: Bench, old: Callable, new: Callable, loss: str) -> tuple[Counter, Counter]:
    """What was emitted, and the sessions there are."""
    before = feed(bench, SESSION_FIRST)
    first = bench.run(old, "append")
    migrated(bench, first, new, loss)
    bench.spark.conf.set(PARTITIONS, "3")
    after = feed(bench, SESSION_SECOND)
    bench.run(new, "append", snapshot=first, agree=("q/visits",) if loss else ())
    return emitted(bench), sessions_of(before + after)


def test_keys_and_aggregates_of_sessions_change_places(bench: Bench) -> None:
    old, new = visits("k", "k2", made=BOTH), visits("k2", "k", made=BOTH[::-1])
    found, sessions = sessions_before_and_after(bench, old, new, "")
    assert found == Counter({(k, start, s, n): times for (k, start, n, s), times in sessions.items()})


@pytest.mark.slow
def test_sessions_lose_an_aggregate(bench: Bench) -> None:
    found, sessions = sessions_before_and_after(bench, visits("k", made=BOTH), visits("k", made=BOTH[:1]), "")
    assert found == Counter({(k, start, n): times for (k, start, n, s), times in sessions.items()})


@pytest.mark.slow
def test_an_added_aggregate_of_sessions_knows_the_rows_from_now_on(bench: Bench) -> None:
    old, new = visits("k2", "k", made=BOTH), visits("k", "k2", made=("max(a) m", *BOTH))
    found, sessions = sessions_before_and_after(bench, old, new, "will cover only rows from this update on")
    wanted: Counter = Counter()
    for (k, start, n, s), times in sessions.items():
        goes_on = start == "00:08" or n == 3  # with the one row of SESSION_SECOND, whose value is 2
        wanted[k, start, 2 if goes_on else None, n, s] += times
    assert found == wanted and {m for _, _, m, *_ in wanted} == {2, None}


@pytest.mark.parametrize("within", one_is_fast([False, True]))
def test_a_deduplication_by_its_columns_in_another_order_knows_what_it_saw(bench: Bench, within: bool) -> None:
    old, new = seen("k", "a", within=within), seen("a", "k", within=within)
    feed(bench, [[row(k, i, minute=1) for i, k in enumerate(KEYS)]])
    first = bench.run(old, "append")
    assert "puts the keys in their new order" in migrated(bench, first, new)
    bench.spark.conf.set(PARTITIONS, "3")
    feed(bench, [[row(k, i + more, minute=2) for more in (0, 1) for i, k in enumerate(KEYS)]])
    bench.run(new, "append", snapshot=first)
    assert emitted(bench) == Counter((k, i + more) for more in (0, 1) for i, k in enumerate(KEYS))


def pairs(columns: str, keys: str = "k k2") -> Callable:
    """Left rows, whose state has these columns first, with what is right of them within five minutes, or with null."""

    def build(bench: Bench):
        left, right = (bench.source(name=side).withWatermark("ts", "10 minutes") for side in ("left", "right"))
        left = left.selectExpr(*(f"{c} l{c}" for c in (*columns.split(), "k", "k2", "ts")))
        right = right.selectExpr(*(f"{c} r{c}" for c in ("k", "k2", "a", "ts")))
        equal = " AND ".join(f"l{key} = r{key}" for key in keys.split())
        on = F.expr(f"{equal} AND rts >= lts AND rts <= lts + INTERVAL 5 MINUTES")
        shown = sorted(f"l{c}" for c in columns.split())
        return stage("pairs", left.join(right, on, "left_outer")).select("lk", *shown, "ra")

    return build


FORMATS = [
    ((ROCKSDB,), 2),
    ((HDFS,), 2),
    ((ROCKSDB, True), 3),
    ((ROCKSDB, True, 2), 3),
    ((ROCKSDB,), 4),
    ((ROCKSDB, True, 2), 4),
]
# (old version, new version, what the check names as lost)
CHANGES = {
    "a column less": (pairs("a b"), pairs("a"), ""),
    "a column more": (pairs("a"), pairs("a b"), "will be null in rows of the left side from before"),
    "columns and keys in another order": (pairs("a b"), pairs("b a", "k2 k"), ""),
}


@pytest.mark.parametrize(("store", "format"), one_is_fast(FORMATS))
@pytest.mark.parametrize("change", CHANGES)
def test_columns_of_a_join_s_side(spark, tmp_path, change: str, store: tuple, format: int) -> None:
    """Some keys have several rows; some rows have found a match before, which the end must know."""
    old, new, loss = CHANGES[change]
    bench = Bench(spark, tmp_path, *store)
    set_join_format(spark, format)
    left = [row(k, i, 7, minute=1) for i, k in enumerate(KEYS)] + [row(k, 100, 7, minute=2) for k in KEYS[::2]]
    right = [row(k, 1, minute=3) for k in KEYS[:4]]
    feed_join(bench, left, right)
    first = bench.run(old, "append")
    migrated(bench, first, new, loss)
    bench.spark.conf.set(PARTITIONS, "3")
    left_later = [row(k, 200, 8, minute=4) for k in KEYS[3:6]]
    right_later = [row(k, 2, minute=6) for k in KEYS[2:8]]
    feed_join(bench, left_later, right_later, end=True)
    bench.run(new, "append", snapshot=first, agree=("q/pairs",) if loss else ())
    wanted: Counter = Counter()
    for x in left + left_later:
        near = [y for y in right + right_later if y["k"] == x["k"] and 0 <= minute_of(y) - minute_of(x) <= 5]
        for y in near or [None]:
            by_old = x in left and y in right
            b = (
                ()
                if change == f"a column {'more' if by_old else 'less'}"
                else (None if loss and x in left else x["b"],)
            )
            wanted[(x["k"], x["a"], *b, y and y["a"])] += 1
    assert without_end(emitted(bench)) == wanted


def sets_of(sets: str, *aggregates: str) -> Callable:
    def build(bench: Bench):
        bench.source().createOrReplaceTempView("arrived")
        text = f"SELECT k, k2, {', '.join(aggregates)} FROM arrived GROUP BY k, k2 GROUPING SETS {sets}"
        return stage("sets", bench.spark.sql(text))

    return build


def sliding(*aggregates: str) -> Callable:
    def build(bench: Bench):
        rows = bench.source().groupBy(F.window("ts", "10 minutes", "5 minutes"), "k").agg(*map(F.expr, aggregates))
        return stage("windows", rows).select(F.date_format("window.start", "HH:mm").alias("start"), "*").drop("window")

    return build


# (old version, new version, columns of the result that tell groups apart, whether the added sum is agreed to)
MADE_SEVERAL = {
    "grouping sets in another order": (
        sets_of("((k), (k2), ())", "sum(a) s"), sets_of("((), (k2), (k))", "sum(a) s"), ("k", "k2"), False),
    "grouping sets, and an aggregate of another column": (
        sets_of("((k), (k2))", "sum(a) s"), sets_of("((k), (k2))", "sum(a) s", "sum(b) t"), ("k", "k2"), True),
    "a sliding window, and an aggregate of another column": (
        sliding("sum(a) s"), sliding("sum(a) s", "sum(b) t"), ("start", "k"), True),
    "a sliding window without that": (
        sliding("sum(a) s", "sum(b) t"), sliding("sum(a) s"), ("start", "k"), False),
}  # fmt: skip


@pytest.mark.parametrize("change", MADE_SEVERAL)
def test_what_makes_several_rows_of_one(bench: Bench, change: str) -> None:
    """The rows that it makes are the same ones, whatever columns go along with them, and in whichever order."""
    old, new, keys, added = MADE_SEVERAL[change]
    bench.write([row(k, i, i, k2=k[0], minute=i % 12) for i, k in enumerate(KEYS)])
    first = bench.run(old)
    item = bench.item(first, new)
    assert item.needs_agreement is added and "receives other rows" not in item.reason, item.reason
    bench.write([row(k, 100 + i, 7, k2=k[0], minute=i % 12) for i, k in enumerate(KEYS[::-1])])
    bench.run(new, snapshot=first, agree=(f"q/{item.name.partition('/')[2]}",) if added else ())
    found = {tuple(r[key] for key in keys): r["s"] for r in bench.all()}
    assert found == {tuple(r[key] for key in keys): r["s"] for r in bench.batch(new)}
