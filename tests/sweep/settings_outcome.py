"""What a statement gives: the bytes of its rows and their types, or the class of its error."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

# Types that lie in the eight bytes of a field of an UnsafeRow; all others lie behind, at an offset.
_FIXED = ("boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz")


@attrs.frozen
class Outcome:
    """error: the condition's name; types: JSON of the column types; values: one for each row (of a column: one)"""

    types: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    error: str = ""

    def change(self, other: Outcome) -> str:
        """What differs: ``values`` is worse than ``types``, which is worse than ``errors`` (which are seen)."""
        if self == other:
            return ""
        if self.error or other.error:
            return "errors"
        return "values" if self.values != other.values and self.types == other.types else "types"


def condition(error: BaseException) -> str:
    name = getattr(error, "getCondition", lambda: None)()
    text = str(error)
    if not name and "[" in text and "]" in text:  # wrapped, e.g. by a job or a Python worker
        name = text[text.index("[") + 1 : text.index("]")][:60]
    return name or type(error).__name__


def columns(session: SparkSession, df: DataFrame) -> list[Outcome]:
    """A frame of one row, column by column."""
    types = _types(df)
    rows = _rows(session, df)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows")
    return [Outcome((t,), (v,)) for t, v in zip(types, _fields(rows[0], types), strict=True)]


def frame(session: SparkSession, df: DataFrame, ordered: bool) -> Outcome:
    types = _types(df, names=True)
    rows = _rows(session, df)
    return Outcome(tuple(types), tuple(rows if ordered else sorted(rows)))


def _types(df: DataFrame, names: bool = False) -> list[str]:
    """Names count where a query gives them, not those Spark makes of an expression's text."""
    return [
        json.dumps([f["type"], f.get("metadata") or {}, *([f["name"]] if names else [])], sort_keys=True)
        for f in json.loads(df._jdf.schema().json())["fields"]
    ]


def _rows(session: SparkSession, df: DataFrame) -> list[bytes]:
    rows = df._jdf.queryExecution().executedPlan().executeCollect()
    return [bytes(row.copy().getBytes()) if "Unsafe" in row.getClass().getName() else str(row).encode() for row in rows]


def _fields(row: bytes, types: list[str]) -> list[Any]:
    nulls = (len(types) + 63) // 64 * 8
    found: list[Any] = []
    for i, described in enumerate(types):
        if row[i // 64 * 8 + i % 64 // 8] >> (i % 8) & 1:
            found.append(None)
            continue
        word = row[nulls + 8 * i : nulls + 8 * i + 8]
        kind = json.loads(described)[0]
        if isinstance(kind, str) and (kind in _FIXED or kind.startswith(("interval ", "time(")) or _short(kind)):
            found.append(word)
        else:
            (place,) = struct.unpack("<q", word)
            offset, size = place >> 32, place & 0xFFFFFFFF
            found.append(row[offset : offset + size])
    return found


def _short(kind: str) -> bool:
    return kind.startswith("decimal(") and int(kind[8:].split(",")[0]) <= 18


def limited(session: SparkSession, run: Callable[[], Any], seconds: float = 300) -> Any:
    """Runs it; its jobs are cancelled when they take longer (a setting may make Spark wait)."""
    timer = threading.Timer(seconds, session.sparkContext.cancelAllJobs)
    timer.daemon = True
    timer.start()
    try:
        return run()
    finally:
        timer.cancel()
