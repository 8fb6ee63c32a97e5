"""A stable text of a value that Spark keeps in a plan: equal texts mean equal values, in every process."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ..jvm import java_class
from .exact_rows import Unreadable, exact_of

_STRING = "org.apache.spark.unsafe.types.UTF8String"
# Classes whose own text says all of them.
_PLAIN = ("java.lang.", "java.math.", "java.time.", "java.net.URI", "java.util.UUID", "java.util.Locale",
          "java.util.regex.Pattern", "sun.util.calendar.ZoneInfo", "scala.math.Big", "scala.Symbol",
          _STRING, "org.apache.spark.unsafe.types.CalendarInterval",
          "org.apache.spark.sql.types.Decimal")  # fmt: skip
NO_UTF_8 = "\ufffd"  # what bytes that are no UTF-8 become in Java's texts
_ADDRESS = re.compile(r"@[0-9a-f]{1,8}\b")  # java.lang.Object.toString: another one each time
_CATALYST = "org.apache.spark.sql.catalyst"

Show = Callable[[SparkSession, Any, Any], str]


def render(spark: SparkSession, value: Any, owner: Any) -> str:
    """The text of a field's value; `Unreadable` when it has none. owner: the node it is a field of."""
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if not hasattr(value, "getClass"):
        return repr(value)  # decimal.Decimal, which py4j makes of a BigDecimal
    name = str(value.getClass().getName())
    if name not in _SHOWN:
        _SHOWN[name] = _renderer(spark, value, name)
    return _SHOWN[name](spark, value, owner)


_SHOWN: dict[str, Show] = {}  # by class


def _renderer(spark: SparkSession, value: Any, name: str) -> Show:
    """How values of a class are shown. The order counts: a list is a Product, too."""
    for kind, show in _WAYS:
        if java_class(spark._jvm, kind).isInstance(value):
            return show
    if name.endswith("$"):
        return lambda spark, value, owner: name.rsplit(".", 1)[-1].strip("$").rsplit("$", 1)[-1]
    if name.startswith(_PLAIN):
        return _text
    if name.startswith("["):
        return lambda spark, value, owner: _listed(spark, iter(value), owner)
    if java_class(spark._jvm, "scala.Product").isInstance(value):
        return _product
    return _nothing


def _text(spark: SparkSession, value: Any, owner: Any) -> str:
    text, given = str(value.toString()), str(value.getClass().getName()) == _STRING
    if not given and _ADDRESS.search(text):
        return _nothing(spark, value, owner)
    if given and NO_UTF_8 in text:
        return f"bytes {bytes(value.getBytes()).hex()}"
    return repr(text)


def _nothing(spark: SparkSession, value: Any, owner: Any) -> str:
    raise Unreadable(f"a value of {value.getClass().getName()}, which cannot be compared")


def _in_a_list(spark: SparkSession, value: Any, owner: Any) -> str:
    """A value as Spark has it, which does not know its type: one of those an operand is looked for in (InSet)."""
    if str(owner.getClass().getSimpleName()) != "InSet":
        return _nothing(spark, value, owner)
    return exact_of(spark, value, owner.child().dataType())


def _type(spark: SparkSession, value: Any, owner: Any) -> str:
    return json.dumps(json.loads(str(value.json())), sort_keys=True)


def _tree(spark: SparkSession, value: Any, owner: Any) -> str:
    if owner.containsChild().contains(value):
        return "·"
    raise Unreadable(f"an expression or plan of its own ({value.getClass().getSimpleName()})")


def _option(spark: SparkSession, value: Any, owner: Any) -> str:
    return f"Some({render(spark, value.get(), owner)})" if value.isDefined() else "None"


def _map(spark: SparkSession, value: Any, owner: Any) -> str:
    pairs = (f"{render(spark, p._1(), owner)}: {render(spark, p._2(), owner)}" for p in _iterated(value))
    return "{" + ", ".join(sorted(pairs)) + "}"


def _java_map(spark: SparkSession, value: Any, owner: Any) -> str:
    keys = value.keySet().toArray()  # py4j's own iterator ends with an error of the JVM, which takes 17 calls to read
    pairs = (f"{render(spark, k, owner)}: {render(spark, value[k], owner)}" for k in keys)
    return "{" + ", ".join(sorted(pairs)) + "}"


