"""The SLO gate with real drivers: a version that writes nulls is rolled back, and one that does as well is promoted."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from tests.e2e.ground import Sums

ROWS, BATCHES_BEFORE = 50, 15


class Readings(Sums):
    app = "readings"
    feed_seconds = 0.3
    code = """app = StreamingApp("readings")

@app.query("q")
def q(spark, params):
    rows = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", "1").json(params["input"])
    return rows.select("k", VALUE).writeStream.format("json").option("path", params["output"]).outputMode("append")
"""

    def write(self) -> None:
        self.put({"k": f"k{n}", "v": n} for n in range(ROWS))

    def query(self) -> QueryStatus | None:
        return self.client.status(self.app).status.queries.get("q")


GROUND = Readings


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_version_that_writes_nulls_is_rolled_back_and_one_as_good_is_promoted(ground: Readings) -> None:
    first = ground.version("v1", VALUE='"v"')
    ground.feed()
    ground.cli("submit", first, *ground.params, "--deployment", "v1")
    wait_for(lambda: ((found := ground.query()) and found.batch >= BATCHES_BEFORE) or None, "batches before", 120)

    worse = ground.version("v2", VALUE='F.when(F.col("v") % 4 == 0, F.col("v")).alias("v")')
    update = ["update", *ground.params, "--strategy", "restart", "--verify-for", "5"]
    said = " ".join(ground.cli(*update, worse, "--deployment", "v2", code=1).split())
    assert "query q, nulls: column v is null in 74% of" in said and "before, in 0% at most" in said, said
    assert ground.current() == "v1" and len(ground.drivers()) == 1
    record = ground.client.registry.app(ground.app).update("v2")
    assert record is not None and record.outcome == "rolled-back" and "nulls" in str(record.reason)

    good = ground.version("v3", VALUE='(F.col("v") + 0).alias("v")')
    ground.cli(*update, good, "--deployment", "v3")
    record = ground.client.registry.app(ground.app).update("v3")
    assert record is not None and record.outcome == "promoted"
    assert any("nulls: none of" in text for text in record.verified), record.verified
    ground.client.cancel(ground.app)
