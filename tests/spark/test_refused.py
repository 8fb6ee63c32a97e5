"""What is refused although nothing, or only the session, has changed; and what Spark would make of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, row
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.streaming import source, stage

ZONE = "spark.sql.session.timeZone"


def by(key: str) -> Callable:
    return lambda bench: stage("totals", bench.source().groupBy(F.expr(key).alias("key")).agg(F.sum("a").alias("s")))


@pytest.mark.parametrize(
    ("called", "carried"),
    [
        ("java_method('java.lang.String', 'valueOf', k)", True),
        ("reflect('java.util.Objects', 'toString', k)", True),
        ("java_method('org.apache.commons.lang3.StringUtils', 'capitalize', k)", False),
        ("try_reflect('org.apache.commons.lang3.StringUtils', 'capitalize', k)", False),
    ],
)
def test_code_of_the_jvm_that_is_called_by_name_cannot_be_compared(bench: Bench, called: str, carried: bool) -> None:
    """An outside review exchanged the jar behind the class: the key was carried, and was another one."""
    plan, _ = bench.plan(by(called))
    report = compare(plan, plan, "itself")
    assert report.compatible is carried
    assert carried or "java_method" in report.problems[0]


def test_a_key_that_asks_for_the_time_is_refused(bench: Bench) -> None:
    """A dry run's optimizer takes the moment of planning for a constant, and drops it from the keys."""
    plan, _ = bench.plan(by("date_trunc('hour', current_timestamp())"))
    assert (
        "keys could not be traced to the source (?asks for the time(trunctimestamp("
        in compare(plan, plan, "it").problems[0]
    )


def filled(*sources: str) -> Callable:
    """Keys of the first source cannot be null; those of another one can."""

    def build(bench: Bench):
        one, *others = (source(name, bench.source(name=name)).select("k") for name in sources)
        keys = one.select(F.coalesce("k", F.lit("")).alias("k"))
        for other in others:
            keys = keys.union(other)
        return stage("totals", keys.groupBy("k").count())

    return build


@pytest.mark.slow
def test_nulls_in_the_state_outlive_a_key_that_cannot_be_null_any_more(bench: Bench) -> None:
    """In Spark 4.3's state schemas every column can be null."""
    bench.write([row("a", 1)], "one")
    bench.write([{"a": 1}], "two")
    snapshot = bench.run(filled("one", "two"), "complete")
    bench.write([row("b", 1)], "one")
    bench.run(filled("one"), "complete", snapshot=snapshot, agree=("q/two",))
    assert {r["k"]: r["count"] for r in bench.emitted[max(bench.emitted)]} == {"a": 1, None: 1, "b": 1}


def first(value: str) -> Callable:
    def build(bench: Bench):
        firsts = stage("firsts", bench.source().groupBy("k").agg(F.first(F.expr(value)).alias("i")))
        return firsts.select("k", F.col("i").isNull().alias("none"))  # PySpark has no calendar intervals

    return build


def test_a_null_interval_in_the_state_keeps_spark_from_loading_it(bench: Bench) -> None:
    months = first("if(a > 1, make_interval(1), null)")
    bench.write([row("a", 1)])
    snapshot = bench.run(months)
    refused = next(i for i in bench.check(snapshot, months).items if i.verdict == "refused")
    assert refused.reason.startswith("value columns first of the state are calendar intervals")
    bench.write([row("a", 1)])
    with pytest.raises(Exception, match="ROW_FORMAT_VALIDATION_FAILURE"):
        bench.run(months, snapshot=snapshot, agree=("q/firsts:same=to see what Spark does",))
    days = first("if(a > 1, make_dt_interval(1), null)")
    bench.unread = bench.files
    snapshot = bench.run(days)
    assert bench.check(snapshot, days).compatible
    with pytest.raises(InvalidInputError, match="q/other"):
        bench.check(snapshot, days, agree=("q/other",))


def pairs_within(interval: str) -> Callable:
    def build(bench: Bench):
        left, right = (bench.source(name=n).withWatermark("ts", "1 minute") for n in ("left", "right"))
        left, right = left.toDF("k", "k2", "a", "b", "lts"), right.toDF("rk", "rk2", "ra", "rb", "rts")
        on = F.expr(f"k = rk AND rts BETWEEN lts AND lts + INTERVAL {interval}")
        return stage("pairs", left.join(right, on)).select("k", "a", "ra")

    return build


def sessions(gap: str) -> Callable:
    return lambda bench: stage("w", bench.source().groupBy(F.session_window("ts", gap), "k").count())


# A version, its mode, and what another time zone is for its stage.
ZONED = {
    "days": (by("date(ts)"), "complete", "refused"),
    "sessions of days": (sessions("1 day"), "complete", "refused"),
    "a join within days": (pairs_within("2 DAYS"), "append", "refused"),
    "a join within minutes": (pairs_within("90 MINUTES"), "append", "carried"),
    "names": (by("k"), "complete", "carried"),
    "sessions of minutes": (sessions("90 minutes"), "complete", "carried"),
}


@pytest.mark.parametrize("name", ZONED)
def test_another_time_zone_is_another_key_where_the_key_depends_on_it_and_a_loss_elsewhere(bench, name: str) -> None:
    build, mode, expected = ZONED[name]
    plans = []
    for zone in ("UTC", "Etc/UTC", "Asia/Tokyo"):
        bench.spark.conf.set(ZONE, zone)
        plans.append(bench.plan(build, mode)[0])
    assert compare(*plans[:2], "another name of it").compatible
    items = compare(plans[0], plans[2], "the old plan").items
    assert {i.verdict for i in items if i.thing == "stage"} == {expected}
    if expected == "carried":
        assert [(i.name, i.verdict) for i in items if i.blocks] == [(f"q:{ZONE}", "carried with loss")]
