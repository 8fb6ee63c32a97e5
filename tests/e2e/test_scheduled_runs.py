"""An app with the trigger availableNow, and one with once: run, updated between its runs, run again; real drivers."""

from __future__ import annotations

import json

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Sums, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Nightly(Sums):
    app = "nightly"
    code = """app = StreamingApp("nightly")

@app.query("sums", seen_batch="replaces")
def sums(spark, params):
    rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])
    by_key = stage("by-key", rows.groupBy("k").agg(F.sum("a").alias("s")))
    shown = by_key.select("k", "s", F.lit(VERSION).alias("version"))
    return shown.writeStream.outputMode("update").foreachBatch(sink(params["output"])).trigger(TRIGGER)
"""

    def bring_input(self) -> None:
        self.write()
        self.write()

    def run(self) -> None:
        self.bring_input()
        self.cli("restart", self.app, "--until-finished")

    def check_sums(self) -> dict[str, int]:
        """Each key has the sum of all its rows when the run is over. Return which version wrote its last row."""
        wait_for(lambda: self.client.status(self.app).state == "finished" or None, "the end of the run", 200)
        last = {row["k"]: row for row in rows_of(self.output)}
        assert {k: row["s"] for k, row in last.items()} == dict(self.total)
        return {k: row["version"] for k, row in last.items()}

    def remove_batches_of(self, version: int) -> None:
        """Remove what is left of a version that was rolled back, as the guide to rolling back says."""
        for path in self.output.glob("*.json"):
            if version in {row["version"] for row in json.loads(path.read_text())}:
                path.unlink()


GROUND = Nightly


@pytest.mark.parametrize("trigger", ["availableNow=True", "once=True"])
def test_an_app_is_updated_between_its_runs(ground: Nightly, trigger: str) -> None:
    first, second = (ground.version(f"v{n}", VERSION=n, TRIGGER=trigger) for n in (1, 2))
    ground.bring_input()
    ground.cli("submit", first, "--deployment", "one", *ground.params)
    ground.check_sums()  # `restart` would join this run, which may not see what comes now
    ground.run()
    assert set(ground.check_sums().values()) == {1}
    ground.bring_input()
    ground.cli("update", second, "--deployment", "two", *ground.params)
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
