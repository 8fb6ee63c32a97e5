"""Whether a stage drops rows behind the watermark, and by which column they are late, is part of what it means, and
follows from the columns that reach it: the optimizer removes one that nothing above reads, and with the event time the
stage loses its filter of late rows.

Found from outside: a `select` above a deduplication was carried, and a row that the old version would have dropped came
out (a Spark bug of the kind of SPARK-58979)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, row
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import stage
from tests.cases import one_is_fast


def timed(bench: Bench) -> DataFrame:
    return bench.source().withWatermark("ts", "10 minutes")


def once(bench: Bench) -> DataFrame:
    return stage("once", timed(bench).dropDuplicates(["k"]))


def with_time(bench: Bench) -> DataFrame:
    return once(bench)


def without_time(bench: Bench) -> DataFrame:
    return once(bench).select("k", "a")


def union(*order: int) -> Callable[[Bench], DataFrame]:
    """A union of two parts of one source; its columns have the event time of the first branch."""

    def build(bench: Bench) -> DataFrame:
        moved = (F.col("ts") + F.expr("interval 0 seconds")).alias("ts")  # a column of its own, without the note
        parts = [timed(bench).where("a >= 0"), timed(bench).where("a < 0").select("k", "k2", "a", "b", moved)]
        first, second = (parts[i] for i in order)
        return stage("once", first.union(second).dropDuplicates(["k"]))

    return build


CHANGES = {
    "a select above it": (with_time, without_time, "no longer drops late rows"),
    "a select above it removed": (without_time, with_time, "now drops late rows"),
    "the branches of a union in another order": (union(0, 1), union(1, 0), "no longer drops late rows"),
}


@pytest.mark.parametrize("name", one_is_fast(CHANGES, 1))
def test_whether_late_rows_are_dropped_is_agreed_to(bench: Bench, name: str) -> None:
    old, new, reason = CHANGES[name]
    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=100), row("n", -1, minute=100)])  # each branch of the union has its watermark
    snapshot = bench.run(old, "append")
    [item] = [i for i in bench.check(snapshot, new, "append").items if i.thing == "stage"]
    assert item.needs_agreement and "stage.late-rows" in item.rules and reason in item.reason
    [same] = [i for i in bench.check(snapshot, old, "append").items if i.thing == "stage"]
    assert same.verdict == "carried"
    # what Spark does with a late row, under both
    bench.write([row("late", 1, minute=2), row("c", 1, minute=101)])
    emitted = {}
    for version, agree in ((old, ()), (new, ("q/once",))):
        bench.emitted.clear()
        bench.run(version, "append", snapshot=snapshot, agree=agree)
        emitted[version] = {r["k"] for r in bench.all()}
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


def passed_on(rows: DataFrame) -> DataFrame:
    def pass_on(key, frames, state):
        yield from frames

    return rows.groupBy("k").applyInPandasWithState(pass_on, "k string", "n long", "append", "EventTimeTimeout")


PAIRS = joined("inner", "t1 <> t2")
OUTER = joined("left_outer", "t2 >= t1 and t2 <= t1 + interval 1 hour")
# What is below the stage; the stage, which is given one of the two event times; whether its definition says so.
BY_COLUMN = {
    "a deduplication": (PAIRS, lambda rows, t: rows.dropDuplicates(["k"]).select("k", t), False),
    "a deduplication of outer pairs": (OUTER, lambda rows, t: rows.dropDuplicates(["k"]).select("k", t), False),
    "an expiry": (PAIRS, lambda rows, t: rows.select("k", t).dropDuplicatesWithinWatermark(["k"]), False),
    "a state function": (PAIRS, lambda rows, t: passed_on(rows.select("k", t)), True),
    "a window": (PAIRS, lambda rows, t: rows.groupBy(F.window(t, "5 minutes"), "k").count(), True),
    "a session": (PAIRS, lambda rows, t: rows.groupBy(F.session_window(t, "5 minutes"), "k").count(), True),
}


@pytest.mark.parametrize("name", one_is_fast(BY_COLUMN, 1))
def test_by_which_column_rows_are_late_is_agreed_to(bench: Bench, name: str) -> None:
    """A `select` of the other time above a deduplication was carried, and other rows were dropped as late."""
    below, above, defined = BY_COLUMN[name]
    old, new = (lambda bench, t=t: stage("last", above(below(bench), t)) for t in ("t1", "t2"))
    bench.write([at("x", 50, 0)], "left")
    bench.write([at("y", 0, 50)], "right")
    for side in ("left", "right", "left", "right"):
        bench.write([at(side, 100, 100)], side)  # the watermark comes to 90
    snapshot = bench.run(old, "append")
    [item] = [i for i in bench.check(snapshot, new, "append").items if i.name == "q/last"]
    if defined:
        assert item.verdict == "refused" or item.needs_agreement
        return
    assert item.needs_agreement and "stage.late-rows" in item.rules
    [same] = [i for i in bench.check(snapshot, old, "append").items if i.name == "q/last"]
    assert same.verdict == "carried"
    if name != "a deduplication":
        return
    assert item.rules == ("stage.late-rows",), "nothing else says that they differ"
    bench.write([at("x", 0, 100), at("c", 0, 102)], "right")
    bench.write([at("y", 100, 0), at("c", 101, 0)], "left")
    emitted = {}
    for version, agree in ((old, ()), (new, ("q/last",))):
        bench.emitted.clear()
        bench.run(version, "append", snapshot=snapshot, agree=agree)
        emitted[version] = {r["k"] for r in bench.all()}
    assert emitted == {old: {"y", "c"}, new: {"x", "c"}}  # late by t1: x; by t2: y


def windows(bench: Bench) -> DataFrame:
    return stage("w", timed(bench).groupBy(F.window("ts", "5 minutes"), "k").count()).select("k", "count")


def sessions(bench: Bench) -> DataFrame:
    return stage("s", timed(bench).groupBy(F.session_window("ts", "5 minutes"), "k").count()).select("k", "count")


def within(bench: Bench) -> DataFrame:
    return stage("d", timed(bench).dropDuplicatesWithinWatermark(["k"])).select("k")


def pairs(bench: Bench) -> DataFrame:
    left = timed(bench).select("k", F.col("ts").alias("at"))
    right = bench.source().select(F.col("k").alias("k2"), "a")
    return stage("j", left.join(right, F.expr("k = k2")))


def limited(bench: Bench) -> DataFrame:
    return stage("l", timed(bench).limit(3))


def applied(timeout: str) -> Callable[[Bench], DataFrame]:
    def pass_on(key, frames, state):
        yield from frames

    def build(bench: Bench) -> DataFrame:
        grouped = timed(bench).groupBy("k")
        return stage("f", grouped.applyInPandasWithState(pass_on, "k string", "n long", "append", timeout))

    return build


@pytest.mark.parametrize(
    ("build", "drops"),
    [
        (with_time, ("by source-1.ts",)),
        (without_time, ()),
        (windows, ("by its keys",)),
        (sessions, ("by its keys",)),
        (within, ("by source-1.ts",)),
        (pairs, ("left by source-1.ts",)),
        (limited, ()),
        (applied("EventTimeTimeout"), ("by source-1.ts",)),
        (applied("NoTimeout"), ()),
    ],
)
def test_a_plan_tells_of_each_kind_of_stage_which_late_rows_it_drops(bench: Bench, build, drops) -> None:
    [found] = bench.plan(build, "append")[0].queries[0].stages
    assert tuple(map(str, found.late_rows)) == drops
