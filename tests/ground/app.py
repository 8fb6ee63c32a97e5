"""The app of these tests: records with ids, some of which come again and again, reach each sink once. `records.py`
writes it out with another VERSION and with the queries of a test."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, stage

VERSION = 1
QUERIES = ("files",)
RECORD = "id long, k string, a long"

app = StreamingApp("records")


def read(spark: SparkSession, params: dict[str, str]) -> DataFrame:
    return spark.readStream.schema(RECORD).option("maxFilesPerTrigger", "1").json(params["input"])


def records(spark: SparkSession, params: dict[str, str]) -> DataFrame:
    """Each record once. Version 2 has one more stage nearer the sink, so that the operator ids of all others change."""
    if "stateless" in params:
        return read(spark, params).withColumn("version", F.lit(VERSION))
    once = stage("once", read(spark, params).dropDuplicates(["id"]))
    if VERSION == 2:
        once = stage("pairs", once.dropDuplicates(["id", "k"]))
    return once.select("id", "k", "a", F.lit(VERSION).alias("version"))


def writer(df: DataFrame, mode: str = "append") -> DataStreamWriter:
    return df.writeStream.outputMode(mode).trigger(processingTime="500 milliseconds")


def keep(batch: DataFrame, folder: str, number: int) -> None:
    """The rows of a batch in a file that is called after it: to do it again changes nothing."""
    os.makedirs(folder, exist_ok=True)
    part = Path(folder, f"{number:04d}.part")
    part.write_text("".join(json.dumps(row.asDict()) + "\n" for row in batch.collect()))
    part.replace(part.with_suffix(".json"))


def delta(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return writer(records(spark, params)).format("delta").option("path", params["output"] + "/delta")


def files(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return (
        writer(records(spark, params)).format("json").option("path", params.get("files") or params["output"] + "/files")
    )


def transactions(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    """Delta from a function: it knows a batch again by the names it is given. While there is a file ``hold``, a batch
    that was written does not end."""

    def write(batch: DataFrame, number: int) -> None:
        named = batch.write.format("delta").mode("append").option("txnAppId", "records").option("txnVersion", number)
        named.save(params["output"] + "/transactions")
        while os.path.exists(params["hold"]):
            Path(params["hold"]).with_name("held").touch()
            time.sleep(0.05)

    return writer(records(spark, params)).foreachBatch(write)


def totals(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    """Version 2 has an aggregate more: the state is migrated."""
    rows = read(spark, params).groupBy("k")
    aggregates = [F.sum("a").alias("s"), F.count("*").alias("n")][:VERSION]
    return writer(stage("totals", rows.agg(*aggregates)), "update").foreachBatch(
        lambda batch, number: keep(batch, params["output"] + "/totals", number)
    )


for name in QUERIES:
    app.query(name)(globals()[name])

if __name__ == "__main__":
    app.main()
