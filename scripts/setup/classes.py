"""Has a Spark driver load the classes that streaming applications need: sources, stateful operators, both state stores,
sinks. Run by scripts/setup/classes.sh while Java records them. Needs nothing but pyspark.

    spark-submit classes.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

STATE = "org.apache.spark.sql.execution.streaming.state"


def main(folder: Path) -> None:
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = builder.getOrCreate()
    for kind in ("json", "parquet"):
        rows = [json.dumps({"k": f"k{n % 3}", "n": n, "ts": f"2026-01-01 00:0{n}:00"}) for n in range(6)]
        (folder / "text").mkdir(exist_ok=True)
        (folder / "text" / "rows.json").write_text("\n".join(rows))
        spark.read.schema("k string, n int, ts timestamp").json(str(folder / "text")).write.format(kind).save(
            str(folder / kind)
        )
    for number, provider in enumerate(("RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider")):
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{STATE}.{provider}")
        run(spark, folder, number)
    spark.stop()


def run(spark: SparkSession, folder: Path, number: int) -> None:
    """One batch of each of some queries."""

    def rows(kind: str):  # type: ignore[no-untyped-def]
        read = spark.readStream.schema("k string, n int, ts timestamp").format(kind).load(str(folder / kind))
        return read.withWatermark("ts", "1 minute")

    right = rows("parquet").selectExpr("k AS k2", "ts AS ts2")
    queries = {
        "counts": rows("json").groupBy("k").agg(F.count("*"), F.sum("n"), F.max("n")),
        "windows": rows("parquet").groupBy(F.window("ts", "1 minute"), "k").agg(F.avg("n")),
        "once": rows("json").dropDuplicates(["k", "ts"]),
        "joined": rows("json").join(right, F.expr("k = k2 AND ts = ts2")),
    }
    for name, df in queries.items():
        writer = df.writeStream.option("checkpointLocation", str(folder / f"checkpoint-{number}-{name}"))
        if name == "once":
            writer = writer.format("parquet").option("path", str(folder / f"out-{number}"))
        elif name == "counts":
            writer = writer.outputMode("update").foreachBatch(
                lambda batch, _: batch.write.format("noop").mode("append").save()
            )
        else:
            writer = writer.format("noop")
        query = writer.start()
        query.processAllAvailable()
        query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
