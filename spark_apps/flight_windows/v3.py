"""flight-windows, version 3: no longer writes windows of fewer than five flights.

What changed from version 2:
    - rows of windows with fewer than five flights are filtered out above both stages, which stay the same
    - the difference is stated: an update that compares rows (strategy follow, --diff) expects these to be gone, and
      stops if any other row differs

Input, output and parameters are those of version 1.
"""

import json
import os
from datetime import datetime, timezone

from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, stage

SCHEMA = "origin string, carrier string, flight int, scheduled timestamp, dep_delay double"

app = StreamingApp("flight-windows", require_names=True)
app.expect_difference("windows", where="flights < 5")


@app.query("windows", seen_batch="replaces")
def windows(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", params.get("partitions", "2"))
    flights = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", params.get("max_files", "4"))
        .json(params["input"])
        .where(F.col("dep_delay").isNotNull())
        .withWatermark("scheduled", params.get("watermark", "2 hours"))
    )
    daily = stage("daily", per_window(flights, "24 hours"))
    hourly = stage("hourly", per_window(flights, "1 hour"))
    return (
        rows("daily", daily)
        .unionByName(rows("hourly", hourly))
        .where("flights >= 5")
        .writeStream.outputMode("append")
        .trigger(processingTime=params.get("interval", "500 milliseconds"))
        .foreachBatch(to_files(os.path.join(params["output"], "windows")))
    )


def per_window(flights, length):
    """Flights and summed delay per origin and window."""
    return flights.groupBy(F.window("scheduled", length), "origin").agg(
        F.count("*").alias("flights"), F.sum("dep_delay").alias("delay")
    )


def rows(name, aggregated):
    """The columns of the output; seconds since the epoch do not depend on any time zone setting."""
    start = F.unix_seconds("window.start").alias("start")
    return aggregated.select(F.lit(name).alias("stage"), start, "origin", "flights", "delay")


def to_files(folder):
    """A sink that writes one file a batch: complete or not at all, and replaced when the batch runs again."""

    def write(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"batch={batch_id}.json")
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            for row in batch.collect():
                line = row.asDict()
                line["start"] = datetime.fromtimestamp(row.start, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
                file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    return write


if __name__ == "__main__":
    app.main()
