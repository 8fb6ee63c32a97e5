"""The columns of a file sink, whose files of before and of now are read as one folder; and a table of the catalog as a
sink (to_table): what Spark's toTable writes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import HDFS, Bench, distinct, row

from airflow_provider_streamupdate.core.compatibility.rules.sink import WRITTEN
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import to_table
from airflow_provider_streamupdate.streaming.spark_internals.jvm import module


def of(*columns: str) -> Callable:
    return lambda bench: bench.source().selectExpr(*columns)


def test_columns_of_csv_files_in_another_order(spark, tmp_path) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    folder = str(bench.folder / "out")
    bench.sink = lambda writer: writer.format("csv").option("path", folder)
    bench.write([row("x", 1, 100)])
    snapshot = bench.run(of("k", "a", "b"), "append")
    assert not [i for i in bench.check(snapshot, of("k", "a", "b"), "append").items if i.blocks]
    [item] = [i for i in bench.check(snapshot, of("k", "b", "a"), "append").items if i.blocks]
    assert "sink.columns" in item.rules and "the order from k, a, b to k, b, a" in item.reason
    bench.write([row("x", 1, 100)])
    bench.run(of("k", "b", "a"), "append", snapshot=snapshot, agree=(item.name,))
    assert {tuple(r) for r in spark.read.csv(folder).collect()} == {("x", "1", "100"), ("x", "100", "1")}


def test_what_is_written_when_nothing_is_said(spark) -> None:
    """Spark's own class says the same with the defaults of csv as without them."""
    ignored = ("parameters", "timezone", "emptyValue")

    def fields(options: dict[str, str]) -> dict[str, str]:
        plain = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
        given = module(spark, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap").apply(plain)
        made = spark._jvm.org.apache.spark.sql.catalyst.csv.CSVOptions(given, True, "UTC", "_corrupt_record")
        found = {}
        for field in made.getClass().getDeclaredFields():
            name = str(field.getName())
            if name not in ignored and not name.endswith("InRead") and not name.startswith("bitmap$"):
                field.setAccessible(True)
                found[name] = str(field.get(made))
        return found

    usual = fields({})
    assert {k: v for k, v in WRITTEN["csv"].items() if fields({k: v}) != usual} == {}


@pytest.fixture
def bench(spark, tmp_path):
    made = Bench(spark, tmp_path)
    yield made
    for table in ("firsts", "parts"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.catalog.dropTempView("seen")


firsts = distinct("k", shown=("k",))


def test_rows_go_into_the_table_across_an_update_and_a_batch_is_in_it_once(bench: Bench) -> None:
    bench.spark.sql(f"CREATE TABLE firsts (k string) USING parquet LOCATION '{bench.folder}/table'")
    bench.sink = lambda writer: to_table(writer, "default.firsts")
    bench.write([row("a", 1), row("b", 1)])
    snapshot = bench.run(firsts, "append")
    sink = bench.plan(firsts, "append")[0].query("q").sink
    assert (sink.format, sink.location) == ("parquet", f"file:{bench.folder}/table")
    bench.write([row("b", 2), row("c", 2)])
    bench.run(firsts, "append", snapshot=snapshot)
    bench.spark.catalog.refreshTable("firsts")
    assert sorted(r["k"] for r in bench.spark.table("firsts").collect()) == sorted(r["k"] for r in bench.batch(firsts))


def test_it_writes_where_spark_s_own_method_writes(bench: Bench) -> None:
    bench.spark.sql(f"CREATE TABLE firsts (k string) USING json LOCATION '{bench.folder}/table'")
    bench.write([row("a", 1)])
    writer = firsts(bench).writeStream.format("json").option("checkpointLocation", f"{bench.folder}/checkpoint")
    own = writer.toTable("firsts")
    own.processAllAvailable()
    own.stop()
    bench.write([row("b", 1)])
    going_on = to_table(firsts(bench).writeStream, "firsts").option("checkpointLocation", f"{bench.folder}/checkpoint")
    query = going_on.start()
    query.processAllAvailable()
    query.stop()
    bench.spark.catalog.refreshTable("firsts")
    assert sorted(r["k"] for r in bench.spark.table("firsts").collect()) == ["a", "b"]


def test_what_cannot_be_written_to_by_its_name_is_refused(bench: Bench) -> None:
    spark, writer = bench.spark, firsts(bench).writeStream
    with pytest.raises(
        ApplicationError, match=r"table none cannot be written to: .*TABLE_OR_VIEW_NOT_FOUND.*Create it"
    ):
        to_table(writer, "none")
    spark.range(3).createOrReplaceTempView("seen")
    with pytest.raises(ApplicationError, match="table seen cannot be written to by its name"):
        to_table(writer, "seen")
    spark.sql(f"CREATE TABLE parts (k string, d int) USING parquet PARTITIONED BY (d) LOCATION '{bench.folder}/parts'")
    with pytest.raises(ApplicationError, match="table parts has partitions, and Spark's file sink does not add"):
        to_table(writer, "parts")
