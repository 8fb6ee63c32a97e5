"""Rows of an Arrow batch as the bytes of Spark's UnsafeRow (unsafe_row.py). Works on the executors, in the Python
workers that `DataFrame.mapInArrow` starts."""

from __future__ import annotations

from typing import Any

from ...core.checkpoint import unsafe_row

# Types that Arrow holds as plain integers of another name.
_INTEGERS = {"date": "int32", "timestamp": "int64", "timestamp_ntz": "int64"}


def row_bytes(schema: Any, rows: Any) -> list[bytes | None]:
    """Return each struct of an Arrow array as a row of `schema` (Spark's JSON type); None for a null."""
    return [None if row is None else unsafe_row.encode(schema, row) for row in values(schema, rows)]


def values(kind: Any, array: Any) -> list[Any]:
    """An Arrow array of a Spark type in the codec's own values."""
    if isinstance(kind, dict):
        present = array.is_valid().to_pylist()
        if kind["type"] == "struct":
            columns = [values(f["type"], inner) for f, inner in zip(kind["fields"], array.flatten(), strict=True)]
            rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
            return [row if there else None for row, there in zip(rows, present, strict=True)]
        offsets = array.offsets.to_pylist()
        if kind["type"] == "map":
            pairs = zip(values(kind["keyType"], array.keys), values(kind["valueType"], array.items), strict=True)
            inner = list(pairs)
        else:
            inner = values(kind["elementType"], array.values)
        return [inner[offsets[i] : offsets[i + 1]] if there else None for i, there in enumerate(present)]
    if kind in _INTEGERS:
        return list(array.cast(_INTEGERS[kind]).to_pylist())
    return list(array.to_pylist())
