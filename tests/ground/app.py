"""The app of these tests: records with ids reach each sink once. `records.py` writes it out with another VERSION and
with the queries of a test."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, stage

VERSION = 1
QUERIES = ("files",)

app = StreamingApp("records")


def records(spark: SparkSession, params: dict[str, str]) -> DataFrame:
    rows = spark.readStream.schema("id long, k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])
    return rows.withColumn("version", F.lit(VERSION))


def writer(df: DataFrame) -> DataStreamWriter:
    return df.writeStream.outputMode("append").trigger(processingTime="500 milliseconds")


def delta(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return writer(records(spark, params)).format("delta").option("path", params["output"] + "/delta")


def onward(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    """From the table that the query `delta` writes into another one."""
    table = params["output"] + "/delta"
    spark.createDataFrame([], "id long, k string, a long, version int").write.format("delta").mode("ignore").save(table)
    rows = stage("once", spark.readStream.format("delta").load(table).dropDuplicates(["id"]))
    return writer(rows).format("delta").option("path", params["output"] + "/onward")


def files(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return writer(records(spark, params)).format("json").option("path", params["output"] + "/files")


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


for name in QUERIES:
    app.query(name, seen_batch="skips" if name == "transactions" else None)(globals()[name])

if __name__ == "__main__":
    app.main()
