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
    rows = rows.withColumn("version", F.lit(VERSION))
    return rows.withColumn("extra", F.lit(params["extra"])) if "extra" in params else rows


def writer(df: DataFrame) -> DataStreamWriter:
    return df.writeStream.outputMode("append").trigger(processingTime="500 milliseconds")


def into(df: DataFrame, params: dict[str, str], table: str) -> DataStreamWriter:
    return writer(df).format(params["format"]).option("path", params["place"].format(table))


def table(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return into(records(spark, params), params, "table")


def onward(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    """From the table that the query `table` writes into another one."""
    rows = spark.readStream.format(params["format"]).load(params["place"].format("table"))
    return into(stage("once", rows.dropDuplicates(["id"])), params, "onward")


def files(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    return writer(records(spark, params)).format("json").option("path", params["output"] + "/files")


def transactions(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    """A table from a function: Delta knows a batch again by the names it is given, Iceberg merges it. While there is a
    file ``hold``, a batch that was written does not end."""
    table = params["place"].format("transactions")

    def write(batch: DataFrame, number: int) -> None:
        if params["format"] == "delta":
            named = batch.write.format("delta").mode("append").option("txnAppId", "records")
            named.option("txnVersion", number).save(table)
        else:
            batch.alias("batch").mergeInto(table, F.expr(f"{table}.id = batch.id")).whenNotMatched().insertAll().merge()
        while os.path.exists(params["hold"]):
            Path(params["hold"]).with_name("held").touch()
            time.sleep(0.05)

    return writer(records(spark, params)).foreachBatch(write)


for name in QUERIES:
    app.query(name, seen_batch="skips" if name == "transactions" else None)(globals()[name])

if __name__ == "__main__":
    app.main()
