"""Sources whose rows depend on which of their columns a query reads: Spark parses no others, so that a record fits, or
does not, by those alone. And what the session says of a source in place of its options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
from bench import HDFS, Bench, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.rules.sources.source_options import (
    CORRUPT,
    OF_THE_SESSION,
    ORC_BY_POSITION,
)
from airflow_provider_streamupdate.streaming import source
from tests.cases import one_is_fast

STORE = HDFS  # of `bench`

SCHEMA = "k string, a int, b int"
LINES = {
    "csv": ["x,1,1", "x,2,oops", "x,3,3"],
    "json": [json.dumps({"k": "x", "a": n, "b": b}) for n, b in ((1, 1), (2, "oops"), (3, 3))],
}


def write(bench: Bench, lines: Iterable[str]) -> None:
    (bench.input() / f"{bench.files:04d}.txt").write_text("".join(f"{line}\n" for line in lines))
    bench.files += 1


def frame(bench: Bench, form: str, schema: str, **options: str):
    reader = bench.spark.read if bench.at_rest else bench.spark.readStream.option("maxFilesPerTrigger", "1")
    return reader.schema(schema).options(**options).format(form).load(str(bench.input()))


def totals(form: str, schema: str, *aggregates: str, where: str = "true", **options: str) -> Callable:
    def build(bench: Bench):
        read = frame(bench, form, schema, **options).where(where)
        return stage("t", read.groupBy("k").agg(*map(F.expr, aggregates)))

    return build


def blocks(bench: Bench, snapshot: str, build: Callable) -> list[tuple[str, ...]]:
    return [i.rules for i in bench.check(snapshot, build).items if i.blocks]


def read(bench: Bench, build: Callable, mode: str = "update"):
    [found] = bench.plan(build, mode)[0].queries[0].sources
    return found.read


ADDED = ("stage.aggregates-added", "stage.aggregates", "stage.type")
STRICT = {"mode": "DROPMALFORMED"}


@pytest.mark.parametrize("form", LINES)
def test_another_column_that_is_read_drops_other_records(bench: Bench, form: str) -> None:
    old, new = (
        totals(form, SCHEMA, *aggregates, **STRICT) for aggregates in (["count(1) n"], ["count(1) n", "max(b)"])
    )
    write(bench, LINES[form])
    snapshot = bench.run(old)
    assert bench.last("k")["x",]["n"] == 3
    assert [row["n"] for row in bench.batch(new)] == [2]
    assert blocks(bench, snapshot, new) == [("source.read",), ADDED]
    assert blocks(bench, snapshot, old) == []


@pytest.mark.parametrize("form", LINES)
def test_another_column_that_is_read_tells_other_records_to_be_corrupt(bench: Bench, form: str) -> None:
    schema = f"{SCHEMA}, _corrupt_record string"
    old = totals(form, schema, "count(_corrupt_record) n")
    write(bench, LINES[form])
    snapshot = bench.run(old)
    for new, expected in (
        (totals(form, schema, "count(_corrupt_record) n", "max(b) m"), [("source.read",), ADDED]),
        (totals(form, schema, "count(_corrupt_record) n", where="coalesce(b, 0) > -7"), [("source.read",)]),
    ):
        assert blocks(bench, snapshot, new) == expected
    assert blocks(bench, snapshot, old) == []


def test_which_columns_are_read(bench: Bench) -> None:
    write(bench, LINES["csv"])

    def of(build: Callable) -> Callable:
        return lambda bench: build(frame(bench, "csv", f"{SCHEMA}, ts timestamp", **STRICT))

    for build, mode, expected in (
        (lambda d: stage("t", d.groupBy("k").count()), "update", ("k",)),
        (lambda d: stage("t", d.groupBy().count()), "update", ()),
        (lambda d: stage("t", d.where("a > 1").groupBy("k").count()), "update", ("a", "k")),
        (lambda d: stage("t", d.dropDuplicates(["k"])), "append", ("a", "b", "k", "ts")),
        (lambda d: stage("t", d.dropDuplicates(["k"])).select("a"), "append", ("a", "k")),
        (lambda d: stage("t", d.withWatermark("ts", "1 hour").groupBy("k").count()), "update", ("k", "ts")),
    ):
        assert read(bench, of(build), mode) == (expected,), expected
    assert read(bench, lambda bench: stage("t", frame(bench, "csv", SCHEMA).groupBy("k").count())) == ()

    def twice(bench: Bench):
        one = source("s", frame(bench, "csv", SCHEMA, **STRICT))
        return stage("t", one.select("k").union(one.selectExpr("string(a)")).groupBy("k").count())

    assert read(bench, twice) == (("a",), ("k",))


@pytest.mark.parametrize("form", LINES)
def test_the_session_names_the_corrupt_column(bench: Bench, form: str) -> None:
    bench.spark.conf.set(OF_THE_SESSION[CORRUPT], "bad")
    old, new = (totals(form, f"k string, a int, b {kind}, bad string", "count(bad) n") for kind in ("int", "string"))
    write(bench, LINES[form])
    assert ("source.malformed",) in blocks(bench, bench.run(old), new)


@pytest.mark.parametrize("where", one_is_fast(["session", "context"]))
def test_orc_is_read_by_position_where_the_session_says_so(bench: Bench, where: str) -> None:
    context = bench.spark.sparkContext._jsc.hadoopConfiguration()
    (bench.spark.conf if where == "session" else context).set(ORC_BY_POSITION, "true")
    try:
        frames = bench.spark.createDataFrame([("x", 1, 100)], "_c0 string, _c1 int, _c2 int").coalesce(1)
        frames.write.mode("append").orc(str(bench.input()))
        old, new = (totals("orc", names, "sum(a) s") for names in (SCHEMA, "k string, b int, a int"))
        snapshot = bench.run(old)
        assert bench.last("k")["x",]["s"] == 1 and [row["s"] for row in bench.batch(new)] == [100]
        assert ("source.columns",) in blocks(bench, snapshot, new)
        assert blocks(bench, snapshot, old) == []
    finally:
        context.unset(ORC_BY_POSITION)
