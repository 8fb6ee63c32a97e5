"""Settings that Spark does not keep in the offset log, changed between two versions; and what they do to state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import HDFS, Bench, by, once_and_totals, row, stage
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.streaming.engine.warm_up import warm_up

STORE = HDFS  # of `bench`

pytestmark = pytest.mark.slow

PARSER = "spark.sql.legacy.timeParserPolicy"
ZONE, CASE, ANSI = "spark.sql.session.timeZone", "spark.sql.caseSensitive", "spark.sql.ansi.enabled"


def blocked(bench: Bench, snapshot: str, build: Callable) -> dict[str, tuple[str, ...]]:
    return {i.name: i.rules for i in bench.check(snapshot, build).items if i.blocks}


daily = by("date_format(ts, 'dd') day", "sum(a) s")
totals = by("k", "sum(a) s")


def test_another_zone_makes_other_days(bench: Bench) -> None:
    bench.write([row("a", 1, minute=16 * 60)])  # the next day in Tokyo
    snapshot = bench.run(daily)
    bench.spark.conf.set(ZONE, "Asia/Tokyo")
    bench.write([row("a", 2, minute=17 * 60)])
    bench.spark_alone(daily)
    assert {k: r["s"] for (k,), r in bench.last("day").items()} == {"01": 1, "02": 2}
    assert [r["s"] for r in bench.batch(daily)] == [3]
    assert blocked(bench, snapshot, daily)["q/totals"] == ("stage.keys",)


def test_another_zone_is_agreed_to_where_no_state_depends_on_it(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(totals)
    bench.spark.conf.set(ZONE, "Asia/Tokyo")
    assert blocked(bench, snapshot, totals) == {f"q:{ZONE}": ("setting.changed",)}
    bench.write([row("a", 2)])
    bench.run(totals, snapshot=snapshot, agree=(f"q:{ZONE}",))
    assert bench.last("k") == {("a",): {"k": "a", "s": 3}}


def test_a_sum_that_wraps_without_ansi_is_an_error_with_it(bench: Bench) -> None:
    bench.spark.conf.set(ANSI, "false")
    bench.write([row("a", 2**63 - 1)])
    snapshot = bench.run(totals)
    bench.spark.conf.set(ANSI, "true")
    blocks = blocked(bench, snapshot, totals)
    assert blocks == {f"q:{ANSI}": ("setting.changed",), "q/totals": ("stage.aggregate-arguments",)}
    bench.write([row("a", 1)])
    with pytest.raises(StreamingQueryException, match="ARITHMETIC_OVERFLOW"):
        bench.run(totals, snapshot=snapshot, agree=(f"q:{ANSI}", "q/totals:same=an error is wanted now"))


def test_fields_under_another_case_are_not_found_any_more(bench: Bench) -> None:
    def build(bench: Bench):
        reader = bench.spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1")
        return stage("totals", reader.parquet(str(bench.input())).groupBy("k").agg(F.sum("a").alias("s")))

    def write(a: int) -> None:
        rows = bench.spark.createDataFrame([("x", a)], "K string, A long").coalesce(1)
        rows.write.mode("append").parquet(str(bench.input()))

    bench.spark.conf.set(CASE, "false")
    write(1)
    snapshot = bench.run(build)
    bench.spark.conf.set(CASE, "true")
    assert blocked(bench, snapshot, build) == {f"q:{CASE}": ("setting.changed",)}
    write(2)
    bench.run(build, snapshot=snapshot, agree=(f"q:{CASE}",))
    assert bench.last("k") == {("x",): {"k": "x", "s": 1}, (None,): {"k": None, "s": None}}


def test_a_text_is_another_date_under_another_parser(bench: Bench) -> None:
    """The cause of the issue: the same app, another parser of dates; found by the sweep over Spark's settings."""
    days = by("try_to_timestamp('2020-1-' || a, 'yyyy-MM-dd') day", "count(*) n")
    bench.write([row("a", 5)])
    snapshot = bench.run(days)
    bench.spark.conf.set(PARSER, "LEGACY")
    [item] = [i for i in bench.check(snapshot, days).items if i.name == f"q:{PARSER}"]
    assert item.blocks and f"{PARSER} changed from CORRECTED to LEGACY" in item.reason
    bench.write([row("a", 5)])
    bench.run(days, snapshot=snapshot, agree=(f"q:{PARSER}",))
    assert sorted(r["n"] for r in bench.last("day").values()) == [1, 1]  # one group of null, one of the day


