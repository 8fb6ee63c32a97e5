"""Spark's types and names of columns as texts for expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

COLLATIONS = "__COLLATIONS"  # the key of a field's metadata with them (StructField.collationMetadata)
_NAME = re.compile(r"[\w$-]+")


def name(given: str) -> str:
    """Return a column's or field's name: in backticks, when it could be taken for something else."""
    return given if _NAME.fullmatch(given) else "`" + given.replace("`", "``") + "`"


def names(given: Sequence[str]) -> list[str]:
    """Return the names of columns that are beside each other: with its place, where a name comes again."""
    return [name(each) + (f"#{place}" if given.count(each) > 1 else "") for place, each in enumerate(given)]


def type_text(kind: Any) -> str:
    """Return a type in words (DataType.json): names, order and collations count, nullability does not."""
    if not isinstance(kind, dict):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    if kind["type"] == "struct":
        return "struct<" + ", ".join(_field(f) for f in kind["fields"]) + ">"
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
    code = ("#" + kind["code"] if kind["code"] else " (its code cannot be compared)") if "code" in kind else ""
    return f"{kind.get('class') or kind.get('pyClass') or kind['type']}{code}({type_text(kind.get('sqlType'))})"


def shape_text(kind: Any) -> str:
    """Return a type of which nothing is read that is in it: a struct without its fields."""
    if isinstance(kind, dict) and kind["type"] == "struct":
        return "struct"
    if isinstance(kind, dict) and kind["type"] == "array":
        return f"array<{shape_text(kind['elementType'])}>"
    if isinstance(kind, dict) and kind["type"] == "map":
        return f"map<{shape_text(kind['keyType'])}, {shape_text(kind['valueType'])}>"
    return type_text(kind)


def user_types(kind: Any) -> Iterator[dict[str, Any]]:
    """Yield the user-defined types in a type or other JSON, with the code (spark_internals/plans/user_types.py)."""
    if isinstance(kind, dict) and "code" in kind:
        yield kind
    for inner in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        yield from user_types(inner)


def is_comparable(kind: Any) -> bool:
    """Return whether equal texts of the type mean the same: the code of its user-defined types is known."""
    return all(each["code"] for each in user_types(kind))


def _field(field: dict[str, Any]) -> str:
    return f"{name(field['name'])} {type_text(field_type(field))}"


def field_type(field: dict[str, Any]) -> Any:
    """Return the type of a struct's field as JSON, with its collations: Spark's JSON keeps these in the field's
    metadata, by the path to each string in it (StructField.collationMetadata)."""
    collations = (field.get("metadata") or {}).get(COLLATIONS)
    return _collated(field["type"], collations, field["name"]) if collations else field["type"]


def _collated(kind: Any, collations: Mapping[str, str], path: str) -> Any:
    if kind == "string" and path in collations:
        return f"string collate {collations[path].rpartition('.')[2]}"
    if isinstance(kind, dict) and kind["type"] == "array":
        return {**kind, "elementType": _collated(kind["elementType"], collations, f"{path}.element")}
    if isinstance(kind, dict) and kind["type"] == "map":
        inner = {
            f"{part}Type": _collated(kind[f"{part}Type"], collations, f"{path}.{part}") for part in ("key", "value")
        }
        return {**kind, **inner}
    return kind
