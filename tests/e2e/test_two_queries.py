"""An app of two queries with real drivers: one update takes both to the next version, each with its own state."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import Ground

from airflow_provider_streamupdate.control.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APP = """import json, os
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("pair")

def read(spark, params):
    return spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", "1").json(params["input"])

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
    rows = read(spark, params)
    by_key = stage("by-key", rows.groupBy("k").agg(AGGREGATES))
    return by_key.writeStream.outputMode("update").foreachBatch(sink(params["output"] + "/sums"))

@app.query("firsts", seen_batch="replaces")
def firsts(spark, params):
    once = stage("once", read(spark, params).dropDuplicates(["k"]))
    return once.select("k").writeStream.outputMode("append").foreachBatch(sink(params["output"] + "/firsts"))

if __name__ == "__main__":
    app.main()
"""
SUM, COUNT = 'F.sum("a").alias("s")', 'F.count("*").alias("n")'


class Pair(Ground):
    app = "pair"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rows: list[tuple[str, int]] = []

    def version(self, name: str, *aggregates: str) -> str:
        file = self.folder / f"{name}.py"
        file.write_text(APP.replace("AGGREGATES", ", ".join(aggregates)))
        return str(file)

    def write(self) -> None:
        """A file of three rows, one of them with a key that no file had before."""
        rows = [(f"k{self.written % 3}", self.written), ("all", 1), (f"new{self.written}", 2)]
        self.put({"k": k, "a": a} for k, a in rows)
        self.rows += rows

    @property
    def params(self) -> list[str]:
        return [*super().params, "--conf", "spark.sql.shuffle.partitions=2"]

    def emitted(self, query: str) -> list[dict[str, str | int]]:
        files = sorted((self.output / query).glob("*.json"))
        return [row for file in files for row in json.loads(file.read_text())]

    def wait_for_all(self) -> None:
        """Every file is in a batch of both queries: each has a batch a file."""

        def done() -> bool | None:
            status = self.client.status(self.app).status
            found = status.queries if status else {}
            return all(q in found and found[q].batch >= self.written - 1 for q in ("sums", "firsts")) or None

        wait_for(done, "the last file", 300)


@pytest.fixture
def pair(tmp_path: Path):
    made = Pair(tmp_path)
    yield made
    made.end()


def test_an_update_takes_both_queries_with_their_own_state(pair: Pair) -> None:
    for _ in range(3):
        pair.write()
    pair.cli("submit", pair.version("v1", SUM), "--deployment", "one", *pair.params)
    pair.wait_for_all()
    before = Counter(k for k, _ in pair.rows)
    pair.feed()  # goes on while the old version hands over
    agreed = ("--agree", "sums/by-key")  # the count covers the rows from the update on
    pair.cli("update", pair.version("v2", SUM, COUNT), "--deployment", "two", *agreed, *pair.params)
    pair.stop_feeding()
    pair.wait_for_all()
    snapshot = pair.client.snapshot(pair.app, "before-two")
    assert set(snapshot.queries) == {"sums", "firsts"}

    # Sums went on from version 1's; the count that version 2 adds knows only the files after the cut.
    last = {row["k"]: row for row in pair.emitted("sums")}
    total: Counter[str] = Counter()
    for k, a in pair.rows:
        total[k] += a
    assert {k: row["s"] for k, row in last.items()} == dict(total)
    cut = 3 * (snapshot.queries["sums"].batch + 1)
    later = Counter(k for k, _ in pair.rows[cut:])
    assert set(before) - set(later), "some keys have no rows since, and are as version 1 left them"
    assert {k: row.get("n") for k, row in last.items()} == {k: later.get(k) for k in total}
    assert sorted(row["k"] for row in pair.emitted("firsts")) == sorted(total), "a key reaches the sink once"
