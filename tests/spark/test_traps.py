"""Changes that Spark itself accepts and gets wrong: shown first, on Spark alone, and then refused here, by name, or
migrated, which makes the answer right.

Spark alone: version 2 starts on version 1's own checkpoint. Its answer is compared with what version 2 computes of all
input: in one Spark batch, or in plain Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import attrs
import pandas as pd
import pytest
from bench import HDFS, Bench, row, stage
from pyspark import cloudpickle
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules

FIRST = [row("a", 5, 2, minute=1, k2="b"), row("b", 1, 7, minute=12, k2="a"), row("a", 4, 1, minute=14, k2="b")]
SECOND = [row("a", 3, 6, minute=13, k2="b"), row("b", 2, 9, minute=17, k2="a"), row("c", 1, 1, minute=18, k2="a")]


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, HDFS)


@attrs.frozen(kw_only=True)
class Trap:
    """old, new: the two versions; rule: the id of the rule that names it; mode: their output mode; migrated: it is not
    refused, because the state can be rewritten so that the answer is right"""

    old: Callable
    new: Callable
    rule: str
    mode: str = "update"
    migrated: bool = False


def grouped(*keys: str, aggregates: Callable[[], list] | None = None) -> Callable:
    made = aggregates or (lambda: [F.sum("a").alias("one"), F.sum("b").alias("two")])
    return lambda bench: stage("totals", bench.source().groupBy(*keys).agg(*made()))


def of(*names: str) -> Callable:
    """Aggregates by name, called one and two."""
    functions = {"sum a": lambda: F.sum("a"), "sum b": lambda: F.sum("b"), "max a": lambda: F.max("a")}
    return grouped(
        "k", aggregates=lambda: [functions[n]().alias(c) for n, c in zip(names, ("one", "two"), strict=False)]
    )


def window(*arguments: str, made: Callable = lambda: F.sum("a")) -> Callable:
    def build(bench: Bench):
        counted = bench.source().groupBy(F.window("ts", *arguments).alias("w"), "k").agg(made().alias("one"))
        return stage("totals", counted)

    return build


def listed():
    return F.sort_array(F.collect_list("a"))


def sessions(gap: str, *columns: str) -> Callable:
    def build(bench: Bench):
        made = [F.sum(c).alias(name) for c, name in zip(columns or ("a",), ("one", "two"), strict=False)]
        return stage("totals", bench.source().groupBy(F.session_window("ts", gap).alias("w"), "k").agg(*made))

    return build


def latest(ordering: str) -> Callable:
    return grouped("k", aggregates=lambda: [F.max_by("a", F.expr(ordering)).alias("one")])


def decimals(kind: str) -> Callable:
    """A sum of short decimals is kept as a plain number without its scale (DecimalAggregates)."""
    return grouped("k", aggregates=lambda: [F.sum(F.col("a").cast(kind)).alias("one")])


def hidden_rename(bench: Bench):
    renamed = bench.source().select(F.col("k2").alias("k"), "a", "b")
    return stage("totals", renamed.groupBy("k").agg(F.sum("a").alias("one"), F.sum("b").alias("two")))


def selected(*columns: str) -> Callable:
    """The optimizer puts the select into the aggregation: the order of its columns is that of the state row."""
    return lambda bench: grouped("k")(bench).select("k", *columns)


TRAPS = {
    "swapped grouping keys": Trap(old=grouped("k", "k2"), new=grouped("k2", "k"), rule="stage.keys-order"),
    "swapped aggregates": Trap(
        old=of("sum a", "sum b"), new=of("sum b", "sum a"), rule="stage.aggregates-order", migrated=True
    ),
    "sum to max": Trap(old=of("sum a"), new=of("max a"), rule="stage.aggregate-function"),
    "key a to key b": Trap(old=grouped("k"), new=grouped("k2"), rule="stage.keys"),
    "tumbling 10 to 20 minutes": Trap(
        old=window("10 minutes"), new=window("20 minutes"), rule="stage.window", migrated=True
    ),
    "tumbling to sliding": Trap(old=window("10 minutes"), new=window("10 minutes", "5 minutes"), rule="stage.window"),
    "session gap": Trap(
        old=sessions("3 minutes"), new=sessions("5 minutes"), rule="stage.session-gap", mode="complete"
    ),
    # those two where they cannot be migrated
    "swapped aggregates of sessions": Trap(
        old=sessions("3 minutes", "a", "b"),
        new=sessions("3 minutes", "b", "a"),
        rule="stage.aggregates-order",
        mode="complete",
    ),
    "tumbling 10 to 20 minutes of lists": Trap(
        old=window("10 minutes", made=listed), new=window("20 minutes", made=listed), rule="stage.window"
    ),
    # beyond the nine
    "another ordering of max_by": Trap(old=latest("b"), new=latest("-b"), rule="stage.aggregate-arguments"),
    "another scale of a decimal": Trap(
        old=decimals("decimal(6,2)"), new=decimals("decimal(6,3)"), rule="stage.aggregate-arguments"
    ),
    "a hidden rename upstream": Trap(old=grouped("k"), new=hidden_rename, rule="stage.keys"),
    "a reordered select": Trap(
        old=selected("one", "two"), new=selected("two", "one"), rule="stage.aggregates-order", migrated=True
    ),
    "sum of another column": Trap(old=of("sum a"), new=of("sum b"), rule="stage.aggregate-arguments"),
}


# Of the nine traps of the design seven are in the table (and two again, where they cannot be migrated); the
# deduplication and the watermark have their own test.
NINE = 9


def refused(bench: Bench, snapshot: str, new: Callable, mode: str = "update") -> set[str]:
    """The rules that stand in the way of a version, none of them agreed to."""
    report = bench.check(snapshot, new, mode)
    assert not report.compatible
    return {rule for item in report.items if item.blocks for rule in item.rules}


def answer(rows: list[dict]) -> list[str]:
    return sorted(map(str, rows))


def right(bench: Bench, trap: Callable, since: int) -> bool:
    """Whether every row the query has emitted since batch `since` is, at last, what a batch over all input gives."""
    keys = [c for c in ("k", "k2", "w") if bench.emitted and any(c in r for r in bench.all())]
    rows = (r for b in sorted(bench.emitted) if b >= since for r in bench.emitted[b])
    last = {str([r.get(c) for c in keys]): r for r in rows}
    expected = {str([r.get(c) for c in keys]): r for r in bench.batch(trap)}
    assert last, "the second version emitted nothing"
    return all(expected.get(key) == r for key, r in last.items())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if i >= NINE else []) for i, n in enumerate(TRAPS)]
)
def test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates(name: str, bench: Bench) -> None:
    trap = TRAPS[name]
    bench.write(FIRST)
    snapshot = bench.run(trap.old, trap.mode)
    bench.write(SECOND)
    bench.spark_alone(trap.new, trap.mode)  # it starts, and no error is raised
    assert not right(bench, trap.new, since=1)
    if not trap.migrated:
        assert refused(bench, snapshot, trap.new, trap.mode) == {trap.rule}
        return
    report = bench.check(snapshot, trap.new, trap.mode)
    assert [i.rules for i in report.items if i.verdict == "migrated"] == [(trap.rule,)]
    bench.run(trap.new, trap.mode, snapshot)  # the same batches again, in place of the wrong ones
    assert right(bench, trap.new, since=1)


@pytest.mark.parametrize("name", ["swapped grouping keys", "tumbling to sliding"])
def test_without_a_change_spark_alone_is_right(name: str, bench: Bench) -> None:
    """What the tests above call wrong is not wrong by itself."""
    trap = TRAPS[name]
    bench.write(FIRST)
    bench.run(trap.new, trap.mode)
    bench.write(SECOND)
    bench.spark_alone(trap.new, trap.mode)
    assert right(bench, trap.new, since=1)


def test_another_deduplication_column(bench: Bench) -> None:
    def once(column: str) -> Callable:
        return lambda bench: stage("once", bench.source().dropDuplicates([column])).select("k", "k2")

    bench.write([row("x", 1, k2="y")])
    snapshot = bench.run(once("k"), "append")
    later = [row("q", 2, k2="y"), row("r", 3, k2="x")]
    bench.write(later)
    bench.spark_alone(once("k2"), "append")
    new = [(r["k"], r["k2"]) for r in bench.emitted[1]]
    assert new == [("q", "y")]  # y had come before, x had not: both answers are the wrong way round
    assert refused(bench, snapshot, once("k2"), "append") == {"stage.deduplication-columns"}


def test_a_watermark_delay(bench: Bench) -> None:
    """Version 2 is to wait for an hour; what version 1 took for late is dropped, and its closed window is closed."""

    def counted(delay: str) -> Callable:
        def build(bench: Bench):
            late = bench.source().withWatermark("ts", delay)
            windows = late.groupBy(F.window("ts", "10 minutes"), "k").agg(F.count("*").alias("n"))
            return stage("totals", windows).select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n")

        return build

    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=30)])  # closes a's window under the old delay
    snapshot = bench.run(counted("1 minute"), "append")
    bench.write([row("a", 1, minute=2)])  # late by 28 minutes: in time under the new delay
    bench.write([row("end", 0, minute=300)])
    bench.write([row("end", 0, minute=301)])
    bench.spark_alone(counted("60 minutes"), "append")
    found = {(r["start"], r["k"]): r["n"] for r in bench.all() if r["k"] != "end"}
    assert found == {("00:00", "a"): 1, ("00:30", "b"): 1}  # a hour's patience would have counted 2
    assert refused(bench, snapshot, counted("60 minutes"), "append") == {"watermark.delay"}
    assert bench.check(snapshot, counted("60 minutes"), "append", agree=("q:watermark",)).compatible


def test_the_order_of_a_join_s_equalities(bench: Bench) -> None:
    def pairs(condition: str) -> Callable:
        def build(bench: Bench):
            left = bench.source(name="left").select(F.col("k").alias("lk"), F.col("k2").alias("lk2"))
            right = bench.source(name="right").select(F.col("k").alias("rk"), F.col("k2").alias("rk2"))
            return stage("pairs", left.join(right, F.expr(condition))).select("lk", "lk2")

        return build

    straight = pairs("lk = rk AND lk2 = rk2")
    turned = pairs("lk2 = rk2 AND lk = rk")
    bench.write([row("a", 1, k2="b")], "left")
    bench.write([row("z", 1, k2="z")], "right")
    snapshot = bench.run(straight, "append")
    bench.write([row("a", 1, k2="b")], "right")
    bench.spark_alone(turned, "append")
    assert bench.all() == []  # the two rows have equal keys: the pair is lost
    assert refused(bench, snapshot, turned, "append") == {"stage.join-keys"}


def total(key, frames, state) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(int(f["a"].sum()) for f in frames)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "s": [n]})


def test_a_hidden_rename_into_a_state_function(bench: Bench) -> None:
    def build(column: str) -> Callable:
        def made(bench: Bench):
            given = bench.source().select("k", F.col(column).alias("a"))
            grouped = given.groupBy("k")
            return stage(
                "it", grouped.applyInPandasWithState(total, "k string, s long", "s long", "update", "NoTimeout")
            )

        return made

    bench.write([row("x", 1, 10)])
    snapshot = bench.run(build("a"))
    bench.write([row("x", 2, 20)])
    bench.spark_alone(build("b"))
    assert bench.last("k") == {("x",): {"k": "x", "s": 21}}  # of a it is 3, of b it is 30
    assert refused(bench, snapshot, build("b")) == {"stage.input"}


def test_two_unnamed_sources_that_swap_places(bench: Bench) -> None:
    """File sources are lucky: their logs name the files, and Spark stumbles over the wrong folder. Others are not."""

    def union(*rows: int) -> Callable:
        def build(bench: Bench):
            one, two = (
                bench.spark.readStream.format("rate-micro-batch")
                .option("rowsPerBatch", n)
                .load()
                .select(F.lit(str(n)).alias("k"), "value")
                for n in rows
            )
            return stage("totals", one.union(two).groupBy("k").agg(F.sum("value").alias("one")))

        return build

    def run(build: Callable) -> None:
        """One batch: a row 0, 1, 2 ... of one source, ten of the other."""
        _, writers = bench.plan(build)
        query = writers["q"].option("checkpointLocation", str(bench.folder / "checkpoint")).trigger(availableNow=True)
        assert query.start().awaitTermination(60)

    run(union(1, 10))
    run(union(1, 10))
    assert {k: r["one"] for (k,), r in bench.last("k").items()} == {"1": 0 + 1, "10": sum(range(20))}
    run(union(10, 1))
    assert {k: r["one"] for (k,), r in bench.last("k").items()} != {"1": 0 + 1 + 2, "10": sum(range(30))}
    old, new = (bench.plan(union(*rows))[0] for rows in ((1, 10), (10, 1)))
    items = [i for i in compare(old, new, "the old plan").items if i.thing == "source"]
    assert [(i.verdict, i.rules) for i in items] == [("refused", ("source.twins",))] * 2
