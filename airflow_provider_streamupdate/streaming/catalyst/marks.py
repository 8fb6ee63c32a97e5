"""Marks in the texts of a plan: a column that is read, with its type, as ``⟦source-1.user.id: bigint⟧``.

Texts carry the marks while a plan is traced, so that it is known of each text which columns it reads, down to the
fields of a struct, and of which types they are. A plan keeps the plain text and the types apart (`split`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.plan.plan import UNKNOWN, unknown
from ...core.union_branches import CLOSE, OPEN, OR

BEGIN, END, TYPED = "⟦", "⟧", ": "
ESCAPED = ":\\u0020"  # in place of TYPED in what is written in a path
_MARK = re.compile(f"{BEGIN}([^{BEGIN}{END}]*){END}")
_SIGNS = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in (BEGIN, END, OPEN, CLOSE, OR.strip())})
COLLATIONS = "__COLLATIONS"  # the key of a field's metadata with them (StructField.collationMetadata)
_NAME = re.compile(r"[\w$-]+")


def mark(path: str, kind: Any) -> str:
    """A column (or a field in it) that is read; kind: its type as JSON. It is unknown where its type is."""
    told = type_text(kind)
    return f"{UNKNOWN if unknown(told) else ''}{BEGIN}{path}{TYPED}{told}{END}"


def mark_shape(path: str, kind: Any) -> str:
    """The same, of a column of which no field is read: structs are told without what is in them."""
    return f"{BEGIN}{path}{TYPED}{_shape(kind)}{END}"


def _shape(kind: Any) -> str:
    if isinstance(kind, dict) and kind["type"] == "struct":
        return "struct"
    if isinstance(kind, dict) and kind["type"] == "array":
        return f"array<{_shape(kind['elementType'])}>"
    if isinstance(kind, dict) and kind["type"] == "map":
        return f"map<{_shape(kind['keyType'])}, {_shape(kind['valueType'])}>"
    return type_text(kind)


def path_of(text: str) -> str | None:
    """The column that a text is; None when it is anything else."""
    found = _MARK.fullmatch(text)
    return found[1].rpartition(TYPED)[0] if found and not _typed_name(found[1]) else None


def _typed_name(inner: str) -> bool:
    return TYPED not in inner


def split(texts: Any) -> tuple[Any, dict[str, str]]:
    """Texts (one, a list, a dict of them) without their marks, and the columns they read with their types."""
    types: dict[str, str] = {}
    return _split(texts, types), types


def _split(value: Any, types: dict[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {k: _split(v, types) for k, v in value.items()}
    if isinstance(value, str):
        return _MARK.sub(lambda found: _noted(found[1], types), value)
    return [_split(v, types) for v in value] if isinstance(value, Iterable) else value


def _noted(inner: str, types: dict[str, str]) -> str:
    path, _, kind = inner.partition(TYPED)
    # What is read whole in one place, and of which but the shape counts in another, is whole: its text is longer.
    types[path] = max(kind, types.get(path, ""), key=len)
    return path


def name(given: str) -> str:
    """A column's or field's name as a text has it: in backticks, when it could be taken for something else."""
    return given if _NAME.fullmatch(given) else "`" + escape(given).replace("`", "``").replace(TYPED, ESCAPED) + "`"


def names(given: Sequence[str]) -> list[str]:
    """The names of columns that are beside each other: with its place, where a name comes again."""
    return [name(each) + (f"#{place}" if given.count(each) > 1 else "") for place, each in enumerate(given)]


def escape(text: str) -> str:
    """A text of the author's own without the signs that have a meaning here."""
    return text.translate(_SIGNS)


def type_text(kind: Any) -> str:
    """A type in words (DataType.json): names, order and collations count, nullability does not."""
    if not isinstance(kind, dict):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    if kind["type"] == "struct":
        return "struct<" + ", ".join(_field(f) for f in kind["fields"]) + ">"
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
    own = str(kind.get("class") or kind.get("pyClass") or kind["type"])
    return f"{own}{code_of(kind)}({type_text(kind.get('sqlType'))})"


def code_of(kind: Any) -> str:
    """The code of a user-defined type's class (plans/user_types.py); nothing for one of Spark's own."""
    if "code" not in kind:
        return ""
    return f"#{kind['code']}" if kind["code"] else f" ({UNKNOWN}its code cannot be compared)"


def _field(field: dict[str, Any]) -> str:
    return f"{name(field['name'])} {type_text(field_type(field))}"


def field_type(field: dict[str, Any]) -> Any:
    """The type of a struct's field as JSON, with its collations: Spark's JSON keeps these in the field's metadata, by
    the path to each string in it (StructField.collationMetadata)."""
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
