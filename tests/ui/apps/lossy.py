"""page-views without its stage: what it has counted would be lost."""

from airflow_provider_streamupdate.streaming import StreamingApp

app = StreamingApp("page-views")


@app.query("views")
def views(spark, params):
    rows = spark.readStream.format("rate").option("rowsPerSecond", params["rate"]).load()
    return rows.writeStream.format("noop").outputMode("append").trigger(processingTime="1 second")


if __name__ == "__main__":
    app.main()
