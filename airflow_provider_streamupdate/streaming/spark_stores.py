"""The second file of the door to Spark's JVM internals (spark_internals.py): stores rewritten row by row."""

from __future__ import annotations

from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from .spark_internals import _STREAMING, _store_session


class _Repartition:
    """A scala.Function1: a DataFrame of state rows with their partition keys -> the same in other partitions."""

    class Java:
        implements = ("scala.Function1",)

    def __init__(self, jvm: Any, partitions: int) -> None:
        self._columns = jvm.scala.collection.immutable.Nil.appended(
            jvm.org.apache.spark.sql.functions.col("partition_key")
        )
        self._partitions = partitions

    def apply(self, rows: Any) -> Any:
        return rows.repartition(self._partitions, self._columns)


def rewrite_stores(
    spark: SparkSession, source: str, target: str, batch: int, conf: dict[str, str], partitions: int | None
) -> None:
    """Write every store of every operator of checkpoint `source`, as of `batch`, as version 1 under `target` (URIs).

    target: holds the same operators' metadata and an offset entry 0 that records the configuration of the new stores
    conf: that configuration; partitions: their number, None when rows stay in the partitions they are in

    Spark's StateRewriter reads and writes on the executors, by each column family's own encoder; its reader knows each
    row's partition key (StatePartitionKeyExtractorFactory). RocksDB only: StateDataSource refuses to read the column
    families of another provider, and HDFSBackedStateStoreProvider.getStore to open a store empty.
    """
    jvm = spark._jvm
    some = jvm.scala.Option.apply
    session = _store_session(spark, conf)
    move = None
    if partitions is not None:
        ensure_callback_server_started(spark.sparkContext._gateway)
        move = _Repartition(jvm, partitions)
    getattr(jvm, f"{_STREAMING}.state.StateRewriter")(
        session, batch, 0, target, session.sessionState().newHadoopConf(), some(source), some(move), some(None)
    ).run()
