"""Arrow arrays as Spark's rows: the bytes are decoded again (test_unsafe_row.py compares the codec with Spark)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from airflow_provider_streamupdate.core.checkpoint import unsafe_row
from airflow_provider_streamupdate.streaming.restore.arrow_rows import row_bytes


def struct(*types: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": f"f{i}", "type": t, "nullable": True} for i, t in enumerate(types)]}


def test_every_type_with_nulls_in_a_slice_of_a_batch() -> None:
    inner = struct("integer", "string")
    schema = struct(
        *("long", "double", "boolean", "binary", "date", "timestamp", "decimal(20,2)"),
        inner,
        {"type": "array", "elementType": inner},
        {"type": "map", "keyType": "string", "valueType": struct("long")},
    )
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    names = [f"f{i}" for i in range(10)]
    types = [
        *(pa.int64(), pa.float64(), pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC")),
        *(pa.decimal128(20, 2), kind, pa.list_(kind), pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
    ]
    full = [
        *(7, 0.5, True, b"x", date(1970, 1, 3), datetime(1970, 1, 1, 0, 0, 1), Decimal("12.34")),
        {"a": 1, "b": "z"},
        [{"a": 2, "b": None}, None, {"a": 3, "b": "y"}],
        [("k", {"n": 5}), ("l", None)],
    ]
    rows = [dict(zip(names, values, strict=True)) for values in (full, full, [None] * 10)]
    array = pa.array([*rows, None], pa.struct(list(zip(names, types, strict=True)))).slice(1)
    made = row_bytes(schema, array)
    assert made[2] is None
    assert [unsafe_row.decode(schema, data) for data in made[:2]] == [
        (
            *(7, 0.5, True, b"x", 2, 1_000_000, Decimal("12.34")),
            (1, "z"),
            [(2, None), None, (3, "y")],
            [("k", (5,)), ("l", None)],
        ),
        (None,) * 10,
    ]
