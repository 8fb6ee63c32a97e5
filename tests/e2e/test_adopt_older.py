"""A checkpoint that the real Spark 3.5.9 wrote is adopted by 4.0, and carried on to 4.3, against an oracle."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Ground

REPOSITORY = Path(__file__).resolve().parents[2]
OLDEST, OLD, NEW = (REPOSITORY / f".venv-spark{version}" / "bin" for version in ("35", "40", ""))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (OLDEST / "python").exists() or not (OLD / "python").exists(), reason="make test-spark VERSION=3.5"
    ),
]

# A deduplication below an aggregate, and counts by the hour. A batch that comes again is written once.
SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

into, out, checkpoints, provider = sys.argv[1:]
spark = (
    SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # a file is a batch
    .config("spark.sql.streaming.stateStore.providerClass", provider).getOrCreate()
)
schema = "k string, a long, t timestamp"
rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(into).withWatermark("t", "1 hour")
sums = rows.dropDuplicates(["k", "a"]).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))
hours = rows.groupBy(F.window("t", "1 hour"), "k").count().select("window.start", "k", "count")

def sink(name):
    return lambda batch, n: batch.write.mode("overwrite").json(f"{out}/{name}/{n}")

for name, frame in (("sums", sums), ("hours", hours)):
    frame.writeStream.queryName(name).outputMode("update").foreachBatch(sink(name)).option(
        "checkpointLocation", f"{checkpoints}/{name}"
    ).start()
spark.streams.awaitAnyTermination()
"""
PROVIDERS = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


class Older(Ground):
    """A script, run by hand under one Spark or another, and by this package."""

    def __init__(self, folder: Path, provider: str) -> None:
        super().__init__(folder)
        self.script, self.checkpoints = folder / "script.py", folder / "checkpoints"
        self.script.write_text(SCRIPT)
        self.arguments = [str(self.input), str(self.output), str(self.checkpoints), PROVIDERS[provider]]
        self.rows: list[dict[str, str | int]] = []

    def write(self) -> None:
        of = range(self.written * 3, self.written * 3 + 5)  # some of them again
        rows = [{"k": f"k{n % 4}", "a": n, "t": f"2026-01-01T{n // 6:02d}:{n % 6}0:00"} for n in of]
        self.put(rows)
        self.rows += rows

    def by_hand(self, spark: Path, batches: int) -> None:
        """Run the script until so many more batches have committed, then stop it."""
        for _ in range(batches):
            self.write()
        command = [str(spark / "spark-submit"), "--master", "local[2]", str(self.script), *self.arguments]
        python = str(spark / "python")
        environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        environment.pop("SPARK_HOME", None)
        with open(self.folder / "by-hand.log", "ab") as log:
            process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=log, stderr=log)
        try:
            wait_for(lambda: self.committed(self.checkpoints) or None, "the last batch", 300)
        finally:
            os.killpg(process.pid, 9)
            process.wait()

    def committed(self, checkpoints: Path) -> bool:
        """Whether each query has committed the batch of the last file: a file is a batch."""
        return all((checkpoints / query / "commits" / str(self.written - 1)).exists() for query in ("sums", "hours"))

    def by_us(self, deployment: str) -> None:
        """Feed two more files, and wait until they are committed."""
        self.write()
        self.write()
        own = self.root / "older" / "deployments" / deployment / "checkpoint"
        wait_for(lambda: self.committed(own) or None, "the last batch", 300)

    def written_rows(self, query: str, *key: str) -> dict[tuple[str, ...], dict[str, str | int]]:
        """The last row of each key, over all batches in order."""
        found = {}
        for batch in sorted((self.output / query).iterdir(), key=lambda folder: int(folder.name)):
            for part in sorted(batch.glob("*.json")):
                for line in part.read_text().splitlines():
                    row = json.loads(line)
                    found[tuple(str(row[k]) for k in key)] = row
        return found


@pytest.fixture(params=PROVIDERS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Older]:
    made = Older(tmp_path, request.param)
    yield made
    made.end()


def test_a_checkpoint_of_spark_3_5_goes_on_under_4_0_and_4_3(ground: Older) -> None:
    submit, sinks = ("--spark-submit", str(OLD / "spark-submit")), ("--seen-batch", "sums=replaces")
    given = (*sinks, "--seen-batch", "hours=replaces", "--app", "older", "--", *ground.arguments)
    ground.by_hand(OLDEST, 3)
    told = ground.cli("adopt", str(ground.script), *submit, *given, code=1)
    for step in ("1. Stop the query", "2. Start the same code on the same checkpoint with Spark 4.0", "3. Stop it"):
        assert step in " ".join(told.split()), told
    ground.by_hand(OLD, 1)
    ground.cli("adopt", str(ground.script), *submit, *given)
    master = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")
    ground.cli("submit", str(ground.script), "--snapshot", "adopted", "--deployment", "v1", *master, *submit, *given)
    ground.by_us("v1")
    newest = ("--spark-submit", str(NEW / "spark-submit"))
    ground.cli("update", str(ground.script), "--deployment", "v2", *master, *newest, *given)
    ground.by_us("v2")

    values, hours = defaultdict(set), defaultdict(int)
    for row in ground.rows:
        values[str(row["k"])].add(row["a"])
        hours[f"{str(row['t'])[:13]}:00:00", str(row["k"])] += 1
    sums = ground.written_rows("sums", "k")
    assert sums == {(k,): {"k": k, "n": len(v), "s": sum(v)} for k, v in values.items()}
    counts = {(start[:19], k): row["count"] for (start, k), row in ground.written_rows("hours", "start", "k").items()}
    assert counts == dict(hours)
