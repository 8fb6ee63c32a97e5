"""The second file of the door to Spark's JVM internals (spark_internals.py): stores rewritten row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from .spark_internals import _STREAMING, _store_session

# Rows of a store as StateRewriter sees them: partition_key (a struct), key_bytes, value_bytes, column_family_name.
# What is returned has the same columns and as many partitions as the store.
Transform = Callable[[DataFrame], DataFrame]


class _Transform:
    """A scala.Function1 of Spark's own DataFrames."""

    class Java:
        implements = ("scala.Function1",)

    def __init__(self, spark: SparkSession, transform: Transform) -> None:
        self._spark = spark
        self._transform = transform

    def apply(self, rows: Any) -> Any:
        return self._transform(DataFrame(rows, self._spark))._jdf


def rewrite_stores(
    spark: SparkSession,
    source: str,
    target: str,
    batch: int,
    conf: dict[str, str],
    transform: Transform | None,
    state_format: int = 1,
) -> None:
    """Write every store of every operator of checkpoint `source`, as of `batch`, as version 1 under `target` (URIs).

    target: holds the same operators' metadata and an offset entry 0 that records the configuration of the new stores
    state_format: the checkpoint format of `source`; StateRewriter writes in the same, with ids of its own in v2
    conf: that configuration; transform: what becomes of the rows, None when they stay what and where they are

    Spark's StateRewriter reads and writes on the executors, by each column family's own encoder; its reader knows each
    row's partition key (StatePartitionKeyExtractorFactory). RocksDB only: StateDataSource refuses to read the column
    families of another provider, and HDFSBackedStateStoreProvider.getStore to open a store empty.
    """
    jvm = spark._jvm
    some = jvm.scala.Option.apply
    session = _store_session(spark, conf)
    session.conf().set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(state_format))
    function = None
    if transform is not None:
        ensure_callback_server_started(spark.sparkContext._gateway)
        function = _Transform(spark, transform)
    getattr(jvm, f"{_STREAMING}.state.StateRewriter")(
        session, batch, 0, target, session.sessionState().newHadoopConf(), some(source), some(function), some(None)
    ).run()
