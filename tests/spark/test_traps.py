"""Changes that Spark itself accepts and gets wrong: shown first, on Spark alone, and then refused here, by name, or
migrated, which makes the answer right.

Spark alone: version 2 starts on version 1's own checkpoint. Its answer is compared with what version 2 computes of all
input: in one Spark batch, or in plain Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import attrs
import pandas as pd
import pytest
from bench import HDFS, Bench, row, stage
from bench import by as grouped
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import source

FIRST = [row("a", 5, 2, minute=1, k2="b"), row("b", 1, 7, minute=12, k2="a"), row("a", 4, 1, minute=14, k2="b")]
SECOND = [row("a", 3, 6, minute=13, k2="b"), row("b", 2, 9, minute=17, k2="a"), row("c", 1, 1, minute=18, k2="a")]
USER = "home: string, country: string"
WIDE = f"k string, k2 string, a int, b int, day string, ts timestamp, user struct<{USER}>"
PARSER, ANSI = "spark.sql.legacy.timeParserPolicy", "spark.sql.ansi.enabled"


def wide(at: int) -> list[dict]:
    """The rows of one file."""
    return [
        {
            "k": "ab"[n % 2],
            "k2": f"{'vw'[n % 3 == 0]}{n % 12:02d}",
            "a": n + at,
            "b": n * 3 % 7,
            "day": f"2026-1-{n % 3 + 1}",
            "ts": f"2026-01-01T00:{n + at:02d}:00Z",
            "user": {"home": "xyz"[n % 3], "country": "zx"[n % 2]},
        }
        for n in range(12)
    ]


@pytest.fixture
def bench(spark, tmp_path) -> Iterator[Bench]:
    before = {key: spark.conf.get(key, None) for key in (PARSER, ANSI)}
    yield Bench(spark, tmp_path, HDFS)
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@attrs.frozen
class Trap:
    """Two versions. rule: the id of the rule that names the difference; migrated: the state can be rewritten so that
    the answer is right; settings: of both versions"""

    old: Callable
    new: Callable
    rule: str = ""
    mode: str = "update"
    migrated: bool = False
    settings: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def use(self, bench: Bench, version: int) -> None:
        for key, value in self.settings[version].items():
            bench.spark.conf.set(key, value)


def by(keys: str, *aggregates: str, **source: str) -> Callable:
    return grouped(keys, *(aggregates or ("sum(a) one", "sum(b) two")), **source)


def decimals(kind: str) -> Callable:
    """A sum of short decimals is kept as a plain number without its scale (DecimalAggregates)."""
    return by("k", f"sum(cast(a as {kind})) one")


def hidden_rename(bench: Bench) -> DataFrame:
    renamed = bench.source().selectExpr("k2 k", "a", "b").groupBy("k")
    return stage("totals", renamed.agg(F.sum("a").alias("one"), F.sum("b").alias("two")))


def selected(*columns: str) -> Callable:
    """The optimizer puts the select into the aggregation: the order of its columns is that of the state row."""
    return lambda bench: by("k")(bench).select("k", *columns)


def window(arguments: str, made: str = "sum(a) one") -> Callable:
    return by(f"window(ts, {arguments}) w; k", made)


LISTED = "sort_array(collect_list(a)) one"
GAP3, GAP5 = ("session_window(ts, '3 minutes') w; k", "session_window(ts, '5 minutes') w; k")
TURNED = ("sum(b) one", "sum(a) two")
TRAPS = {
    "swapped grouping keys": Trap(by("k; k2"), by("k2; k"), "stage.keys-order", migrated=True),
    "swapped aggregates": Trap(by("k"), by("k", *TURNED), "stage.aggregates", migrated=True),
    "sum to max": Trap(by("k", "sum(a) one"), by("k", "max(a) one"), "stage.aggregates"),
    "key a to key b": Trap(by("k"), by("k2"), "stage.keys"),
    "tumbling 10 to 20 minutes": Trap(window("'10 minutes'"), window("'20 minutes'"), "stage.window", migrated=True),
    "tumbling to sliding": Trap(window("'10 minutes'"), window("'10 minutes', '5 minutes'"), "stage.window"),
    "session gap": Trap(by(GAP3, "sum(a) one"), by(GAP5, "sum(a) one"), "stage.window", "complete"),
    "swapped aggregates of sessions": Trap(
        by(GAP3), by(GAP3, *TURNED), "stage.aggregates", "complete", migrated=True),
    # that where it cannot be migrated
    "tumbling 10 to 20 minutes of lists": Trap(
        window("'10 minutes'", LISTED), window("'20 minutes'", LISTED), "stage.window"),
    # beyond the nine
    "another ordering of max_by": Trap(
        by("k", "max_by(a, b) one"), by("k", "max_by(a, -b) one"), "stage.aggregate-arguments"),
    "another scale of a decimal": Trap(
        decimals("decimal(6,2)"), decimals("decimal(6,3)"), "stage.aggregate-arguments"),
    "a hidden rename upstream": Trap(by("k"), hidden_rename, "stage.keys"),
    "a reordered select": Trap(
        selected("one", "two"), selected("two", "one"), "stage.aggregates", migrated=True),
    "sum of another column": Trap(by("k", "sum(a) one"), by("k", "sum(b) one"), "stage.aggregate-arguments"),
}  # fmt: skip
# Of the nine traps of the design seven are in the table (and two again, where they cannot be migrated); the
# deduplication and the watermark have their own test. Every second one is fast.
FAST = list(TRAPS)[:9:2]


def keyed(rows: list[dict]) -> dict[str, dict]:
    return {str([r[c] for c in ("k", "k2", "w", "key", "x", "y", "window") if c in r]): r for r in rows}


def right(bench: Bench, version: Callable, since: int) -> bool:
    """Whether every row the query has emitted since batch `since` is, at last, what a batch over all input gives."""
    found = keyed([r for b in sorted(bench.emitted) if b >= since for r in bench.emitted[b]])
    expected = keyed(bench.batch(version))
    assert found, "the second version emitted nothing"
    return all(expected.get(key) == r for key, r in found.items())


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in TRAPS])
def test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates(name: str, bench: Bench) -> None:
    trap = TRAPS[name]
    bench.write(FIRST)
    snapshot = bench.run(trap.old, trap.mode)
    bench.write(SECOND)
    bench.spark_alone(trap.new, trap.mode)  # it starts, and no error is raised
    assert not right(bench, trap.new, since=1)
    if not trap.migrated:
        assert bench.rules(snapshot, trap.new, trap.mode) == {trap.rule}
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


# The causes by which updates were called carried and computed wrong results, found from outside: a pair of each.


def total(key: str, value: str = "sum(a) x", schema: str = WIDE) -> Callable:
    return by(f"{key} key", value, schema=schema)


def called(keyword: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        @F.udf("int")
        def made(x: int = 0, y: int = 0) -> int:
            return x % 3 + 10 * (y % 3)

        return stage("t", bench.source(WIDE).groupBy(made(**{keyword: F.col("a")}).alias("key")).count())

    return build


def first_of(*divisors: int) -> Callable:
    """By the first number of a dict that divides."""
    names = {d: f"by {d}" for d in divisors}

    def made(x: int) -> str:
        return next((name for d, name in names.items() if x % d == 0), "none")

    return lambda bench: stage("t", bench.source(WIDE).groupBy(F.udf(made, "string")("a").alias("key")).count())


def branches(first: str, second: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(WIDE)
        small = rows.where(first).withColumn("key", F.lit("small"))
        return stage("t", small.union(rows.where(second).withColumn("key", F.lit("big"))).groupBy("key").count())

    return build


def looked_up(order: str) -> Callable:
    """In a table that has two rows of each key: in the first one."""

    def build(bench: Bench) -> DataFrame:
        table = bench.spark.read.schema("k string, key string, rank int").json(str(bench.input("table")))
        first = table.orderBy(F.expr(order)).dropDuplicates(["k"])
        return stage("t", bench.source(WIDE).join(first, "k").groupBy("key").count())

    return build


def met(condition: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(WIDE).select(F.col("k").alias("k"), (F.col("a") + 1).alias("a"))
        pairs = rows.alias("l").join(rows.alias("r"), F.expr(f"l.k = r.k AND {condition}"))
        return stage("t", pairs.select(F.col("l.a").alias("x"), F.col("r.a").alias("y")))

    return build


def watermarked(above: bool) -> Callable:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(WIDE)
        if above:
            once = stage("once", rows.dropDuplicates(["k2"])).withWatermark("ts", "1 minute")
        else:
            once = stage("once", rows.withWatermark("ts", "1 minute").dropDuplicates(["k2"]))
        return stage("t", once.groupBy(F.window("ts", "1 minute")).count())

    return build


def placed(schema: str) -> Callable:
    """Of CSV files, whose columns go by their places."""

    def build(bench: Bench) -> DataFrame:
        read = bench.spark.read if bench.at_rest else bench.spark.readStream.option("maxFilesPerTrigger", 1)
        return stage("t", read.schema(schema).csv(str(bench.input("csv"))).groupBy("k").agg(F.count("*").alias("n")))

    return build


NAMES = ", ".join(f"'v{n:02d}'" for n in range(12))
DAYS = total("to_date(day, 'yyyy-MM-dd')")
WRONG, OTHER = (
    total("k", f"sum(CASE WHEN k2 IN ({names}) THEN a END) x") for names in (NAMES, NAMES.replace("v", "w"))
)
CAUSES = {
    "1 a field that Spark's JSON leaves out": Trap(WRONG, OTHER),
    "2 a type": Trap(
        total("k", "collect_list(a) x"), total("k", "collect_list(a) x", WIDE.replace("a int", "a bigint"))),
    "3 a field of a struct": Trap(
        total("k", "max(user) x"), total("k", "max(user) x", WIDE.replace(USER, "country: string, home: string"))),
    "4 a keyword": Trap(called("x"), called("y")),
    "5 a branch's filter": Trap(branches("a < 3", "a >= 3"), branches("a >= 3", "a < 3")),
    "6 a lookup": Trap(looked_up("rank"), looked_up("-rank")),
    "7 a side of a self join": Trap(met("l.a < r.a"), met("r.a < l.a"), mode="append"),
    "9 a watermark's place": Trap(watermarked(False), watermarked(True), mode="append"),
    "10 the order of a dict": Trap(first_of(2, 3), first_of(3, 2)),
    "11 a setting": Trap(
        DAYS, DAYS, settings=({PARSER: "LEGACY", ANSI: "false"}, {PARSER: "CORRECTED", ANSI: "false"})),
    "12 a positional schema": Trap(placed("k string, k2 string"), placed("k2 string, k string")),
}  # fmt: skip


def write(bench: Bench, at: int) -> None:
    bench.write(wide(at))
    table = [{"k": k, "key": f"{k}{rank}", "rank": rank} for k in "ab" for rank in (1, 2)]
    (bench.input("table") / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in table))
    (bench.input("csv") / f"{at}.csv").write_text("".join(f"{r['k']},{r['k2']}\n" for r in wide(at)))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if i else []) for i, n in enumerate(CAUSES)])
def test_it_is_not_carried_and_would_be_wrong(bench: Bench, name: str) -> None:
    cause = CAUSES[name]
    cause.use(bench, 0)
    write(bench, 0)
    snapshot = bench.run(cause.old, cause.mode)
    cause.use(bench, 1)
    assert bench.rules(snapshot, cause.new, cause.mode)
    before = dict(bench.emitted)
    write(bench, 1)
    try:
        bench.spark_alone(cause.new, cause.mode)
    except StreamingQueryException:
        return  # Spark does not start it: then nothing is silent
    emitted = {**before, **bench.emitted}
    assert keyed([r for batch in sorted(emitted) for r in emitted[batch]]) != keyed(bench.batch(cause.new))


def test_8_a_stage_under_the_name_of_a_source(bench: Bench) -> None:
    """What comes out of stage `t` and out of the source that has its name are both called k."""

    def numbered(bench: Bench) -> DataFrame:
        rows = source("t", bench.source(WIDE)).withWatermark("ts", "1 minute")
        counts = stage("t", rows.groupBy(F.window("ts", "1 minute"), "k", "k2").count())
        return stage("once", counts.dropDuplicates(["k"]))

    with pytest.raises(ApplicationError, match="a source and a stage"):
        bench.plan(numbered, "append")


def test_another_deduplication_column(bench: Bench) -> None:
    def once(column: str) -> Callable:
        return lambda bench: stage("once", bench.source().dropDuplicates([column])).select("k", "k2")

    bench.write([row("x", 1, k2="y")])
    snapshot = bench.run(once("k"), "append")
    bench.write([row("q", 2, k2="y"), row("r", 3, k2="x")])
    bench.spark_alone(once("k2"), "append")
    new = [(r["k"], r["k2"]) for r in bench.emitted[1]]
    assert new == [("q", "y")]  # y had come before, x had not: both answers are the wrong way round
    assert bench.rules(snapshot, once("k2"), "append") == {"stage.keys"}


def counted(delay: str) -> Callable:
    """Counts of windows, with this delay of the watermark."""

    def build(bench: Bench):
        rows = bench.source().withWatermark("ts", delay)
        windows = rows.groupBy(F.window("ts", "10 minutes"), "k").agg(F.count("*").alias("n"))
        return stage("totals", windows).select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n")

    return build


def test_a_watermark_delay(bench: Bench) -> None:
    """Version 2 is to wait for an hour; what version 1 took for late is dropped, and its closed window is closed."""
    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=30)])  # closes a's window under the old delay
    snapshot = bench.run(counted("1 minute"), "append")
    bench.write([row("a", 1, minute=2)])  # late by 28 minutes: in time under the new delay
    bench.write([row("end", 0, minute=300)])
    bench.write([row("end", 0, minute=301)])
    bench.spark_alone(counted("60 minutes"), "append")
    found = {(r["start"], r["k"]): r["n"] for r in bench.all() if r["k"] != "end"}
    assert found == {("00:00", "a"): 1, ("00:30", "b"): 1}  # a hour's patience would have counted 2
    assert bench.rules(snapshot, counted("60 minutes"), "append") == {"watermark.delay"}
    assert bench.check(snapshot, counted("60 minutes"), "append", agree=("q:watermark",)).compatible


def test_a_shorter_delay_of_a_watermark(bench: Bench) -> None:
    """Version 2 waits for a minute: it closes what version 1 left open, counts what that let in, and drops what is late
    by its own delay."""
    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=30)])
    bench.write([row("a", 1, minute=2)])  # late by 28 minutes: in time under the old delay
    snapshot = bench.run(counted("60 minutes"), "append")
    assert bench.all() == []
    assert bench.rules(snapshot, counted("1 minute"), "append") == set()
    bench.write([row("b", 1, minute=31)])
    bench.write([row("b", 1, minute=32)])  # rows are late by the watermark of the batch before
    bench.write([row("a", 1, minute=3)])  # late by the new delay
    bench.write([row("b", 1, minute=33)])
    bench.run(counted("1 minute"), "append", snapshot=snapshot)
    assert {(r["start"], r["k"]): r["n"] for r in bench.all()} == {("00:00", "a"): 2}


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
    [item] = [i for i in bench.check(snapshot, turned, "append").items if i.verdict == "migrated"]
    assert item.rules == ("stage.join-rows",) and not item.blocks
    bench.run(turned, "append", snapshot)  # the same batch again
    assert bench.all() == [{"lk": "a", "lk2": "b"}]


def added_up(key, frames, state) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(int(f["a"].sum()) for f in frames)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "s": [n]})


def test_a_hidden_rename_into_a_state_function(bench: Bench) -> None:
    def build(column: str) -> Callable:
        def made(bench: Bench):
            given = bench.source().select("k", F.col(column).alias("a"))
            grouped = given.groupBy("k")
            return stage(
                "it", grouped.applyInPandasWithState(added_up, "k string, s long", "s long", "update", "NoTimeout")
            )

        return made

    bench.write([row("x", 1, 10)])
    snapshot = bench.run(build("a"))
    bench.write([row("x", 2, 20)])
    bench.spark_alone(build("b"))
    assert bench.last("k") == {("x",): {"k": "x", "s": 21}}  # of a it is 3, of b it is 30
    assert bench.rules(snapshot, build("b")) == {"stage.input"}


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


def test_rows_that_the_new_version_would_not_have_dropped_are_lost_without_a_word(bench: Bench) -> None:
    """Why the place of a filter on the time counts."""

    def windows(above: bool) -> Callable:
        def build(bench: Bench) -> DataFrame:
            rows = (
                bench.source().where("true" if above else "ts < timestamp'2026-01-02'").withWatermark("ts", "1 minute")
            )
            rows = rows.where("ts < timestamp'2026-01-02'") if above else rows
            return stage("c", rows.groupBy(F.window("ts", "10 minutes"), "k").count())

        return build

    for minute in (0, 1):
        bench.write([row("a", 1, minute=minute)])
    bench.write([{**row("a", 1), "ts": "2030-01-01T00:00:00Z"}])
    bench.run(windows(above=True), "append")
    bench.emitted.clear()
    for minute in (15, 30, 45):
        bench.write([row("a", 1, minute=minute)])
    bench.spark_alone(windows(above=False), "append")
    assert bench.all() == []
