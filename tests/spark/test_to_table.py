"""Writing into a table of the catalog (`to_table`): what Spark's toTable writes, and what is refused."""

from __future__ import annotations

import pytest
from bench import Bench, row, stage

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import to_table


@pytest.fixture
def bench(spark, tmp_path):
    made = Bench(spark, tmp_path)
    yield made
    for table in ("firsts", "parts"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.catalog.dropTempView("seen")


def firsts(bench: Bench):
    return stage("once", bench.source().dropDuplicates(["k"])).select("k")


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
