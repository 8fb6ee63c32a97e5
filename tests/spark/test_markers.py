"""`stage` and `source` name things in a plan, and leave every way to name a column as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, planned
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan
from airflow_provider_streamupdate.streaming import source, stage
from tests.cases import one_is_fast

SCHEMA = "id long, x long, ts timestamp, s struct<a: int, b: int>"
Mark = Callable[[DataFrame], DataFrame]


def read(bench: Bench, name: str = "in") -> DataFrame:
    return bench.source(SCHEMA, name)


def paired(bench: Bench, **on: str) -> DataFrame:
    one, two = read(bench).alias("o"), read(bench, "more").alias("p")
    return one.join(two, "id") if on else one.join(two, F.expr("o.id = p.id"))


def counted(bench: Bench) -> DataFrame:
    return read(bench).alias("o").groupBy("o.id").agg(F.count("*").alias("n"))


def by_object(bench: Bench, mark: Mark) -> DataFrame:
    one, two = read(bench), read(bench, "more")
    return mark(one.join(two, one.id == two.id)).select(one.id, two["x"], one.s.a)


def by_object_used(bench: Bench, mark: Mark) -> DataFrame:
    one, two = read(bench), read(bench, "more")
    return mark(one.join(two, "id")).select(one.id, two.id.alias("other"))


def by_view(bench: Bench, mark: Mark) -> DataFrame:
    mark(counted(bench)).createOrReplaceTempView("marked")
    return bench.spark.sql("select marked.id, m.n from marked join values (1) as m(n) on m.n = id")


def by_formatted_sql(bench: Bench, mark: Mark) -> DataFrame:
    return bench.spark.sql("select id, n from {t} where n > {least}", t=mark(counted(bench)), least=1)


def in_with(bench: Bench, mark: Mark) -> DataFrame:
    read(bench).createOrReplaceTempView("rows")
    text = "with c as (select r.id, count(*) n from rows r group by id), d as (select * from c where n > 1) "
    return mark(bench.spark.sql(text + "select id, d.n from d")).where("n < 5")


# What a query may do with the rows of a stage; `m` names it, or leaves it as it is.
WAYS: dict[str, Callable[[Bench, Mark], DataFrame]] = {
    "by alias": lambda b, m: m(paired(b)).select("o.id", "p.x"),
    "by a DataFrame": by_object,
    "a column that USING hides, by its DataFrame": by_object_used,
    "a column that USING hides, by alias": lambda b, m: m(paired(b, using="id")).select("p.id", "o.x"),
    "a key by alias": lambda b, m: m(counted(b)).select("o.id", "n"),
    "a filter by what is not selected": lambda b, m: m(counted(b).select("n")).where("id > 1"),
    "a filter by what a deduplication has": lambda b, m: m(read(b).dropDuplicates(["id"]).select("x")).where("id > 1"),
    "a filter by another aggregate": lambda b, m: m(counted(b)).where("o.id > 1 and n > 2"),
    "withColumn": lambda b, m: m(paired(b)).withColumn("t", F.col("o.x") + F.col("p.x")).select("o.id", "t"),
    "a field of a struct": lambda b, m: m(read(b).alias("o").dropDuplicates(["id"])).select("o.s.a", "s.b"),
    "metadata": lambda b, m: m(read(b).dropDuplicates(["id"])).select("id", "_metadata.file_size"),
    "a view": by_view,
    "SQL with a DataFrame": by_formatted_sql,
    "WITH": in_with,
    "a limit": lambda b, m: m(read(b).alias("o").limit(5)).select("o.id"),
    "twice named": lambda b, m: m(stage("below", read(b).alias("o").dropDuplicates(["id"])).limit(5)).select("o.id"),
    "a union's branch": lambda b, m: m(counted(b).select("id", "n")).unionByName(b.source("id long, n long", "u")),
    "across a watermark": lambda b, m: (
        m(read(b).withWatermark("ts", "1 minute").alias("o").groupBy(F.window("o.ts", "5 minutes"), "o.id").count())
        .select("window.start", "o.id")
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", one_is_fast(WAYS, 10))
def test_a_stage_s_name_hides_no_column(bench: Bench, way: str) -> None:
    plain = WAYS[way](bench, lambda df: df)
    named = WAYS[way](bench, lambda df: stage("s", df))
    assert named.schema == plain.schema
    one, two = (plan(bench, df) for df in (plain, named))
    assert "s" in [s.name for s in two.stages]
    texts = [[(s.definition, s.filters, s.schemas, s.arrivals) for s in p.stages] for p in (one, two)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "way",
    {
        "by alias": lambda b, m: m(read(b).alias("o")).select("o.id", "s.a"),
        "by a DataFrame": lambda b, m: (lambda df: m(df).select(df.id, df["s"]["a"]))(read(b)),
        "what is not selected": lambda b, m: m(read(b).select("x")).where("id > 1"),
        "metadata": lambda b, m: m(read(b)).select("_metadata.file_size", "id"),
        "metadata by alias": lambda b, m: m(read(b).alias("o")).select("o._metadata.file_size"),
        "a watermark before": lambda b, m: m(read(b).withWatermark("ts", "1 minute")).dropDuplicates(["id", "ts"]),
        "WITH": lambda b, m: m(in_with(b, lambda df: df)),
    }.items(),
    ids=lambda way: way[0],
)
def test_a_source_s_name_hides_no_column(bench: Bench, way: tuple) -> None:
    if way[0] == "metadata by alias" and bench.spark.version < "4.2":
        pytest.skip("Spark before 4.2 passes a source's metadata columns through no projection (SubqueryAlias)")
    plain, named = way[1](bench, lambda df: df), way[1](bench, lambda df: source("orders", df))
    assert named.schema == plain.schema
    assert [s.name for s in plan(bench, named).sources] == ["orders"]
    with pytest.raises(ApplicationError, match="the source already has the name 'orders'"):
        source("other", named)


def plan(bench: Bench, df: DataFrame) -> QueryPlan:
    """In the first of the two output modes that Spark lets it have."""
    for mode in ("append", "update"):
        try:
            return planned(bench.spark, q=df.writeStream.outputMode(mode).format("noop")).query("q")
        except ApplicationError as error:
            if mode == "update" or "STREAMING_OUTPUT_MODE" not in str(error):
                raise
    raise AssertionError


def test_a_named_join_runs(spark: SparkSession, bench: Bench) -> None:
    """The name is gone from what runs, and the rows are those of the plain query."""
    for name in ("in", "more"):
        bench.write([{"id": n, "x": n * 10} for n in range(3)], name)
    bench.run(lambda b: stage("pairs", paired(b)).select("o.id", F.col("p.x").alias("x")), "append")
    assert sorted(tuple(r.values()) for r in bench.all()) == [(0, 0), (1, 10), (2, 20)]
