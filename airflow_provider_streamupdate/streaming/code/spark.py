"""PySpark's own values inside a function: broadcast variables, accumulators, data types, other UDFs."""

from __future__ import annotations

import sys
from typing import Any

import attrs

from .report import Where
from .walk import Walk

# They tell a function on which partition of how many it is, and which task of which stage.
TASK_CONTEXTS = frozenset({"TaskContext", "BarrierTaskContext"})
TELLS_PARTITIONS = "it tells how rows are shared out among tasks"


@attrs.frozen
class BroadcastVariable:
    """Stands for a broadcast variable, which is pickled as its number (pyspark.core.broadcast.Broadcast.__reduce__)."""

    id: int


def describe_spark(walk: Walk, value: Any, where: Where) -> Any:
    """None when it is none of them."""
    if isinstance(value, BroadcastVariable):
        return _broadcast(walk, value, where)
    if not type(value).__module__.startswith("pyspark."):
        return None
    name = type(value).__name__
    if name == "Broadcast":
        return "broadcast", walk.of(value.value, where.part(".value"))
    if name == "Accumulator":
        # Workers can only add to it (its value can be read in the driver alone), so it changes no result. Its
        # AccumulatorParam runs in the workers; its id tells how many were made before it.
        return "accumulator", walk.of(value.accum_param, where.part(".accum_param"))
    if name == "UserDefinedFunction":
        # _returnType may be a text; the parsed one, the JVM's object and the profile are made when they are needed
        parts = (value.func, value._returnType, value.evalType, value.deterministic)
        return "udf", *(walk.of(part, where) for part in parts)
    types = sys.modules.get("pyspark.sql.types")
    if types and isinstance(value, types.DataType) and "udt" not in (text := value.json()):
        return "type", text
    return None


def _broadcast(walk: Walk, value: BroadcastVariable, where: Where) -> Any:
    try:
        held = walk.report.broadcasts[value.id]
    except KeyError:
        return walk.report.cannot(where, "the value of this broadcast variable is not at hand")
    except Exception as e:  # destroyed, encrypted, or what loading its value raises
        return walk.report.cannot(where, f"the value of this broadcast variable cannot be loaded ({e})")
    return "broadcast", walk.of(held, where.part(".value"))
