"""The app of `kafka.py`: records from topics, each once in a topic, and counted and summed up in another. Version 2
reads a second topic."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, source, stage

VERSION = 1
QUERIES = ("once",)
TOPICS = ("a", "b")[:VERSION]

app = StreamingApp("records", require_names=True)


def records(spark: SparkSession, params: dict[str, str]) -> DataFrame:
    """The records of all topics. A record's place is where it lies in Kafka."""

    def read(topic: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", params["broker"])
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", params["at_once"])
        rows = source(topic, reader.option("subscribe", topic).load())
        record = F.from_json(F.col("value").cast("string"), "id long, k string, a long").alias("record")
        return rows.select(F.concat_ws("-", "topic", "partition", "offset").alias("place"), record)

    return reduce(DataFrame.unionAll, map(read, TOPICS)).select("place", "record.*")


def write(df: DataFrame, key: str, topic: str, mode: str, params: dict[str, str]) -> DataStreamWriter:
    """Messages with a column as key and the others as value."""
    value = F.to_json(F.struct(*(c for c in df.columns if c != key)))
    writer = df.select(F.col(key).alias("key"), value.alias("value")).writeStream.outputMode(mode).format("kafka")
    writer = writer.option("kafka.bootstrap.servers", params["broker"]).option("topic", topic)
    return writer.trigger(processingTime="500 milliseconds")


def once(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    first = stage("once", records(spark, params).dropDuplicates(["id"]))
    return write(first.withColumn("version", F.lit(VERSION)), "place", "once", "append", params)


def totals(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    sums = records(spark, params).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))
    return write(stage("totals", sums), "k", "totals", "update", params)


for name in QUERIES:
    app.query(name)(globals()[name])

if __name__ == "__main__":
    app.main()