def test_a_setting_that_was_given_spark_s_default_is_no_change(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(totals)
    bench.spark.conf.set(PARSER, "corrected")
    bench.spark.conf.set(ANSI, "TRUE")
    assert blocked(bench, snapshot, totals) == {}


def test_another_zone_is_harmless_where_nothing_has_to_do_with_time(bench: Bench) -> None:
    by_key = by("k", "sum(a) s", schema="k string, a long")
    by_hour = by("k", "max(hour(timestamp_seconds(a))) h", schema="k string, a long")
    bench.write([row("a", 1)])
    for build, asked in ((by_key, False), (by_hour, True)):
        bench.spark.conf.set(ZONE, "UTC")
        plans = [bench.plan(build)[0]]
        bench.spark.conf.set(ZONE, "Asia/Tokyo")
        plans.append(bench.plan(build)[0])
        items = {i.name for i in compare(*plans, "s1").items if i.thing == "setting"}
        assert (f"q:{ZONE}" in items) == asked


def test_a_file_manager_for_an_object_store_is_not_asked_for_scratch_folders(bench: Bench, capfd) -> None:
    """One such refuses local folders (AbortableStreamBasedCheckpointFileManager); any class that is not there does
    so, too."""

    bench.write([row("a", 1)])
    snapshot = bench.run(by("k", "count(*) n", "sum(a) s"))
    bench.spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", "for.buckets.Only")
    report = bench.spark_check(snapshot, once_and_totals)
    assert report.compatible, report.problems
    capfd.readouterr()
    plan, writers = bench.plan(once_and_totals, snapshot=snapshot)
    list(warm_up(bench.spark, writers, bench.saved(snapshot), plan, bench.folder / "warm"))
    assert "could not be warmed up" not in capfd.readouterr().err
    assert bench.spark.conf.get("spark.sql.streaming.checkpointFileManagerClass") == "for.buckets.Only"


def test_a_setting_that_nobody_knows_is_asked_about(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(totals)
    for key, value in (("spark.sql.catalog.lookups", "com.acme.Tables"), ("parquet.read.from.elsewhere", "true")):
        bench.spark.conf.set(key, value)
        assert blocked(bench, snapshot, totals) == {f"q:{key}": ("setting.unknown",)}
        bench.spark.conf.unset(key)
    bench.spark.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "30s")
    bench.spark.conf.set("spark.sql.streaming.aggregation.stateFormatVersion", "1")  # the offset log has it
    assert blocked(bench, snapshot, totals) == {}


def test_settings_are_those_of_the_querys_own_session(bench: Bench) -> None:
    """An app may build its queries in a session of its own."""

    def of(zone: str) -> Callable:
        def build(bench: Bench):
            other = bench.spark.newSession()
            other.conf.set(ZONE, zone)
            reader = other.readStream.schema("k string, a long, ts timestamp").option("maxFilesPerTrigger", "1")
            return stage("totals", reader.json(str(bench.input())).groupBy("k").agg(F.sum("a").alias("s")))

        return build

    bench.write([row("a", 1)])
    snapshot = bench.run(of("UTC"))
    assert blocked(bench, snapshot, of("UTC")) == {}
    assert blocked(bench, snapshot, of("Asia/Tokyo")) == {f"q:{ZONE}": ("setting.changed",)}
