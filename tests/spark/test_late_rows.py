"""Whether a stage drops rows behind the watermark, by which column they are late, and by which delay, is part of what
it means, and follows from the columns that reach it: the optimizer removes one that nothing above reads, and with the
event time the stage loses its filter of late rows.

Found from outside: a select above a deduplication was carried, and a row that the old version would have dropped came
out (a Spark bug of the kind of SPARK-58979)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, blocking, by, row, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from airflow_provider_streamupdate.streaming import source
from tests.cases import one_is_fast


def with_time(bench: Bench) -> DataFrame:
    return stage("once", bench.late().dropDuplicates(["k"]))


def without_time(bench: Bench) -> DataFrame:
    return with_time(bench).select("k", "a")


def union(*order: int) -> Callable[[Bench], DataFrame]:
    """A union of two parts of one source; its columns have the event time of the first branch."""

    def build(bench: Bench) -> DataFrame:
        moved = (F.col("ts") + F.expr("interval 0 seconds")).alias("ts")  # a column of its own, without the note
        parts = [bench.late().where("a >= 0"), bench.late().where("a < 0").select("k", "k2", "a", "b", moved)]
        first, second = (parts[i] for i in order)
        return stage("once", first.union(second).dropDuplicates(["k"]))

    return build


CHANGES = {
    "a select above it": (with_time, without_time, "no longer drops late rows"),
    "a select above it removed": (without_time, with_time, "now drops late rows"),
    "the branches of a union in another order": (union(0, 1), union(1, 0), "no longer drops late rows"),
}


def both(bench: Bench, snapshot: str, old: Callable, new: Callable, agree: str) -> dict[Callable, set[str]]:
    """The keys that each of two versions emits."""
    emitted = {}
    for version, agreed in ((old, ()), (new, (agree,))):
        bench.emitted.clear()
        bench.run(version, "append", snapshot=snapshot, agree=agreed)
        emitted[version] = {r["k"] for r in bench.all()}
    return emitted


@pytest.mark.parametrize("name", one_is_fast(CHANGES, 1))
def test_whether_late_rows_are_dropped_is_agreed_to(bench: Bench, name: str) -> None:
    old, new, reason = CHANGES[name]
    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=100), row("n", -1, minute=100)])  # each branch of the union has its watermark
    snapshot = bench.run(old, "append")
    item = bench.item(snapshot, new, "append")
    assert item.needs_agreement and "stage.late-rows" in item.rules and reason in item.reason
    same = bench.item(snapshot, old, "append")
    assert same.verdict == "carried"
    # what Spark does with a late row, under both
    bench.write([row("late", 1, minute=2), row("c", 1, minute=101)])
    emitted = both(bench, snapshot, old, new, "q/once")
    dropping, passing = (old, new) if "no longer" in reason else (new, old)
    assert emitted == {dropping: {"c"}, passing: {"c", "late"}}


TIMES = "k string, k2 string, t1 timestamp, t2 timestamp"


def at(k: str, t1: int, t2: int) -> dict:
    return {"k": k, "k2": k, **{name: row("", 0, minute=minute)["ts"] for name, minute in (("t1", t1), ("t2", t2))}}


def joined(how: str, near: str) -> Callable[[Bench], DataFrame]:
    """Each side has an event time, and so has each pair, which may be late by either (Spark allows no other way)."""

    def build(bench: Bench) -> DataFrame:
        left = bench.source(TIMES, "left").withWatermark("t1", "10 minutes").select("k", "k2", "t1")
        right = bench.source(TIMES, "right").withWatermark("t2", "10 minutes").select(F.col("k").alias("j"), "t2")
        return stage("pairs", left.join(right, F.expr(f"k = j and {near}"), how))

    return build


PAIRS = joined("inner", "t1 <> t2")
OUTER = joined("left_outer", "t2 >= t1 and t2 <= t1 + interval 1 hour")
# What is below the stage; the stage, which is given one of the two event times.
BY_COLUMN: dict[str, tuple[Callable, Callable]] = {
    "a deduplication": (PAIRS, lambda rows, t: rows.dropDuplicates(["k"]).select("k", t)),
    "a deduplication of outer pairs": (OUTER, lambda rows, t: rows.dropDuplicates(["k"]).select("k", t)),
    "an expiry": (PAIRS, lambda rows, t: rows.select("k", t).dropDuplicatesWithinWatermark(["k"])),
}


@pytest.mark.parametrize("name", one_is_fast(BY_COLUMN, 1))
def test_by_which_column_rows_are_late_is_agreed_to(bench: Bench, name: str) -> None:
    """A `select` of the other time above a deduplication was carried, and other rows were dropped as late."""
    below, above = BY_COLUMN[name]
    old, new = (lambda bench, t=t: stage("last", above(below(bench), t)) for t in ("t1", "t2"))
    bench.write([at("x", 50, 0)], "left")
    bench.write([at("y", 0, 50)], "right")
    for side in ("left", "right", "left", "right"):
        bench.write([at(side, 100, 100)], side)  # the watermark comes to 90
    snapshot = bench.run(old, "append")
    [item] = [i for i in bench.check(snapshot, new, "append").items if i.name == "q/last"]
    assert item.needs_agreement and "stage.late-rows" in item.rules
    [same] = [i for i in bench.check(snapshot, old, "append").items if i.name == "q/last"]
    assert same.verdict == "carried"
    if name != "a deduplication":
        return
    assert item.rules == ("stage.late-rows",), "nothing else says that they differ"
    bench.write([at("x", 0, 100), at("c", 0, 102)], "right")
    bench.write([at("y", 100, 0), at("c", 101, 0)], "left")
    emitted = both(bench, snapshot, old, new, "q/last")
    assert emitted == {old: {"y", "c"}, new: {"x", "c"}}  # late by t1: x; by t2: y


def within(bench: Bench) -> DataFrame:
    return stage("d", bench.late().dropDuplicatesWithinWatermark(["k"])).select("k")


def pairs(bench: Bench) -> DataFrame:
    left = bench.late().select("k", F.col("ts").alias("at"))
    return stage("j", left.join(bench.source().select(F.col("k").alias("k2"), "a"), F.expr("k = k2")))


def applied(timeout: str) -> Callable[[Bench], DataFrame]:
    def pass_on(key, frames, state):
        yield from frames

    def build(bench: Bench) -> DataFrame:
        grouped = bench.late().groupBy("k")
        return stage("f", grouped.applyInPandasWithState(pass_on, "k string", "n long", "append", timeout))

    return build


@pytest.mark.parametrize(
    ("build", "drops"),
    [
        (with_time, ("by source-1.ts",)),
        (without_time, ()),
        (by("window(ts, '5 minutes'); k", delay="10 minutes"), ("by its keys",)),
        (by("session_window(ts, '5 minutes'); k", delay="10 minutes"), ("by its keys",)),
        (within, ("by source-1.ts",)),
        (pairs, ("left by source-1.ts",)),
        (lambda bench: stage("l", bench.late().limit(3)), ()),
        (applied("EventTimeTimeout"), ("by source-1.ts",)),
        (applied("NoTimeout"), ()),
    ],
)
def test_a_plan_tells_of_each_kind_of_stage_which_late_rows_it_drops(bench: Bench, build, drops) -> None:
    [found] = bench.plan(build, "append")[0].queries[0].stages
    assert tuple(map(str, found.late_rows)) == drops


def once_of(*branches: tuple[str, str], within: bool = True):
    """A deduplication of a union of sources, each with its delay."""

    def build(bench: Bench) -> DataFrame:
        first, *others = (source(name, bench.source(name=name)).withWatermark("ts", delay) for name, delay in branches)
        rows = first.union(others[0]) if others else first
        return stage("once", rows.dropDuplicatesWithinWatermark(["k"]) if within else rows.dropDuplicates(["k", "ts"]))

    return build


def parts(**delays: str):
    """Counts of two parts of one source, each with its delay."""

    def build(bench: Bench) -> DataFrame:
        rows = bench.source()
        first, second = (rows.where(F.col("k") == k).withWatermark("ts", delay) for k, delay in delays.items())
        return stage("hours", first.union(second).groupBy(F.window("ts", "1 hour"), "k").count())

    return build


FAST, SLOW = ("in", "5 minutes"), ("other", "2 hours")


TURNED = once_of(SLOW, FAST), once_of(("other", FAST[1]), FAST)
EXCHANGED = parts(a="10 minutes", b="5 hours")
# Versions, and whether the second one is asked about.
DELAYS = {
    # Found from outside: a key was emitted twice within the delay that it had when it came.
    "a union's columns have the first branch's": (once_of(FAST, SLOW), TURNED[0], True),
    "an ordinary deduplication goes by all": (
        once_of(FAST, SLOW, within=False), once_of(SLOW, FAST, within=False), False),
    "branches with one delay in another order": (once_of(FAST, ("other", FAST[1])), TURNED[1], False),
    "a branch with another delay after the first": (once_of(FAST), once_of(FAST, SLOW), False),
    # Found from outside: two parts of one source exchanged their delays, and groups came that were late before.
    "which part of a source": (EXCHANGED, parts(a="5 hours", b="10 minutes"), True),
    "the parts in another order": (EXCHANGED, parts(b="5 hours", a="10 minutes"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", DELAYS)
def test_which_rows_have_which_delay_counts(bench: Bench, name: str) -> None:
    old, new, asked = DELAYS[name]
    items = blocking(*(bench.plan(version, "append")[0] for version in (old, new)))
    assert {rule for item in items for rule in item.rules} == ({"watermark.delay"} if asked else set())


def by_id(number: int, nested: bool = False):
    """A column that is found in Parquet files by its number."""
    note = {"parquet.field.id": number}
    inner = StructType([StructField("x", IntegerType(), True, note)])
    field = StructField("s", ArrayType(inner)) if nested else StructField("k", StringType(), True, note)
    key = F.expr("s[0].x") if nested else F.col("k")

    def build(bench: Bench) -> DataFrame:
        reader = bench.spark.read if bench.at_rest else bench.spark.readStream
        rows = reader.schema(StructType([field])).parquet(str(bench.input("ids")))
        return stage("counts", rows.groupBy(key.alias("key")).count())

    return build


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_number_by_which_a_column_is_found_counts_where_it_is_used(bench: Bench, enabled, nested) -> None:
    """Found from outside: another number read another column under the same name."""
    bench.spark.conf.set("spark.sql.parquet.fieldId.read.enabled", str(enabled).lower())
    old, again, new = (bench.plan(by_id(number, nested))[0] for number in (1, 1, 2))
    assert not blocking(old, again)
    assert bool(blocking(old, new)) is enabled
