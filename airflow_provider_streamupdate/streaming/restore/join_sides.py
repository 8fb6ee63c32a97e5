"""The rows of a join's sides: read from its state, and converted back into the contents of its stores
(join_state.py)."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...core.checkpoint.join_state import COUNTS, ROWS, ROWS_BY_TIME, TIMES, by_time, event_time, rows_schema, side_rows
from ...core.errors import CorruptError
from ...core.plan.plan import StagePlan
from ...core.plan.spark_types import fields
from ...core.storage import Folder
from .rewriter import read_store


def read_side(spark: SparkSession, stage: StagePlan, side: str, batch: int, checkpoint: Folder) -> DataFrame:
    """A side's rows: key (the join keys) and value (the side's columns, and from state format 2 on whether a match was
    found)."""
    rows = read_store(spark, stage, batch, checkpoint, rows_schema(stage, side).name)
    keys, _ = side_rows(stage, side)
    return rows.select(F.struct(*(rows["key"][f["name"]] for f in fields(keys))).alias("key"), "value")


def side_stores(stage: StagePlan, side: str, rows: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    """The contents of each store or column family of a side that has these rows: partition_key, key and value, all
    structs."""
    rows = rows.localCheckpoint()  # counted and numbered are the same rows, whatever the app's function does
    if by_time(stage):
        yield from _by_time(stage, side, rows)
        return
    counted = rows.groupBy("key").count()
    yield (
        f"{side}-{COUNTS}",
        counted.select(F.col("key").alias("partition_key"), "key", F.struct("count").alias("value")),
    )
    index = F.row_number().over(Window.partitionBy("key").orderBy(F.lit(0))) - 1
    indexed = rows.withColumn("index", index.cast("bigint"))
    key = F.struct("key.*", "index").alias("key")
    yield f"{side}-{ROWS}", indexed.select(F.col("key").alias("partition_key"), key, "value")


def _by_time(stage: StagePlan, side: str, rows: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    column = event_time(side_rows(stage, side)[1])
    if column is None:  # SymmetricHashJoinStateManagerV4 asserts that there is one
        raise CorruptError(
            f"the {side} side of stage {stage.name} has no event time, which its state format needs; give the stage "
            "another name to start it empty"
        )
    time = rows["value"][column["name"]]
    time = F.unix_micros(time if column["type"] == "timestamp" else time["end"])
    time = F.coalesce(time, F.lit(0))  # what UnsafeRow.getLong gives for a null
    key = F.struct("key.*", time.alias("time")).alias("key")
    timed = rows.select(key.alias("partition_key"), key, "value")  # as Spark's reader gives it: see belonging
    yield f"{side}-{ROWS_BY_TIME}", timed
    nothing = F.struct(F.lit(None).alias("nothing")).alias("value")
    yield f"{side}-{TIMES}", timed.select("partition_key", "key").distinct().select("partition_key", "key", nothing)
