"""Plans with a fixed time: the optimizer replaces expressions that ask for the time by the moment of planning
(ComputeCurrentTime), as a running query does with the time of each batch, so no plan would be the same twice."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from ..jvm import named, scala_object, sequence, static

# The moment, by the type of what asks. No app has it written; and none of its units is 0, so that a time that is cut
# off (date_trunc) is another one.
_DAY, _TIME = "2222-11-22", "13:14:15.161718"
_MOMENTS = {
    "DATE": f"date'{_DAY}'",
    "TIMESTAMP": f"timestamp_ltz'{_DAY} {_TIME}Z'",
    "TIMESTAMP_NTZ": f"timestamp_ntz'{_DAY} {_TIME}'",
}
_OF_A_DAY = "TIME("  # with a precision
_WITH_A_PLAN = ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")
_CLOCKS = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now")


def at_one_time(spark: SparkSession, plan: Any) -> Any | None:
    """The plan with each expression that asks for the time replaced by one moment; None where there is no such
    expression."""
    if not plan.containsPattern(_asking(spark)):
        return None
    jvm = spark._jvm
    parser, moments = spark._jsparkSession.sessionState().sqlParser(), named(jvm, "java.util.HashMap")()
    for expression in _clocks(spark, plan):
        kind = str(expression.dataType().sql())
        text = f"cast(time'{_TIME}' as {kind})" if kind.startswith(_OF_A_DAY) else _MOMENTS.get(kind)
        if text is not None:
            moments.put(expression, parser.parseExpression(text))
    if moments.isEmpty():
        return None
    told = static(jvm, "org.apache.spark.api.python.PythonUtils#toScalaMap")(moments)
    return plan.transformAllExpressionsWithSubqueries(told)  # a Map is a PartialFunction


def _asking(spark: SparkSession) -> Any:
    return _pattern(spark._jvm)


@functools.cache
def _pattern(jvm: Any) -> Any:
    return scala_object(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()


def _clocks(spark: SparkSession, plan: Any) -> Iterator[Any]:
    asking = _asking(spark)
    for expression in sequence(plan.expressions()):
        yield from _inner(spark, asking, expression)
    for child in sequence(plan.children()):
        if child.containsPattern(asking):
            yield from _clocks(spark, child)


def _inner(spark: SparkSession, asking: Any, expression: Any) -> Iterator[Any]:
    if not expression.containsPattern(asking):
        return
    name = str(expression.getClass().getSimpleName())
    if name in _CLOCKS:
        yield expression
    if name in _WITH_A_PLAN:
        yield from _clocks(spark, expression.plan())
    for child in sequence(expression.children()):
        yield from _inner(spark, asking, child)
