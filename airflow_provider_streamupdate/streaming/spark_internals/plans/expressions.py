"""Expressions in the JVM, and facts about many of them, read in a few calls.

A call of the JVM takes about 0.1 ms, and to read a field takes several: a plan of 5 stages and 200 expressions took
50,000 calls and 9 s (*measured*; ``make bench KIND=state``). Here the JVM maps the list of all expressions, by its own
methods.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ..jvm import asking, class_names, function, given, is_a, itself, lines, method

_HELD = "org.apache.spark.sql.catalyst.plans.QueryPlan#expressions"


class Expressions:
    """Trees of expressions, one after the other, each in pre-order: as the JSON of a plan has them."""

    def __init__(self, spark: SparkSession, trees: Any) -> None:
        """trees: a scala.Seq of expressions."""
        self._jvm = spark._jvm
        self._all = trees.flatMap(_below(self._jvm))
        self.seen: dict[tuple[str, str, str], Any] = {}  # of a class's field, by its text: what it was found to be
        self._told: dict[tuple[str, str], dict[int, str]] = {}

    @classmethod
    def of_plan(cls, spark: SparkSession, plan: Any) -> Expressions:
        """Return the expressions of all nodes of a plan, in pre-order."""
        return cls(spark, plan.map(asking(spark._jvm, _HELD)).flatMap(itself(spark._jvm)))

    @classmethod
    def of(cls, spark: SparkSession, tree: Any) -> Expressions:
        """Return the expressions of one tree."""
        return cls(spark, tree.map(itself(spark._jvm)).take(1))

    @functools.cached_property
    def classes(self) -> list[str]:
        """The names of their classes."""
        return class_names(self._jvm, self._all)

    @functools.cached_property
    def _numbers(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for number, name in enumerate(self.classes):
            found[name].append(number)
        return found

    def at(self, number: int) -> Any:
        """The expression of this number."""
        return self._all.apply(number)

    def told(self, name: str, asked: str) -> dict[int, str]:
        """Return what a method without arguments gives for each expression of a class, as text, by the expressions'
        numbers. Empty where it cannot be asked for: there is no such method, or it fails."""
        if (name, asked) not in self._told:
            self._told[name, asked] = self._tell(name, f"{name}#{asked}")
        return self._told[name, asked]

    def fields(self, name: str) -> dict[int, list[str]]:
        """The names of the fields that the struct has which an expression of a class (`FIELDS`) takes one of."""
        if (name, "") not in self._told:
            self._told[name, ""] = self._tell(name, *FIELDS[name], f"{_STRUCT}#fieldNames", then=_joined(self._jvm))
        return {number: text.split(_BETWEEN) for number, text in self._told[name, ""].items()}

    def buffers(self) -> dict[int, int]:
        """Return, for each aggregate function, the number of the first one that Spark takes for the same, so that both
        have one buffer (PhysicalAggregation, EquivalentExpressions): not where it gives another value each time, as
        Spark says of ``first``. Empty where it cannot be told."""
        alike, steady = (self.told(AGGREGATE, asked) for asked in ("semanticHash", "deterministic"))
        first: dict[str, int] = {}
        return {
            number: first.setdefault(told, number) if steady.get(number) == "true" else number
            for number, told in sorted(alike.items())
        }

    def _tell(self, name: str, *asked: str, then: Any = None) -> dict[int, str]:
        numbers = self._numbers[name]
        try:
            found = self._all.filter(is_a(self._jvm, name)).map(asking(self._jvm, *asked))
            texts = lines(self._jvm, found if then is None else found.map(then))
        except Py4JError:
            return {}
        return dict(zip(numbers, texts, strict=True)) if len(texts) == len(numbers) else {}


_TYPES = "org.apache.spark.sql.types"
_STRUCT = f"{_TYPES}.StructType"
_CATALYST = "org.apache.spark.sql.catalyst.expressions"
AGGREGATE = f"{_CATALYST}.aggregate.AggregateExpression"
# Expressions that take a field of a struct, and the methods that give the struct's type.
FIELDS = {
    f"{_CATALYST}.GetStructField": (f"{_CATALYST}.GetStructField#childSchema",),
    f"{_CATALYST}.GetArrayStructFields": (
        f"{_CATALYST}.GetArrayStructFields#child",
        f"{_CATALYST}.Expression#dataType",
        f"{_TYPES}.ArrayType#elementType",
    ),
}
_BETWEEN = "\x1f"


@functools.cache
def _joined(jvm: Any) -> Any:
    """The scala.Function1 that makes one text of an array of texts."""
    join = method(jvm, "java.lang.String", "join", "java.lang.CharSequence", "[Ljava.lang.CharSequence;")
    return function(jvm, given(jvm, join.asFixedArity(), _BETWEEN, 0))


@functools.cache
def _below(jvm: Any) -> Any:
    walk = method(jvm, "org.apache.spark.sql.catalyst.trees.TreeNode", "map", "scala.Function1")
    return function(jvm, given(jvm, walk, itself(jvm)))


# The note that a column has an event time, which the JSON of a plan leaves out (EventTimeWatermark.delayKey).
_DELAY = "spark.watermarkDelayMs"
_ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.Attribute"
_METADATA = "org.apache.spark.sql.types.Metadata"


def timed(jvm: Any, columns: Any) -> list[int]:
    """The ids of those columns (a scala.Seq) that have an event time with a watermark."""
    ids = asking(jvm, f"{_ATTRIBUTE}#exprId", "org.apache.spark.sql.catalyst.expressions.ExprId#id")
    return [int(i) for i in lines(jvm, columns.filter(_has_delay(jvm)).map(ids))]


def first_delay_ms(jvm: Any, columns: Any) -> int | None:
    """The delay of the first of those columns (a scala.Seq) that has an event time, in ms; None where none has
    (WatermarkSupport.findEventTimeColumn). A union's columns have the delays of its first branch."""
    found = columns.filter(_has_delay(jvm))
    return int(found.head().metadata().getLong(_DELAY)) if found.nonEmpty() else None


@functools.cache
def _has_delay(jvm: Any) -> Any:
    contains = given(jvm, method(jvm, _METADATA, "contains", "java.lang.String"), _DELAY)
    return function(jvm, method(jvm, _ATTRIBUTE, "metadata"), contains)
