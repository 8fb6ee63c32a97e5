"""Strategy parallel with real drivers on a feed that goes on: both outputs against an oracle in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from demolib.source_log import files_of_snapshot

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from tests.e2e.ground import Sums

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SUM, COUNT = 'F.sum("a").alias("s")', 'F.count("*").alias("n")'


class Parallel(Sums):
    """The sink appends without idempotence: what is written twice is seen twice."""

    app = "sums"
    code = """app = StreamingApp("sums")

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
"""

    def params_for(self, output: str) -> list[str]:
        return [*self.params, "--set", f"output={self.folder / output}"]

    def update(self, *more: str) -> list[str]:
        v2 = self.version("v2", AGGREGATES=f"{SUM}, {COUNT}")
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


GROUND = Parallel


@pytest.fixture
def running(ground: Parallel) -> Parallel:
    """Version 1 runs as deployment one, on a feed that goes on."""
    for _ in range(3):
        ground.write()
    ground.feed()
    ground.cli("submit", ground.version("v1", AGGREGATES=SUM), "--deployment", "one", *ground.params_for("old"))
    wait_for(lambda: ground.committed("one") >= 2 or None, "three batches of version 1", 200)
    return ground


def test_both_run_until_the_new_version_has_caught_up(running: Parallel) -> None:
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
