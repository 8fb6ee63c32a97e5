"""The rows of a muted query, batch by batch, and their comparison with another version's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from ...core.difference.comparison import NEW, OLD, Comparison
from ...core.storage import Folder
from .rows import compare_rows

_MARKS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"  # comparison.WHOLE, which an app may have switched off
_TIMES = "spark.sql.parquet.outputTimestampType"  # in milliseconds it would hide what differs by less
_NAMES = "_names.json"  # of the columns, in order: Parquet cannot hold two of one name


def recorder(rows: Folder) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that keeps the rows of each batch in a folder of its own."""

    def record(batch: DataFrame, number: int) -> None:
        names = batch.columns
        if not rows.exists(_NAMES):
            rows.write(_NAMES, json.dumps(names).encode())
        columns = [f"c{index}" for index in range(len(names))]
        writer = batch.toDF(*columns).write.mode("overwrite").option(_MARKS, "true")
        with _setting(batch.sparkSession, _TIMES, "TIMESTAMP_MICROS"):
            writer.parquet(rows.sub(str(number)).uri)

    return record


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """With another value of a setting, whatever the app has set."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def compare_recorded(spark: SparkSession, comparison: Comparison) -> None:
    """Compare the batches whose rows are there of both versions and have not been compared, and note what differs."""
    asked, expected = comparison.asked(), comparison.expected()
    if asked is None or expected is None:
        return
    for query, keys in asked.keys.items():
        done = set(comparison.found().batches.get(query, ()))
        for batch in comparison.recorded(query):
            if batch in done:
                continue
            old, new = (_read(spark, comparison.rows(version, query), batch) for version in (OLD, NEW))
            found = compare_rows(old, new, keys, expected.of(query), query=query, batches=(batch, batch))
            comparison.write(comparison.found().also(batch, found))


def _read(spark: SparkSession, rows: Folder, batch: int) -> DataFrame:
    names = json.loads(rows.read(_NAMES) or b"[]")
    return spark.read.parquet(rows.sub(str(batch)).uri).toDF(*names)
