"""Delays of watermarks on several branches: which rows have which, and which one a deduplication goes by."""

from __future__ import annotations

import pytest
from bench import Bench, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.streaming import source as named_source


def source(bench: Bench, name: str, delay: str) -> DataFrame:
    return named_source(name, bench.source(name=name)).withWatermark("ts", delay)


def once(*branches: tuple[str, str], within: bool = True):
    """A deduplication of a union of sources, each with its delay."""

    def build(bench: Bench) -> DataFrame:
        first, *others = (source(bench, name, delay) for name, delay in branches)
        for other in others:
            first = first.union(other)
        return stage(
            "once", first.dropDuplicatesWithinWatermark(["k"]) if within else first.dropDuplicates(["k", "ts"])
        )

    return build


def parts(**delays: str):
    """Counts of two parts of one source, each with its delay."""

    def build(bench: Bench) -> DataFrame:
        rows = bench.source()
        first, second = (rows.where(F.col("k") == k).withWatermark("ts", delay) for k, delay in delays.items())
        return stage("hours", first.union(second).groupBy(F.window("ts", "1 hour"), "k").count())

    return build


FAST, SLOW = ("in", "5 minutes"), ("other", "2 hours")


def rules(bench: Bench, old, new, mode: str = "append") -> set[str]:
    """What is refused or asked about when the second version replaces the first one."""
    report = compare(bench.plan(old, mode)[0], bench.plan(new, mode)[0], "test")
    return {rule for item in report.items if item.blocks for rule in item.rules}


@pytest.mark.parametrize("within", [True, False])
def test_a_deduplication_within_a_watermark_goes_by_the_first_branch(bench, within: bool) -> None:
    """Found from outside: a key was emitted twice within the delay that it had when it came. Spark gives a union's
    columns the first branch's delay; an ordinary deduplication goes by the watermark of all branches."""
    found = rules(bench, once(FAST, SLOW, within=within), once(SLOW, FAST, within=within))
    assert found == ({"watermark.delay"} if within else set())


def test_the_order_of_branches_with_one_delay_does_not_count(bench) -> None:
    assert rules(bench, once(FAST, ("other", FAST[1])), once(("other", FAST[1]), FAST)) == set()


def test_a_branch_with_another_delay_that_comes_after_the_first_is_added(bench) -> None:
    assert rules(bench, once(FAST), once(FAST, SLOW)) == set()


def test_which_part_of_a_source_has_which_delay_counts(bench) -> None:
    """Found from outside: two parts of one source exchanged their delays, and groups came that were late before."""
    assert rules(bench, parts(a="10 minutes", b="5 hours"), parts(a="5 hours", b="10 minutes")) == {"watermark.delay"}


def test_the_order_of_the_parts_does_not_count(bench) -> None:
    assert rules(bench, parts(a="10 minutes", b="5 hours"), parts(b="5 hours", a="10 minutes")) == set()


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
def test_the_number_by_which_a_column_is_found_counts_where_it_is_used(spark, tmp_path, enabled, nested) -> None:
    """Found from outside: another number read another column under the same name."""
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", str(enabled).lower())
    try:
        bench = Bench(spark, tmp_path)
        (old, _), (new, _) = (bench.plan(by_id(number, nested)) for number in (1, 2))
        (again, _) = bench.plan(by_id(1, nested))
        assert compare(old, again, "test").compatible
        assert compare(old, new, "test").compatible is not enabled
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
