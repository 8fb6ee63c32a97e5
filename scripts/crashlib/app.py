"""What `scripts/crash.py` updates: running counts by key. Every key gets the records 0, 1, 2 ..., so that count, total
and squares of a row follow from its last record, when none is missing and none came twice.

The sink is idempotent by batch id, as Spark asks of one: a batch's file is replaced as a whole. What it did, and in
which process and version, is appended to a journal. Parameter `fails`: the first batch fails when its file is
written. Parameter `version`: tells versions apart, nothing else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("crash", reloadable={"version", "fails"})


@app.query("counts", seen_batch="replaces")
def counts(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    events = spark.readStream.schema("k string, n bigint").option("maxFilesPerTrigger", "40").json(params["input"])
    totals = events.groupBy("k").agg(
        F.count("*").alias("count"),
        F.sum("n").alias("total"),
        F.sum(F.col("n") * F.col("n")).alias("squares"),
        F.max("n").alias("last"),
    )
    output = Path(params["output"])

    def write(batch: DataFrame, number: int) -> None:
        rows = [list(row) for row in batch.collect()]
        _note(output, number, "begins", params["version"])
        temporary = output / f".{number}.{os.getpid()}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, output / f"{number}.json")
        _note(output, number, "ends", params["version"])
        if params["fails"]:
            raise RuntimeError("this version fails")

    named = stage("totals", totals).writeStream.outputMode("update")
    return named.foreachBatch(write).trigger(processingTime="300 milliseconds")


def _note(output: Path, batch: int, what: str, version: str) -> None:
    line = json.dumps({"pid": os.getpid(), "batch": batch, "what": what, "version": version, "at": time.time()})
    journal = os.open(output / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(journal, line.encode() + b"\n")
    finally:
        os.close(journal)


if __name__ == "__main__":
    app.main()
