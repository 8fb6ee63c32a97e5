"""What Spark's JSON of an expression (TreeNode.toJSON) leaves out, read from the expression itself.

A Catalyst node is a scala Product: every field of its constructor can be asked for. TreeNode.parseToJson renders what
it knows (trees, types, strings, numbers, Scala objects) and gives ``null`` for the rest: sets, maps, enumerations, case
classes, lists of plain values (*measured*). Only these are read here, so that a plan of thousands of nodes costs few
calls of the JVM. What has no stable text is marked with the reason; it is never dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import SparkSession

from ....core.errors import EnvironmentProblem
from ...catalyst.tree import is_tree
from ..jvm import java_class
from .exact_rows import Unreadable, exact
from .expressions import FIELDS, Expressions
from .stable_values import NO_UTF_8, render, telling

# What a field that Spark's JSON leaves out has instead: ``{RENDERED: text}``, or ``{UNREADABLE: why}``.
RENDERED, UNREADABLE = "rendered", "unreadable"
# In place of an expression that is one of the node's children: a node's text has those anyway.
CHILD = {RENDERED: "·"}

JsonNode = dict[str, Any]
Special = Callable[[Any, JsonNode], None]

_CUT = re.compile(r"\.\.\. \d+ more fields\]?$")  # SparkStringUtils.truncatedString, in lists of strings
_LITERAL = "org.apache.spark.sql.catalyst.expressions.Literal"
_VARIABLE = "org.apache.spark.sql.catalyst.expressions.VariableReference"
_CAST = "org.apache.spark.sql.catalyst.expressions.Cast"


def complete(
    spark: SparkSession, nodes: list[JsonNode], held: Callable[[], Expressions], special: dict[str, Special]
) -> None:
    """Fill in the fields of the JSON of expressions (`nodes`: trees in pre-order, one after the other), in place.

    held: gives these expressions, when something of them has to be looked at
    special: what is done with the nodes of some classes (by name) before their fields are looked at
    """
    _without_children(spark, nodes)
    wanted = [
        i
        for i, node in enumerate(nodes)
        if _left_out(node) or node["class"] in special or node["class"] in _LOOKED_AT or _zoned(node)
    ]
    if not wanted:
        return
    expressions = held()
    for number in wanted:
        _Completed(spark, expressions, number, nodes[number]).fill(special)


def rendered_fields(spark: SparkSession, node: JsonNode, plan: Callable[[], Any]) -> None:
    """Fill in those fields of a plan's own node, in place. plan: gives the node, when it has to be looked at."""
    for field in _left_out(node):
        node[field] = _rendered(spark, plan(), node, field)


@attrs.frozen
class _Completed:
    """An expression that has something to look at."""

    spark: SparkSession
    expressions: Expressions
    number: int
    node: JsonNode

    @property
    def expression(self) -> Any:
        return self.expressions.at(self.number)

    def fill(self, special: dict[str, Special]) -> None:
        node, name = self.node, self.node["class"]
        if name == _VARIABLE:
            self._become_its_value(special)
            return
        if name in FIELDS:
            self._name()
        if name in special:
            special[name](self.expression, node)
        if _zoned(node) and self._result("needsTimeZone") == "false":
            del node["timeZoneId"]  # ResolveTimeZone gives every cast one; Cast.needsTimeZone says which use it
        for field in _left_out(node):
            if name == _LITERAL and node["dataType"] != "object":
                node[field] = self._value()
            else:
                node[field] = self._field(field)

    def _value(self) -> dict[str, str]:
        """A literal's, whose JSON is not exact."""
        value, kind = self.expression.value(), self.node["dataType"]
        if str(kind).startswith("string"):
            return {RENDERED: f"bytes {bytes(value.getBytes()).hex()}"}
        if kind == "timestamp":
            return {RENDERED: str(value)}
        if _said_by_sql(kind) and NO_UTF_8 not in (text := str(self.expression.sql())):
            return {RENDERED: text}
        try:
            return {RENDERED: f"words {exact(self.spark, self.expression)}"}
        except Unreadable as error:
            return {UNREADABLE: str(error)}

    def _become_its_value(self, special: dict[str, Special]) -> None:
        """Replace a session variable by its value, as the optimizer does. (A table is described as it was written.)"""
        literal = self.expression.varDef().currentValue()
        self.node.clear()
        self.node.update(json.loads(literal.toJSON())[0])
        complete(self.spark, [self.node], lambda: Expressions.of(self.spark, literal), special)

    def _name(self) -> None:
        """Name a struct's field by its name in the struct, whatever the spelling or position in the code; with its
        position when two fields share the name."""
        node, names = self.node, self.expressions.fields(self.node["class"]).get(self.number)
        if names is not None:
            node["name"] = names[node["ordinal"]]
            node["again"] = names.count(node["name"]) > 1
            return
        node["again"] = True  # not known: then it goes by both
        if isinstance(node.get("field"), dict):
            node["name"] = node["field"]["name"]
        elif not isinstance(node.get("name"), str):
            node["name"] = self._result("extractFieldName")

    def _result(self, asked: str) -> str:
        """Call a method and return the result as text."""
        told = self.expressions.results_of(self.node["class"], asked).get(self.number)
        if told is not None:
            return told
        value = getattr(self.expression, asked)()
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _field(self, field: str) -> Any:
        """A field's value: that of another expression of the class, where Spark's text says that they are the same."""
        name = self.node["class"]
        kind = telling(self.spark._jvm, name, field)
        text = self.expressions.results_of(name, field).get(self.number) if kind else None
        if kind is None or text is None or not kind.fullmatch(text):
            return _rendered(self.spark, self.expression, self.node, field)
        seen = self.expressions.seen
        if (name, field, text) not in seen:
            seen[name, field, text] = _rendered(self.spark, self.expression, self.node, field)
        return seen[name, field, text]


