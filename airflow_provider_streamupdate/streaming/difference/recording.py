"""The rows of a muted query, batch by batch, and their comparison with another version's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from ...core.storage import Folder
from .rows import compare_rows

BATCHES_AT_ONCE = 30  # the folders of more are listed by a job of Spark's (parallelPartitionDiscovery.threshold, 32)
_TIMES = "spark.sql.parquet.outputTimestampType"  # in milliseconds it would hide what differs by less
_BATCH = "streamupdate__batch__"  # a column beside the app's own
_NAMES = "_names.json"  # of the columns, in order: Parquet cannot hold two of one name


def recorder(rows: Folder) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that keeps the rows of each batch in a folder of its own."""

    def record(batch: DataFrame, number: int) -> None:
        names = batch.columns
        if not rows.exists(_NAMES):
            rows.write(_NAMES, json.dumps(names).encode())
        where = f"{number}-{uuid.uuid4().hex[:8]}"
        columns = [f"c{index}" for index in range(len(names))]
        with _setting(batch.sparkSession, _TIMES, "TIMESTAMP_MICROS"):
            batch.toDF(*columns).write.parquet(rows.sub(where).uri)
        note_rows(rows, number, where)

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
    """Compare batches whose rows are there of both versions and have not been compared, and note what differs: those
    that have waited longest, at most BATCHES_AT_ONCE of a query. One pass for all of them takes as long as for one."""
    asked, expected = comparison.asked(), comparison.expected()
    if asked is None or expected is None:
        return
    for query, keys in asked.keys.items():
        batches = comparison.recorded(query)[:BATCHES_AT_ONCE]
        if not batches:
            continue
        old, new = (_read(spark, comparison.rows(version, query), batches) for version in (OLD, NEW))
        found = compare_rows(
            old,
            new,
            keys,
            expected.of(query),
            tolerance=asked.tolerance if keys else 0.0,
            query=query,
            apart=_BATCH,
            left_out=expected.columns(query),
        )
        comparison.write(comparison.found().also(batches, found))
        comparison.remove_compared(query)


def _read(spark: SparkSession, rows: Folder, batches: Sequence[int]) -> DataFrame:
    """The rows of these batches, and in the column _BATCH whose they are."""
    names = json.loads(rows.read(_NAMES) or b"[]")
    where = rows.read_many(lambda batch: rows_of(rows, batch), batches)
    frame = spark.read.parquet(*(rows.sub(folder).uri for folder in where))
    batch = F.regexp_extract("_metadata.file_path", r"/(\d+)-[0-9a-f]+/[^/]*$", 1).cast("int")
    return frame.select("*", batch).toDF(*names, _BATCH)
