"""A table is what its files are, and a Python data source is the class that its relation was made of: neither goes by
the name it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from bench import HDFS, Bench, stage
from pairs import data_source
from pyspark.sql import DataFrame

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from tests.cases import one_is_fast

Table = Callable[[Bench], DataFrame]
COLUMNS = "k string, label string"


@pytest.fixture
def bench(spark, tmp_path) -> Iterator[Bench]:
    made = Bench(spark, tmp_path, HDFS)
    for folder, label in (("table", "x"), ("other", "y")):
        (made.input(folder) / "0.json").write_text(json.dumps({"k": "a", "label": label}) + "\n")
    yield made
    for name in ("dim", "renamed"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def labels(table: Table) -> Callable:
    return lambda bench: stage("t", bench.source().join(table(bench), "k").groupBy("label").count())


def same(bench: Bench, old: Callable, new: Callable) -> bool:
    (before, _), (after, _) = bench.plan(old), bench.plan(new)
    return all(i.verdict == "carried" for i in compare(before, after, "s1").items)


def of_catalog(folder: str, name: str = "dim", columns: str = COLUMNS, more: str = "", kind: str = "json") -> Table:
    def table(bench: Bench) -> DataFrame:
        bench.spark.sql(f"DROP TABLE IF EXISTS {name}")
        place = f"LOCATION 'file://{bench.input(folder)}'"
        bench.spark.sql(f"CREATE TABLE {name} ({columns}) USING {kind} {more} {place}")
        return bench.spark.table(name)

    return table


def view(folder: str) -> Table:
    def table(bench: Bench) -> DataFrame:
        of_catalog(folder)(bench)
        bench.spark.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM dim")
        return bench.spark.table("v")

    return table


def by_path(folder: str) -> Table:
    return lambda bench: bench.spark.read.schema(COLUMNS).json(str(bench.input(folder)))


def test_a_table_of_the_catalog_is_what_its_files_are(bench: Bench) -> None:
    first = labels(of_catalog("table"))
    for other in (of_catalog("table"), of_catalog("table", "renamed"), by_path("table")):
        assert same(bench, first, labels(other))
    dropping = of_catalog("table", more="OPTIONS ('mode' 'DROPMALFORMED')")
    for other in (of_catalog("other"), by_path("other"), dropping):
        assert not same(bench, first, labels(other))


def test_a_view_is_what_it_reads(bench: Bench) -> None:
    assert same(bench, labels(view("table")), labels(view("table")))
    assert not same(bench, labels(view("table")), labels(view("other")))


@pytest.mark.parametrize("where", ["label = 'x'", "upper(label) = 'X'"])
def test_a_table_with_partitions_is_itself_with_any_filter(where: str, bench: Bench) -> None:
    """The optimizer reads a part of its folders then."""

    def part(folder: str) -> Table:
        def table(bench: Bench) -> DataFrame:
            rows = bench.spark.createDataFrame([("a", "x"), ("b", "y")], COLUMNS)
            rows.write.mode("overwrite").partitionBy("label").json(str(bench.input(folder)))
            made = of_catalog(folder, more="PARTITIONED BY (label)")(bench)
            bench.spark.sql("MSCK REPAIR TABLE dim")
            return made.where(where)

        return table

    assert same(bench, labels(part("table")), labels(part("table")))
    assert not same(bench, labels(part("table")), labels(part("other")))


@pytest.mark.slow
def test_a_table_of_a_database_is_what_is_asked_of_it(bench: Bench, tmp_path) -> None:
    def table(database: str, asked: str = "dim", more: str = "") -> Table:
        def made(bench: Bench) -> DataFrame:
            bench.spark.sql("DROP TABLE IF EXISTS dim")
            url = f"jdbc:derby:{tmp_path}/{database};create=true"
            options = {"url": url, "dbtable": asked, "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
            rows = bench.spark.createDataFrame([("a", "x")], COLUMNS)
            rows.write.mode("overwrite").format("jdbc").options(**options).save()
            given = ", ".join(f"'{key}' '{value}'" for key, value in options.items())
            bench.spark.sql(f"CREATE TABLE dim USING jdbc OPTIONS ({given}{more})")
            return bench.spark.table("dim")

        return made

    first = labels(table("one"))
    assert same(bench, first, first)
    for other in (table("two"), table("one", "another"), table("one", more=", 'sessionInitStatement' 'values 1'")):
        assert not same(bench, first, labels(other))


def reader(label: str) -> type:
    return data_source("given", COLUMNS, lambda: [("a", label)])


@pytest.mark.parametrize("schema", [None, COLUMNS])
def test_a_python_data_source_is_the_class_its_relation_has(schema: str | None, bench: Bench) -> None:
    """Whatever was registered under its name afterwards, by another query of the app."""

    def read(kind: str, first: type, then: type) -> DataFrame:
        spark = bench.spark
        spark.dataSource.register(first)
        made = (spark.read if kind == "table" else spark.readStream).format("given")
        found = (made if schema is None else made.schema(schema)).load()
        if kind == "table":
            found.schema  # noqa: B018
        spark.dataSource.register(then)
        return found

    def table(first: int, then: int) -> Callable:
        return labels(lambda bench: read("table", reader(str(first)), reader(str(then))))

    def numbers(first: int, then: int) -> Callable:
        return lambda bench: stage("t", read("stream", reader(str(first)), reader(str(then))).groupBy("k").count())

    for made in (table, numbers):
        if schema is None:
            assert same(bench, made(1, 3), made(1, 3))
            assert not same(bench, made(1, 3), made(2, 3))
            assert same(bench, made(1, 3), made(1, 4))
        else:  # it is looked for when it is read, and is that of the plan from then on
            assert not same(bench, made(1, 3), made(1, 4))
            assert same(bench, made(1, 3), made(1, 3))


@pytest.mark.parametrize("streaming", [False, True])
def test_a_catalog_s_table_of_a_python_data_source_is_its_options(streaming: bool, bench: Bench) -> None:
    """Its relation does not have them."""

    def table(value: str) -> Table:
        def made(bench: Bench) -> DataFrame:
            bench.spark.dataSource.register(reader("x"))
            bench.spark.sql("DROP TABLE IF EXISTS dim")
            bench.spark.sql(f"CREATE TABLE dim USING given OPTIONS (file '{value}')")
            return bench.spark.readStream.table("dim") if streaming else bench.spark.table("dim")

        return made

    def keyed(value: str) -> Callable:
        if not streaming:
            return labels(table(value))
        return lambda bench: stage("t", table(value)(bench).groupBy("k").count())

    assert same(bench, keyed("one"), keyed("one"))
    assert not same(bench, keyed("one"), keyed("two"))


TYPED = "k string, p double, label string"
READ_BY = {
    "json": [{"k": "a", "p": 1.5, "label": "x"}, {"k": "b", "p": 2, "label": "y"}, {"k": "a", "label": "z"}],
    "csv": ["a,1.5,x", "b,2,y", "a,,z"],
}


def typed(form: str, schema: str, **options: str) -> Table:
    def table(bench: Bench) -> DataFrame:
        return bench.spark.read.format(form).schema(schema).options(**options).load(str(bench.input(f"table.{form}")))

    return table


def filtered(table: Table, where: str = "p is not null or label is not null") -> Callable:
    """The filter is written above the join; the optimizer puts it on the table."""
    return lambda bench: stage("t", bench.source().join(table(bench), "k").where(where).groupBy("label").count())


def subquery(table: Table) -> Callable:
    def build(bench: Bench) -> DataFrame:
        table(bench).createOrReplaceTempView("dim_view")
        bench.source().createOrReplaceTempView("rows")
        found = bench.spark.sql("select *, (select max(label) from dim_view where p > 0) best from rows")
        return stage("t", found.groupBy("best").count())

    return build


CORRUPT = f"{TYPED}, _corrupt_record string"


@pytest.mark.parametrize("read", one_is_fast([filtered, subquery]))
@pytest.mark.parametrize("form", one_is_fast(READ_BY))
@pytest.mark.parametrize(
    ("schema", "options", "counts"),
    [
        (TYPED, {"mode": "DROPMALFORMED"}, True),
        (TYPED, {"mode": "FAILFAST"}, True),
        (CORRUPT, {}, True),
        (CORRUPT.replace("_corrupt_record", "bad"), {"columnNameOfCorruptRecord": "bad"}, True),
        (TYPED, {}, False),
    ],
)
def test_columns_that_decide_which_records_of_a_table_are_malformed(
    bench: Bench, form: str, schema: str, options: dict[str, str], counts: bool, read: Callable
) -> None:
    """Found from outside, in real runs: of {g1: 1, g2: 1} nothing was left with another type in a filter."""
    lines = [json.dumps(line) if isinstance(line, dict) else line for line in READ_BY[form]]
    (bench.input(f"table.{form}") / "0.txt").write_text("".join(f"{line}\n" for line in lines))
    old = read(typed(form, schema, **options))
    assert same(bench, old, read(typed(form, schema, **options)))
    other_type = read(typed(form, schema.replace("p double", "p int"), **options))
    if read is filtered:
        assert same(bench, old, other_type) is not counts
        fewer = filtered(typed(form, schema, **options), where="label is not null")
        assert same(bench, old, fewer) is not counts
    else:  # of what a subquery computes the types always count
        assert not same(bench, old, other_type)


@pytest.mark.parametrize("form", READ_BY)
@pytest.mark.parametrize(("options", "known"), [({"mode": "DROPMALFORMED"}, False), ({}, True)])
def test_such_a_table_of_v2_is_unknown(bench: Bench, form: str, options: dict[str, str], known: bool) -> None:
    """Which of its columns are read is not looked at."""
    (bench.input(f"table.{form}") / "0.txt").write_text("")
    bench.spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        build = labels(typed(form, TYPED, **options))
        assert same(bench, build, build) is known
    finally:
        bench.spark.conf.unset("spark.sql.sources.useV1SourceList")
