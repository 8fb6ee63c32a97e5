"""What a source is: where its rows come from, and the options that decide what they are. Plans are real Spark's."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from bench import HDFS, Bench, stage
from pairs import data_source
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.rules.sources.source_options import (
    CORRUPT,
    CSV,
    FORMATS,
    format_of,
)
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.streaming.spark_internals.jvm import module

STORE = HDFS  # of `bench`


def count(read: Callable) -> Callable:
    return lambda bench: stage("n", read(bench).groupBy().count())


def item(bench: Bench, old: Callable, new: Callable) -> ReportItem:
    plans = [bench.plan(build)[0] for build in (old, new)]
    [found] = [i for i in compare(*plans, "s1").items if i.thing == "source"]
    return found


def loaded(format: str, schema: str | None = None, path: str | None = None, **options: str) -> Callable:
    def read(bench: Bench):
        reader = bench.spark.readStream.format(format).options(**options)
        reader = reader.schema(schema) if schema else reader
        return reader.load(path.format(bench.folder)) if path else reader.load()

    return read


def parsed(spark, format: str, options: dict[str, str]) -> dict[str, str]:
    """What Spark makes of options."""
    jvm = spark._jvm
    made = getattr(jvm.org.apache.spark.sql.catalyst, format)
    plain = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
    given = module(spark, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap").apply(plain)
    found = {
        "csv": lambda: made.CSVOptions(given, True, "UTC", "_corrupt_record"),
        "json": lambda: made.JSONOptions(given, "UTC", "_corrupt_record"),
        "xml": lambda: made.XmlOptions(given, "UTC", "_corrupt_record", True, False),
    }[format]()
    fields = {}
    for field in found.getClass().getDeclaredFields():
        name = str(field.getName())
        if name in ("parameters", "timezone", "emptyValue") or name.startswith("bitmap$"):
            continue
        if not name.endswith("InWrite"):
            field.setAccessible(True)
            fields[name] = str(field.get(found))
    return fields


@pytest.mark.parametrize("format", ["csv", "json", "xml"])
def test_the_defaults_are_those_of_spark(format: str, spark) -> None:
    """So that one which is written out is no change."""
    if not spark.version.startswith("4.3"):
        pytest.skip("its classes are made otherwise")
    given = {"rowTag": "row"} if format == "xml" else {}
    usual = parsed(spark, format, given)
    assert len(usual) > 15
    reviewed = {k: v for k, v in FORMATS[format].defaults.items() if k not in FORMATS["orc"].defaults}
    written = {**reviewed, "timezone": "UTC", CORRUPT: "_corrupt_record"}
    made = {name: parsed(spark, format, {**given, name: value}) for name, value in written.items()}
    other = {n: {k: (v, usual[k]) for k, v in m.items() if v != usual[k]} for n, m in made.items() if m != usual}
    assert other == {}
    assert parsed(spark, format, {**given, "mode": "FAILFAST"}) != usual
    if format == "csv":  # it is none: lines that begin with this character are left out then
        assert parsed(spark, format, {**given, "comment": "\0"}) != usual


PLACES = {
    "a folder": (loaded("json", "a int", "{}/in"), loaded("json", "a int", "{}/other")),
    "a table": (loaded("numbers", table="t"), loaded("numbers", table="u")),
}


def numbers(first: int) -> type:
    return data_source("numbers", "n int", lambda: [(first,)])


@pytest.mark.parametrize("what", PLACES)
def test_another_place_is_refused(what: str, bench: Bench) -> None:
    bench.spark.dataSource.register(numbers(1))
    bench.input()
    bench.input("other")
    old, new = map(count, PLACES[what])
    assert item(bench, old, new).verdict == "refused"
    assert item(bench, new, new).verdict == "carried"


def test_an_option_that_changes_rows_needs_agreement(bench: Bench) -> None:
    def csv(**options: str) -> Callable:
        return count(loaded("csv", "a int, b int", str(bench.input()), **options))

    plain = csv()
    for options in ({"sep": ";"}, {"mode": "DROPMALFORMED"}):
        found = item(bench, plain, csv(**options))
        assert found.needs_agreement and "source.options" in found.rules, options
    for options in ({"sep": ","}, {"maxFilesPerTrigger": "3"}, {"ignoreCorruptFiles": "false"}):
        assert item(bench, plain, csv(**options)).verdict == "carried", options
    bench.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    assert item(bench, csv(), csv(ignoreCorruptFiles="false")).needs_agreement


def swapped(names: str) -> Callable:
    def build(bench: Bench):
        reader = bench.spark.readStream.schema(names).option("maxFilesPerTrigger", "1")
        return stage("totals", reader.csv(str(bench.input())).groupBy("k").agg(F.sum("a").alias("s")))

    return build


def test_swapped_names_of_a_csv_schema_are_refused(bench: Bench) -> None:
    found = item(bench, swapped("k int, a int"), swapped("a int, k int"))
    assert (found.verdict, found.rules) == ("refused", ("source.columns",))
    assert item(bench, swapped("k int, a int"), swapped("k int, a int, more int")).verdict == "carried"


def test_swapped_names_of_a_csv_schema_are_wrong_with_spark_alone(bench: Bench) -> None:
    (bench.input() / "0.csv").write_text("1,10\n")
    bench.run(swapped("k int, a int"))
    assert bench.last("k") == {(1,): {"k": 1, "s": 10}}
    (bench.input() / "1.csv").write_text("1,10\n")
    bench.spark_alone(swapped("a int, k int"))
    assert bench.last("k")[10,] == {"k": 10, "s": 1}  # a row of a key that no line has


def test_a_table_is_its_folder_or_its_name(bench: Bench) -> None:
    spark = bench.spark
    for name in ("one", "two"):
        spark.sql(f"CREATE TABLE {name} (a INT) USING json LOCATION 'file://{bench.input(name)}'")
    try:
        tables = [lambda bench, name=name: bench.spark.readStream.table(name) for name in ("one", "two")]
        folder = loaded("json", "a int", str(bench.input("one")))
        assert item(bench, count(tables[0]), count(tables[0])).verdict == "carried"
        assert item(bench, count(tables[0]), count(folder)).verdict == "carried"
        assert item(bench, *map(count, tables)).verdict == "refused"
    finally:
        spark.sql("DROP TABLE one")
        spark.sql("DROP TABLE two")


def test_a_python_data_source_is_its_options_and_its_code(bench: Bench) -> None:
    bench.spark.dataSource.register(numbers(1))
    build = count(loaded("numbers", table="t"))
    first = bench.plan(build)[0]
    bench.spark.dataSource.register(numbers(1))
    again = bench.plan(build)[0]
    bench.spark.dataSource.register(numbers(2))
    other = bench.plan(build)[0]
    assert [i.verdict for i in compare(first, again, "s1").items if i.thing == "source"] == ["carried"]
    [found] = [i for i in compare(first, other, "s1").items if i.thing == "source"]
    assert (found.needs_agreement, found.rules) == (True, ("source.code",))


def test_a_path_written_otherwise_is_the_same_place(bench: Bench) -> None:
    folder = str(bench.input())
    whole = count(loaded("json", "a int", folder))
    for written in (f"{folder}/", f"file://{folder}", os.path.relpath(folder)):
        assert item(bench, whole, count(loaded("json", "a int", written))).verdict == "carried", written


def test_an_unnamed_format_is_known_by_its_class(bench: Bench) -> None:
    plan, _ = bench.plan(count(loaded("csv", "a int", str(bench.input()))))
    [source] = plan.queries[0].sources
    assert format_of(source) is CSV and source.order == ("a",) and source.location == f"file:{bench.input()}"


def test_which_records_are_corrupt_depends_on_all_types(bench: Bench) -> None:
    """`b` is no part of any key or aggregate; and yet what it is decides what is counted."""

    def corrupt(kind: str) -> Callable:
        def build(bench: Bench):
            read = loaded("json", f"k string, b {kind}, _corrupt_record string", str(bench.input()))(bench)
            counted = F.count_if(F.col("_corrupt_record").isNotNull()).alias("n")
            return stage("n", read.groupBy("k").agg(counted, F.max("b").alias("b")))

        return build

    (bench.input() / "0.json").write_text('{"k": "a", "b": "x"}\n')
    snapshot = bench.run(corrupt("int"))
    assert bench.last("k")["a",]["n"] == 1
    assert [i.rules for i in bench.check(snapshot, corrupt("int")).items if i.blocks] == []
    [found] = [i for i in bench.check(snapshot, corrupt("string")).items if i.blocks and i.thing == "source"]
    assert found.rules == ("source.malformed",) and "b of the schema changed" in found.reason
    dropped = [
        loaded("json", f"k string, b {kind}", str(bench.input()), mode="DROPMALFORMED") for kind in ("int", "string")
    ]
    assert item(bench, *map(count, dropped)).needs_agreement
    kept = [loaded("json", f"k string, b {kind}", str(bench.input())) for kind in ("int", "string")]
    assert not item(bench, *map(count, kept)).needs_agreement


@pytest.mark.parametrize("format", ["parquet", "orc", "json"])
def test_a_column_in_another_case(bench: Bench, format: str) -> None:
    """Parquet's and ORC's columns are found in any case, JSON's are not: there it is another column, of nulls."""

    def counted(schema: str) -> Callable:
        def build(bench: Bench):
            reader = bench.spark.read if bench.at_rest else bench.spark.readStream
            rows = reader.schema(schema).format(format).load(str(bench.input("typed")))
            return stage("n", rows.where("country <> 'x'").groupBy("country").agg(F.sum("n").alias("n")))

        return build

    def arrive(*countries: str) -> None:
        rows = bench.spark.createDataFrame([(each, 1) for each in countries], "Country string, n int")
        rows.coalesce(1).write.format(format).mode("append").save(str(bench.input("typed")))

    old, new = counted("Country string, n int"), counted("country string, n int")
    arrive("de", "fr", "x")
    first = bench.run(old)
    found = bench.check(first, new)
    assert found.compatible is (format != "json"), found.problems
    arrive("de", "it")
    bench.emitted.clear()
    if format == "json":
        assert [r["n"] for r in bench.batch(new)] == []  # what the new version would read
        return
    bench.run(new, snapshot=first)
    assert {r["country"]: r["n"] for r in bench.all()} == {"de": 2, "it": 1}
    bench.spark.conf.set("spark.sql.caseSensitive", "true")
    assert not bench.check(first, new).compatible
