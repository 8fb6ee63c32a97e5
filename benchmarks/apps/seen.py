"""Three stages that each remember every key, in 200 partitions each: what `make bench KIND=stores` updates."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.streaming import StreamingApp, stage

CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

app = StreamingApp("seen")


@app.query("q")
def q(spark: SparkSession, params: dict[str, str]) -> DataStreamWriter:
    for key, value in {**CONF, "spark.sql.shuffle.partitions": params["partitions"]}.items():
        spark.conf.set(key, value)

    def events() -> DataFrame:
        return spark.readStream.schema("k bigint").option("maxFilesPerTrigger", "4").json(params["input"])

    keys = {"plain": F.col("k"), "negative": -F.col("k"), "odd": F.col("k") * 2 + 1}
    first, *others = (
        stage(name, events().select(key.alias("key"), F.lit(name).alias("stage")).dropDuplicates(["key"]))
        for name, key in keys.items()
    )
    rows = first
    for other in others:
        rows = rows.unionByName(other)
    return rows.writeStream.format("noop").outputMode("append").trigger(processingTime=params["trigger"])


app.main()
