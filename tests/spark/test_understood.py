"""Every query is either carried by an update that changes nothing, or refused when it is submitted, by its operator:
there is no app that runs and can then never be updated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from bench import HDFS, SCHEMA, Bench
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.self_update import check_updatable
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
from airflow_provider_streamupdate.streaming.agent import driver
from airflow_provider_streamupdate.streaming.agent.arguments import parser_of
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from tests.cases import one_is_fast


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    made = Bench(spark, tmp_path, HDFS)
    made.input("table").joinpath("0.json").write_text('{"k": "a", "v": 1}\n')
    return made


def rows(bench: Bench, name: str = "in") -> DataFrame:
    return source(name, bench.source(name=name)).withWatermark("ts", "10 minutes")


def table(bench: Bench) -> DataFrame:
    return bench.spark.read.schema("k string, v int").json(str(bench.input("table")))


def counts(df: DataFrame, *keys: str) -> DataFrame:
    return stage("n", df.groupBy(*(keys or ("k",))).count())


def sql(text: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        rows(bench).createOrReplaceTempView("rows")
        table(bench).createOrReplaceTempView("known")
        return bench.spark.sql(text)

    return build


def joined(how: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        left, right = rows(bench, "a").alias("l"), rows(bench, "b").alias("r")
        near = F.expr("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 5 minutes")
        return stage("pairs", left.join(right, near, how))

    return build


def looked_up(how: str, turned: bool = False) -> Callable:
    def build(bench: Bench) -> DataFrame:
        sides = [rows(bench), table(bench)]
        first, second = reversed(sides) if turned else sides
        return counts(first.join(second, "k", how), "k")

    return build


def semi_above_a_union(how: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        both = rows(bench, "a").union(rows(bench, "b")).alias("l")
        near = F.expr("l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 5 minutes")
        return both.join(rows(bench, "c").alias("r"), near, how)

    return build


def pandas(batches: Iterator) -> Iterator:
    yield from batches


def self_union(bench: Bench) -> DataFrame:
    once = stage("once", rows(bench).dropDuplicates(["k", "ts"]))
    return once.union(once)


def distinct_then_dedup(bench: Bench) -> DataFrame:
    once = stage("once", rows(bench).dropDuplicates(["k", "ts"]))
    return stage("again", once.select("k", "ts").distinct())


def two_limits(bench: Bench) -> DataFrame:
    return stage("second", stage("first", rows(bench).limit(10)).limit(5))


def window_of_window(bench: Bench) -> DataFrame:
    small = stage("small", rows(bench).groupBy(F.window("ts", "5 minutes"), "k").agg(F.sum("a").alias("a")))
    return stage("large", small.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.sum("a")))


def explode_twice(bench: Bench) -> DataFrame:
    letters = rows(bench).withColumn("c", F.explode(F.split("k", "")))
    return counts(letters.withColumn("d", F.explode(F.array("a", "b"))), "c", "d")


COUNT = "SELECT k, count(*) n FROM rows"
OUTER = ("inner", "left", "right", "full", "leftsemi", "leftanti")
QUERIES: dict[str, tuple[Callable, str]] = {
    # limits, offsets, sorts, samples
    "limit above limit": (two_limits, "append"),
    "limit": (lambda b: stage("l", rows(b).limit(5)), "append"),
    "limit above an aggregation": (lambda b: counts(rows(b)).limit(5), "complete"),
    "offset": (lambda b: rows(b).offset(3), "append"),
    "sort of all": (lambda b: counts(rows(b)).orderBy("k"), "complete"),
    "sort of a stream": (lambda b: rows(b).orderBy("k"), "append"),
    "sample": (lambda b: counts(rows(b).sample(0.5, seed=7)), "update"),
    # groups
    "no key": (lambda b: stage("n", rows(b).groupBy().count()), "update"),
    "rollup": (lambda b: stage("n", rows(b).rollup("k", "k2").count()), "update"),
    "grouping id": (sql("SELECT k, grouping_id() g, count(*) n FROM rows GROUP BY k, k2 WITH CUBE"), "update"),
    "pivot": (lambda b: stage("n", rows(b).groupBy("k").pivot("k2", ["x", "y"]).agg(F.sum("a"))), "update"),
    "unpivot": (lambda b: counts(rows(b).unpivot(["k"], ["a", "b"], "what", "v"), "k", "what"), "update"),
    "windows of windows": (window_of_window, "append"),
    "a session": (lambda b: counts(rows(b).groupBy(F.session_window("ts", "5 minutes"), "k").count(), "k"), "append"),
    "a text that is a time in a key": (lambda b: counts(rows(b).selectExpr("date('today') day"), "day"), "update"),
    "a text that is a date in a key": (lambda b: counts(rows(b).selectExpr("date('2026-01-01') d"), "d"), "update"),
    "a clock in a key": (lambda b: counts(rows(b).withColumn("day", F.current_date()), "day"), "update"),
    # duplicates and sets
    "distinct": (lambda b: stage("d", rows(b).select("k").distinct()), "append"),
    "distinct above a deduplication": (distinct_then_dedup, "append"),
    "union with itself, named": (self_union, "append"),
    "EXCEPT": (sql("SELECT k FROM rows EXCEPT SELECT k FROM known"), "append"),
    "INTERSECT": (sql("SELECT k FROM rows INTERSECT SELECT k FROM known"), "append"),
    # common tables, subqueries
    "WITH, used twice": (
        sql("WITH b AS (SELECT * FROM rows WHERE a > 1) SELECT k FROM b UNION ALL SELECT k2 FROM b"), "append"),
    "exists": (sql(f"{COUNT} WHERE EXISTS (SELECT 1 FROM known WHERE known.k = rows.k) GROUP BY k"), "update"),
    "lateral join": (
        sql("SELECT rows.k, count(*) n FROM rows, LATERAL (SELECT v FROM known t WHERE t.k = rows.k) GROUP BY rows.k"),
        "update"),
    # explode, Python, windows
    "explode above explode": (explode_twice, "update"),
    "mapInPandas": (lambda b: counts(rows(b).mapInPandas(pandas, SCHEMA)), "update"),
    "applyInPandas": (lambda b: rows(b).groupBy("k").applyInPandas(lambda pdf: pdf, SCHEMA), "append"),
    "a higher-order function": (
        lambda b: counts(rows(b).withColumn("n", F.size(F.filter(F.array("a", "b"), lambda x: x > 1))), "n"), "update"),
    "a window function": (sql("SELECT k, row_number() OVER (PARTITION BY k ORDER BY ts) n FROM rows"), "append"),
    "with no state": (lambda b: rows(b).select("k"), "append"),
    # joins
    **{f"stream-stream {how}": (joined(how), "append") for how in OUTER},
    **{f"stream-static {how}": (looked_up(how), "update") for how in OUTER},
    **{f"static-stream {how}": (looked_up(how, True), "update") for how in ("left", "right")},
    "semi join above a union": (semi_above_a_union("leftsemi"), "append"),
    "anti join above a union": (semi_above_a_union("leftanti"), "append"),
}  # fmt: skip

# What has to be refused, and the words that say which operator it is.
REFUSED = {
    "limit above limit": "GlobalLimit: 2 written, 1 planned",
    "semi join above a union": "Join: 1 written, 2 planned",
    "anti join above a union": "Spark will refuse",
    "stream-stream leftanti": "Spark will refuse",
    "sort of a stream": "Spark will refuse",
    "offset": "Spark will refuse",
    "a window function": "Spark will refuse",
    "EXCEPT": "Aggregate: 0 written, 1 planned",
    "union with itself, named": "two stages are named 'once'",
    "a text that is a time in a key": "stage q/n (test_understood.py:",
    "a clock in a key": "stage q/n (test_understood.py:",
}
CARRIED = {"a text that is a date in a key", "no key", "limit", "distinct", "windows of windows", "with no state"}
CARRIED |= {"stream-stream inner", "stream-static left"}


def planned(bench: Bench, name: str) -> AppPlan:
    build, mode = QUERIES[name]
    app = StreamingApp("bench")
    app.query("q")(lambda spark, params: build(bench).writeStream.outputMode(mode).format("noop"))
    writers = app.build(bench.spark, {})
    return plan_app(bench.spark, Declarations("bench", written=app.written()), writers)


@pytest.mark.parametrize("name", one_is_fast(QUERIES, 20))
def test_a_query_is_carried_by_itself_or_refused_when_it_is_submitted(name: str, bench: Bench) -> None:
    try:
        first = planned(bench, name)
        check_updatable(first, again=planned(bench, name))
    except ApplicationError as error:
        told = str(error)
    else:
        told = ""
        assert name not in REFUSED
        assert all(i.verdict == "carried" for i in compare(first, planned(bench, name), "itself").items)
    assert not told or ("(test_understood.py:" in told and REFUSED.get(name, "") in told and name not in CARRIED)


def test_the_plan_of_a_start_refuses_what_no_update_could_carry(bench: Bench) -> None:
    """What `submit` runs; --agree lets it run all the same, and a plan alone is made of it in any case."""
    app, build = StreamingApp("bench"), QUERIES["a clock in a key"][0]
    app.query("q")(lambda spark, params: build(bench).writeStream.outputMode("update").format("noop"))
    out = bench.folder / "plan.json"

    def answer(*arguments: str) -> dict:
        driver.plan(app, parser_of("bench").parse_args(["plan", "--out", str(out), *arguments]))
        return json.loads(out.read_text())

    start = ("--root", str(bench.folder / "root"), "--against", "nothing")
    error = answer(*start)["error"]
    assert error["type"] == "ApplicationError" and "nothing was started" in error["message"]
    assert "stage q/n (test_understood.py:" in error["message"] and "--agree q/n" in error["message"]
    assert answer(*start, "--agree", "q/n")["plan"] and answer()["plan"]
