"""Filters that ask for the time: what they are does not change with the moment at which a plan is made."""

from __future__ import annotations

import pytest
from bench import Bench, row, stage
from pairs import Ground, Version, counts, looked_up

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from tests.cases import one_is_fast


def below(condition: str) -> str:
    return counts("k", f"rws where {condition}")


def above(condition: str) -> Version:
    return lambda g: g.made(counts("window(ts, '1 hour') w, k", "late")).where(condition)


def of_a_table(condition: str) -> str:
    return looked_up(f"(select * from tabl where {condition})")


AT = "timestamp_seconds(weight)"
FILTERS = {
    "now": below("ts > now() - interval 1 day"),
    "current_timestamp": below("ts > current_timestamp() - interval 2 hours AND a > 1"),
    "current_date": below("date(ts) >= current_date() - 7"),
    "localtimestamp": below("cast(ts AS timestamp_ntz) > localtimestamp()"),
    "current_time": below("cast(ts AS time) > current_time(3)"),
    "cut off": below("ts > date_trunc('day', now())"),
    "as a text": below("k2 > cast(now() AS string)"),
    "a choice": below("CASE WHEN now() > timestamp'2020-01-01' THEN a > 1 ELSE a > 2 END"),
    "above": above("w.end < now()"),
    "of a table": of_a_table(f"{AT} > now() - interval 1 day"),
    "of a table as a text": of_a_table("label > cast(current_timestamp() AS string)"),
    "of a table's key": of_a_table("k > cast(current_date() AS string)"),
    "of a subquery": below(f"k IN (SELECT k FROM tabl WHERE {AT} > now())"),
}
# Other filters than those, which would be asked about or told.
OTHERS = {
    "now": below("ts > now() - interval 2 days"),
    "current_date": below("date(ts) >= current_date() - 8"),
    "cut off": below("ts > date_trunc('hour', now())"),
    "above": above("w.end < now() - interval 1 hour"),
    "of a table": of_a_table(f"{AT} > now() - interval 2 days"),
}


@pytest.fixture
def ground(spark, tmp_path) -> Ground:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    return Ground(spark, tmp_path)


def findings(ground: Ground, *versions: Version) -> list:
    mode = "append" if versions[0] is FILTERS["above"] else "update"
    before, after = (ground.plan(version, mode) for version in versions)
    assert after.queries[0].stages[0].filters is not None
    return [i for i in compare(before, after, "s1").items if i.thing == "stage" and i.rules != ("stage.same",)]


@pytest.mark.parametrize("what", one_is_fast(FILTERS, 5))
def test_a_filter_that_asks_for_the_time_is_itself(what: str, ground: Ground) -> None:
    assert findings(ground, FILTERS[what], FILTERS[what]) == []


@pytest.mark.parametrize("what", OTHERS)
def test_another_one_is_told(what: str, ground: Ground) -> None:
    assert len(findings(ground, FILTERS[what], OTHERS[what])) == 1


def test_what_is_decided_by_the_time_alone_is_planned_as_it_is_now(ground: Ground) -> None:
    """Such a filter is none now, and drops all rows later; then there is no stage."""
    version = below("now() < timestamp'2200-01-01 00:00:00'")
    assert findings(ground, version, version) == []
    assert ground.plan(version).queries[0].stages[0].filters == ()


def test_such_a_query_goes_on(bench: Bench) -> None:
    def build(bench: Bench):
        rows = bench.source().where("ts > now() - interval 30000 days")
        return stage("t", rows.groupBy("k").count())

    bench.write([row("x", 1)])
    snapshot = bench.run(build)
    bench.write([row("x", 1)])
    bench.run(build, snapshot=snapshot)
    assert bench.last("k") == {("x",): {"k": "x", "count": 2}}
