"""The rows of a muted query, recorded batch by batch, and their comparison with another version's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from ...core.storage import Folder
from .rows import BATCH, RecordedColumn, Recording, columns_of, compare_rows

BATCHES_AT_ONCE = 30  # the folders of more are listed by a job of Spark's (parallelPartitionDiscovery.threshold, 32)
_TIMES = "spark.sql.parquet.outputTimestampType"  # milliseconds would hide smaller differences
_COLUMNS = "_columns.json"  # in the folder of a version's rows: their names and types


def recorder(rows: Folder) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the rows of each batch into a folder of their own. Columns that
    cannot be compared are left out: Parquet cannot hold all of them."""

    def record(batch: DataFrame, number: int) -> None:
        columns = columns_of(batch.schema)
        if not rows.exists(_COLUMNS):
            rows.write(_COLUMNS, json.dumps([attrs.astuple(column) for column in columns]).encode())
        where = f"{number}-{uuid.uuid4().hex[:8]}"
        kept = [f"c{at}" for at, column in enumerate(columns) if column.comparable]
        if kept:
            frame = batch.toDF(*(f"c{at}" for at in range(len(columns)))).select(*kept)
            with _setting(batch.sparkSession, _TIMES, "TIMESTAMP_MICROS"):
                frame.write.parquet(rows.sub(where).uri)
        note_rows(rows, number, where)

    return record


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Replace a setting of the app for a while."""
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
    """Compare batches that both versions have recorded, and store the findings: of each query those that have waited
    longest, at most BATCHES_AT_ONCE, in one pass."""
    request, expected = comparison.request(), comparison.expected()
    if request is None or expected is None:
        return
    for query in request.keys:
        batches = comparison.recorded(query)[:BATCHES_AT_ONCE]
        if not batches:
            continue
        old, new = (_recording(spark, comparison.rows(version, query), batches) for version in (OLD, NEW))
        difference = compare_rows(query, old, new, request, expected)
        comparison.write(comparison.findings().add(batches, difference))
        comparison.remove_compared(query)


def _recording(spark: SparkSession, rows: Folder, batches: Sequence[int]) -> Recording:
    columns = tuple(RecordedColumn(*column) for column in json.loads(rows.read(_COLUMNS) or b"[]"))

    def read() -> DataFrame:
        folders = rows.read_many(lambda batch: rows_of(rows, batch), batches)
        frame = spark.read.parquet(*(rows.sub(folder).uri for folder in folders))
        batch = F.regexp_extract("_metadata.file_path", r"/(\d+)-[0-9a-f]+/[^/]*$", 1).cast("int")
        return frame.withColumn(BATCH, batch)

    return Recording(columns, read)
