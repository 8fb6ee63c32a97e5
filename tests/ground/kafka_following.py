"""A query from Kafka into Kafka that is followed: each record once, without a gap at the takeover.

Not a part of scripts/ground.sh: both versions run in the test's own JVM, which needs Spark's connector for Kafka, and
that is there for Spark 4.2 only; what `kafka.py` needs besides is in .venv. With what `scripts/ground.sh kafka` has
fetched into .ground (PYTHONPATH=.ground/kafka/python:.:tests/spark):

    .venv-spark42/bin/python -c 'import sys, pytest; sys.path.append(".venv/lib/python3.11/site-packages")
    sys.exit(pytest.main(["tests/ground/kafka_following.py"]))'
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import HDFS, Bench, stage
from followed_pair import running_pair, wait_for
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from .kafka import broker, messages, read  # noqa: F401
from .records import jars


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars("kafka"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_every_record_once(spark: SparkSession, broker: str, tmp_path: Path) -> None:  # noqa: F811
    producer = KafkaProducer(bootstrap_servers=broker)
    sent: list[int] = []

    def send(*ids: int) -> None:
        for future in [producer.send("a", json.dumps({"id": n}).encode()) for n in ids]:
            future.get(60)
        sent.extend(ids)

    def written() -> list[int]:
        return [int(message.value) for message in messages(broker, "once")]

    def once(at_once: int):
        def build(bench: Bench):
            reader = bench.spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
            reader = reader.option("subscribe", "a").option("startingOffsets", "earliest")
            rows = reader.option("maxOffsetsPerTrigger", at_once).load()
            ids = rows.select(F.from_json(F.col("value").cast("string"), "id long").alias("r")).select("r.id")
            first = stage("once", ids.dropDuplicates(["id"]))
            return first.select(F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("value"))

        return build

    bench = Bench(spark, tmp_path, HDFS)
    bench.sink = lambda writer: writer.format("kafka").option("kafka.bootstrap.servers", broker).option("topic", "once")
    with running_pair(bench, once(5), once(7), mode="append") as pair:
        send(*range(20))
        pair.start_old()
        wait_for(lambda: read(pair.running).get("a") == len(sent), "all records")
        pair.follow()
        for start in (18, 30, 45):
            send(*range(start, start + 15))
            pair.catch_up()
        wait_for(lambda: read(pair.running).get("a") == len(sent), "all records")
        pair.end_old()
        pair.same_states()
        assert set(written()) == set(sent)
        pair.take_over()
        send(*range(50, 75))
        wait_for(lambda: read(pair.own).get("a") == len(sent), "all records, by the new version")
        assert pair.follower is not None and pair.follower.query is not None
        pair.follower.query.stop()
    assert Counter(written()) == Counter(set(sent))
