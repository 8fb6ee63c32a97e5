"""Keyed counts: what the benchmarks update. As an app of this package, and (``plain``) as a script without it, whose
query is stopped by SIGTERM and started again in its session by SIGUSR1."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # as often as the Flink job's checkpoints; what came since is replayed by a restart
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}


# With large state Spark's default of 100 fills the disk: 2 GB had 12 GB of files after three minutes. With 10 a
# follower, which starts 20 batches behind, finds that they are gone (both measured).
OF_LARGE_STATE = {"spark.sql.streaming.minBatchesToRetain": "50"}
SHA_BYTES = 128  # of one SHA-512 in hexadecimal digits, which LZ4 does not make smaller


def counted(spark: SparkSession, source: str, payload: int = 0) -> DataFrame:
    """payload: bytes that the state keeps for each key beside its count"""
    for key, value in {**CONF, **(OF_LARGE_STATE if payload else {})}.items():
        spark.conf.set(key, value)
    events = spark.readStream.schema("k bigint").option("maxFilesPerTrigger", "4").json(source)
    if not payload:
        return events.groupBy("k").agg(F.count("*").alias("n"))
    parts = F.transform(F.sequence(F.lit(1), F.lit(payload // SHA_BYTES)), lambda n: F.sha2(F.concat("k", n), 512))
    filled = events.withColumn("payload", F.concat_ws("", parts))
    return filled.groupBy("k").agg(F.count("*").alias("n"), F.max("payload").alias("payload"))


def written(counts: DataFrame) -> DataStreamWriter:
    return counts.writeStream.format("noop").outputMode("update").trigger(processingTime="500 milliseconds")


def plain(source: str, checkpoint: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    told: list[int] = []
    wake = threading.Event()

    def note(number: int, _frame: Any) -> None:
        told.append(number)
        wake.set()

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, note)
    while signal.SIGTERM not in told:
        query = written(counted(spark, source)).option("checkpointLocation", checkpoint).start()
        while not wake.wait(0.02):
            pass
        wake.clear()
        query.stop()
    spark.stop()


if __name__ == "__main__" and sys.argv[1] == "plain":
    plain(*sys.argv[2:])
elif __name__ == "__main__":
    from airflow_provider_streamupdate.streaming import StreamingApp, stage

    app = StreamingApp("counts")

    @app.query("q")
    def q(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
        return written(stage("totals", counted(spark, params["input"], int(params.get("payload", "0")))))

    app.main()
