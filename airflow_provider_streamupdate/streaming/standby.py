"""Getting warm: what a standby runs before it takes over, so that its first real batch is like any later one."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ..state.errors import describe
from . import spark_internals
from .restorer import SavedState

# The first batches of a driver compile code and start workers: measured, the tenth is as fast as it gets.
WARM_UP_BATCHES = 10


def warm_up(spark: SparkSession, writers: Mapping[str, DataStreamWriter], saved: SavedState) -> None:
    """Run every query on sources without rows, into a sink that writes nothing, on a scratch checkpoint. Nothing of
    the app is read or written. A query that cannot be run so is only slower in its first batches."""
    for name, writer in writers.items():
        with tempfile.TemporaryDirectory(prefix="streamupdate-warm-") as scratch:
            try:
                with _settings(spark, {**saved.recorded().get(name, {}), spark_internals.FILE_MANAGER: None}):
                    _run(writer, Path(scratch))
            except Exception as error:
                print(f"WARNING: query {name} could not be warmed up: {describe(error)}", file=sys.stderr)


def _run(writer: DataStreamWriter, scratch: Path) -> None:
    details = spark_internals.writer_details(writer)
    empty = spark_internals.with_empty_sources(spark_internals.writer_frame(writer), scratch, WARM_UP_BATCHES)
    query = (
        empty.writeStream.format("noop")
        .outputMode(details["output_mode"])
        .option("checkpointLocation", (scratch / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@contextlib.contextmanager
def _settings(spark: SparkSession, recorded: Mapping[str, str | None]) -> Iterator[None]:
    """The session under the settings that the saved state's offset log will bring (they win on a restart); without
    those that are None."""
    before = {key: spark.conf.get(key, None) for key in recorded}
    try:
        _set(spark, recorded)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
