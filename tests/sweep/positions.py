"""The places of a stage where an expression decides something, each as two versions of an app that are planned and
compared as an update compares them."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

Build = Callable[[DataFrame, str], DataFrame]


def condition(text: str, kind: str) -> str:
    """A condition that follows from an expression's value."""
    return text if kind == "BOOLEAN" else f"xxhash64({text}) % 2 = 0"


def _joined(rows: DataFrame, on: str, where: str | None = None) -> DataFrame:
    right = rows.selectExpr("c_small AS r_key", "c_ts2 AS r_ts")
    joined = rows.join(right, F.expr(on))
    return stage("s", joined.where(where) if where else joined)


# Of an expression's value.
VALUES: dict[str, Build] = {
    "key": lambda rows, e: stage("s", rows.groupBy(F.expr(e).alias("k")).agg(F.count("*").alias("n"))),
    "aggregate's input": lambda rows, e: stage("s", rows.groupBy("g").agg(F.collect_list(F.expr(e)).alias("x"))),
    "deduplication's key": lambda rows, e: stage("s", rows.select("g", F.expr(e).alias("k")).dropDuplicates(["k"])),
}
AGGREGATES: dict[str, Build] = {
    "aggregate": lambda rows, e: stage("s", rows.groupBy("g").agg(F.expr(e).alias("x"))),
}
# Of a condition.
CONDITIONS: dict[str, Build] = {
    "aggregate's filter": lambda rows, e: stage("s", rows.groupBy("g").agg(F.expr(f"count(*) FILTER (WHERE {e})"))),
    "filter above a join": lambda rows, e: _joined(rows, "c_small = r_key", e),
    "join's condition": lambda rows, e: _joined(rows, f"c_small = r_key AND ({e})"),
    "gap": lambda rows, e: stage(
        "s",
        rows.withWatermark("c_ts", "1 hour")
        .groupBy(F.expr(f"session_window(c_ts, CASE WHEN {e} THEN '5 minutes' ELSE '10 minutes' END)"), "g")
        .agg(F.count("*").alias("n")),
    ),
}
# The same each time they are planned, though their results are not: salted keys, for example. Not the time of a batch:
# a dry run has no such key, and a running query has, so that it is refused when it is submitted (with_clocks).
STEADY = ("floor(rand() * 10)", "uuid()", "rand(5)", "substring(uuid(), 1, 2)")
TWICE = ("sum(CASE WHEN c_bin = X'10' THEN 1 END)", "collect_list(transform(c_ints, x -> x + 1))", "max(rand())")
_APPEND = ("filter above a join", "join's condition", "gap")


@attrs.frozen
class Placed:
    """What an update from one text to the other is told: `carried` without a question, or not, because of
    `problems`; or why it was not planned."""

    position: str
    old: str
    new: str
    problems: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def carried(self) -> bool:
        return not self.problems


def placed(spark: SparkSession, rows: DataFrame, position: str, old: str, new: str) -> Placed:
    """Both planned (from new DataFrames) and compared."""
    try:
        before, after = (_planned(spark, rows, position, text) for text in (old, new))
    except Exception as error:
        return Placed(position, old, new, (), f"{type(error).__name__}: {str(error)[:200]}")
    return Placed(position, old, new, tuple(compare(before, after, "the sweep").problems))


def _planned(spark: SparkSession, rows: DataFrame, position: str, text: str) -> AppPlan:
    build = {**VALUES, **AGGREGATES, **CONDITIONS}[position]
    writer = build(rows, text).writeStream.format("noop")
    return plan_app(
        spark, Declarations("sweep"), {"q": writer.outputMode("append" if position in _APPEND else "update")}
    )
