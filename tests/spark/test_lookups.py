"""Tables that a stream is joined with, in every way SQL and the DataFrame API can make one: each is itself when it is
planned again, and no two of them are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, Bench, blocking, planned
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import stage

TABLE = "k string, g string, v long, l array<int>"
LOOP = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5)"
# Texts in one tuple are the same.
SQL: dict[str, tuple[str, ...]] = {
    "plain": (
        "SELECT k, v AS x FROM t",
        "FROM t |> SELECT k, v AS x",
        "SELECT k, v AS x FROM (SELECT * FROM t DISTRIBUTE BY v)",
        "SELECT k, v AS x FROM t SORT BY v",
        "SELECT k, s.v AS x FROM (SELECT k, struct(*) s FROM t)",
        "SELECT /*+ BROADCAST(t) */ k, v x FROM t",
        "WITH c AS (SELECT * FROM t) SELECT k, v x FROM c",
    ),
    "limited": ("SELECT k, v AS x FROM t LIMIT 3",),
    "numbered": ("SELECT k, spark_partition_id() AS x FROM t",),
    "another column": ("SELECT k, length(g) AS x FROM t",),
    "explode": ("SELECT k, explode(l) x FROM t", "SELECT k, x FROM t LATERAL VIEW explode(l) AS x"),
    "explode outer": ("SELECT k, x FROM t LATERAL VIEW OUTER explode(l) AS x",),
    "explode of another": ("SELECT k, explode(array(1, v)) x FROM t",),
    "its rows only": ("SELECT k, v x FROM t LATERAL VIEW explode(l) AS y",),
    "posexplode, the value": ("SELECT k, x FROM t LATERAL VIEW posexplode(l) AS p, x",),
    "inline": ("SELECT k, x FROM t LATERAL VIEW inline(array(struct(1 AS a, 2 AS b))) AS x, b",),
    "stack": ("SELECT k, x FROM t LATERAL VIEW stack(2, 1, 2) AS x",),
    "json_tuple": ("SELECT k, x FROM t LATERAL VIEW json_tuple(g, 'a') AS x",),
    "rollup": ("SELECT k, sum(v) x FROM t GROUP BY ROLLUP (k, g)",),
    "grouping sets": ("SELECT k, sum(v) x FROM t GROUP BY GROUPING SETS ((k), (k, g))",),
    "which set": ("SELECT k, grouping_id() x FROM t GROUP BY GROUPING SETS ((k), (k, g))",),
    "scalar subquery": ("SELECT k, (SELECT max(v) FROM t) x FROM t",),
    "another scalar subquery": ("SELECT k, (SELECT min(v) FROM t) x FROM t",),
    "a random one of rows": ("SELECT k, (SELECT max(v) FROM t WHERE rand(1) < 0.5) x FROM t",),
    "correlated": ("SELECT k, (SELECT max(v) FROM t u WHERE u.k = t.k) x FROM t",),
    "correlated by another": ("SELECT k, (SELECT max(v) FROM t u WHERE u.g = t.k) x FROM t",),
    "exists": ("SELECT k, v x FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.v > t.v)",),
    "in": ("SELECT k, v x FROM t WHERE k IN (SELECT k FROM t WHERE v > 1)",),
    "another in": ("SELECT k, v x FROM t WHERE k IN (SELECT g FROM t WHERE v > 1)",),
    "not in": ("SELECT k, v x FROM t WHERE k NOT IN (SELECT k FROM t WHERE v > 1)",),
    "pivot": ("SELECT k, x FROM t PIVOT (sum(v) FOR g IN ('x' AS x, 'y' AS y))",),
    "unpivot": ("SELECT k, x FROM (SELECT k, v, v + 1 w FROM t) UNPIVOT (x FOR n IN (v, w))",),
    "distinct": ("SELECT DISTINCT k, v x FROM t",),
    "union all": (
        "SELECT k, v x FROM t UNION ALL SELECT k, v + 1 FROM t",
        "SELECT k, v + 1 x FROM t UNION ALL SELECT k, v FROM t",
    ),
    "union all of parts": (
        "SELECT k, v x FROM t WHERE v > 1 UNION ALL SELECT k, v FROM t WHERE g = 'x'",
        "SELECT k, v x FROM t WHERE g = 'x' UNION ALL SELECT k, v FROM t WHERE v > 1",
    ),
    "union": ("SELECT k, v x FROM t UNION SELECT k, v + 1 FROM t",),
    "intersect": ("SELECT k, v x FROM t INTERSECT SELECT g, v FROM t",),
    "intersect all": ("SELECT k, v x FROM t INTERSECT ALL SELECT g, v FROM t",),
    "except": ("SELECT k, v x FROM t EXCEPT SELECT k, v FROM t WHERE v > 1",),
    "except all": ("SELECT k, v x FROM t EXCEPT ALL SELECT k, v FROM t WHERE v > 1",),
    "the first": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1",),
    "the last": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) = 1",),
    "over": ("SELECT k, sum(v) OVER (PARTITION BY k) x FROM t",),
    "over a frame": ("SELECT k, sum(v) OVER (PARTITION BY k ORDER BY v ROWS 1 PRECEDING) x FROM t",),
    "limit": ("SELECT k, v x FROM t ORDER BY v LIMIT 1",),
    "limit from below": ("SELECT k, v x FROM t ORDER BY v DESC LIMIT 1",),
    "sample": ("SELECT k, v x FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (3)",),
    "a larger sample": ("SELECT k, v x FROM t TABLESAMPLE (60 PERCENT) REPEATABLE (3)",),
    "values": ("SELECT col1 k, col2 x FROM VALUES ('a', 1), ('b', 2)",),
    "other values": ("SELECT col1 k, col2 x FROM VALUES ('a', 1), ('b', 3)",),
    "range": ("SELECT string(id) k, id x FROM range(10)",),
    "grouped": ("SELECT k, max(v) x FROM t GROUP BY k",),
    "having": ("SELECT k, max(v) x FROM t GROUP BY k HAVING count(*) > 1",),
    "of some": ("SELECT k, max(v) FILTER (WHERE g = 'x') x FROM t GROUP BY k",),
    "percentile": ("SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) x FROM t GROUP BY k",),
    "joined": ("SELECT a.k, b.v x FROM t a JOIN t b ON a.k = b.g",),
    "joined by another": ("SELECT a.k, b.v x FROM t a JOIN t b ON a.g = b.k",),
    "full joined": ("SELECT a.k, b.v x FROM t a FULL JOIN t b ON a.k = b.g",),
    "anti joined": ("SELECT a.k, a.v x FROM t a LEFT ANTI JOIN t b ON a.k = b.g",),
    "crossed": ("SELECT a.k, b.v x FROM t a CROSS JOIN t b",),
    "lateral": ("SELECT t.k, s.x FROM t, LATERAL (SELECT max(v) x FROM t u WHERE u.k = t.k) s",),
    "lateral of another": ("SELECT t.k, s.x FROM t, LATERAL (SELECT max(v) x FROM t u WHERE u.g = t.k) s",),
    "a random part": ("SELECT k, v x FROM t WHERE rand(3) < 0.5", "SELECT k, v x FROM t WHERE rand(4) < 0.5"),
    "a larger random part": ("SELECT k, v x FROM t WHERE rand(3) < 0.6",),
}  # fmt: skip
RECURSIVE = f"{LOOP} SELECT string(n) k, n x FROM r"


def _mapped(number: int) -> Callable[[DataFrame], DataFrame]:
    def mapped(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame[["k"]].assign(x=number)

    return lambda t: t.mapInPandas(mapped, "k string, x long")


def _table_function(number: int) -> Callable[[DataFrame], DataFrame]:
    class Rows:
        def eval(self) -> Iterator[tuple[str, int]]:
            yield "a", number

    return lambda t: F.udtf(Rows, returnType="k string, x int")()  # type: ignore[call-overload]


FRAMES: dict[str, tuple[Callable[[DataFrame], DataFrame], ...]] = {
    "plain": (
        lambda t: t.cache().selectExpr("k", "v x"),
        lambda t: t.coalesce(1).selectExpr("k", "v x"),
        lambda t: t.observe("seen", F.count("*").alias("c")).selectExpr("k", "v x"),
    ),
    "one of each": (lambda t: t.dropDuplicates(["k"]).selectExpr("k", "v x"),),
    "one of each pair": (lambda t: t.dropDuplicates(["k", "g"]).selectExpr("k", "v x"),),
    "filled": (lambda t: t.na.fill({"g": "z"}).selectExpr("k", "g x"),),
    "sampled by": (lambda t: t.sampleBy("k", {"a": 0.5}, 3).selectExpr("k", "v x"),),
    **{f"{maker.__name__} {number}": (maker(number),) for maker in (_mapped, _table_function) for number in (1, 2)},
}


@pytest.fixture
def tables(spark, tmp_path) -> Bench:
    bench = Bench(spark, tmp_path, HDFS)
    rows = [("a", "x", 1, [1, 2]), ("b", "y", 2, [3]), ("a", "y", 3, [])]
    spark.createDataFrame(rows, TABLE).write.parquet(str(bench.folder / "t"))
    spark.read.parquet(str(bench.folder / "t")).createOrReplaceTempView("t")
    return bench


def joined(bench: Bench, table: DataFrame | str) -> AppPlan:
    table = bench.spark.sql(table) if isinstance(table, str) else table
    looked_up = bench.source("k string, a long").join(table, "k").groupBy("x").agg(F.sum("a").alias("n"))
    return planned(bench.spark, q=stage("sums", looked_up).writeStream.outputMode("update").format("noop"))


def same(old: AppPlan, new: AppPlan) -> bool:
    return all(i.verdict == "carried" for i in compare(old, new, "the other").items)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_each_table_is_itself_and_no_two_are_the_same(tables: Bench, every: int) -> None:
    """every: of so many ways to write a table, one."""
    plans: list[tuple[str, str, AppPlan]] = []
    changed, read = [], tables.spark.read.parquet(str(tables.folder / "t"))
    ways = [*SQL.items()][::every] + [*FRAMES.items()][::every]
    for name, versions in ways:
        for place, version in enumerate(versions):
            again = [
                joined(tables, version if isinstance(version, str) else version(read)) for _ in range(1 + (place == 0))
            ]
            plans.append((name, f"{name}, {place + 1}", again[0]))
            if not same(again[0], again[-1]):
                changed.append(plans[-1][1])
    assert changed == []
    wrong = [
        (one[1], other[1])
        for one, other in itertools.combinations(plans, 2)
        if same(one[2], other[2]) != (one[0] == other[0])
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_recursive_query_has_one_text_however_often_it_is_planned(tables: Bench) -> None:
    assert not blocking(*(joined(tables, RECURSIVE) for _ in range(2)))


def test_a_table_of_an_rdd_is_refused_by_name(tables: Bench) -> None:
    rows = tables.spark.table("t").rdd.zipWithIndex().map(lambda pair: (pair[0].k, pair[1])).toDF(["k", "x"])
    plan = joined(tables, rows)
    assert any("LogicalRDD" in i.reason for i in blocking(plan, plan))


# What IN and EXISTS are as a value or below an OR (an ExistenceJoin), and a table function in Python.


ROWS = [("a", 1), ("a", 2), ("b", 3)]
# By what becomes of the rows: whether their order counts.
OF_ROWS: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[DataFrame], DataFrame], bool]] = {
    "added up": (lambda t: t, lambda r: r.groupBy("x").agg(F.count("*"), F.max("k")), False),
    "filtered and joined": (
        lambda t: t.where("x > 1").join(t.select("k"), "k"),
        lambda r: r.groupBy("x").count(),
        False,
    ),
    "the first of them": (lambda t: t, lambda r: r.groupBy("k").agg(F.first("x")), True),
    "a list": (lambda t: t, lambda r: r.groupBy("k").agg(F.collect_list("x")), True),
    "deduplicated": (lambda t: t, lambda r: r.dropDuplicates(["k"]), True),
    "one of several": (lambda t: t.dropDuplicates(["k"]), lambda r: r.groupBy("x").count(), True),
    "the last ones": (lambda t: t.limit(2), lambda r: r.groupBy("x").count(), True),
}


@pytest.mark.parametrize("pandas", [False, True], ids=["list", "pandas"])
def test_rows_in_another_order_count_where_anything_looks_at_it(bench: Bench, pandas: bool) -> None:
    def version(name: str, rows: list[tuple[str, int]]) -> AppPlan:
        table, above, _ = OF_ROWS[name]
        given = pd.DataFrame(rows, columns=["k", "x"]) if pandas else rows
        joined = bench.source().select("k").join(table(bench.spark.createDataFrame(given, ["k", "x"])), "k")
        return planned(bench.spark, q=stage("t", above(joined)).writeStream.outputMode("update").format("noop"))

    for name, (*_, counts) in OF_ROWS.items():
        old = version(name, ROWS)
        assert bool(blocking(old, version(name, ROWS[::-1]), "stage")) == counts, name
        assert blocking(old, version(name, [*ROWS, ("c", 4)]), "stage"), name
        assert not blocking(old, version(name, ROWS)), name
