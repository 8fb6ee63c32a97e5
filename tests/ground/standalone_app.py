"""The app of `standalone.py` and `yarn.py`: each record once in the file sink, and all of them summed up. In version 2
every stage changes: one more lies nearer the sink than the first, so that operator ids change, and the sums are
migrated."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, stage

VERSION = 1
QUERIES = ("files",)

app = StreamingApp("records", require_names=True)


def records(spark: SparkSession, params: dict[str, str]) -> DataFrame:
    return spark.readStream.schema("id long, k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])


def writer(df: DataFrame, mode: str) -> DataStreamWriter:
    return df.writeStream.outputMode(mode).trigger(processingTime="500 milliseconds")


def files(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    once = stage("once", records(spark, params).dropDuplicates(["id"]))
    if VERSION == 2:
        once = stage("pairs", once.dropDuplicates(["id", "k"]))
    named = once.select("id", "k", "a", F.lit(VERSION).alias("version"))
    return writer(named, "append").format("json").option("path", params["output"] + "/files")


def totals(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    aggregates = [F.sum("a").alias("s"), F.count("*").alias("n")][:VERSION]
    sums = stage("totals", records(spark, params).groupBy("k").agg(*aggregates))

    def keep(batch: DataFrame, number: int) -> None:
        """The rows of a batch in a folder that is called after it: to do it again changes nothing."""
        batch.write.mode("overwrite").json(f"{params['output']}/totals/{number:04d}")

    return writer(sums, "update").foreachBatch(keep)


for name in QUERIES:
    app.query(name, seen_batch="replaces" if name == "totals" else None)(globals()[name])

if __name__ == "__main__":
    app.main()
