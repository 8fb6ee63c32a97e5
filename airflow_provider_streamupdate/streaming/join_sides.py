"""The sides of a stream-stream join in state format 2. Each has two stores: its rows, under join keys and index, and
how many of them each key has (SymmetricHashJoinStateManager)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..state.migration import COUNTS, ROWS, SIDES, join_rows
from ..state.plan import StagePlan
from ..state.spark_types import fields
from ..state.storage import Folder
from .rewriter import read_store


def read_side(spark: SparkSession, stage: StagePlan, side: str, batch: int, checkpoint: Folder) -> DataFrame:
    """A side's rows: key (the join keys) and value (the side's columns, and whether a match was found)."""
    rows = read_store(spark, stage, batch, checkpoint, f"{side}-{ROWS}")
    keys, _ = join_rows(stage, side)
    return rows.select(F.struct(*(rows["key"][f["name"]] for f in fields(keys))).alias("key"), "value")


def side_stores(
    spark: SparkSession, stage: StagePlan, made: Mapping[str, DataFrame], batch: int, checkpoint: Folder
) -> Iterator[tuple[str, DataFrame]]:
    """The rows of each store of the stage: of the sides in `made` new ones, of another those in `checkpoint`."""
    for side in SIDES:
        if side not in made:
            for store in (f"{side}-{COUNTS}", f"{side}-{ROWS}"):
                yield store, read_store(spark, stage, batch, checkpoint, store)
            continue
        rows = made[side].localCheckpoint()  # counted and numbered are the same rows, whatever the app's function does
        count = F.struct(F.col("count")).alias("value")
        yield f"{side}-{COUNTS}", rows.groupBy("key").count().select("key", count)
        index = F.row_number().over(Window.partitionBy("key").orderBy(F.lit(0))) - 1
        indexed = rows.withColumn("index", index.cast("bigint"))
        yield f"{side}-{ROWS}", indexed.select(F.struct("key.*", "index").alias("key"), "value")
