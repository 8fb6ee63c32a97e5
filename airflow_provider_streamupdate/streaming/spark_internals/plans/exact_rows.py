"""Values and rows in the form in which Spark keeps them, as text. Equal texts are equal values, unlike Spark's SQL or
JSON of a value, which is ambiguous (points in time depend on the session's time zone, variants have no types, bytes
that are not UTF-8 become one character, and some classes have no text at all)."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ..jvm import array, lines, named, scala_object

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = f"{_CATALYST}.expressions"
_ROW = f"{_EXPRESSIONS}.UnsafeRow"


def exact(spark: SparkSession, literal: Any) -> str:
    """The value of a Literal."""
    jvm = spark._jvm
    try:
        expressions = array(jvm, f"{_EXPRESSIONS}.Expression", [literal])
        projection = named(jvm, f"{_EXPRESSIONS}.InterpretedUnsafeProjection")(expressions)
        row = projection.apply(scala_object(jvm, f"{_CATALYST}.InternalRow").empty())
        return str(row.toString())  # its words, in hexadecimal
    except Py4JError as error:
        raise Unreadable(f"a value of type {literal.dataType().sql()}, which cannot be compared") from error


def exact_of(spark: SparkSession, value: Any, kind: Any) -> str:
    """A value as Spark has it, of a type."""
    return exact(spark, named(spark._jvm, f"{_EXPRESSIONS}.Literal")(value, kind))


def exact_rows(spark: SparkSession, plan: Any) -> list[str]:
    """The rows that a physical plan gives, in their order."""
    jvm = spark._jvm
    rows = scala_object(jvm, "scala.collection.immutable.ArraySeq").unsafeWrapArray(plan.executeCollect())
    if rows.size() and str(rows.head().getClass().getName()) != _ROW:
        raise Unreadable(f"rows of {rows.head().getClass().getName()}, which cannot be compared")
    return lines(jvm, rows)


class Unreadable(Exception):
    """A value has no stable text; says which class."""
