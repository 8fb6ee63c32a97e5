"""Filters that ask for the time: what they are does not change with the moment at which a plan is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import HDFS, Bench, row, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from tests.cases import one_is_fast

WINDOW = "1 hour"


def below(condition: str) -> Callable:
    return lambda bench: stage("t", bench.source().where(condition).groupBy("k").count())


def above(condition: str) -> Callable:
    def build(bench: Bench):
        rows = bench.source().withWatermark("ts", "1 minute")
        return stage("t", rows.groupBy(F.window("ts", WINDOW), "k").count()).where(condition)

    return build


def of_a_table(condition: str) -> Callable:
    def build(bench: Bench):
        table = bench.spark.read.schema("k string, label string, at timestamp").json(str(bench.input("table")))
        return stage("t", bench.source().join(table.where(condition), "k").groupBy("label").count())

    return build


def in_a_subquery(condition: str) -> Callable:
    def build(bench: Bench):
        table = bench.spark.read.schema("k string, at timestamp").json(str(bench.input("table")))
        table.createOrReplaceTempView("seen")
        return stage("t", bench.source().where(f"k IN (SELECT k FROM seen WHERE {condition})").groupBy("k").count())

    return build


FILTERS = {
    "now": below("ts > now() - interval 1 day"),
    "current_timestamp": below("ts > current_timestamp() - interval 2 hours AND a > 1"),
    "current_date": below("date(ts) >= current_date() - 7"),
    "localtimestamp": below("cast(ts AS timestamp_ntz) > localtimestamp()"),
    "current_time": below("cast(ts AS time) > current_time(3)"),
    "cut off": below("ts > date_trunc('day', now())"),
    "as a text": below("k2 > cast(now() AS string)"),
    "a choice": below("CASE WHEN now() > timestamp'2020-01-01' THEN a > 1 ELSE a > 2 END"),
    "above": above("window.end < now()"),
    "of a table": of_a_table("at > now() - interval 1 day"),
    "of a table as a text": of_a_table("label > cast(current_timestamp() AS string)"),
    "of a table's key": of_a_table("k > cast(current_date() AS string)"),
    "of a subquery": in_a_subquery("at > now()"),
}
# Other filters than those, which would be asked about or told.
OTHERS = {
    "now": below("ts > now() - interval 2 days"),
    "current_date": below("date(ts) >= current_date() - 8"),
    "cut off": below("ts > date_trunc('hour', now())"),
    "above": above("window.end < now() - interval 1 hour"),
    "of a table": of_a_table("at > now() - interval 2 days"),
}


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    return Bench(spark, tmp_path, HDFS)


def findings(bench: Bench, old: Callable, new: Callable) -> list:
    mode = "append" if old in (FILTERS["above"],) else "update"
    (before, _), (after, _) = bench.plan(old, mode), bench.plan(new, mode)
    assert after.queries[0].stages[0].filters is not None
    return [i for i in compare(before, after, "s1").items if i.thing == "stage" and i.rules != ("stage.same",)]


@pytest.mark.parametrize("what", one_is_fast(FILTERS, 5))
def test_a_filter_that_asks_for_the_time_is_itself(what: str, bench: Bench) -> None:
    assert findings(bench, FILTERS[what], FILTERS[what]) == []


@pytest.mark.parametrize("what", OTHERS)
def test_another_one_is_told(what: str, bench: Bench) -> None:
    assert len(findings(bench, FILTERS[what], OTHERS[what])) == 1


def test_what_is_decided_by_the_time_alone_is_planned_as_it_is_now(bench: Bench) -> None:
    """Such a filter is none now, and drops all rows later; then there is no stage."""
    build = below("now() < timestamp'2200-01-01 00:00:00'")
    assert findings(bench, build, build) == []
    assert bench.plan(build)[0].queries[0].stages[0].filters == ()


def test_such_a_query_goes_on(bench: Bench) -> None:
    build = below("ts > now() - interval 30000 days")
    bench.write([row("x", 1)])
    snapshot = bench.run(build)
    assert bench.check(snapshot, build).compatible
    bench.write([row("x", 1)])
    bench.run(build, snapshot=snapshot)
    assert bench.last("k") == {("x",): {"k": "x", "count": 2}}
