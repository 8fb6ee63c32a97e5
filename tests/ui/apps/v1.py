"""page-views, version 1: counts rows by key. The page is tested with it."""

from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("page-views")


@app.query("views")
def views(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.readStream.format("rate").option("rowsPerSecond", params["rate"]).load()
    counts = stage("views", rows.groupBy((F.col("value") % 50).alias("page")).count())
    return counts.writeStream.format("noop").outputMode("update").trigger(processingTime="1 second")


if __name__ == "__main__":
    app.main()
