"""Tables that a stream is joined with, in every way SQL and the DataFrame API can make one: each is itself when it is
planned again, and no two of them are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, Bench
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

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
    "limited in another order": ("SELECT k, v AS x FROM (SELECT * FROM t DISTRIBUTE BY v) LIMIT 3",),
    "numbered": ("SELECT k, spark_partition_id() AS x FROM t",),
    "numbered in another order": ("SELECT k, spark_partition_id() AS x FROM (SELECT * FROM t SORT BY v)",),
    "another column": ("SELECT k, length(g) AS x FROM t",),
    "explode": ("SELECT k, explode(l) x FROM t", "SELECT k, x FROM t LATERAL VIEW explode(l) AS x"),
    "explode outer": ("SELECT k, x FROM t LATERAL VIEW OUTER explode(l) AS x",),
    "explode of another": ("SELECT k, explode(array(1, v)) x FROM t",),
    "its rows only": ("SELECT k, v x FROM t LATERAL VIEW explode(l) AS y",),
    "posexplode": ("SELECT k, x FROM t LATERAL VIEW posexplode(l) AS x, e",),
    "posexplode, the value": ("SELECT k, x FROM t LATERAL VIEW posexplode(l) AS p, x",),
    "inline": ("SELECT k, x FROM t LATERAL VIEW inline(array(struct(1 AS a, 2 AS b))) AS x, b",),
    "stack": ("SELECT k, x FROM t LATERAL VIEW stack(2, 1, 2) AS x",),
    "stack of another": ("SELECT k, x FROM t LATERAL VIEW stack(2, 1, 3) AS x",),
    "json_tuple": ("SELECT k, x FROM t LATERAL VIEW json_tuple(g, 'a') AS x",),
    "rollup": ("SELECT k, sum(v) x FROM t GROUP BY ROLLUP (k, g)",),
    "cube": ("SELECT k, sum(v) x FROM t GROUP BY CUBE (k, g)",),
    "grouping sets": ("SELECT k, sum(v) x FROM t GROUP BY GROUPING SETS ((k), (k, g))",),
    "which set": ("SELECT k, grouping_id() x FROM t GROUP BY GROUPING SETS ((k), (k, g))",),
    "scalar subquery": ("SELECT k, (SELECT max(v) FROM t) x FROM t",),
    "another scalar subquery": ("SELECT k, (SELECT min(v) FROM t) x FROM t",),
    "of other rows": ("SELECT k, (SELECT max(v) FROM t WHERE v < 7) x FROM t",),
    "a random one of rows": ("SELECT k, (SELECT max(v) FROM t WHERE rand(1) < 0.5) x FROM t",),
    "another random one of rows": ("SELECT k, (SELECT max(v) FROM t WHERE rand(2) < 0.5) x FROM t",),
    "correlated": ("SELECT k, (SELECT max(v) FROM t u WHERE u.k = t.k) x FROM t",),
    "correlated, others": ("SELECT k, (SELECT max(v) FROM t u WHERE u.k = t.k AND u.v < t.v) x FROM t",),
    "correlated by another": ("SELECT k, (SELECT max(v) FROM t u WHERE u.g = t.k) x FROM t",),
    "the other way": ("SELECT k, (SELECT max(v) FROM t u WHERE u.k = t.g) x FROM t",),
    "exists": ("SELECT k, v x FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.v > t.v)",),
    "not exists": ("SELECT k, v x FROM t WHERE NOT EXISTS (SELECT 1 FROM t u WHERE u.v > t.v)",),
    "in": ("SELECT k, v x FROM t WHERE k IN (SELECT k FROM t WHERE v > 1)",),
    "another in": ("SELECT k, v x FROM t WHERE k IN (SELECT g FROM t WHERE v > 1)",),
    "in of fewer": ("SELECT k, v x FROM t WHERE k IN (SELECT k FROM t WHERE v > 2)",),
    "not in": ("SELECT k, v x FROM t WHERE k NOT IN (SELECT k FROM t WHERE v > 1)",),
    "pivot": ("SELECT k, x FROM t PIVOT (sum(v) FOR g IN ('x' AS x, 'y' AS y))",),
    "pivot for another": ("SELECT k, x FROM t PIVOT (sum(v) FOR g IN ('z' AS x, 'y' AS y))",),
    "unpivot": ("SELECT k, x FROM (SELECT k, v, v + 1 w FROM t) UNPIVOT (x FOR n IN (v, w))",),
    "unpivot of another": ("SELECT k, x FROM (SELECT k, v, v + 2 w FROM t) UNPIVOT (x FOR n IN (v, w))",),
    "distinct": ("SELECT DISTINCT k, v x FROM t",),
    "distinct of more": ("SELECT k, x FROM (SELECT DISTINCT k, v x, g FROM t)",),
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
    "intersect with others": ("SELECT k, v x FROM t INTERSECT SELECT k, v FROM t",),
    "intersect all": ("SELECT k, v x FROM t INTERSECT ALL SELECT g, v FROM t",),
    "except": ("SELECT k, v x FROM t EXCEPT SELECT k, v FROM t WHERE v > 1",),
    "except others": ("SELECT k, v x FROM t EXCEPT SELECT k, v FROM t WHERE v > 2",),
    "except all": ("SELECT k, v x FROM t EXCEPT ALL SELECT k, v FROM t WHERE v > 1",),
    "the first": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1",),
    "the second": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 2",),
    "the last": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) = 1",),
    "the first of others": ("SELECT k, v x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v) = 1",),
    "over": ("SELECT k, sum(v) OVER (PARTITION BY k) x FROM t",),
    "over in order": ("SELECT k, sum(v) OVER (PARTITION BY k ORDER BY v) x FROM t",),
    "over a frame": ("SELECT k, sum(v) OVER (PARTITION BY k ORDER BY v ROWS 1 PRECEDING) x FROM t",),
    "limit": ("SELECT k, v x FROM t ORDER BY v LIMIT 1",),
    "limit to more": ("SELECT k, v x FROM t ORDER BY v LIMIT 2",),
    "limit from below": ("SELECT k, v x FROM t ORDER BY v DESC LIMIT 1",),
    "sample": ("SELECT k, v x FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (3)",),
    "another sample": ("SELECT k, v x FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (4)",),
    "a larger sample": ("SELECT k, v x FROM t TABLESAMPLE (60 PERCENT) REPEATABLE (3)",),
    "values": ("SELECT col1 k, col2 x FROM VALUES ('a', 1), ('b', 2)",),
    "other values": ("SELECT col1 k, col2 x FROM VALUES ('a', 1), ('b', 3)",),
    "range": ("SELECT string(id) k, id x FROM range(10)",),
    "longer range": ("SELECT string(id) k, id x FROM range(11)",),
    "grouped": ("SELECT k, max(v) x FROM t GROUP BY k",),
    "having": ("SELECT k, max(v) x FROM t GROUP BY k HAVING count(*) > 1",),
    "having more": ("SELECT k, max(v) x FROM t GROUP BY k HAVING count(*) > 2",),
    "of some": ("SELECT k, max(v) FILTER (WHERE g = 'x') x FROM t GROUP BY k",),
    "percentile": ("SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) x FROM t GROUP BY k",),
    "another percentile": ("SELECT k, percentile_cont(0.6) WITHIN GROUP (ORDER BY v) x FROM t GROUP BY k",),
    "joined": ("SELECT a.k, b.v x FROM t a JOIN t b ON a.k = b.g",),
    "joined by another": ("SELECT a.k, b.v x FROM t a JOIN t b ON a.g = b.k",),
    "left joined": ("SELECT a.k, b.v x FROM t a LEFT JOIN t b ON a.k = b.g",),
    "full joined": ("SELECT a.k, b.v x FROM t a FULL JOIN t b ON a.k = b.g",),
    "semi joined": ("SELECT a.k, a.v x FROM t a LEFT SEMI JOIN t b ON a.k = b.g",),
    "anti joined": ("SELECT a.k, a.v x FROM t a LEFT ANTI JOIN t b ON a.k = b.g",),
    "crossed": ("SELECT a.k, b.v x FROM t a CROSS JOIN t b",),
    "lateral": ("SELECT t.k, s.x FROM t, LATERAL (SELECT max(v) x FROM t u WHERE u.k = t.k) s",),
    "lateral of another": ("SELECT t.k, s.x FROM t, LATERAL (SELECT max(v) x FROM t u WHERE u.g = t.k) s",),
    "lateral left": ("SELECT t.k, s.x FROM t LEFT JOIN LATERAL (SELECT v x FROM t u WHERE u.k = t.k) s",),
    "a random part": ("SELECT k, v x FROM t WHERE rand(3) < 0.5", "SELECT k, v x FROM t WHERE rand(4) < 0.5"),
    "a larger random part": ("SELECT k, v x FROM t WHERE rand(3) < 0.6",),
}  # fmt: skip
RECURSIVE = f"{LOOP} SELECT string(n) k, n x FROM r"


def _added(number: int) -> Callable[[DataFrame], DataFrame]:
    def added(values: pd.Series) -> pd.Series:
        return values + number

    return lambda t: t.select("k", F.pandas_udf(added, "long")("v").alias("x"))  # type: ignore[call-overload]


def _mapped(number: int) -> Callable[[DataFrame], DataFrame]:
    def mapped(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame[["k"]].assign(x=number)

    return lambda t: t.mapInPandas(mapped, "k string, x long")


def _grouped(number: int) -> Callable[[DataFrame], DataFrame]:
    def grouped(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[["k"]].head(number).assign(x=1)

    return lambda t: t.groupBy("k").applyInPandas(grouped, "k string, x long")


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
    "one of each, cached": (lambda t: t.dropDuplicates(["k"]).persist().selectExpr("k", "v x"),),
    "one of each pair": (lambda t: t.dropDuplicates(["k", "g"]).selectExpr("k", "v x"),),
    "described": (lambda t: t.describe().selectExpr("summary k", "v x"),),
    "filled": (lambda t: t.na.fill({"g": "z"}).selectExpr("k", "g x"),),
    "filled with another": (lambda t: t.na.fill({"g": "y"}).selectExpr("k", "g x"),),
    "sampled by": (lambda t: t.sampleBy("k", {"a": 0.5}, 3).selectExpr("k", "v x"),),
    "as JSON": (lambda t: t.selectExpr("k", "to_json(struct(v, g)) x"),),
    **{
        f"{maker.__name__} {number}": (maker(number),)
        for maker in (_added, _mapped, _grouped, _table_function)
        for number in (1, 2)
    },
}


@pytest.fixture
def tables(spark, tmp_path) -> Bench:
    bench = Bench(spark, tmp_path, HDFS)
    rows = [("a", "x", 1, [1, 2]), ("b", "y", 2, [3]), ("a", "y", 3, [])]
    spark.createDataFrame(rows, TABLE).write.parquet(str(bench.folder / "t"))
    spark.read.parquet(str(bench.folder / "t")).createOrReplaceTempView("t")
    return bench


def planned(bench: Bench, table: DataFrame) -> AppPlan:
    looked_up = bench.source("k string, a long").join(table, "k").groupBy("x").agg(F.sum("a").alias("n"))
    writer = stage("sums", looked_up).writeStream.outputMode("update").format("noop")
    return plan_app(bench.spark, Declarations("app"), {"q": writer})


def by_sql(bench: Bench, text: str) -> AppPlan:
    return planned(bench, bench.spark.sql(text))


def by_frame(bench: Bench, name: str, place: int) -> AppPlan:
    return planned(bench, FRAMES[name][place](bench.spark.read.parquet(str(bench.folder / "t"))))


def same(old: AppPlan, new: AppPlan) -> bool:
    return all(i.verdict == "carried" for i in compare(old, new, "the other").items)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_each_table_is_itself_and_no_two_are_the_same(tables: Bench, every: int) -> None:
    """every: of so many ways to write a table, one."""
    plans: list[tuple[str, str, AppPlan]] = []
    changed = []
    for name, texts in list(SQL.items())[::every]:
        for text in texts:
            plans.append((name, text, by_sql(tables, text)))
        if not same(plans[-1][2], by_sql(tables, text)):
            changed.append(text)
    for name, makers in list(FRAMES.items())[::every]:
        for place in range(len(makers)):
            plans.append((name, f"{name}, {place + 1}", by_frame(tables, name, place)))
        if not same(plans[-1][2], by_frame(tables, name, place)):
            changed.append(plans[-1][1])
    assert changed == []
    wrong = [
        (one[1], other[1])
        for one, other in itertools.combinations(plans, 2)
        if same(one[2], other[2]) != (one[0] == other[0])
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_recursive_query_has_one_text_however_often_it_is_planned(tables: Bench) -> None:
    plans = [by_sql(tables, RECURSIVE) for _ in range(2)]
    assert not [i for i in compare(*plans, "itself").items if i.blocks]


def test_a_table_of_an_rdd_is_refused_by_name(tables: Bench) -> None:
    rows = tables.spark.table("t").rdd.zipWithIndex().map(lambda pair: (pair[0].k, pair[1])).toDF(["k", "x"])
    plan = planned(tables, rows)
    assert any("LogicalRDD" in i.reason for i in compare(plan, plan, "itself").items if i.blocks)


class Next:
    def eval(self, a: int):
        yield (a + 1,)


# What IN and EXISTS are as a value or below an OR (an ExistenceJoin), and a table function in Python.
WITHIN = {
    "in": ("select k in (select k from {t}) x, count(*) from s group by 1", "t", "u"),
    "exists": (
        "select case when exists(select 1 from {t} where {t}.k = s.k) then 1 else 0 end x, count(*) from s group by 1",
        "t",
        "u",
    ),
    "in or": ("select k, count(*) from s where k in (select k from {t}) or a > 3 group by k", "t", "u"),
    "udtf": ("select l.y, count(*) from s, lateral {t}(a) l group by l.y", "next_of", "after_next"),
}


@pytest.mark.parametrize("name", WITHIN)
def test_what_a_table_is_asked_for_within_an_expression_is_itself(tables: Bench, name: str) -> None:
    text, one, other = WITHIN[name]
    tables.source().createOrReplaceTempView("s")
    tables.spark.createDataFrame([("a",)], "k string").createOrReplaceTempView("u")
    tables.spark.udtf.register("next_of", F.udtf(Next, returnType="y: int"))
    tables.spark.udtf.register("after_next", F.udtf(type("After", (Next,), {"step": 2}), returnType="y: int"))

    def plan(table: str) -> AppPlan:
        return tables.plan(lambda b: stage("c", b.spark.sql(text.format(t=table))))[0]

    assert same(plan(one), plan(one)) and not same(plan(one), plan(other))
