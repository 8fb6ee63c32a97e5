"""The SLO gate with real drivers: a version that writes nulls is rolled back, and one that does as well is promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from tests.e2e.ground import Ground

APP = """
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp

app = StreamingApp("readings")


@app.query("q")
def q(spark, params):
    rows = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", "1").json(params["input"])
    return rows.select("k", {v}).writeStream.format("json").option("path", params["output"]).outputMode("append")


if __name__ == "__main__":
    app.main()
"""
ROWS, BATCHES_BEFORE = 50, 15


class Readings(Ground):
    app = "readings"
    feed_seconds = 0.3

    def version(self, name: str, v: str) -> str:
        file = self.folder / f"{name}.py"
        file.write_text(APP.replace("{v}", v))
        return str(file)

    def write(self) -> None:
        self.put({"k": f"k{n}", "v": n} for n in range(ROWS))

    def query(self) -> QueryStatus | None:
        return self.client.status(self.app).status.queries.get("q")


@pytest.fixture
def readings(tmp_path: Path) -> Iterator[Readings]:
    made = Readings(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_version_that_writes_nulls_is_rolled_back_and_one_as_good_is_promoted(readings: Readings) -> None:
    first = readings.version("v1", '"v"')
    readings.feed()
    readings.cli("submit", first, *readings.params, "--deployment", "v1")
    wait_for(lambda: ((found := readings.query()) and found.batch >= BATCHES_BEFORE) or None, "batches before", 120)

    worse = readings.version("v2", 'F.when(F.col("v") % 4 == 0, F.col("v")).alias("v")')
    update = ["update", *readings.params, "--strategy", "restart", "--verify-for", "5"]
    said = " ".join(readings.cli(*update, worse, "--deployment", "v2", code=1).split())
    assert "query q, nulls: column v is null in 74% of" in said and "before, in 0% at most" in said, said
    assert readings.current() == "v1" and len(readings.drivers()) == 1
    record = readings.client.registry.app(readings.app).update("v2")
    assert record is not None and record.outcome == "rolled-back" and "nulls" in str(record.reason)

    good = readings.version("v3", '(F.col("v") + 0).alias("v")')
    readings.cli(*update, good, "--deployment", "v3")
    record = readings.client.registry.app(readings.app).update("v3")
    assert record is not None and record.outcome == "promoted"
    assert any("nulls: none of" in text for text in record.verified), record.verified
    readings.client.cancel(readings.app)
