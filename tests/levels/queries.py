"""The queries of the apps whose versions `versions` has; pyspark only, because a driver gets it with --py-files."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Stage = Callable[[str, DataFrame], DataFrame]


def build(
    app: str, stage: Stage, source: DataFrame, *, below: str, above: str, copies: int, more: bool, partitions: int
) -> DataFrame:
    """What a version writes. stage: `streaming.stage`; the rest: of a Version"""
    rows = _KINDS[app](stage, source.where(below)).where(above)
    if copies > 1:
        rows = rows.withColumn("copy", F.explode(F.array(*map(F.lit, range(copies)))))
    if more:
        rows = rows.withColumn("more", F.lit("x"))
    return rows.repartition(partitions) if partitions else rows


def _counts(stage: Stage, rows: DataFrame) -> DataFrame:
    return stage("s", rows.groupBy("k").agg(F.count("*").alias("n")))


def _windows(stage: Stage, rows: DataFrame) -> DataFrame:
    grouped = rows.withWatermark("ts", "30 seconds").groupBy(F.window("ts", "30 seconds").alias("k"), "b")
    return stage("s", grouped.agg(F.count("*").alias("n")))


def _dedup(stage: Stage, rows: DataFrame) -> DataFrame:
    return stage("s", rows.select("k", F.col("a").alias("n")).dropDuplicates(["k"]))


def _stateless(_: Stage, rows: DataFrame) -> DataFrame:
    return rows.where("a % 2 = 0").select("k", (F.col("a") * 2).alias("n"))


def _joined(_: Stage, rows: DataFrame) -> DataFrame:
    names = rows.sparkSession.range(50).select(F.col("id").alias("b"), F.col("id").cast("string").alias("name"))
    return rows.join(names, "b", "left").select("k", F.col("a").alias("n"), "name")


_KINDS = {"counts": _counts, "windows": _windows, "dedup": _dedup, "stateless": _stateless, "joined": _joined}
