"""What makes other rows, or more or fewer of them, on their way to a stage: its texts of columns and filters do not say
it. Each pair differs in that alone; it is agreed to by name, and a version is itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, row, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_provider_streamupdate.streaming import source
from tests.cases import one_is_fast

Version = Callable[[Bench], DataFrame]
LISTS = "k string, items array<string>, tags array<string>"


def count(rows: DataFrame, *keys: str) -> DataFrame:
    return stage("c", rows.groupBy(*keys).agg(F.count("*").alias("n")))


def plain(bench: Bench) -> DataFrame:
    return count(bench.source(), "k")


def looked_up(*rows: tuple[str, str], kind: str = "inner") -> Version:
    def build(bench: Bench) -> DataFrame:
        table = bench.spark.createDataFrame(list(rows), "k string, tier string")
        return count(bench.source().join(table, "k", kind), "k")

    return build


def exploded(column: str) -> Version:
    return lambda b: count(b.source(LISTS).select("k", F.explode(column)), "k")


def twice(bench: Bench) -> DataFrame:
    rows = bench.source()
    return count(rows.union(rows), "k")


def found(condition: str, *numbers: int) -> Version:
    """A condition with a subquery above a join."""

    def build(bench: Bench) -> DataFrame:
        bench.spark.createDataFrame([(n,) for n in numbers], "m long").createOrReplaceTempView("numbers")
        left, right = (bench.source(name=side) for side in ("l", "r"))
        right = right.select(F.col("k").alias("rk"), F.col("a").alias("ra"))
        return stage("c", left.join(right, F.expr("k = rk"))).where(condition)

    return build


def joined(bench: Bench) -> DataFrame:
    left = source("l", bench.source(name="l"))
    right = source("r", bench.source(name="r").select(F.col("k").alias("rk"))).withColumn("ts", F.lit(None))
    pairs = stage("j", left.join(right.drop("ts"), F.expr("k = rk")))
    return count(pairs.withWatermark("ts", "1 hour"), F.window("ts", "10 minutes"), "k")  # type: ignore[arg-type]


def single(bench: Bench) -> DataFrame:
    rows = source("l", bench.source(name="l"))
    return count(rows.withWatermark("ts", "1 hour"), F.window("ts", "10 minutes"), "k")  # type: ignore[arg-type]


def watermarked(column: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source().withColumn("copy", F.col("ts"))
        return count(rows.withWatermark(column, "10 minutes"), F.window("ts", "10 minutes"))  # type: ignore[arg-type]

    return build


def itself(condition: str, column: str) -> Version:
    """A table joined with itself."""

    def build(bench: Bench) -> DataFrame:
        table = bench.spark.read.schema("k string, x string, y int").json(str(bench.input("table")))
        pairs = table.alias("v").join(table.alias("w"), F.expr(condition)).selectExpr("v.k", column)
        return count(bench.source().join(pairs, "k"), "x")

    return build


def given(values: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        bench.source().createOrReplaceTempView("rows")
        return count(bench.spark.sql(f"SELECT x FROM rows JOIN (VALUES {values} AS t(k, x)) USING (k)"), "x")

    return build


def default(value: str) -> Version:
    note = {"CURRENT_DEFAULT": value, "EXISTS_DEFAULT": value}
    schema = StructType([StructField("k", StringType(), True, note), StructField("a", LongType())])
    return lambda b: count(b.source(schema), "k")


IN, EXISTS = "a IN (SELECT m FROM numbers)", "EXISTS (SELECT 1 FROM numbers WHERE m = a)"
LESS = "v.k = w.k AND v.y < w.y"
PAIRS = {
    "a row more of a lookup": (looked_up(("a", "x")), looked_up(("a", "x"), ("a", "y")), "update"),
    "a lookup that keeps all rows": (looked_up(("a", "x")), looked_up(("a", "x"), kind="left"), "update"),
    "a product with a table": (plain, lambda b: count(b.source().crossJoin(b.spark.range(2)), "k"), "update"),
    "another list exploded": (exploded("items"), exploded("tags"), "update"),
    "a union with itself": (plain, twice, "update"),
    "a join of streams below": (single, joined, "append"),
    "IN above a join": (
        found(IN, 7),
        found(IN, 3, 7),
        "append",
    ),
    "a scalar subquery above a join": (
        found("a > (SELECT max(m) FROM numbers)", 5),
        found("a > (SELECT max(m) FROM numbers)", 1),
        "append",
    ),
    "EXISTS above a join, removed": (
        found(EXISTS, 7),
        found("true", 7),
        "append",
    ),
    "a watermark on a copy": (watermarked("ts"), watermarked("copy"), "update"),
    "a side of a table": (itself(LESS, "v.x"), itself(LESS, "w.x"), "update"),
    "null and its text": (given("('a', NULL), ('b', 'z')"), given("('a', 'null'), ('b', 'z')"), "update"),
    "a default of the source": (default("'x'"), default("'y'"), "update"),
}


@pytest.mark.parametrize("name", one_is_fast(PAIRS, 4))
def test_rows_that_come_otherwise_are_agreed_to(spark, tmp_path, name: str) -> None:
    old, new, mode = PAIRS[name]
    bench = Bench(spark, tmp_path)
    for folder in ("in", "l", "r", "table"):
        bench.write([row("a", 1)], folder)
    snapshot = bench.run(old, mode)
    items = [i for i in bench.check(snapshot, new, mode).items if i.name == "q/c"]
    assert [i.blocks for i in items] == [True], items
    assert {i.verdict for i in bench.check(snapshot, old, mode).items} == {"carried"}
