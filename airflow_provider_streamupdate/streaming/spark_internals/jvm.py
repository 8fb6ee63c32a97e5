"""Values of the JVM: classes, Scala objects, collections, trees."""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql import SparkSession

STREAMING = "org.apache.spark.sql.execution.streaming"


def module(spark: SparkSession, name: str) -> Any:
    """A Scala object (its MODULE$)."""
    return scala_object(spark._jvm, name)


@functools.cache
def scala_object(jvm: Any, name: str) -> Any:
    return java_class(jvm, f"{name}$").getField("MODULE$").get(None)


@functools.cache  # to find one takes several calls of the JVM
def java_class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def scala_map(value: Any) -> dict[str, str]:
    iterator, result = value.iterator(), {}
    while iterator.hasNext():
        pair = iterator.next()
        result[str(pair._1())] = str(pair._2())
    return result


def sequence(value: Any) -> list[Any]:
    return [value.apply(index) for index in range(value.size())]


def pre_order(plan: Any) -> list[Any]:
    """A tree's nodes (of a plan or of an expression)."""
    return [plan, *(node for child in sequence(plan.children()) for node in pre_order(child))]


def activate(spark: SparkSession) -> None:
    """Make it the session of this thread, as it is of the main one: texts (schemas, expressions) are parsed under the
    settings of a thread's session, and under Spark's defaults where it has none."""
    module(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)
