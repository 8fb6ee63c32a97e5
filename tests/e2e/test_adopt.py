"""A plain PySpark script runs, is killed, and goes on as an app. The answer against an oracle."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import MAIN, SINK, SPARK_SUBMIT, Ground, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUERY = """
def counts(events):
    return events.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))

def read(spark, folder):
    return spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(folder)
"""
PLAIN = "".join(line for line in SINK.splitlines(keepends=True) if "airflow" not in line)
SCRIPT = f"""{PLAIN}{QUERY}
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
into, out, checkpoint = sys.argv[1:]
writer = counts(read(spark, into)).writeStream.outputMode("update").foreachBatch(sink(out))
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
"""
APP = f"""{SINK}{QUERY}
app = StreamingApp("counts")

@app.query("counts", seen_batch="replaces")
def query(spark, params):
    kept = stage("by-key", counts(read(spark, params["input"])))
    return kept.writeStream.outputMode("update").foreachBatch(sink(params["output"]))
{MAIN}"""


class Legacy(Ground):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.output.mkdir()
        self.checkpoint = folder / "checkpoint"
        self.rows: list[dict[str, int | str]] = []
        for name, text in (("script.py", SCRIPT), ("app.py", APP)):
            (folder / name).write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        python = str(Path(SPARK_SUBMIT).parent / "python")
        places = (self.folder / "script.py", self.input, self.output, self.checkpoint)
        environment = {**os.environ, "PYSPARK_PYTHON": python}
        self.process = subprocess.Popen([python, *map(str, places)], env=environment, start_new_session=True)

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()

    def write(self) -> None:
        rows = [{"k": f"k{n % 4}", "a": self.written * 10 + n} for n in range(self.written % 5 + 1)]
        self.put(rows)
        self.rows += rows

    def wait_for_commit(self, folder: Path) -> None:
        """Of the last file: a file is a batch."""
        wait_for(lambda: (folder / "commits" / str(self.written - 1)).exists() or None, "the last batch", 240)

    def expected(self) -> dict[str, dict[str, int | str]]:
        values = defaultdict(list)
        for row in self.rows:
            values[row["k"]].append(row["a"])
        return {k: {"k": k, "n": len(v), "s": sum(v)} for k, v in values.items()}

    def own(self, app: str, deployment: str) -> Path:
        return self.root / app / "deployments" / deployment / "checkpoint" / "counts"

    def end(self) -> None:
        self.kill()
        super().end()


GROUND = Legacy


def test_a_script_becomes_an_app(ground: Legacy) -> None:
    app = str(ground.folder / "app.py")
    for _ in range(4):
        ground.write()
    ground.start()
    ground.wait_for_commit(ground.checkpoint)
    adopt = ["adopt", str(ground.checkpoint), "--app", "counts", "--plan-from", app, *ground.params]
    assert "stop it before the app is started" in ground.cli(*adopt)  # while it runs

    ground.write()
    ground.wait_for_commit(ground.checkpoint)
    ground.kill()
    refused = ground.cli("submit", app, *ground.params, "--snapshot", "adopted", code=1)
    assert "has continued from batch 3 to batch" in refused
    ground.cli(*adopt, "--snapshot", "adopted-2")
    ground.write()
    ground.cli("submit", app, *ground.params, "--deployment", "one", "--snapshot", "adopted-2")
    ground.wait_for_commit(ground.own("counts", "one"))
    assert {row["k"]: row for row in rows_of(ground.output)} == ground.expected()
    assert len(list(ground.output.glob("*.json"))) == ground.written
    own, checkpoint = (folder / "metadata" for folder in (ground.own("counts", "one"), ground.checkpoint))
    assert json.loads(own.read_text())["id"] == json.loads(checkpoint.read_text())["id"]
