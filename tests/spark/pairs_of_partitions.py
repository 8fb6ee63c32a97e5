"""Partitions, where something looks at them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pandas as pd
from pairs import Ground, Version, count
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import source, stage

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}


def located(moved: Callable, key: str = "spark_partition_id()") -> Version:
    return lambda g: stage("t", moved(g.read()).groupBy(F.expr(key).alias("p")).agg(F.sum("a").alias("s")))


def whole(moved: Callable) -> Version:
    """One row of each partition."""

    def top(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rows = list(batches)
        if rows:
            yield pd.concat(rows).head(1)

    return lambda g: count(moved(g.read()).select("k", "a").mapInPandas(top, "k string, a int"), "k")


def numbered_table(moved: Callable) -> Version:
    return lambda g: count(g.read().join(moved(g.table()).withColumn("n", F.spark_partition_id()), "k"), "n")


def two_tables(*names: str, pick: Callable = lambda table: table.limit(5)) -> Version:
    return lambda g: count(g.read().join(pick(g.table(names[0]).union(g.table(names[1]))), "k"), "label")


def two_streams(*names: str, key: str = "spark_partition_id()") -> Version:
    def build(g: Ground) -> DataFrame:
        parts = {name: source(name, g.read(folder=name)) for name in ("in", "other")}
        return count(parts[names[0]].union(parts[names[1]]), F.expr(key).alias("p"))

    return build


def hinted(hint: str) -> Version:
    return lambda g: count(
        g.read().join(g.table().hint(hint) if hint else g.table(), "k"), F.spark_partition_id().alias("p")
    )


def by_place(number: int, column: str = "k") -> Callable:
    return lambda rows: rows.repartition(number, column)


def by_number(column: str, number: int = 4) -> Callable:
    return lambda rows: rows.repartitionById(number, F.col(column) % 4)


def still(rows: DataFrame) -> DataFrame:
    return rows


FILE, TABLES = "input_file_name()", ("table", "labels")
DIFFER["partitions"] = {
    "a function of partitions": (whole(by_number("a")), whole(by_number("b"))),
    "another column": (located(by_place(4)), located(by_place(4, "k2"))),
    "by ranges": (located(by_place(4)), located(lambda rows: rows.repartitionByRange(4, "k"))),
    "by numbers": (located(by_number("a")), located(by_number("b"))),
    "all in one": (located(still), located(lambda rows: rows.coalesce(1))),
    "a filter between": tuple(located(lambda rows, c=c: rows.repartition(4, c).where("a > 1")) for c in ("k", "k2")),
    "the file of a row that was moved": (located(still, FILE), located(by_place(4), FILE)),
    "two streams in another order": (two_streams("in", "other"), two_streams("other", "in")),
    "a hint to a join": (hinted(""), hinted("shuffle_hash")),
    "rows of a table": (numbered_table(by_place(4)), numbered_table(by_place(4, "label"))),
    "two tables in another order": (two_tables(*TABLES), two_tables(*TABLES[::-1])),
    "two tables, and the place of a row": tuple(two_tables(*names,
        pick=lambda t: t.withColumn("n", F.spark_partition_id()))
                                                for names in (TABLES, TABLES[::-1])),
}  # fmt: skip
SAME |= {
    "nobody looks at partitions": (located(still, "k"), located(by_place(4), "k")),
    "nobody looks at a table's partitions": (two_tables(*TABLES, pick=lambda t: t.repartition(4)),
        two_tables(*TABLES[::-1], pick=still)),
    "two tables that are counted": tuple(two_tables(*names, pick=lambda t: t.groupBy("k", "label").count())
        for names in (TABLES, TABLES[::-1])),
    "two streams in any order": (two_streams("in", "other", key="k"), two_streams("other", "in", key="k")),
    "a filter above or below": (located(lambda rows: rows.repartition(4, "k").where("a > 1")),
        located(lambda rows: rows.where("a > 1").repartition(4, "k"))),
}  # fmt: skip

# What looks at a whole partition, and what makes rows above or below it. Found by an outside review, and computed by
# real runs: a function of mapInPandas that drops rows it has seen gave 3 where 4 was right when a cross join was put
# above it, and 4 where 6 was right with an explode below; a filter for nulls on another branch of a union gave 17 where
# 18 was right; all were carried.


def first_of_each(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch.drop_duplicates("k")


class Numbered:
    def __init__(self) -> None:
        self.n = 0

    def eval(self, _a: int) -> Iterator[tuple[int]]:
        self.n += 1
        yield (self.n,)


def running(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    total = 0
    for batch in batches:
        yield batch.cumsum() + total
        total += int(batch.sum())


def numbered(g: Ground, rows: DataFrame) -> DataFrame:
    g.spark.udtf.register("numbered", F.udtf(Numbered, returnType="n int"))
    rows.createOrReplaceTempView("rows")
    return g.spark.sql("select rows.*, string(n) as of from rows, lateral numbered(a)").withColumn("k", F.col("of"))


K_A = "k string, a long"
PARTS: dict[str, Callable] = {
    "pandas": lambda g, rows: rows.select("k", "a").mapInPandas(first_of_each, K_A),
    "arrow": lambda g, rows: rows.select("k", "a").mapInArrow(lambda batches: batches, K_A),
    "iterator": lambda g, rows: rows.withColumn("k", F.pandas_udf(running, "long")("a").cast("string")),
    "udtf": numbered,
    "cross": lambda g, rows: rows.crossJoin(g.table(schema="label string")),
    "explode": lambda g, rows: rows.select("*", F.explode(F.expr("sequence(1, 3)")).alias("i")),
    "groups": lambda g, rows: rows.groupBy("k").applyInPandas(lambda group: group[["k", "a"]].head(1), K_A),
    "drawn": lambda g, rows: rows.where("rand(3) > 0.5"),
}
LOOKING = list(PARTS)[:4]
# A filter with a random number is put below a column of an iterator's by the optimizer, so that both are one.
ORDERS = [*itertools.product((*LOOKING, "groups"), ("cross", "explode")), ("pandas", "drawn"), ("groups", "drawn")]


def in_order(*parts: str, files: str = "1") -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read(K_A, maxFilesPerTrigger=files)
        for part in parts:
            rows = PARTS[part](g, rows)
        return count(rows, "k")

    return build


def not_null(*which: int) -> Version:
    """Three branches, one of which asks for a value of `a`: that implies that it is not null, on that branch."""

    def build(g: Ground) -> DataFrame:
        rows = g.read(K_A)
        branches = [rows.select("k", "a", F.explode(F.array(F.lit(1), F.lit(2)))), rows, rows.where("a > 1")]
        first, *others = (
            b.where("a is not null" if n in which else "true").select("k") for n, b in enumerate(branches)
        )
        return count(first.union(others[0]).union(others[1]), "k")

    return build


def shards(rows: Callable, number: int, looks: bool = True) -> Version:
    """Rows that the code gives in so many partitions."""

    def build(g: Ground) -> DataFrame:
        table = rows(g.spark, number).withColumn("shard", F.spark_partition_id() if looks else F.lit(1))
        return count(g.read().join(table, "a"), "shard")

    return build


# Found from outside, in a real run: {0: 14, 1: 14, 2: 4, 3: 4, 4: 4}, where 8 is right for each.
GIVEN: dict[str, Callable] = {
    "range": lambda spark, n: spark.range(0, 20, 1, n).select(F.col("id").cast("int").alias("a")),
    "sql": lambda spark, n: spark.sql(f"select int(id) a from range(0, 20, 1, {n})"),
    "rows": lambda spark, n: spark.createDataFrame(spark.sparkContext.parallelize([(1,)] * 9, n), "a int"),
    "united": lambda spark, n: (
        spark.range(0, 20, 1, n).select(F.expr("int(id) a")).union(spark.range(0).selectExpr("int(id)"))
    ),
}
DIFFER["whole partitions"] = {
    "nulls on another branch": (not_null(0), not_null(1)),
    **{f"{looking}, {making}": (in_order(making, looking), in_order(looking, making)) for looking, making in ORDERS},
}
DIFFER["shards"] = {name: (shards(rows, 2), shards(rows, 5)) for name, rows in GIVEN.items()}
SAME |= {
    "nulls where they are implied": (not_null(0), not_null(0, 2)),
    "an order at which nothing looks": (in_order("cross", "explode"), in_order("explode", "cross")),
    **{f"{part}, of more files": (in_order(part), in_order(part, files="7")) for part in (*LOOKING, "groups")},
    **{f"shards of {name}": (shards(rows, 2, False), shards(rows, 5, False)) for name, rows in GIVEN.items()},
}
