"""How a stream-stream join keeps its sides' rows, by Spark's state format (SymmetricHashJoinStateManager of Spark 4.2
and 4.3). Pure functions of a stage's plan.

Formats 1 to 3 keep a side in two parts: its rows, by join keys and index, and how many rows each key has. Those are
stores of their own in 1 and 2, and column families of one store in 3. Format 4 (column families; Spark 4.3) keeps the
rows by join keys and event time, several under one key, and beside them which keys have rows of which time. From format
2 on a row says in its last column whether it has found a match.
"""

from __future__ import annotations

from typing import Any

from ..plan.plan import StagePlan, StateSchema
from ..plan.spark_types import fields

SIDES = ("left", "right")
COUNTS, ROWS = "keyToNumValues", "keyWithIndexToValue"
TIMES, ROWS_BY_TIME = "tsWithKey", "keyWithTsToValues"
_PARTS = ((COUNTS, ROWS), (TIMES, ROWS_BY_TIME))

_MATCHED = "matched"
_WATERMARK = "spark.watermarkDelayMs"  # EventTimeWatermark.delayKey, in the metadata of a column
UNKNOWN_SIDES = "its state format is unknown, or a side has two columns of one name (`matched` is one of Spark's own)"


def sides_known(stage: StagePlan) -> bool:
    """Whether the stage's stores are those of one of the formats, and can be written: Spark's writer of column families
    finds a row's columns by their names, and calls one of its own ``matched``."""
    names = {s.name for s in stage.schemas}
    known = any(names == {f"{side}-{p}" for side in SIDES for p in parts} for parts in _PARTS)
    columns = [[field["name"] for field in fields(s.value)] for s in stage.schemas if "row" in s.key]
    return known and all(len(each) == len({*each}) for each in columns)


def by_time(stage: StagePlan) -> bool:
    """Return whether the stage uses format 4."""
    return any(s.name.endswith(ROWS_BY_TIME) for s in stage.schemas)


def rows_schema(stage: StagePlan, side: str) -> StateSchema:
    """The store or column family that holds a side's rows."""
    name = f"{side}-{ROWS_BY_TIME if by_time(stage) else ROWS}"
    return next(s for s in stage.schemas if s.name == name)


def side_rows(stage: StagePlan, side: str) -> tuple[Any, Any]:
    """The types of a side's rows: the join keys, without the index or the time that follows them; the value row."""
    schema = rows_schema(stage, side)
    return {"type": "struct", "fields": fields(plain_key(schema))[:-1]}, schema.value


def plain_key(schema: StateSchema) -> Any:
    """The key row of a store, or of a column family, whose schema names its encoder, too."""
    return schema.key.get("row", schema.key)


def says_matched(value: Any) -> bool:
    """Whether a side's rows say if they have found a match."""
    return bool(fields(value)) and fields(value)[-1]["name"] == _MATCHED


def event_time(value: Any) -> dict[str, Any] | None:
    """The column of a side's rows that its watermark is of, where there is one; a window counts with its end
    (WatermarkSupport.watermarkExpression)."""
    return next((f for f in fields(value) if _WATERMARK in f.get("metadata", {})), None)
