"""What an expression reads of a column: a field, an element's field, or only whether and how much there is. Only the
type of what is read counts; other fields may be added beside it. `told` gives the text of another expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.plan.plan import UNKNOWN
from ...catalyst import marks
from ...catalyst.tree import Node

Columns = dict[int, str]  # the texts of columns, by expression id

Told = Callable[[Node, Columns], str]

FIELDS = ("GetStructField", "GetArrayStructFields")
# What it gives does not depend on what is in its operand, but on whether it is there, and on how many are in it.
SHAPES = ("IsNull", "IsNotNull", "Size")
# Functions that pass a list's elements to a lambda function, and give none of them themselves. Which of its operands
# that is, and which variable is the element.
_OVER_ELEMENTS = {"ArrayTransform": (1, 0), "ArrayExists": (1, 0), "ArrayForAll": (1, 0), "ArrayAggregate": (2, 1)}
_ELEMENT = {"GetArrayItem": "", "ElementAt": "element ", "GetMapValue": "key "}


def expression_id(attribute: Node) -> int:
    return int(attribute.fields["exprId"]["id"])


def field(expression: Node, columns: Columns, told: Told) -> str:
    """The text of a struct's field. It goes by its name; its place changes when other fields come and go, and counts
    only where the name comes again."""
    if (found := _reference(expression, columns, told)) is not None:
        path, kind, marked = found
        return marks.mark(path, kind) if marked else path
    return f"{told(expression.children[0], columns)}.{_field_name(expression)}"


def shape(expression: Node, columns: Columns, told: Told) -> str | None:
    """The text of a column of structs, lists or maps (or of a field like that) of which nothing is read that is in it;
    None for anything else."""
    found = _reference(expression, columns, told)
    if found is None or not found[2] or not isinstance(found[1], dict):
        return None
    path, kind, _ = found
    return marks.mark_shape(path, kind) if kind["type"] in ("struct", "array", "map") else None


def elements(expression: Node, columns: Columns, told: Told, lambdas: int) -> tuple[str, Columns] | None:
    """Of a function that passes the structs of a column's list to a lambda function: the list's text, of which nothing
    else is read, and the columns with the element. lambdas: how many variables there are around it"""
    if expression.name not in _OVER_ELEMENTS:
        return None
    if (listed := _reference(expression.children[0], columns, told)) is None:
        return None
    path, kind, marked = listed
    inner = kind.get("elementType") if isinstance(kind, dict) else None
    if not marked or not isinstance(inner, dict) or inner.get("type") != "struct":
        return None
    operand, place = _OVER_ELEMENTS[expression.name]
    function = expression.children[operand]
    if function.name != "LambdaFunction":
        return None
    element = expression_id(function.children[1 + place])
    return marks.mark_shape(path, kind), {**columns, element: marks.mark(f"{path}[λ{lambdas + place + 1}]", inner)}


def _field_name(expression: Node) -> str:
    """As spark_internals found it (fields.py)."""
    fields = expression.fields
    named = fields.get("name")
    place = f"#{fields.get('ordinal')}"
    return marks.name(named) + (place if fields.get("again") else "") if isinstance(named, str) else place


def _reference(expression: Node, columns: Columns, told: Told) -> tuple[str, Any, bool] | None:
    """Of a column, a field in one, or a field of an element at a fixed place: its path, its type as JSON, and whether
    the column is marked."""
    if expression.name in ("Alias", "KnownNullable"):
        return _reference(expression.children[0], columns, told)
    if expression.name in ("AttributeReference", "NamedLambdaVariable"):
        found = columns.get(expression_id(expression), UNKNOWN)
        path = marks.path_of(found)
        if path is None and not found.startswith("λ"):
            return None
        return path or found, expression.fields["dataType"], path is not None
    if expression.name in _ELEMENT:
        return _element(expression, columns, told)
    if expression.name not in FIELDS or (below := _reference(expression.children[0], columns, told)) is None:
        return None
    path, kind, marked = below
    array = expression.name == "GetArrayStructFields"
    struct = kind.get("elementType") if array and isinstance(kind, dict) else kind
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return None
    field = struct["fields"][expression.fields["ordinal"]]
    alike = sum(f["name"] == field["name"] for f in struct["fields"]) > 1
    path += f".{marks.name(field['name'])}" + (f"#{expression.fields['ordinal']}" if alike else "")
    kind = marks.field_type(field)
    return path, {"type": "array", "elementType": kind} if array else kind, marked


def _element(expression: Node, columns: Columns, told: Told) -> tuple[str, Any, bool] | None:
    """Of an element of a list, or a value of a map, at a place that is written there."""
    listed, place = expression.children[:2]
    if place.name != "Literal" or (below := _reference(listed, columns, told)) is None:
        return None
    path, kind, marked = below
    inner = (kind.get("elementType") or kind.get("valueType")) if isinstance(kind, dict) else None
    if inner is None or not marked:
        return None
    # How it is asked for, with all that counts: what comes where there is none.
    asked = told(expression, columns).partition(told(listed, columns))[2].removeprefix(", ").removesuffix(")")
    return f"{path}[{_ELEMENT[expression.name]}{asked.replace(marks.TYPED, marks.ESCAPED)}]", inner, True
