"""The digests of Spark's own functions: broadcast variables, accumulators, large ones, UDTFs, pandas, processors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from airflow_provider_streamupdate.streaming.code import CodeDigest, describe
from airflow_provider_streamupdate.streaming.spark_internals.jvm import module
from airflow_provider_streamupdate.streaming.spark_internals.plans.python_source import broadcasts


def described(spark, function: Any) -> CodeDigest:
    """function: of the JVM (SimplePythonFunction)"""
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    return describe(bytes(function.command().toArray(byte)), broadcasts(function))


def of(spark, function: Any, returns: Any = "int") -> CodeDigest:
    return described(spark, UserDefinedFunction(function, returns)._judf.func())


def test_a_broadcast_variable_counts_by_its_value(spark) -> None:
    def digest(value: object) -> CodeDigest:
        held = spark.sparkContext.broadcast(value)
        return of(spark, lambda x: held.value["a"] + x)

    first = digest({"a": 1, "b": [2]})
    assert first.digest
    assert digest({"a": 1, "b": [2]}).digest == first.digest  # its number is another one
    assert digest({"a": 1, "b": [3]}).digest != first.digest


def test_a_destroyed_broadcast_variable_is_unknown(spark) -> None:
    held = spark.sparkContext.broadcast([1])
    udf = UserDefinedFunction(lambda x: held.value[0], "int")._judf.func()
    assert len(broadcasts(udf)) == 1
    held.destroy()
    found = described(spark, udf)
    assert found.digest is None
    [reason] = found.unknown
    assert "the value of a broadcast variable cannot be loaded" in reason


def test_a_function_of_more_than_a_megabyte(spark) -> None:
    """Spark pickles it as a broadcast variable (_prepare_for_python_RDD)."""

    def digest(last: int) -> str | None:
        table = bytes(1_200_000) + bytes([last])
        return of(spark, lambda x: table[x]).digest

    assert digest(1)
    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_an_accumulator_counts_by_what_it_does_to_values(spark) -> None:
    """Workers only add to it; how many there were before it does not count."""

    def digest() -> CodeDigest:
        count = spark.sparkContext.accumulator(0)
        return of(spark, lambda x: count.add(1) or x)

    assert digest().digest
    assert digest().digest == digest().digest


def test_the_return_type_counts(spark) -> None:
    same = [of(spark, lambda x: x, t).digest for t in ("a int, b string", "struct<a:int,b:string>")]
    assert same[0]
    assert same[0] == same[1]
    assert of(spark, lambda x: x, "a int, b binary").digest != same[0]
    assert of(spark, lambda x: x, "b string, a int").digest != same[0]


def test_a_udtf_counts_by_its_class(spark) -> None:
    def digest(by: int) -> str | None:
        class Rows:
            def eval(self, x: int):
                for i in range(x):
                    yield (i * by,)

            def terminate(self):
                yield (-1,)

        return described(spark, F.udtf(Rows, returnType="y: int")._judtf.func()).digest

    assert digest(2)
    assert digest(2) == digest(2)
    assert digest(2) != digest(3)


def test_a_pandas_udf_over_iterators(spark) -> None:
    def digest(by: int) -> CodeDigest:
        def scale(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
            for part in parts:
                yield part * by

        return described(
            spark, UserDefinedFunction(scale, "long", evalType=PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF)._judf.func()
        )

    assert digest(2).digest
    assert digest(2).digest == digest(2).digest
    assert digest(2).digest != digest(3).digest


@pytest.mark.parametrize("change", ["limit", "helper", "handle"])
def test_a_processor_counts_by_its_class(spark, change: str) -> None:
    from pyspark import cloudpickle
    from pyspark.sql.streaming import StatefulProcessor

    def digest(limit: int = 3, by: int = 1, name: str = "n") -> CodeDigest:
        def helper(x: int) -> int:
            return x * by

        class Count(StatefulProcessor):
            def __init__(self) -> None:
                self.limit = limit

            def init(self, handle: Any) -> None:
                self.n = handle.getValueState(name, "n int")

            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
                yield helper(len(list(rows))) + self.limit

            def close(self) -> None: ...

        return describe(cloudpickle.dumps((Count(), None)))

    other = {"limit": digest(limit=4), "helper": digest(by=2), "handle": digest(name="m")}[change]
    assert digest().digest
    assert digest().digest == digest().digest
    assert other.digest != digest().digest
