"""A plain PySpark script runs, is killed, and goes on as an app; the app is forked. All answers against an oracle."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import SPARK_SUBMIT, Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUERY = '''
def counts(events):
    return events.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))

def sink(folder):
    """A file a batch: the same batch again replaces what it wrote."""
    def keep(batch, batch_id):
        path = os.path.join(folder, f"{batch_id:04d}.json")
        with open(path + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(path + ".part", path)
    return keep

def read(spark, folder):
    return spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(folder)
'''
IMPORTS = "import json, os, sys\nfrom pyspark.sql import SparkSession\nfrom pyspark.sql import functions as F\n"
SCRIPT = f"""{IMPORTS}{QUERY}
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
into, out, checkpoint = sys.argv[1:]
writer = counts(read(spark, into)).writeStream.outputMode("update").foreachBatch(sink(out))
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
"""
APP = f"""{IMPORTS}from airflow_provider_streamupdate.streaming import StreamingApp, stage
{QUERY}
app = StreamingApp(os.environ.get("APP_NAME", "counts"))

@app.query("counts", seen_batch="replaces")
def query(spark, params):
    kept = stage("by-key", counts(read(spark, params["input"])))
    return kept.writeStream.outputMode("update").foreachBatch(sink(params["output"]))

if __name__ == "__main__":
    app.main()
"""


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

    def found(self, *folders: Path) -> dict[str, dict[str, int | str]]:
        """The last row of each key, over all batches."""
        files = sorted((f for folder in folders for f in folder.glob("*.json")), key=lambda f: f.name)
        return {row["k"]: row for f in files for row in json.loads(f.read_text())}

    def expected(self) -> dict[str, dict[str, int | str]]:
        values = defaultdict(list)
        for row in self.rows:
            values[row["k"]].append(row["a"])
        return {k: {"k": k, "n": len(v), "s": sum(v)} for k, v in values.items()}

    def own(self, app: str, deployment: str) -> Path:
        return self.root / app / "deployments" / deployment / "checkpoint" / "counts"


@pytest.fixture
def legacy(tmp_path: Path) -> Iterator[Legacy]:
    made = Legacy(tmp_path)
    yield made
    made.kill()
    made.end()


def test_a_script_becomes_an_app_and_the_app_is_forked(legacy: Legacy) -> None:
    app = str(legacy.folder / "app.py")
    for _ in range(4):
        legacy.write()
    legacy.start()
    legacy.wait_for_commit(legacy.checkpoint)
    adopt = ["adopt", str(legacy.checkpoint), "--app", "counts", "--plan-from", app, *legacy.params]
    assert "stop it before the app is started" in legacy.cli(*adopt)  # while it runs

    legacy.write()
    legacy.wait_for_commit(legacy.checkpoint)
    legacy.kill()
    refused = legacy.cli("submit", app, *legacy.params, "--snapshot", "adopted", code=1)
    assert "has continued from batch 3 to batch" in refused
    legacy.cli(*adopt, "--snapshot", "adopted-2")
    legacy.write()
    legacy.cli("submit", app, *legacy.params, "--deployment", "one", "--snapshot", "adopted-2")
    legacy.wait_for_commit(legacy.own("counts", "one"))
    assert legacy.found(legacy.output) == legacy.expected()
    assert len(list(legacy.output.glob("*.json"))) == legacy.written

    legacy.cli("save-snapshot", "counts", "s1")
    trial = legacy.folder / "trial"
    trial.mkdir()
    fork = ["submit", app, *legacy.params, "--set", f"output={trial}", "--env", "APP_NAME=trial"]
    fork += ["--deployment", "f", "--snapshot", "s1", "--fork", "--from-app", "counts"]
    assert "counts:fork" in legacy.cli(*fork, code=1)  # where the function writes has to be agreed to
    legacy.cli(*fork, "--agree", "counts:fork")
    legacy.write()
    for name, deployment in (("counts", "one"), ("trial", "f")):
        legacy.wait_for_commit(legacy.own(name, deployment))
    assert legacy.found(legacy.output) == legacy.expected()
    before = legacy.folder / "before"
    before.mkdir()
    for file in sorted(legacy.output.glob("*.json"))[:-1]:
        (before / file.name).write_bytes(file.read_bytes())
    assert [f.name for f in trial.glob("*.json")] == [f"{legacy.written - 1:04d}.json"], "it began where s1 was"
    assert legacy.found(before, trial) == legacy.expected()
    ids = {json.loads((legacy.own(*d) / "metadata").read_text())["id"] for d in (("counts", "one"), ("trial", "f"))}
    assert len(ids) == 2 and json.loads((legacy.checkpoint / "metadata").read_text())["id"] in ids
