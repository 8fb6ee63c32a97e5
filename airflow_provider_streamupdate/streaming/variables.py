"""The state variables of transformWithState, rewritten one by one; the others and the timers are carried as they are.

Each variable is a column family of one store (TransformWithStateVariableInfo): a value is one row a key, a list
several, a map one for each key of its own under the grouping key. Here each is seen as one row a grouping key, whose
value is a struct, an array of structs or a map of structs. Spark's StateRewriter reads the other families and writes
all of them, by their encoders; it wants UnsafeRows, which `arrow_rows` makes of the new values, on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from ..state.migration import LIST, MAP, schema_of, variable_type
from ..state.plan import StagePlan
from ..state.restore import MigratedStage
from ..state.snapshot import QuerySnapshot
from ..state.storage import Folder
from . import spark_stores
from .rewriter import describe_target

# grouping key, a map's own key, value: of each row of a column family, as structs; and the place in a list
_ROW = ("key", "user_key", "value", "place")
_COUNTER = "$rowCounter_{}"  # StateStoreColumnFamilySchemaUtils.getRowCounterCFName: how long each list is


def read_variable(spark: SparkSession, stage: StagePlan, name: str, batch: int, checkpoint: Folder) -> DataFrame:
    """A variable's rows: key (a struct) and value."""
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


def rewrite_variables(
    spark: SparkSession,
    stage: MigratedStage,
    made: Mapping[str, DataFrame],
    snapshot: QuerySnapshot,
    scratch: Folder,
    checkpoint: Folder,
    conf: dict[str, str],
    partitions: int,
) -> Folder:
    """Write version 1 of the stage's store; the folder its partitions lie in.

    made: the rows of each variable that changed (key and value), in the form of the new plan
    scratch: holds a checkpoint of the old stage alone under ``old``
    checkpoint: the new one, with Spark's description of the new operator
    """
    old, new = stage.old, stage.new
    gone = stage.migration.dropped if stage.migration else ()
    source, target = scratch.sub("old"), scratch.sub("new")
    describe_target(checkpoint, new.operator_id, old.operator_id, source, target, snapshot.batch, conf)
    left_out = {*made, *gone, *(_COUNTER.format(name) for name in made)}
    kept = [s.name for s in old.schemas if s.name not in left_out and not _index_of(s.name, gone)]

    def transform(rows: DataFrame) -> DataFrame:
        schema = rows.schema
        numbered = StructType([*schema.fields, StructField("place", LongType())])
        carried = rows.where(F.col("column_family_name").isin(kept))
        united = carried.withColumn("place", F.monotonically_increasing_id())
        for name, flat in _families(made, new):
            united = united.union(_encoded(flat, name, new, numbered))
        placed = united.repartition(partitions, "partition_key")
        return placed.sortWithinPartitions("column_family_name", "key_bytes", "place").select(*schema.names)

    uris = (source.uri, target.uri)
    spark_stores.rewrite_stores(spark, *uris, snapshot.batch, conf, transform, snapshot.state_format)
    return target.sub(f"state/{old.operator_id}")


def _index_of(family: str, variables: tuple[str, ...]) -> bool:
    """Whether an internal family belongs to one of the variables: ``$ttl_name``, ``$rowCounter_name`` ..."""
    prefix, _, name = family.partition("_")
    return prefix in ("$ttl", "$min", "$count", "$rowCounter") and name in variables


def _families(made: Mapping[str, DataFrame], new: StagePlan) -> Iterator[tuple[str, DataFrame]]:
    """The column families of the rewritten variables, their rows' parts as structs."""
    known = {s.name for s in new.schemas}
    for name, rows in made.items():
        kind = variable_type(new, name)
        nothing = F.lit(None).cast(IntegerType())
        if kind == LIST:
            yield name, rows.select("key", nothing, F.posexplode("value")).toDF("key", "user_key", "place", "value")
            if _COUNTER.format(name) in known:
                count = F.struct(F.size("value").cast("bigint"))
                filled = rows.where(F.size("value") > 0)
                yield _COUNTER.format(name), filled.select("key", nothing, count, nothing).toDF(*_ROW)
        elif kind == MAP:
            yield name, rows.select("key", F.explode("value"), nothing).toDF(*_ROW)
        else:
            yield name, rows.select("key", nothing, "value", nothing).toDF(*_ROW)


def _encoded(rows: DataFrame, family: str, new: StagePlan, schema: StructType) -> DataFrame:
    """The rows as StateRewriter wants them, with their place: partition key, key and value as bytes, column family."""
    described = schema_of(new, family)
    composite = variable_type(new, family) == MAP
    key = F.struct("key", "user_key") if composite else F.col("key")
    partition_key = F.col("key").cast(schema["partition_key"].dataType)
    flat = rows.select(partition_key, key.alias("row_key"), "value", F.col("place").cast("bigint"))
    return flat.mapInArrow(_encoder(described.key["row"], described.value, family), schema)


def _encoder(key: Any, value: Any, family: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        from airflow_provider_streamupdate.streaming.arrow_rows import row_bytes

        for batch in batches:
            partition_key, keys, values, place = batch.columns
            made = [
                partition_key,
                pyarrow.array(row_bytes(key, keys), pyarrow.binary()),
                pyarrow.array(row_bytes(value, values), pyarrow.binary()),
                pyarrow.array([family] * len(place), pyarrow.string()),
                place,
            ]
            yield pyarrow.RecordBatch.from_arrays(
                made, ["partition_key", "key_bytes", "value_bytes", "column_family_name", "place"]
            )

    return encode