def _rendered(spark: SparkSession, owner: Any, node: JsonNode, field: str) -> Any:
    """The text of a field, None where it is null."""
    names = _parameters(owner, node["class"])
    try:
        if field in names:
            value = owner.productElement(names.index(field))
        else:  # of a second parameter list, which is no part of the Product
            value = getattr(owner, field)()
        return None if value is None else {RENDERED: render(spark, value, owner)}
    except Unreadable as error:
        return {UNREADABLE: str(error)}
    except Exception as error:  # py4j: no such method
        return {UNREADABLE: f"it cannot be asked for ({type(error).__name__})"}


def _left_out(node: JsonNode) -> list[str]:
    """The fields of a node that its JSON does not tell, or cuts short."""
    if node["class"] == _LITERAL:
        value = node.get("value")
        garbled = isinstance(value, str) and NO_UTF_8 in value
        return ["value"] if value is not None and (garbled or _has_no_text(node.get("dataType"))) else []
    return [k for k, v in node.items() if v is None or (isinstance(v, str) and v.startswith("[") and _CUT.search(v))]


def _has_no_text(kind: Any) -> bool:
    """Types whose values' text in the JSON is not exact: bytes, lists, maps, structs, objects, and points in time,
    which are written in the session's time zone (Literal.jsonFields)."""
    return isinstance(kind, dict) or kind in ("binary", "object", "variant", "timestamp") or str(kind)[:3] == "geo"


# Expressions that have more to tell than their JSON says, whatever that has.
_LOOKED_AT = frozenset({*FIELDS, _VARIABLE})
# Types whose values are told apart by their SQL (Literal.sql).
_BY_SQL = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp_ntz",
                     "binary", "string", "void", "interval"})  # fmt: skip


def _said_by_sql(kind: Any) -> bool:
    """Whether all of a value of a type is in its SQL. Points in time are not: they are written in the session's time
    zone, where an hour may come twice."""
    if isinstance(kind, dict):
        parts = ("elementType", "keyType", "valueType")
        inner = [kind[p] for p in parts if p in kind] + [f["type"] for f in kind.get("fields", ())]
        return kind["type"] in ("array", "map", "struct") and all(map(_said_by_sql, inner))
    return kind in _BY_SQL or str(kind).startswith(("decimal", "string collate", "interval "))


def _zoned(node: JsonNode) -> bool:
    return node["class"] == _CAST and "timeZoneId" in node


def _without_children(spark: SparkSession, nodes: list[JsonNode]) -> None:
    """Fields that are children are numbers in the JSON, or a second copy of the child; the order of the children says
    the same. Where a node has several lists of children, their lengths tell which child is in which."""
    for number, node in enumerate(nodes):
        if not node["num-children"]:
            continue
        lists = [k for k, v in node.items() if isinstance(v, list) and v and all(type(i) is int for i in v)]
        for field in lists:
            node[field] = {RENDERED: str(len(node[field]))}
        if len(lists) == 1:
            del node[lists[0]]
        for field, value in list(node.items()):
            if type(value) is int and field != "num-children" and not _is_number(spark, node["class"], field):
                del node[field]
        children: list[list[JsonNode]] = []
        for field, value in list(node.items()):
            if isinstance(value, (list, dict)) and _has_tree(value):
                children = children or _children(nodes, number)
                node[field] = _copies(value, children)


def _children(nodes: list[JsonNode], number: int) -> list[list[JsonNode]]:
    """The JSON of a node's children."""
    found, position = [], number + 1
    for _ in range(nodes[number]["num-children"]):
        end = _end(nodes, position)
        found.append(nodes[position:end])
        position = end
    return found


def _end(nodes: list[JsonNode], position: int) -> int:
    left = 1
    while left:
        left += nodes[position]["num-children"] - 1
        position += 1
    return position


def _has_tree(value: Any) -> bool:
    if is_tree(value):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has_tree(v) for v in inner)


def _copies(value: Any, children: list[list[JsonNode]]) -> Any:
    """A value in which trees that are children are no more than a sign."""
    if is_tree(value):
        return dict(CHILD) if value in children else value
    if isinstance(value, dict):
        return {k: _copies(v, children) for k, v in value.items()}
    return [_copies(v, children) for v in value] if isinstance(value, list) else value


_NUMBERS: dict[tuple[str, str], bool] = {}
_PARAMETERS: dict[str, tuple[str, ...]] = {}


def _is_number(spark: SparkSession, name: str, field: str) -> bool:
    """Whether a field of a class is a number, and not a child."""
    if (name, field) not in _NUMBERS:
        try:
            kind = java_class(spark._jvm, name).getDeclaredField(field).getType()
            _NUMBERS[name, field] = not str(kind.getName()).startswith("org.apache.spark.sql.catalyst.")
        except Exception:  # py4j: no such field; then it counts
            _NUMBERS[name, field] = True
    return _NUMBERS[name, field]


def _parameters(owner: Any, name: str) -> tuple[str, ...]:
    """The parameters of a case class, those of its first list."""
    if name not in _PARAMETERS:
        if str(owner.getClass().getName()) != name:
            raise EnvironmentProblem(
                f"a node of Spark's plan is no {name}, as its JSON says: this Spark is not known here"
            )
        _PARAMETERS[name] = tuple(str(owner.productElementNames().mkString("\n")).split("\n"))
    return _PARAMETERS[name]
