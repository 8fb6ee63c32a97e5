"""The app of table_source.py: totals of a table for each of the tests' tables, in a query each."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, source, stage

TABLES = ("fine", "expired", "vacuumed", "replaced", "remade", "schema", "changes", "restored")

app = StreamingApp("totals")


def totals(table: str) -> Callable[[SparkSession, dict[str, str]], DataStreamWriter]:
    def query(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
        name, _, option = params.get(table, table).partition(" ")
        reader = spark.readStream.format(params["format"])
        if option:
            reader = reader.option(*option.split("="))
        rows = source(name, reader.load(params["place"].format(table)))
        found = stage("totals", rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("ids")))
        out = found.writeStream.outputMode("complete").format(params["format"])
        return out.option("path", params["place"].format(f"totals_{table}")).trigger(processingTime=params["trigger"])

    return query


for table in TABLES:
    app.query(table)(totals(table))

if __name__ == "__main__":
    app.main()
