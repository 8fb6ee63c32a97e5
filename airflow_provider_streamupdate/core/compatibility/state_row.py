"""The value row of an aggregation's state as people see it: each column has a name of its own, and sums of short
decimals have their scale.

The optimizer (DecimalAggregates) adds up short decimals as plain numbers: cents in a bigint for a sum, in a double for
an average. Spark names the columns of all sums and averages ``sum``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ..plan.plan import StagePlan
from ..plan.spark_types import fields

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_MORE_DIGITS = 10  # of a sum than of what is added up (Sum, Average)
WITH_BUFFERS = ("aggregate", "session-window")


def keys_in_value(stage: StagePlan) -> bool:
    """Return whether the value row begins with the grouping keys (a session lies whole in it)."""
    return stage.kind == "session-window"


def key_columns(stage: StagePlan) -> list[dict[str, Any]]:
    """Return the columns of the grouping keys, in their order."""
    schema = stage.schemas[0]
    return fields(schema.value)[: len(stage.keys)] if keys_in_value(stage) else fields(schema.key)


def first_column(stage: StagePlan, aggregate: int) -> int:
    """Return where an aggregate's buffer begins in the value row: the buffers come last."""
    return len(fields(stage.schemas[0].value)) - sum(b.columns for b in stage.buffers[aggregate:])


def scaled_types(stage: StagePlan) -> dict[int, str]:
    """Return the decimal types of the columns that hold a sum without its scale, by their places in the value row."""
    found = {}
    for number, buffer in enumerate(stage.buffers):
        if buffer.unscaled and (decimal := _DECIMAL.fullmatch(buffer.operand)):
            precision, scale = map(int, decimal.groups())
            found[first_column(stage, number)] = f"decimal({precision + _MORE_DIGITS},{scale})"
    return found


def sum_type(stage: StagePlan, aggregate: int) -> Any:
    """Return the type of the sum that a Sum or an Average keeps, with its scale."""
    place = first_column(stage, aggregate)
    return scaled_types(stage).get(place, fields(stage.schemas[0].value)[place]["type"])


def value_row(stage: StagePlan) -> Any:
    """Return the schema of the value row as the app's own function is given it. A name that comes several times is
    preceded by the column that the aggregate's result is in."""
    value = stage.schemas[0].value
    if stage.kind not in WITH_BUFFERS:
        return value
    columns, scaled = fields(value), scaled_types(stage)
    count = Counter(column["name"] for column in columns)
    results = dict(enumerate(_results(stage), start=len(columns) - sum(b.columns for b in stage.buffers)))
    named: list[dict[str, Any]] = []
    taken: set[str] = set()
    for place, column in enumerate(columns):
        name = column["name"]
        if count[name] > 1 and place in results:
            name = f"{results[place]}_{name}"
        while name in taken:
            base, _, number = name.rpartition("_")
            name = f"{base}_{int(number) + 1}" if base and number.isdigit() else f"{name}_2"
        taken.add(name)
        named.append({**column, "name": name, "type": scaled.get(place, column["type"])})
    return {**value, "fields": named}


def _results(stage: StagePlan) -> list[str]:
    """The column that an aggregate's result is in, for each column of its buffer."""
    known = len(stage.results) == len(stage.buffers)
    pairs = zip(stage.results, stage.buffers, strict=True) if known else ()
    return [result for result, buffer in pairs for _ in range(buffer.columns)]
