"""Spark's types as JSON (DataType.json): what they are called, when two are the same in a state row, and when one can
take the values of another. Pure functions."""

from __future__ import annotations

import re
from typing import Any

_INTEGERS = ("byte", "short", "integer", "long")
_NOT_IN_THE_FORM = ("metadata", "nullable", "containsNull", "valueContainsNull")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def fields(schema: Any) -> list[dict[str, Any]]:
    """The fields of a struct type."""
    return list(schema["fields"])


def ddl(kind: Any) -> str:
    """A type in words, for example ``struct<n: bigint, at: timestamp>`` (DataType.simpleString); a row's schema without
    its outer struct: `row_ddl`."""
    if not isinstance(kind, dict):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    if kind["type"] == "struct":
        return "struct<" + ",".join(f"{f['name']}:{ddl(f['type'])}" for f in fields(kind)) + ">"
    if kind["type"] == "array":
        return f"array<{ddl(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{ddl(kind['keyType'])},{ddl(kind['valueType'])}>"
    return ddl(kind.get("sqlType") or kind["type"])  # a user-defined type is stored as its SQL type


def row_ddl(schema: Any) -> str:
    """A row's fields, for example ``k string, n bigint``."""
    return ", ".join(f"{f['name']} {ddl(f['type'])}" for f in fields(schema))


def same(old: Any, new: Any) -> bool:
    """Whether values of both types have the same form in a state row; names and nullability have no part in it."""
    return bool(form(old) == form(new))


def form(kind: Any, names: bool = False) -> Any:
    """Return what of a type decides the form of a value in a state row: neither nullability nor metadata. names:
    those of a struct's fields count as well, for what reads values by name. Takes anything that holds types, too."""
    if isinstance(kind, list):
        return [form(each, names) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "struct":
        return ["struct", *([f["name"], form(f["type"], names)] if names else form(f["type"]) for f in fields(kind))]
    return {key: form(value, names) for key, value in kind.items() if key not in _NOT_IN_THE_FORM}


def widens(old: Any, new: Any) -> bool:
    """Whether every value of the old type has its equal in the new one: a wider number, or a struct with more nullable
    fields at its end. Structs are compared by name as well, so that a field put in front is no widening."""
    if same(old, new):
        return True
    if isinstance(old, dict) and isinstance(new, dict) and old["type"] == new["type"]:
        if old["type"] == "struct":
            before, after = fields(old), fields(new)
            kept = after[: len(before)]
            return (
                len(kept) == len(before)
                and all(
                    a["name"] == b["name"] and widens(a["type"], b["type"]) for a, b in zip(before, kept, strict=True)
                )
                and all(f["nullable"] for f in after[len(before) :])
            )
        if old["type"] == "array":
            return widens(old["elementType"], new["elementType"])
        return False
    return widens_number(old, new)


def widens_number(old: Any, new: Any) -> bool:
    """Whether a number's type grows and equal values stay equal: integers, and decimals with no digit fewer on either
    side of the point. (A float's decimal notation does not survive: 0.1 as a float is another double than 0.1.)"""
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    before, after = (_DECIMAL.fullmatch(k) if isinstance(k, str) else None for k in (old, new))
    if before is None or after is None:
        return False
    (p, s), (p2, s2) = ((int(m[1]), int(m[2])) for m in (before, after))
    return s2 >= s and p2 - s2 >= p - s
