"""One function of two queries whose names have spaces, one of which writes into a table of the catalog: run, updated,
rolled back and read by every command, with real drivers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APP = """import json, os
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage, to_table

app = StreamingApp("shared")

def sink(folder):
    def keep(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{batch_id:04d}.json")
        with open(path + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(path + ".part", path)
    return keep

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

if __name__ == "__main__":
    app.main()
"""


class Shared(Ground):
    app = "shared"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.total: Counter[str] = Counter()

    def version(self, name: str, stage: str) -> str:
        file = self.folder / f"{name}.py"
        file.write_text(APP.replace("SUMS", stage))
        return str(file)

    @property
    def params(self) -> list[str]:
        return [*super().params, "--conf", "spark.sql.shuffle.partitions=2"]

    def write(self) -> None:
        rows = [(f"k{self.written % 3}", self.written), ("all", 1), (f"new{self.written}", 2)]
        self.put({"k": k, "a": a} for k, a in rows)
        for k, a in rows:
            self.total[k] += a

    def check_output(self) -> None:
        def read_all() -> bool | None:
            status = self.client.status(self.app).status
            found = status.queries if status else {}
            return all(q in found and found[q].batch >= self.written - 1 for q in ("all sums", "first keys")) or None

        wait_for(read_all, "the last file", 300)
        files = sorted((self.output / "sums").glob("*.json"))
        last = {row["k"]: row["s"] for file in files for row in json.loads(file.read_text())}
        assert last == dict(self.total)
        parts = (self.output / "firsts").glob("*.parquet")
        keys = [key for part in parts for key in pyarrow.parquet.read_table(part)["k"].to_pylist()]
        assert sorted(keys) == sorted(self.total), "a key reaches the table once"


@pytest.fixture
def shared(tmp_path: Path):
    made = Shared(tmp_path)
    yield made
    made.end()


def test_an_update_takes_both_queries_with_their_own_state(shared: Shared) -> None:
    for _ in range(3):
        shared.write()
    shared.cli("submit", shared.version("v1", "by-key"), "--deployment", "one", *shared.params)
    shared.check_output()
    renamed = ("--rename", "all sums/by-key=per-key")
    shared.feed()  # goes on while the old version hands over
    shared.cli("update", shared.version("v2", "per-key"), "--deployment", "two", *renamed, *shared.params)
    shared.stop_feeding()
    shared.check_output()
    told = shared.json("status", "shared")
    assert set(told["status"]["queries"]) == {"all sums", "first keys"}
    assert '"all sums"' in shared.cli("metrics") and "all sums" in shared.cli("status", "shared")
    assert set(shared.client.snapshot("shared", "before-two").queries) == {"all sums", "first keys"}
    record = shared.client.registry.app("shared").update("two")
    assert record is not None and (record.outcome, record.strategy) == ("promoted", "standby")
    log = shared.client.drivers("shared").log("two")
    assert log is not None and "could not be warmed up" not in Path(log).read_text()