_BETWEEN = "\x1f\x00\x1f"


def _set(spark: SparkSession, value: Any, owner: Any) -> str:
    """Read the values of an IN in one call where possible: there may be thousands, of one type or null."""
    null = ["null"] if value.contains(None) else []
    given = value.excl(None) if null else value
    size = int(given.size())
    if size:
        first = str(given.head().getClass().getName()) if hasattr(given.head(), "getClass") else "java.lang."
        texts = str(given.mkString(_BETWEEN)).split(_BETWEEN)
        unclear = re.compile(NO_UTF_8) if first == _STRING else _ADDRESS
        told = len(texts) == size and not any(map(unclear.search, texts))
        if first.startswith(_PLAIN) and told:
            return "{" + ", ".join(sorted([*map(repr, texts), *null])) + "}"
    return "{" + ", ".join(sorted([*(render(spark, v, owner) for v in _iterated(given)), *null])) + "}"


def _java_set(spark: SparkSession, value: Any, owner: Any) -> str:
    return "{" + ", ".join(sorted(render(spark, v, owner) for v in value)) + "}"


def _listed(spark: SparkSession, values: Iterator[Any], owner: Any) -> str:
    return "[" + ", ".join(render(spark, v, owner) for v in values) + "]"


def _product(spark: SparkSession, value: Any, owner: Any) -> str:
    fields = (render(spark, value.productElement(i), owner) for i in range(value.productArity()))
    return f"{value.productPrefix()}({', '.join(fields)})"


def _iterated(value: Any) -> Iterator[Any]:
    iterator = value.iterator()
    while iterator.hasNext():
        yield iterator.next()


_WAYS: tuple[tuple[str, Show], ...] = (
    ("org.apache.spark.sql.types.DataType", _type),
    (f"{_CATALYST}.trees.TreeNode", _tree),
    ("scala.Enumeration$Value", lambda spark, value, owner: str(value.toString())),
    ("java.lang.Enum", lambda spark, value, owner: str(value.toString())),
    ("java.lang.Class", lambda spark, value, owner: str(value.getName())),
    ("scala.Option", _option),
    ("scala.collection.Map", _map),
    ("scala.collection.Set", _set),
    ("scala.collection.Iterable", lambda spark, value, owner: _listed(spark, _iterated(value), owner)),
    ("java.util.Map", _java_map),
    ("java.util.Set", _java_set),
    ("java.util.Collection", lambda spark, value, owner: _listed(spark, iter(value), owner)),
    (f"{_CATALYST}.util.ArrayData", _in_a_list),
    (f"{_CATALYST}.InternalRow", _in_a_list),
)

# What String.valueOf gives for values that are told by it.
_ANY, _NOTHING_THERE = re.compile(".*"), re.compile("None")


@functools.cache
def telling(jvm: Any, owner: str, field: str) -> re.Pattern[str] | None:
    """The texts (String.valueOf) of a class's field that are of one value only, by the type it is declared with; None
    where there are no such texts, or no such field."""
    try:
        kind = java_class(jvm, owner).getDeclaredField(field).getType()
        if str(kind.getName()) == "scala.Option":
            return _NOTHING_THERE
        return _ANY if _is_told(jvm, kind) else None
    except Py4JError:
        return None


def _is_told(jvm: Any, kind: Any) -> bool:
    """Whether values of a class are equal when their texts are: numbers, members of an enumeration, and case classes
    of nothing else (whose text is made of those of their fields)."""
    if kind.isPrimitive() or kind.isEnum() or str(kind.getName()) == "scala.Enumeration$Value":
        return True
    modifier = jvm.java.lang.reflect.Modifier
    if not java_class(jvm, "scala.Product").isAssignableFrom(kind) or modifier.isAbstract(kind.getModifiers()):
        return False
    fields = [f for f in kind.getDeclaredFields() if not modifier.isStatic(f.getModifiers())]
    return bool(fields) and all(_is_told(jvm, f.getType()) for f in fields)
