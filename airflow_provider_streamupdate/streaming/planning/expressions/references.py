"""What an expression reads of a column: a field, an element's field, or only whether and how much there is. Only the
type of what is read counts; other fields may be added beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ....core.plan.expressions import Call, Column, Expression, Literal, field_of
from ....core.plan.visitors import is_unknown
from ...catalyst import types
from ...catalyst.tree import Node
from .parser_schema import SHAPE, narrowed
from .scope import Scope, column, expression_id

Trace = Callable[[Node, Scope], Expression]

FIELDS = ("GetStructField", "GetArrayStructFields")
# What it gives does not depend on what is in its operand, but on whether it is there, and on how many are in it.
SHAPES = ("IsNull", "IsNotNull", "Size")
# Functions that pass a list's elements to a lambda function, and give none of them themselves. Which of its operands
# that is, and which variable is the element.
_OVER_ELEMENTS = {"ArrayTransform": (1, 0), "ArrayExists": (1, 0), "ArrayForAll": (1, 0), "ArrayAggregate": (2, 1)}
_ELEMENT = {"GetArrayItem": "", "ElementAt": "element ", "GetMapValue": "key "}


@attrs.frozen
class _Reference:
    """A column, a field in one, or a field of an element at a fixed place. kind: its type as JSON; of a variable of a
    lambda function that is no column's element, the source is empty."""

    source: str
    path: str
    kind: Any

    @property
    def expression(self) -> Expression:
        return column(self.source, self.path, self.kind) if self.source else Column("", self.path)


def field(node: Node, scope: Scope, trace: Trace) -> Expression:
    """Return a struct's field. It goes by its name; its place changes when other fields come and go, and counts only
    where the name comes again."""
    found = _reference(node, scope, trace)
    return found.expression if found else narrowed(field_of(trace(node.children[0], scope), _field_name(node)))


def shape(node: Node, scope: Scope, trace: Trace) -> Expression:
    """Return an expression of which nothing is read that is in it: of a column of structs, lists or maps (or a field
    like that) only the shape counts."""
    found = _reference(node, scope, trace)
    if found is None or not found.source or not isinstance(found.kind, dict):
        return narrowed(trace(node, scope), SHAPE)
    known = found.kind["type"] in ("struct", "array", "map")
    return Column(found.source, found.path, types.shape_text(found.kind)) if known else found.expression


def elements(node: Node, scope: Scope, trace: Trace) -> tuple[Expression, Scope] | None:
    """Return the list and the scope with its element, of a function that passes the structs of a column's list to a
    lambda function and reads nothing else of the list. None for any other."""
    if node.name not in _OVER_ELEMENTS:
        return None
    operand, place = _OVER_ELEMENTS[node.name]
    function = node.children[operand]
    if function.name != "LambdaFunction":
        return None
    variable, number = expression_id(function.children[1 + place]), f"λ{scope.lambdas + place + 1}"
    if (listed := _reference(node.children[0], scope, trace)) is None or not listed.source:
        parsed = trace(node.children[0], scope)
        if (of_shape := narrowed(parsed, SHAPE)) == parsed:
            return None
        return of_shape, scope.including({variable: Call("element", (parsed, Literal(number)))})
    inner = listed.kind.get("elementType") if isinstance(listed.kind, dict) else None
    if not isinstance(inner, dict) or inner.get("type") != "struct":
        return None
    element = column(listed.source, f"{listed.path}[{number}]", inner)
    return Column(listed.source, listed.path, types.shape_text(listed.kind)), scope.including({variable: element})


def _field_name(node: Node) -> str:
    """Return the name as spark_internals found it (fields.py)."""
    named, place = node.fields.get("name"), f"#{node.fields.get('ordinal')}"
    return types.name(named) + (place if node.fields.get("again") else "") if isinstance(named, str) else place


def _reference(node: Node, scope: Scope, trace: Trace) -> _Reference | None:
    if node.name in ("Alias", "KnownNullable"):
        return _reference(node.children[0], scope, trace)
    if node.name in ("AttributeReference", "NamedLambdaVariable"):
        found = scope.columns.get(expression_id(node))
        return _Reference(found.source, found.path, node.fields["dataType"]) if isinstance(found, Column) else None
    if node.name in _ELEMENT:
        return _element(node, scope, trace)
    if node.name not in FIELDS or (below := _reference(node.children[0], scope, trace)) is None:
        return None
    of_array = node.name == "GetArrayStructFields"
    struct = below.kind.get("elementType") if of_array and isinstance(below.kind, dict) else below.kind
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return None
    field = struct["fields"][node.fields["ordinal"]]
    alike = sum(f["name"] == field["name"] for f in struct["fields"]) > 1
    path = f"{below.path}.{types.name(field['name'])}" + (f"#{node.fields['ordinal']}" if alike else "")
    kind = types.field_type(field)
    return _Reference(below.source, path, {"type": "array", "elementType": kind} if of_array else kind)


def _element(node: Node, scope: Scope, trace: Trace) -> _Reference | None:
    """Return an element of a list, or a value of a map, at a place that is written there."""
    listed, place = node.children[:2]
    if place.name != "Literal" or (below := _reference(listed, scope, trace)) is None:
        return None
    inner = (below.kind.get("elementType") or below.kind.get("valueType")) if isinstance(below.kind, dict) else None
    made = trace(node, scope)
    if inner is None or not below.source or not isinstance(made, Call) or is_unknown(made):
        return None
    # How it is asked for, with all that counts: what comes where there is none.
    asked = attrs.evolve(made, function="", arguments=made.arguments[1:])
    return _Reference(below.source, f"{below.path}[{_ELEMENT[node.name]}{asked.text}]", inner)
