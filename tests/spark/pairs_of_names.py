"""Two things of one name, and aggregates in the order in which the state has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pairs import ROWS, Ground, N, Version, count, counts, per_key
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import stage

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}


def unfolded(key: str, struct: str = "s", schema: str = ROWS) -> Version:
    """The fields of a struct that has two of one name, each under a name of its own."""

    def build(g: Ground) -> DataFrame:
        rows = g.read(schema).select(F.expr(struct).alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def of_function(key: str) -> Version:
    def build(g: Ground) -> DataFrame:
        two = F.udf(lambda a: (a % 2, 10 + a % 3), "struct<x:int, x:int>", useArrow=False)
        rows = g.read().select(two("a").alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def unchanged(batches: Iterator) -> Iterator:
    yield from batches


def of_batches(key: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read().select("a", "b").mapInPandas(unchanged, "x int, x int").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def above_a_stage(column: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.late().groupBy(F.window("ts", "1 minute")).agg(F.expr("max(struct(a as x, b as x))").alias("s"))
        return stage("t", stage("u", rows).select("s.*").toDF("p", "q").dropDuplicates([column]))

    return build


def by_name(first: str, second: str) -> Version:
    """A function of batches, which takes columns by their names."""

    def keep(parts: Iterator) -> Iterator:
        for part in parts:
            yield part[["x"]]

    def build(g: Ground) -> DataFrame:
        columns = g.read().select(F.col("a").alias(first), F.col("b").alias(second))
        return count(columns.mapInPandas(keep, "x long"), "x")

    return build


def both(pairs: Callable[[str], Version], *more: str) -> tuple:
    return (pairs("p"), pairs("q"), *more)


TWICE = "struct<x: int, x: int>"
SUBQUERIES = "select k1, k2, count(*) n from (select {} from rws) group by k1, k2"
XX = "(values ('a', 'b', 'c') as t(k, x, x)) as u(k, p, q)"
GREATEST, LEAST = "(select max(weight) v from tabl)", "(select min(weight) v from tabl)"
DIFFER["names"] = {
    "two subqueries": (SUBQUERIES.format(f"a > {GREATEST} k1, b > {LEAST} k2"),
        SUBQUERIES.format(f"b > {GREATEST} k2, a > {LEAST} k1")),
    "a function's struct": both(of_function),
    "a struct of a list": both(lambda x: unfolded(x,
        "element_at(transform(nums, n -> struct(n as x, n * 100 as x)), 1)")),
    "a source's struct": both(lambda x: unfolded(x, "s", f"s {TWICE}")),
    "a function of pandas' batches": both(of_batches),
    "a stage's struct": both(above_a_stage, "append"),
    "a table's columns": both(lambda x: lambda g: count(
        g.read().join(g.spark.createDataFrame([("a", "b", "c")], "k string, x string, x string").toDF("k", "p", "q"),
        "k"), x)),
    "the columns of VALUES": both(lambda x: counts(x, f"rws join (select * from {XX}) using (k)")),
    "the columns of both sides": both(lambda x: lambda g: count(
        g.read().select("k", "v").join(g.table().select("k", F.col("label").alias("v")), "k").toDF("k", "p", "q"), x)),
    "a batch function's columns": (by_name("x", "y"), by_name("y", "x")),
    "the file's name hidden": tuple(lambda g, more=more: count(g.read(f"k string, a int{more}"), "_metadata.file_name")
                                    for more in ("", ", _metadata struct<file_name: string>")),
}  # fmt: skip
SAME["by its place or its name"] = (unfolded("p"), unfolded("p", "struct(s.x as x, s.y as y)"))

# Buffers: aggregates in the order in which the state has them
IF, CASE = "sum(if(a > 1, b, a))", "sum(case when a > 1 then b else a end)"


def kept(*aggregates: str, rows: Callable[[Ground], DataFrame] = Ground.read, session: bool = False) -> Version:
    def build(g: Ground) -> DataFrame:
        keys = [F.session_window("ts", "5 minutes"), F.col("k2")] if session else [F.col("k")]
        made = [F.expr(text).alias(f"x{n}") for n, text in enumerate(aggregates)]
        return stage("t", rows(g).groupBy(*keys).agg(*made))

    return build


def pruned(column: str) -> Version:
    """Both sums are asked for, one is used: the optimizer keeps only that one in the state row."""
    return lambda g: g.made(kept("sum(a)", "sum(b)")).select("k", column)


def renamed(g: Ground) -> DataFrame:
    """One column under two names, below a watermark: for Spark two."""
    return g.read().select("k", "k2", "ts", F.col("a").alias("x"), F.col("a").alias("y")).withWatermark("ts", "1 hour")


def once_each(g: Ground) -> DataFrame:
    return stage("u", g.read().select("k", "b", F.col("a").alias("x"), F.col("a").alias("y")).dropDuplicates(["k"]))


def called(*which: str) -> Version:
    """Of two functions with one code."""

    def build(g: Ground) -> DataFrame:
        one, two = (F.udf(lambda x: (x or 0) % 3, "int") for _ in range(2))
        made = {"p": F.sum(one("a")), "n": F.count("*"), "q": F.sum(two("a"))}
        return stage("t", g.read().groupBy("k").agg(*(made[name].alias(name) for name in which)))

    return build


def places(first: str, second: str, **more) -> tuple:
    return kept(first, N, second, **more), kept(first, second, N, **more)


DIFFER["buffers"] = {
    "of a session": (*places(IF, CASE, rows=Ground.late, session=True), "append"),
    "if and case": places(IF, CASE),
    "a column under two names": places("sum(x)", "sum(y)", rows=renamed),
    "a column under two names of a stage": places("max(x)", "max(y)", rows=once_each),
    "coalesce": places("sum(coalesce(a, b))", "sum(coalesce(a, b, a))"),
    "once and twice": (kept(IF, N), kept(IF, N, CASE)),
    "by chance once and twice": tuple(per_key(N, f"(select * from (select * from rws where rand() > 0.5){more})")
        for more in ("", " where rand() > 0.5")),
    "pruned to the other sum": (pruned("x0"), pruned("x1")),
}  # fmt: skip
SAME |= {
    "the first twice": places("first(a)", "first(a)"),
    "a function made twice": (called("p", "n", "q"), called("p", "q", "n")),
    "twice for the author, once for Spark": (kept("sum(a)", N), kept("sum(a)", N, "sum(a)")),
    "sums in another order of operands": (kept("sum(a + b)", N, "sum(b + a)"), kept("sum(b + a)", N)),
    "if and case change places": (kept(IF, N, CASE), kept(CASE, N, IF)),
}
