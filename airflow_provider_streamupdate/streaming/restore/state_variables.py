"""The state variables of transformWithState, rewritten one by one; all others and the timers are carried unchanged.

Each variable is a column family of one store (TransformWithStateVariableInfo): a value is one row per grouping key, a
list several, a map one per map key under the grouping key. Here each is presented as one row per grouping key, whose
value is a struct, an array of structs or a map of structs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from ...core.compatibility.migration import LIST, MAP, value_type, variable_type
from ...core.plan.plan import StagePlan
from ...core.plan.spark_types import ddl
from ...core.snapshots.restore import MigratedStage
from ...core.storage import Folder
from .column_families import RebuiltFamilies

_ROW = ("partition_key", "key", "value", "place")  # of a column family; the place in a list
_COUNTER = "$rowCounter_{}"  # StateStoreColumnFamilySchemaUtils.getRowCounterCFName: how long each list is


def read_variable(spark: SparkSession, stage: StagePlan, name: str, batch: int, checkpoint: Folder) -> DataFrame:
    """Return a variable's rows: key (a struct) and value."""
    rows = (
        spark.read.format("statestore")
        .option("operatorId", stage.operator_id)
        .option("batchId", batch)
        .option("stateVarName", name)
        .option("flattenCollectionTypes", "false")
        .load(checkpoint.uri)
    )
    column = next(c for c in ("value", "list_value", "map_value") if c in rows.columns)
    return rows.select("key", F.col(column).alias("value"))


def same_ends(stage: StagePlan, name: str, old: DataFrame, new: DataFrame) -> bool:
    """Return whether values with a time to live have the same number and expiry times as before: Spark lists these
    separately, in column families that are carried (OneToOneTTLState, OneToManyTTLState)."""
    end = "ttlExpirationMs"
    by_kind = {
        LIST: F.transform("value", lambda v: v[end]),
        MAP: F.array_sort(F.transform(F.map_entries("value"), lambda e: F.struct(e["key"], e["value"][end]))),
    }
    ends = by_kind.get(variable_type(stage, name), F.col(f"value.{end}"))
    named = new.withColumn(
        "value", F.col("value").cast(ddl(value_type(stage, name)))
    )  # its fields may have other names
    before, after = (rows.select("key", ends) for rows in (old, named))
    return before.exceptAll(after).isEmpty() and after.exceptAll(before).isEmpty()


def variable_families(stage: MigratedStage, rows: Mapping[str, DataFrame]) -> RebuiltFamilies:
    """Return the column families to rebuild for the changed variables.

    rows: key and value of each of them, in the form of the new plan
    """
    dropped = stage.migration.dropped if stage.migration else ()
    counters = (_COUNTER.format(name) for name in rows)
    left_out = {*dropped, *counters, *(s.name for s in stage.old.schemas if _index_of(s.name, dropped))}
    return RebuiltFamilies(rows=dict(_families(rows, stage.new)), left_out=left_out)


def _index_of(family: str, variables: tuple[str, ...]) -> bool:
    """Return whether an internal family belongs to one of the variables: ``$ttl_name``, ``$rowCounter_name`` ..."""
    prefix, _, name = family.partition("_")
    return prefix in ("$ttl", "$min", "$count", "$rowCounter") and name in variables


def _families(variables: Mapping[str, DataFrame], new: StagePlan) -> Iterator[tuple[str, DataFrame]]:
    """Yield the column families of the rewritten variables, with their rows."""
    known = {s.name for s in new.schemas}
    nothing = F.lit(None).cast(IntegerType())
    for name, rows in variables.items():
        kind = variable_type(new, name)
        if kind == LIST:
            yield name, rows.select("key", "key", F.posexplode("value")).toDF("partition_key", "key", "place", "value")
            if _COUNTER.format(name) in known:
                count = F.struct(F.size("value").cast("bigint"))
                filled = rows.where(F.size("value") > 0)
                yield _COUNTER.format(name), filled.select("key", "key", count, nothing).toDF(*_ROW)
        elif kind == MAP:
            flat = rows.select("key", F.explode("value"), nothing).toDF("key", "user_key", "value", "place")
            yield name, flat.select("key", F.struct("key", "user_key"), "value", "place").toDF(*_ROW)
        else:
            yield name, rows.select("key", "key", "value", nothing).toDF(*_ROW)
