"""The input: the sweep's table as files, a batch a file, in both versions of the source's types."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.bench import Bench
from tests.sweep.table import retyped_table, schema, table

BATCHES = 5
SHARED = 20  # so many pairs share a table: it takes seconds to write one
_EACH = 20  # rows of a batch; what is left comes last
_JUMP = 600  # minutes the last batch is after the others, so that windows close
_BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z


def stream_schema(retyped: bool) -> str:
    return f"{schema(retyped)}, ts TIMESTAMP"


class Files:
    """Of the table that belongs to a seed: `folder`/old and `folder`/new hold the same rows, with the types of the
    source's two versions."""

    def __init__(self, spark: SparkSession, scratch: Path, seed: int) -> None:
        self.spark = spark
        self.folder = scratch / f"rows-{seed // SHARED}"
        if not self.folder.exists():
            for other in scratch.glob("rows-*"):
                shutil.rmtree(other)
            self._write(seed // SHARED)

    def _write(self, seed: int) -> None:
        old = table(self.spark, seed)
        for name, plan in (("old", old), ("new", retyped_table(self.spark, old))):
            frame = _frame(self.spark, plan).withColumn("ts", _time())
            for batch in range(BATCHES):
                frame.where(_batch() == batch).coalesce(1).write.parquet(str(self.folder / name / str(batch)))

    def read(self, retyped: bool, batches: range = range(BATCHES), spark: SparkSession | None = None) -> DataFrame:
        """The rows at rest, in a session."""
        folder = self.folder / ("new" if retyped else "old")
        return (
            (spark or self.spark).read.schema(stream_schema(retyped)).parquet(*(str(folder / str(b)) for b in batches))
        )

    def give(self, bench: Bench, batch: int, retyped: bool, to: str) -> None:
        """Have a source read a batch, after those before it."""
        [file] = (self.folder / ("new" if retyped else "old") / str(batch)).glob("*.parquet")
        path = bench.input(to) / f"{bench.files:04d}.parquet"
        hidden = path.with_name(f".{path.name}")  # not listed by a query that runs
        shutil.copyfile(file, hidden)
        os.utime(hidden, (_BEGIN + bench.files,) * 2)  # Spark reads by time of change
        hidden.rename(path)
        bench.files += 1


def _frame(spark: SparkSession, plan: Any) -> DataFrame:
    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _batch() -> Column:
    return F.least(F.floor(F.col("id") / _EACH), F.lit(BATCHES - 1))


def _time() -> Column:
    """Minutes go on with the rows, a little out of order."""
    jump = F.when(_batch() == BATCHES - 1, _JUMP).otherwise(0)
    minute = F.col("id") * 2 + (F.col("id") * 7) % 5 + jump
    return F.timestamp_seconds(minute * 60 + _BEGIN)
