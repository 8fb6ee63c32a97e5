"""flight-windows, version 1: flights and their summed departure delay per origin and 24-hour window.

Input: a folder of JSON-lines files, one flight a line:
``{"origin": "JFK", "carrier": "B6", "flight": 725, "scheduled": "2013-01-01T10:45:00Z", "dep_delay": -1}``;
``dep_delay`` is in minutes, null for a cancelled flight. Event time is the scheduled departure.

Output: one file ``windows/batch=<id>.json`` a batch with JSON lines
``{"stage": "daily", "start": "2013-01-01T00:00:00Z", "origin": "JFK", "flights": 297, "delay": 3125.0}``.
A batch that runs again replaces its file, so that every window is there once.

Parameters (``--set key=value``):
    input               folder the files arrive in
    output              folder the results go to (a path on the driver's machine)
    watermark           how late a flight may arrive, default "2 hours"
    max_files           files a batch takes at most, default 4
    partitions          state partitions, default 2; fixed once the app has state
    interval            time from batch to batch, default "500 milliseconds"
"""

import json
import os
from datetime import datetime, timezone

from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, stage

SCHEMA = "origin string, carrier string, flight int, scheduled timestamp, dep_delay double"

app = StreamingApp("flight-windows", require_names=True)


@app.query("windows", seen_batch="replaces")
def windows(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", params.get("partitions", "2"))
    flights = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", params.get("max_files", "4"))
        .json(params["input"])
        .withWatermark("scheduled", params.get("watermark", "2 hours"))
    )
    daily = stage("daily", per_window(flights, "24 hours"))
    return (
        rows("daily", daily)
        .writeStream.outputMode("append")
        .trigger(processingTime=params.get("interval", "500 milliseconds"))
        .foreachBatch(to_files(os.path.join(params["output"], "windows")))
    )


def per_window(flights, length):
    """Flights and summed delay (cancelled flights have none) per origin and window."""
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
