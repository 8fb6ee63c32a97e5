"""What belongs to one branch of a union, to one side of a join, to one use of a table: moved to the other one, it is
another app. Each app is itself when it is planned again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, Bench
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import source, stage
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from tests.cases import one_is_fast

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules

Version = Callable[[Bench], DataFrame]
ROWS = "k string, k2 string, a long, b long, ts timestamp, items array<string>"


def rows(bench: Bench) -> DataFrame:
    return source("rows", bench.source(ROWS))


def table(bench: Bench) -> DataFrame:
    return bench.spark.read.schema("k string, g string, v long").json(str(bench.input("table")))


def counted(df: DataFrame, *keys: str) -> DataFrame:
    return stage("c", df.groupBy(*keys).agg(F.count("*").alias("n")))


def exploded(one: str, other: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        stream = rows(bench)
        left = stream.select(F.lit(one).alias("key"), F.explode_outer("items"))
        right = stream.select(F.lit(other).alias("key"), F.explode_outer(F.array("k")))
        return counted(left.union(right), "key")

    return build


def crossed(one: str, other: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        stream = rows(bench)
        left = stream.select(F.col(one).alias("n")).crossJoin(bench.spark.range(2).select())
        return stage("c", left.union(stream.select(other)).agg(F.sum("n").alias("s")))

    return build


def mapped(one: str, other: str) -> Version:
    def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.concat([frame, frame])

    def build(bench: Bench) -> DataFrame:
        stream = rows(bench)
        left = stream.select("k").mapInPandas(doubled, "k string").select(F.lit(one).alias("key"))
        return counted(left.union(stream.select(F.lit(other))), "key")

    return build


def tables(one: str, other: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        first = table(bench).where("v = 1").select("k", F.lit(one).alias("f"))
        rest = table(bench).where("v > 1").select("k", F.lit(other).alias("f"))
        return counted(rows(bench).join(first.union(rest), "k"), "f")

    return build


def one_table(one: str, other: str) -> Version:
    """Both branches are of one DataFrame."""

    def build(bench: Bench) -> DataFrame:
        read = table(bench)
        first, rest = (read.where(c).select("k", F.lit(f).alias("f")) for c, f in (("v = 1", one), ("v > 1", other)))
        return counted(rows(bench).join(first.union(rest), "k"), "f")

    return build


def three_times(column: str, condition: str = "true") -> Version:
    def build(bench: Bench) -> DataFrame:
        v, w, u = (table(bench).alias(name) for name in "vwu")
        pairs = v.join(w, F.expr(f"v.k = w.k AND {condition}")).join(u, F.expr("v.k = u.k"))
        return counted(rows(bench).join(pairs.selectExpr("v.k", f"{column} AS x"), "k"), "x")

    return build


def used_twice(column: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        read, stream = table(bench).selectExpr("k AS tk", "v AS x"), rows(bench)
        found = stream.join(read, stream.k == read.tk, "left_semi")
        return counted(found.join(read, stream[column] == read.tk), "x")

    return build


def on_side(exploding: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        made, left = F.explode_outer("items"), rows(bench)
        right = left
        left = left.select("k", "a", made) if exploding == "left" else left
        right = right.select("k", "a", made) if exploding == "right" else right
        left, right = left.selectExpr("k AS lk", "a AS la"), right.selectExpr("k AS rk", "a AS ra")
        return stage("j", left.join(right, F.expr("lk = rk AND la < ra")))

    return build


def given_by_python(value: str) -> Version:
    class Reader(DataSourceReader):
        def read(self, partition: object) -> Iterator[tuple[str, str]]:
            yield "a", value

    class Given(DataSource):
        @classmethod
        def name(cls) -> str:
            return "given"

        def schema(self) -> str:
            return "k string, x string"

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

    def build(bench: Bench) -> DataFrame:
        bench.spark.dataSource.register(Given)
        return counted(rows(bench).join(bench.spark.read.format("given").load(), "k"), "x")

    return build


def unpivoted(*columns: str) -> Version:
    return lambda b: counted(rows(b).select("a", "k", "k2").unpivot(["a"], list(columns), "n", "v"), "n")


def grouped(count: int) -> Version:
    def first(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.head(count)

    return lambda b: counted(rows(b).select("k", "a").groupBy("k").applyInPandas(first, "k string, a long"), "k")


def cached(function: str) -> Version:
    return lambda b: counted(
        rows(b).join(table(b).groupBy("k").agg(F.expr(f"{function}(v)").alias("x")).cache(), "k"), "x"
    )


PAIRS: dict[str, tuple[Version, Version]] = {
    "an explode in a branch": (exploded("p", "q"), exploded("q", "p")),
    "a product in a branch": (crossed("a", "b"), crossed("b", "a")),
    "a Python function in a branch": (mapped("p", "q"), mapped("q", "p")),
    "a filter in a branch of tables": (tables("p", "q"), tables("q", "p")),
    "a filter in a branch of one table": (one_table("p", "q"), one_table("q", "p")),
    "one of three": (three_times("w.v"), three_times("u.v")),
    "a condition of one of three": (three_times("v.v", "v.g = 'x'"), three_times("v.v", "w.g = 'x'")),
    "one of two uses": (used_twice("k"), used_twice("k2")),
    "an explode on a side": (on_side("left"), on_side("right")),
    "a Python data source": (given_by_python("v1"), given_by_python("v2")),
    "columns in rows": (unpivoted("k", "k2"), unpivoted("k2")),
    "a group's function": (grouped(1), grouped(2)),
    "what is cached": (cached("max"), cached("min")),
}


def planned(bench: Bench, build: Version) -> AppPlan:
    mode = "append" if build.__qualname__.startswith("on_side") else "update"
    return plan_app(bench.spark, "app", {"q": build(bench).writeStream.outputMode(mode).format("noop")})


@pytest.mark.parametrize("name", one_is_fast(PAIRS, 4))
def test_what_is_moved_is_seen(spark, tmp_path, name: str) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    (bench.input("table") / "0.json").write_text('{"k": "a", "g": "x", "v": 1}\n')
    old, new = (planned(bench, build) for build in PAIRS[name])
    assert [i for i in compare(old, planned(bench, PAIRS[name][0]), "itself").items if i.verdict != "carried"] == []
    assert not compare(old, new, "the old one").compatible


def test_metrics_of_a_stream_are_no_part_of_it(spark, tmp_path) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    plain = planned(bench, lambda b: counted(rows(b), "k"))
    seen = planned(bench, lambda b: counted(rows(b).observe("seen", F.count("*").alias("n")), "k"))
    assert {i.verdict for i in compare(plain, seen, "without").items} == {"carried"}
