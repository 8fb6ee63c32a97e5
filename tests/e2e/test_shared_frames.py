"""One function of two queries whose names have spaces, one of which writes into a table of the catalog: run, updated,
rolled back and read by every command, with real drivers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Sums, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Shared(Sums):
    app = "shared"
    code = """app = StreamingApp("shared")

@app.queries(seen_batch={"all sums": "replaces"})
def both(spark, params):
    spark.sql(f"CREATE TABLE IF NOT EXISTS firsts (k string) USING parquet LOCATION '{params['output']}/firsts'")
    rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])
    sums = stage("SUMS", rows.groupBy("k").agg(F.sum("a").alias("s")))
    once = stage("once", rows.dropDuplicates(["k"])).select("k")
    return {
        "all sums": sums.writeStream.outputMode("update").foreachBatch(sink(params["output"] + "/sums")),
        "first keys": to_table(once.writeStream, "firsts"),
    }
"""

    def check_output(self) -> None:
        def read_all() -> bool | None:
            status = self.client.status(self.app).status
            found = status.queries if status else {}
            return all(q in found and found[q].batch >= self.written - 1 for q in ("all sums", "first keys")) or None

        wait_for(read_all, "the last file", 300)
        assert {row["k"]: row["s"] for row in rows_of(self.output / "sums")} == dict(self.total)
        parts = (self.output / "firsts").glob("*.parquet")
        keys = [key for part in parts for key in pyarrow.parquet.read_table(part)["k"].to_pylist()]
        assert sorted(keys) == sorted(self.total), "a key reaches the table once"


GROUND = Shared


def test_an_update_takes_both_queries_with_their_own_state(ground: Shared) -> None:
    for _ in range(3):
        ground.write()
    ground.cli("submit", ground.version("v1", SUMS="by-key"), "--deployment", "one", *ground.params)
    ground.check_output()
    renamed = ("--rename", "all sums/by-key=per-key")
    ground.feed()  # goes on while the old version hands over
    ground.cli("update", ground.version("v2", SUMS="per-key"), "--deployment", "two", *renamed, *ground.params)
    ground.stop_feeding()
    ground.check_output()
    told = ground.json("status", "shared")
    assert set(told["status"]["queries"]) == {"all sums", "first keys"}
    assert '"all sums"' in ground.cli("metrics") and "all sums" in ground.cli("status", "shared")
    assert set(ground.client.snapshot("shared", "before-two").queries) == {"all sums", "first keys"}
    record = ground.client.registry.app("shared").update("two")
    assert record is not None and (record.outcome, record.strategy) == ("promoted", "standby")
    log = ground.client.drivers("shared").log("two")
    assert log is not None and "could not be warmed up" not in Path(log).read_text()
