"""page-views, version 2: counts every value once."""

from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("page-views")


@app.query("views")
def views(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.readStream.format("rate").option("rowsPerSecond", params["rate"]).load()
    once = stage("once", rows.dropDuplicates(["value"]))
    counts = stage("views", once.groupBy((F.col("value") % 50).alias("page")).count())
    return counts.writeStream.format("noop").outputMode("update").trigger(processingTime="1 second")


if __name__ == "__main__":
    app.main()
