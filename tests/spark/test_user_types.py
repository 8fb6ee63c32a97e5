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


def x_of(column):
    """What a Python function makes of a column of points."""

    def x(point) -> int:
        return point.x

    return F.udf(x, "long")(column)


def by_key(key: Callable) -> Version:
    return lambda bench: stage("t", read(bench).groupBy(key(bench).alias("x")).count())


def point_made(bench: Bench):
    def point(k):
        import points_of_an_app

        return points_of_an_app.Point(1, 2)

    return x_of(F.udf(point, bench.kind())("k"))  # type: ignore[attr-defined]


def summed(bench: Bench):
    return stage("t", read(bench).groupBy("k").agg(F.max(x_of("p")).alias("x")))


def in_state(bench: Bench):
    """The function takes no column of the type; its state has one."""

    def keep(key, frames, state):
        for _frame in frames:
            yield pd.DataFrame({"k": [key[0]]})

    state = StructType([StructField("p", bench.kind())])  # type: ignore[attr-defined]
    rows = bench.source("k string, a long").groupBy("k")
    return stage("t", rows.applyInPandasWithState(keep, "k string", state, "update", "NoTimeout"))


KEYED = by_key(lambda b: x_of("p"))
VERSIONS = [
    KEYED,
    by_key(lambda b: F.col("p")),
    by_key(point_made),
    summed,
    in_state,
]
OTHER = ({"read": "row[1], row[0]"}, {"read": "row[0] + 1, row[1]"}, {"more": " + 0"})


@pytest.mark.parametrize("build", one_is_fast(VERSIONS, 2))
def test_the_class_of_a_type_counts(build: Version, bench: Bench) -> None:
    assert items(bench, build, {}, {}) == []
    assert items(bench, build, {}, {"doc": "Another description."}) == []
    for other in OTHER:
        [found] = items(bench, build, {}, other)
        assert found.name == "q/t" and found.blocks, found


def test_where_no_column_of_the_type_is_read_it_does_not_count(bench: Bench) -> None:
    for other in OTHER:
        assert items(bench, by_key(lambda b: F.col("k")), {}, other) == []


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


def of_kind(kind: UserDefinedType, function: Callable, returns: str) -> Version:
    def build(bench: Bench):
        rows = bench.source(StructType([StructField("p", kind)]))  # type: ignore[arg-type]
        return stage("t", rows.groupBy(F.udf(function, returns)("p").alias("n")).count())

    return build


def test_a_type_of_the_app_s_own_file(bench: Bench) -> None:
    build = of_kind(Number(), lambda n: n, "long")
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
    build = of_kind(VectorUDT(), lambda v: float(v[0]), "double")
    plan = bench.plan(build)[0]
    assert plan.queries[0].stages[0].types == {
        Column("source-1", "p"): "org.apache.spark.ml.linalg.VectorUDT(struct<type tinyint, size int, indices "
        "array<int>, values array<double>>)"
    }
    assert compare(plan, bench.plan(build)[0], "s1").compatible


def test_a_type_that_cannot_be_loaded_or_is_the_jvm_s_is_not_known(bench: Bench) -> None:
    kind = points(bench)
    bench.kind = kind  # type: ignore[attr-defined]
    frame = KEYED(bench)
    (Path(bench.folder) / f"{NAME}.py").unlink()
    sys.modules.pop(NAME)
    importlib.invalidate_caches()
    plans = [bench.plan(lambda bench: frame)[0] for _ in range(2)]
    [found] = [i for i in compare(*plans, "s1").items if i.verdict != "carried"]
    assert found.rules == ("stage.untraced",)
