"""A migration as a user sees it: the command line and real drivers; counts gain a latest time, then change their key by
the app's own function."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

APP = """
import json, os
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("counts")


@app.query("q", seen_batch="replaces")
def q(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    events = spark.readStream.schema("room string, event string, ts timestamp").json(params["input"])

    def write(batch, batch_id):
        rows = [row.asDict() for row in batch.collect()]
        with open(os.path.join(params["output"], f"{batch_id:05d}.json"), "w") as file:
            json.dump(rows, file, default=str)

    return stage("totals", TOTALS).writeStream.outputMode("update").foreachBatch(write)

FUNCTION

if __name__ == "__main__":
    app.main()
"""
COUNTS = 'events.groupBy("room").agg(F.count("*").alias("n"))'
LATEST = 'events.groupBy("room").agg(F.count("*").alias("n"), F.max("ts").alias("latest"))'
ODD = 'events.groupBy((F.substring("room", 2, 9).cast("int") % 2).alias("odd")).agg(F.count("*").alias("n"))'
FUNCTION = """
@app.migrate("totals", from_="room string -> count bigint, max timestamp")
def to_odd(state):
    odd = (F.substring("key.room", 2, 9).cast("int") % 2).alias("odd")
    made = state.groupBy(odd).agg(F.sum("value.count").alias("count"))
    return made.select(F.struct("odd").alias("key"), F.struct("count").alias("value"))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_counts_go_on_through_migrations(ground, tmp_path) -> None:
    ground.app = "counts"
    ground.output.mkdir()

    def version(number: int, totals: str, function: str = "") -> str:
        file = tmp_path / f"v{number}.py"
        file.write_text(APP.replace("TOTALS", totals).replace("FUNCTION", function))
        return str(file)

    def read_all() -> None:
        from airflow_provider_streamupdate.control.waiting import wait_for

        deployment = ground.client.status("counts").spec.deployment
        wait_for(lambda: len(read_by(ground, deployment)) >= ground.written or None, "the last file", 120)

    first, second, third = version(1, COUNTS), version(2, LATEST), version(3, ODD, FUNCTION)
    for _ in range(3):
        ground.write()
    ground.cli("submit", first, "--deployment", "one", *ground.params)
    read_all()

    agreed = ("--agree", "q/totals")  # the latest time covers the rows from the update on
    assert "will cover only rows from this update on" in ground.cli("check", second, *agreed, *ground.params)
    assert ground.json("update", second, "--deployment", "two", *agreed, *ground.params)["outcome"] == "promoted"
    for _ in range(2):
        ground.write()
    read_all()
    last = {row["room"]: row for row in rows(ground.output)}
    assert {room: row["n"] for room, row in last.items()} == counted(ground.input)
    assert all(row["latest"] for row in last.values())

    assert ground.json("update", third, "--deployment", "three", *ground.params)["outcome"] == "promoted"
    ground.write()
    read_all()
    odd: Counter[int] = Counter()
    for room, n in counted(ground.input).items():
        odd[int(room[1:]) % 2] += n
    assert {row["odd"]: row["n"] for row in rows(ground.output) if "odd" in row} == odd
    ground.cli("cancel", "counts", "--drain")


def read_by(ground, deployment: str) -> set[str]:
    from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint

    checkpoint = Checkpoint(ground.client.registry.app("counts").checkpoint(deployment, "q"))
    batch = checkpoint.committed_batch()
    if batch is None:
        return set()
    last = json.loads(checkpoint.offsets(batch).sources[0])["logOffset"]
    return {entry["path"] for entry in checkpoint.source_file_log(0, last)}


def rows(output: Path) -> list[dict]:
    return [row for path in sorted(output.glob("*.json")) for row in json.loads(path.read_text())]


def counted(folder: Path) -> Counter[str]:
    lines = [line for path in folder.glob("*.json") for line in path.read_text().splitlines()]
    return Counter(json.loads(line)["room"] for line in lines)
