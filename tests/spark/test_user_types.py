"""Columns of a user-defined type written in Python: its class, which makes the values that functions see, is code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from bench import HDFS, Bench, stage
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, UserDefinedType

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.expressions import Column
from tests.cases import one_is_fast

POINTS = '''
from pyspark.sql.types import LongType, StructField, StructType, UserDefinedType

class PointType(UserDefinedType):
    """{doc}"""
    @classmethod
    def sqlType(cls):
        return StructType([StructField("x", LongType()), StructField("y", LongType())])

    @classmethod
    def module(cls):
        return "points_of_an_app"

    def serialize(self, point):
        return point.x, point.y{more}

    def deserialize(self, row):
        return Point({read})

class Point:
    __UDT__ = PointType()

    def __init__(self, x, y):
        self.x, self.y = x, y
'''
NAME = "points_of_an_app"
Version = Callable[[Bench], object]


@pytest.fixture
def bench(spark, tmp_path) -> Iterator[Bench]:
    sys.path.insert(0, str(tmp_path))
    yield Bench(spark, tmp_path, HDFS)
    sys.path.remove(str(tmp_path))
    sys.modules.pop(NAME, None)


def points(bench: Bench, read: str = "row[0], row[1]", more: str = "", doc: str = "A place.") -> type:
    (bench.folder / f"{NAME}.py").write_text(POINTS.format(read=read, more=more, doc=doc))
    importlib.invalidate_caches()
    sys.modules.pop(NAME, None)
    return importlib.import_module(NAME).PointType


def items(bench: Bench, build: Version, old: dict, new: dict) -> list:
    plans = []
    for given in (old, new):
        bench.kind = points(bench, **given)  # type: ignore[attr-defined]
        plans.append(bench.plan(build)[0])
    return [i for i in compare(*plans, "s1").items if i.verdict != "carried"]


def read(bench: Bench):
    kind = bench.kind()  # type: ignore[attr-defined]
    return bench.source(StructType([StructField("k", StringType()), StructField("p", kind)]))  # type: ignore[arg-type]


def x_of(point) -> int:
    return point.x


def keyed(bench: Bench):
    return stage("t", read(bench).groupBy(F.udf(x_of, "long")("p").alias("x")).count())


def itself(bench: Bench):
    return stage("t", read(bench).groupBy("p").count())


def in_a_list(bench: Bench):
    of_list = F.udf(lambda found: found[0].x, "long")
    return stage("t", read(bench).groupBy(of_list(F.array("p")).alias("x")).count())


def made(bench: Bench):
    def point(k):
        import points_of_an_app

        return points_of_an_app.Point(1, 2)

    there = F.udf(point, bench.kind())  # type: ignore[attr-defined]
    return stage("t", read(bench).groupBy(F.udf(x_of, "long")(there("k")).alias("x")).count())


def summed(bench: Bench):
    return stage("t", read(bench).groupBy("k").agg(F.max(F.udf(x_of, "long")("p")).alias("x")))


def in_state(bench: Bench):
    """The function takes no column of the type; its state has one."""
    kind = bench.kind()  # type: ignore[attr-defined]

    def keep(key, frames, state):
        for _frame in frames:
            yield pd.DataFrame({"k": [key[0]]})

    rows = bench.source("k string, a long").groupBy("k")
    return stage(
        "t", rows.applyInPandasWithState(keep, "k string", StructType([StructField("p", kind)]), "update", "NoTimeout")
    )


OTHER = ({"read": "row[1], row[0]"}, {"read": "row[0] + 1, row[1]"}, {"more": " + 0"})


@pytest.mark.parametrize("build", one_is_fast([keyed, in_a_list, itself, made, summed, in_state], 2))
def test_the_class_of_a_type_counts(build: Version, bench: Bench) -> None:
    assert items(bench, build, {}, {}) == []
    assert items(bench, build, {}, {"doc": "Another description."}) == []
    for other in OTHER:
        [found] = items(bench, build, {}, other)
        assert found.name == "q/t" and found.blocks, found


def test_where_no_column_of_the_type_is_read_it_does_not_count(bench: Bench) -> None:
    def apart(bench: Bench):
        return stage("t", read(bench).groupBy("k").count())

    for other in OTHER:
        assert items(bench, apart, {}, other) == []


class Number(UserDefinedType):
    @classmethod
    def sqlType(cls) -> LongType:
        return LongType()

    @classmethod
    def module(cls) -> str:
        return "__main__"

    def serialize(self, obj: int) -> int:
        return obj

    def deserialize(self, datum: int) -> int:
        return datum + 1


def test_a_type_of_the_app_s_own_file(bench: Bench) -> None:
    def build(bench: Bench):
        rows = bench.source(StructType([StructField("p", Number())]))  # type: ignore[arg-type]
        return stage("t", rows.groupBy(F.udf(lambda n: n, "long")("p").alias("n")).count())

    plans = [bench.plan(build)[0] for _ in range(2)]
    before = Number.deserialize
    Number.deserialize = lambda self, datum: datum + 2  # type: ignore[method-assign]
    try:
        other = bench.plan(build)[0]
    finally:
        Number.deserialize = before  # type: ignore[method-assign]
    assert compare(*plans, "s1").compatible
    assert not compare(plans[0], other, "s1").compatible


def test_spark_s_own_types_go_by_their_names(bench: Bench) -> None:
    def build(bench: Bench):
        rows = bench.source(StructType([StructField("p", VectorUDT())]))  # type: ignore[arg-type]
        return stage("t", rows.groupBy(F.udf(lambda v: float(v[0]), "double")("p").alias("n")).count())

    plan = bench.plan(build)[0]
    assert plan.queries[0].stages[0].types == {
        Column("source-1", "p"): "org.apache.spark.ml.linalg.VectorUDT(struct<type tinyint, size int, indices "
        "array<int>, values array<double>>)"
    }
    assert compare(plan, bench.plan(build)[0], "s1").compatible


def test_a_type_that_cannot_be_loaded_or_is_the_jvm_s_is_not_known(bench: Bench) -> None:
    kind = points(bench)
    bench.kind = kind  # type: ignore[attr-defined]
    frame = keyed(bench)
    (Path(bench.folder) / f"{NAME}.py").unlink()
    sys.modules.pop(NAME)
    importlib.invalidate_caches()
    plans = [bench.plan(lambda bench: frame)[0] for _ in range(2)]
    [found] = [i for i in compare(*plans, "s1").items if i.verdict != "carried"]
    assert found.rules == ("stage.untraced",)
