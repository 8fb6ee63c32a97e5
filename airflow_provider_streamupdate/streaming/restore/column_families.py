"""Column families of a store, rewritten: some are rebuilt, others carried unchanged, row by row.

Spark's StateRewriter reads and writes the families with their encoders; it needs UnsafeRows, which `arrow_rows` makes
from new rows, on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import reduce
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.migration import schema_of
from ...core.plan.plan import StagePlan
from ...core.snapshots.restore import MigratedStage
from ...core.storage import Folder
from .. import spark_internals
from .rewriter import belonging, describe_target


@attrs.frozen(kw_only=True)
class RebuiltFamilies:
    """The column families of a store that get new rows."""

    # By name, in the form of the new plan: partition_key, key and value (all structs), and place, which orders the
    # values of one key.
    rows: Mapping[str, DataFrame]
    left_out: Container[str] = ()  # families of the old store that are neither carried nor rebuilt


@attrs.frozen(kw_only=True)
class StoreRewrite:
    """The old and the new store of a stage that is rewritten."""

    snapshot: QuerySnapshot
    scratch: Folder  # holds a checkpoint of the old stage alone under ``old``
    checkpoint: Folder  # the new one, with Spark's description of the new operator
    conf: dict[str, str]
    partitions: int


def rewrite_families(
    spark: SparkSession, stage: MigratedStage, families: RebuiltFamilies, store: StoreRewrite
) -> Folder:
    """Write version 1 of the stage's store; return the folder with its partitions."""
    old, new = stage.old, stage.new
    source, target, batch = store.scratch.sub("old"), store.scratch.sub("new"), store.snapshot.batch
    describe_target(store.checkpoint, new, old.operator_id, source, target, batch, store.conf)
    kept = [s.name for s in old.schemas if s.name not in families.rows and s.name not in families.left_out]

    def transform(rows: DataFrame) -> DataFrame:
        schema = rows.schema
        frames = [_encoded(flat, name, new, schema) for name, flat in families.rows.items()]
        if kept:
            carried = rows.where(F.col("column_family_name").isin(kept))
            placed = carried.select("*", F.monotonically_increasing_id().alias("place"), *_placing(carried, old))
            frames.append(placed)
        united = reduce(DataFrame.union, frames)
        united = united.repartition(store.partitions, *(n for n in united.columns if n.startswith(_PLACING)))
        return united.sortWithinPartitions("column_family_name", "key_bytes", "place").select(*schema.names)

    uris = (source.uri, target.uri)
    spark_internals.rewrite_stores(spark, *uris, batch, store.conf, transform, store.snapshot.state_format)
    return target.sub(f"state/{old.operator_id}")


_PLACING = "belongs_by_"


def _placing(rows: DataFrame, stage: StagePlan) -> list[Column]:
    """Return what decides to which partition rows belong, in its own types: Spark hashes an int otherwise than a
    bigint."""
    return [column.alias(f"{_PLACING}{number}") for number, column in enumerate(belonging(rows, stage))]


def _encoded(rows: DataFrame, family: str, new: StagePlan, schema: StructType) -> DataFrame:
    """Return the rows as StateRewriter needs them: key and value as bytes, and the column family (it looks at no
    partition key); with their place and what they belong by."""
    described = schema_of(new, family)
    flat = rows.select("key", "value", F.col("place").cast("bigint").alias("place"), *_placing(rows, new))
    written = [schema[name] for name in ("key_bytes", "value_bytes", "column_family_name")]
    encoded = flat.mapInArrow(
        _encoder(described.key["row"], described.value, family), StructType([*written, *flat.schema.fields[2:]])
    )
    nothing = F.lit(None).cast(schema["partition_key"].dataType).alias("partition_key")
    return encoded.withColumn("partition_key", nothing).select(*schema.names, *flat.columns[2:])


def _encoder(key: Any, value: Any, family: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        from airflow_provider_streamupdate.streaming.restore.arrow_rows import row_bytes

        for batch in batches:
            keys, values, *others = batch.columns
            columns = [
                pyarrow.array(row_bytes(key, keys), pyarrow.binary()),
                pyarrow.array(row_bytes(value, values), pyarrow.binary()),
                pyarrow.array([family] * len(keys), pyarrow.string()),
                *others,
            ]
            names = ["key_bytes", "value_bytes", "column_family_name", *batch.schema.names[2:]]
            yield pyarrow.RecordBatch.from_arrays(columns, names)

    return encode
