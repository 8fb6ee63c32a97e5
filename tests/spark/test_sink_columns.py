"""The columns of a file sink, whose files of before and of now are read as one folder."""

from __future__ import annotations

from collections.abc import Callable

from bench import HDFS, Bench, row

from airflow_provider_streamupdate.core.compatibility.rules.sink import WRITTEN
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
