"""Strategy parallel with real drivers on a feed that goes on: both outputs against an oracle in plain Python."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from demolib.source_log import files_of_snapshot

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from tests.e2e.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# The sink appends without idempotence: what is written twice is seen twice.
APP = """import json, os
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("sums")

@app.query("sums", seen_batch="adds")
def sums(spark, params):
    rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "50").json(params["input"])
    by_key = stage("by-key", rows.groupBy("k").agg(AGGREGATES))
    os.makedirs(params["output"], exist_ok=True)

    def keep(batch, batch_id):
        with open(os.path.join(params["output"], "rows.jsonl"), "a") as file:
            for row in batch.collect():
                file.write(json.dumps({"batch": batch_id, **row.asDict()}) + "\\n")

    return by_key.writeStream.outputMode("update").foreachBatch(keep)

if __name__ == "__main__":
    app.main()
"""
SUM, COUNT = 'F.sum("a").alias("s")', 'F.count("*").alias("n")'


class Sums(Ground):
    app = "sums"

    def version(self, name: str, *aggregates: str) -> str:
        file = self.folder / f"{name}.py"
        file.write_text(APP.replace("AGGREGATES", ", ".join(aggregates)))
        return str(file)

    def write(self) -> None:
        rows = [(f"k{self.written % 3}", self.written), ("all", 1), (f"new{self.written}", 2)]
        self.put({"k": k, "a": a} for k, a in rows)

    def params_for(self, output: str) -> list[str]:
        return ["--set", f"input={self.input}", "--set", f"output={self.folder / output}", "--master", "local[2]",
                "--conf", "spark.sql.shuffle.partitions=2"]  # fmt: skip

    def update(self, *more: str) -> list[str]:
        v2 = self.version("v2", SUM, COUNT)
        agreed = ("--agree", "sums/by-key")  # the count covers the rows from the update on
        return ["update", v2, "--deployment", "two", "--strategy", "parallel", *agreed, *more, *self.params_for("new")]

    def checkpoint(self, deployment: str) -> Checkpoint:
        return Checkpoint(self.client.registry.app(self.app).checkpoint(deployment, "sums"))

    def committed(self, deployment: str) -> int:
        batch = self.checkpoint(deployment).committed_batch()
        return -1 if batch is None else batch

    def read_by(self, deployment: str) -> set[str]:
        return {name for files in self.batches(deployment).values() for name in files}

    def batches(self, deployment: str) -> dict[int, list[str]]:
        """The files of each committed batch: a batch takes one entry of the source's log."""
        checkpoint = self.checkpoint(deployment)
        found: dict[int, list[str]] = {}
        for entry in checkpoint.source_file_log(0, self.committed(deployment)):
            found.setdefault(entry["batchId"], []).append(Path(entry["path"]).name)
        return found

    def check(self, deployment: str, output: str, since: int = 0, counted_since: int | None = None) -> set[str]:
        """Each batch of the deployment from `since` on is in its sink once, with the sums over all files up to it, and
        from batch `counted_since` on with counts of the files since; the names of all files it has read."""
        lines = [json.loads(line) for line in (self.folder / output / "rows.jsonl").read_text().splitlines()]
        sums: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        expected = []
        for batch, names in sorted(self.batches(deployment).items()):
            rows = [json.loads(line) for name in names for line in (self.input / name).read_text().splitlines()]
            for row in rows:
                sums[row["k"]] += row["a"]
                if counted_since is not None and batch >= counted_since:
                    counts[row["k"]] += 1
            if batch >= since:
                for key in {row["k"] for row in rows}:
                    counted = {"n": counts[key]} if counted_since is not None else {}
                    expected.append({"batch": batch, "k": key, "s": sums[key], **counted})
        order = sorted(lines, key=lambda r: (r["batch"], r["k"]))
        assert order == sorted(expected, key=lambda r: (r["batch"], r["k"]))
        assert len(order) > 5
        return self.read_by(deployment)


@pytest.fixture
def sums(tmp_path: Path):
    made = Sums(tmp_path)
    yield made
    made.end()


@pytest.fixture
def running(sums: Sums) -> Sums:
    """Version 1 runs as deployment one, on a feed that goes on."""
    for _ in range(3):
        sums.write()
    sums.feed()
    sums.cli("submit", sums.version("v1", SUM), "--deployment", "one", *sums.params_for("old"))
    wait_for(lambda: sums.committed("one") >= 2 or None, "three batches of version 1", 200)
    return sums


def test_both_run_until_the_new_version_has_caught_up(running: Sums) -> None:
    record = running.json(*running.update("--agree", "sums:fork"))
    assert (record["outcome"], record["strategy"], record["old"]) == ("promoted", "parallel", "one")
    assert running.current() == "two" and len(running.drivers()) == 1
    drained = running.committed("one")
    at_drain = running.read_by("one")
    wait_for(lambda: running.read_by("two") > at_drain or None, "version 2 to read on", 200)
    running.settle()
    assert running.committed("one") == drained, "no batch of version 1 began after its drain"

    snapshot = running.client.snapshot(running.app, "before-two")
    cut = snapshot.queries["sums"]
    folder = running.client.registry.app(running.app).folder
    before = files_of_snapshot(cut, lambda path: folder.read(path) or b"")
    assert snapshot.kind == "live" and cut.batch < drained
    # Version 1: every row up to its drain, once. Version 2: everything from the snapshot on, once.
    assert running.check("one", "old") == at_drain
    everything = {f.name for f in running.input.glob("*.json")}
    assert running.check("two", "new", since=cut.batch + 1, counted_since=cut.batch + 1) == everything
    assert set(before) < at_drain < everything
    ids = {json.loads(running.checkpoint(d).folder.read("metadata") or b"")["id"] for d in ("one", "two")}
    assert len(ids) == 2

    # Back: version 1 goes on where it was drained, into its own place.
    running.cli("rollback", running.app)
    running.write()
    wait_for(lambda: len(running.read_by("one")) == running.written or None, "version 1 to read all", 200)
    assert len(running.drivers()) == 1
    running.check("one", "old")


def test_the_new_version_is_dropped_and_the_old_one_unharmed(running: Sums) -> None:
    (driver,) = running.drivers()
    # The same sink parameters: refused, and nothing is started.
    same = running.update("--agree", "sums:fork")
    same[same.index(f"output={running.folder / 'new'}")] = f"output={running.folder / 'old'}"
    message = running.cli(*same, code=1)
    assert "has the same parameters as the running version" in message
    assert "pass another place as a parameter" in message
    assert running.drivers() == [driver] and running.client.snapshots(running.app) == []

    arguments = running.update("--agree", "sums:fork", "--run-beside", "1h")
    with subprocess.Popen(
        running.command(*arguments), env=running.environment, stderr=subprocess.PIPE, text=True
    ) as update:
        assert update.stderr is not None
        heard = next((line for line in update.stderr if "run side by side for" in line), None)
        update.kill()
    assert heard is not None
    wait_for(lambda: (running.folder / "new" / "rows.jsonl").exists() or None, "version 2 to write", 200)
    assert len(running.drivers()) == 2
    listed = [line.split()[:4] for line in running.cli("list").splitlines()[1:]]
    assert listed == [["sums", "running", "one", "1"], ["sums", "running", "two", "beside"]]

    running.cli("rollback", running.app)
    assert running.drivers() == [driver], "the old one was not even started again"
    running.settle()
    assert running.check("one", "old") == {f.name for f in running.input.glob("*.json")}
    assert running.client.registry.app(running.app).update("two").outcome == "refused"
