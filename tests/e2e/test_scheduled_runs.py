"""An app with the trigger availableNow, and one with once: run, updated between its runs, run again; real drivers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APP = """import json, os
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("nightly")

def sink(folder):
    def keep(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{batch_id:04d}.json")
        with open(path + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(path + ".part", path)
    return keep

@app.query("sums", seen_batch="replaces")
def sums(spark, params):
    rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])
    by_key = stage("by-key", rows.groupBy("k").agg(F.sum("a").alias("s")))
    shown = by_key.select("k", "s", F.lit(VERSION).alias("version"))
    return shown.writeStream.outputMode("update").foreachBatch(sink(params["output"])).trigger(TRIGGER)

if __name__ == "__main__":
    app.main()
"""


class Nightly(Ground):
    app = "nightly"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.total: Counter[str] = Counter()

    @property
    def params(self) -> list[str]:
        return [*super().params, "--conf", "spark.sql.shuffle.partitions=2"]

    def version(self, number: int, trigger: str) -> str:
        file = self.folder / f"v{number}.py"
        file.write_text(APP.replace("VERSION", str(number)).replace("TRIGGER", trigger))
        return str(file)

    def bring_input(self) -> None:
        for _ in range(2):
            rows = [(f"k{self.written % 3}", self.written), ("all", 1), (f"new{self.written}", 2)]
            self.put({"k": k, "a": a} for k, a in rows)
            for k, a in rows:
                self.total[k] += a

    def run(self) -> None:
        self.bring_input()
        self.cli("restart", self.app, "--until-finished")

    def check_sums(self) -> dict[str, int]:
        """Each key has the sum of all its rows when the run is over. Return which version wrote its last row."""
        wait_for(lambda: self.client.status(self.app).state == "finished" or None, "the end of the run", 200)
        last = {row["k"]: row for path in sorted(self.output.glob("*.json")) for row in json.loads(path.read_text())}
        assert {k: row["s"] for k, row in last.items()} == dict(self.total)
        return {k: row["version"] for k, row in last.items()}

    def remove_batches_of(self, version: int) -> None:
        """Remove what is left of a version that was rolled back, as the guide to rolling back says."""
        for path in self.output.glob("*.json"):
            if version in {row["version"] for row in json.loads(path.read_text())}:
                path.unlink()


@pytest.mark.parametrize("trigger", ["availableNow=True", "once=True"])
def test_an_app_is_updated_between_its_runs(tmp_path: Path, trigger: str) -> None:
    ground = Nightly(tmp_path)
    try:
        ground.bring_input()
        ground.cli("submit", ground.version(1, trigger), "--deployment", "one", *ground.params)
        ground.check_sums()  # `restart` would join this run, which may not see what comes now
        ground.run()
        assert set(ground.check_sums().values()) == {1}
        ground.bring_input()
        ground.cli("update", ground.version(2, trigger), "--deployment", "two", *ground.params)
        written = ground.check_sums()
        assert (written["all"], written["new5"], written["new3"]) == (2, 2, 1), "it reads what came since the last run"
        ground.run()
        assert ground.check_sums()["new7"] == 2
        [record] = ground.client.registry.app(ground.app).updates()
        assert (record.outcome, record.strategy) == ("promoted", "restart")
        ground.cli("rollback", ground.app)
        ground.check_sums()
        ground.remove_batches_of(2)  # with `once` version 1 reads in one batch what version 2 read in two
        assert set(ground.check_sums().values()) == {1}, "it has read again what the newer version had read"
    finally:
        ground.end()
