"""The schema by which a text is parsed (from_json, from_csv): of it counts what is read, not the fields beside that.

A field's value does not depend on the fields beside it where each is parsed by itself (spark_internals/plans/plans.py:
_mark_parser); tests/spark/test_parser_schema.py compares with Spark. Spark leaves out unread fields as well
(OptimizeCsvJsonExprs), but not everywhere.
"""

from __future__ import annotations

from typing import Any

import attrs

from ....core.plan.expressions import Call, Expression, Literal, Unknown
from ...catalyst import types

PARSERS = {"JsonToStructs": "from_json", "CsvToStructs": "from_csv"}
STRUCT, ARRAY, MAP = "struct<>", "array<>", "map<>"
# Steps into a value, beside names of fields. SHAPE: whether it is there, and how many are in it.
ELEMENT, SHAPE = "[]", "#"
# Calls whose result is an element of their first argument, or a value of a map.
_GETTERS = ("getarrayitem", "elementat", "getmapvalue", "element")
# Generators, and which of their columns is an element, or a map's key and value.
_EXPLODES = {"explode": ("1", "2"), "posexplode": ("2", "3")}


# Options by which values of one type are read, and no others (JacksonParser, UnivocityParser).
_OF_TYPES = {"timestampformat": "timestamp", "timestampntzformat": "timestamp_ntz", "dateformat": "date"}


def options(given: dict[str, str]) -> Expression:
    """Return a parser's options as a tree. given: by their names in lower case"""
    return Call("options", (), tuple((name, Literal(repr(value))) for name, value in sorted(given.items())))


def schema(kind: Any, by_place: bool = False) -> Expression:
    """Return a type (as JSON) as a tree. by_place: fields are found by their places, not by their names"""
    form = kind.get("type") if isinstance(kind, dict) else None
    if form == "struct":
        fields = list(kind["fields"])
        names = types.names([field["name"] for field in fields])
        inner = [schema(types.field_type(field)) for field in fields]
        if by_place:
            inner = [Call("column", (each,), (("place", Literal(str(n))),)) for n, each in enumerate(inner, 1)]
        return Call(STRUCT, (), tuple(zip(names, inner, strict=True)))
    if form == "array":
        return Call(ARRAY, (schema(kind["elementType"]),))
    if form == "map":
        return Call(MAP, (schema(kind["keyType"]), schema(kind["valueType"])))
    text = types.type_text(kind)
    return Literal(text) if types.is_comparable(kind) else Unknown(text)


def narrowed(tree: Expression, *path: str) -> Expression:
    """Return an expression of which only this is read, with no more of the schema than that takes."""
    if not isinstance(tree, Call) or not tree.arguments:
        return tree
    value, *others = tree.arguments
    match tree.function:
        case parser if parser in PARSERS.values():
            told = dict(tree.options)
            read, given = _pruned(told["schema"], path), told["options"]
            if isinstance(read, Call) and isinstance(given, Call):
                told |= {"schema": read, "options": _of_types(given, read)}
            return attrs.evolve(tree, options=tuple(told.items()))
        case "field":
            name = dict(tree.options)["name"]
            step = _generated(value, name.value) if isinstance(name, Literal) else ""
            return attrs.evolve(tree, arguments=(narrowed(value, step, *path),)) if step else tree
        case getter if getter in _GETTERS:
            return attrs.evolve(tree, arguments=(narrowed(value, ELEMENT, *path), *others))
        case "again" | "outer" | "explode" | "posexplode":
            return attrs.evolve(tree, arguments=(narrowed(value, *path), *others))
    return tree


def _of_types(given: Call, read: Call) -> Call:
    """Return the options without those for types that are not in what is read."""
    types = {each.text for each in read.walk() if isinstance(each, Literal)}
    kept = (option for option in given.options if _OF_TYPES.get(option[0]) in (None, *types))
    return attrs.evolve(given, options=tuple(kept))


def _generated(value: Expression, name: str) -> str:
    """Return the step that a column, or a field, of a value is; empty where it is none that is known."""
    while isinstance(value, Call) and value.function in ("again", "outer"):
        value = value.arguments[0]
    made_by = value.function if isinstance(value, Call) else ""
    if made_by in _EXPLODES:
        return ELEMENT if name in _EXPLODES[made_by] else ""
    return name


def _pruned(kind: Expression, path: tuple[str, ...]) -> Expression:
    if not path or not isinstance(kind, Call):
        return kind
    step, *rest = path
    if kind.function == ARRAY:  # a field of an array is that of each element (GetArrayStructFields)
        below = path[1:] if step == ELEMENT else path
        return Call(ARRAY, (_pruned(kind.arguments[0], below),))
    if kind.function == MAP:
        key, value = kind.arguments
        return (
            Call(MAP, (key, _pruned(value, path[1:] if step == ELEMENT else path)))
            if step in (ELEMENT, SHAPE)
            else kind
        )
    if step == SHAPE:
        return Call(STRUCT)
    fields = dict(kind.options)
    return Call(STRUCT, (), ((step, _pruned(fields[step], tuple(rest))),)) if step in fields else kind
