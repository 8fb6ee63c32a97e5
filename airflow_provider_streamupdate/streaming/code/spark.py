"""PySpark's own values inside a function: broadcast variables, accumulators, data types, other UDFs."""

from __future__ import annotations

import sys
from typing import Any

import attrs

from .walk import Walk


@attrs.frozen
class BroadcastVariable:
    """Stands for a broadcast variable, which is pickled as its number (pyspark.core.broadcast.Broadcast.__reduce__)."""

    id: int


def describe_spark(walk: Walk, value: Any) -> Any:
    """Describe one of PySpark's own values; None of others."""
    name = type(value).__name__
    if isinstance(value, BroadcastVariable):
        try:
            return "broadcast", walk.of(walk.report.broadcasts[value.id])
        except KeyError:
            return walk.report.cannot("the value of a broadcast variable is not at hand")
        except Exception as e:  # destroyed, encrypted, or what loading its value raises
            return walk.report.cannot(f"the value of a broadcast variable cannot be loaded ({e})")
    if not type(value).__module__.startswith("pyspark."):
        return None
    if name == "Broadcast":
        return "broadcast", walk.of(value.value)
    if name == "Accumulator":
        # Workers can only add to it (its value can be read in the driver alone), so it changes no result. Its
        # AccumulatorParam runs in the workers; its id tells how many were made before it.
        return "accumulator", walk.of(value.accum_param)
    if name == "UserDefinedFunction":
        # _returnType may be a text; the parsed one, the JVM's object and the profile are made when they are needed
        return "udf", *map(walk.of, (value.func, value._returnType, value.evalType, value.deterministic))
    types = sys.modules.get("pyspark.sql.types")
    if types and isinstance(value, types.DataType) and "udt" not in (text := value.json()):
        return "type", text
    return None
