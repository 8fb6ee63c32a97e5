"""An update by `follow` of an app whose queries are not all busy: one gets its first input while it is followed, and
one gets none for a long time after."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.update import Step
from tests.e2e.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

APP = """import json, os, uuid
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage

app = StreamingApp("three")

def read(spark, params, name):
    schema = "k string, a long"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(params["input"] + "/" + name)

def sink(folder):
    # a file of its own for each call, so that what is given twice is seen
    def keep(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{batch_id:04d}-{uuid.uuid4().hex}.json")
        with open(path + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(path + ".part", path)
    return keep

@app.query("busy", seen_batch="adds")
def busy(spark, params):
    by_key = stage("by-key", read(spark, params, "busy").groupBy("k").agg(F.sum("a").alias("s")))
    return by_key.writeStream.outputMode("update").foreachBatch(sink(params["output"] + "/busy"))

@app.query("late", seen_batch="adds")
def late(spark, params):
    rows = read(spark, params, "late").withColumn("version", F.lit(VERSION))
    return rows.writeStream.outputMode("append").foreachBatch(sink(params["output"] + "/late"))

@app.query("quiet", seen_batch="adds")
def quiet(spark, params):
    once = stage("once", read(spark, params, "quiet").dropDuplicates(["k"]))
    return once.writeStream.outputMode("append").foreachBatch(sink(params["output"] + "/quiet"))

if __name__ == "__main__":
    app.main()
"""
PARTITIONS = "spark.sql.shuffle.partitions=2"
QUERIES = ("busy", "late", "quiet")


class Three(Ground):
    app = "three"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.files = dict.fromkeys(QUERIES, 0)
        self.totals: Counter[str] = Counter()
        for query in QUERIES:
            (self.input / query).mkdir()

    def version(self, number: int) -> Path:
        file = self.folder / f"v{number}.py"
        file.write_text(APP.replace("VERSION", str(number)))
        return file

    def file(self, query: str, *keys: str) -> None:
        """A batch of a row a key, which the running version has committed when this returns."""
        rows = [{"k": k, "a": self.written + 1} for k in keys]
        if query == "busy":
            for row in rows:
                self.totals[row["k"]] += row["a"]
        self.bring(f"{query}/{self.written:05d}.json", "".join(json.dumps(row) + "\n" for row in rows))
        self.written += 1
        self.files[query] += 1
        wait_for(lambda: self.batch(query) >= self.files[query] - 1 or None, f"a batch of {query}", 120)

    def batch(self, query: str) -> int:
        status = self.client.status(self.app).status
        return status.queries[query].batch if status and query in status.queries else -1

    def emitted(self, query: str) -> list[dict]:
        files = sorted((self.output / query).glob("*.json"))
        return [row for file in files for row in json.loads(file.read_text())]


@pytest.fixture
def three(tmp_path: Path):
    made = Three(tmp_path)
    yield made
    made.end()


def stepwise(ground: Three, version: Path, during: Callable[[], None]) -> None:
    """An update; `during`: before the old version is told to hand over."""
    conf = dict([PARTITIONS.split("=")])
    application = ground.application(version)
    options = UpdateOptions(
        application=type(application)(file=application.file, params=application.params, conf=conf),
        deployment="two", strategy="follow", verify_for=1.0,
    )  # fmt: skip
    engine = UpdateEngine(ground.client.context, options)
    update = engine.begin()
    for step in strategy_named("follow").steps[1:]:
        if step == Step.SNAPSHOT_AND_CANCEL:
            during()
        engine.run(step, update)


def test_each_row_reaches_the_sink_once_and_nobody_waits_for_input(three: Three) -> None:
    application = three.application(three.version(1))
    three.cli(
        "submit", application.file, "--deployment", "one", *three.params, "--conf", "spark.sql.shuffle.partitions=2"
    )
    for number in range(3):
        three.file("busy", "all", f"k{number}")
        three.file("quiet", "all", f"k{number}")
    began: list[float] = []

    def during() -> None:
        for number in range(3, 6):
            three.file("quiet", "all", f"k{number}")
            three.file("late", "all", f"k{number}")
            three.file("busy", "all", f"k{number}")
        began.append(time.monotonic())

    stepwise(three, three.version(2), during)
    assert time.monotonic() - began[0] < 120, "it did not wait for input that does not come"
    for query in QUERIES:
        three.file(query, "all", "k6")
    late = three.emitted("late")
    assert Counter((r["k"], r["a"]) for r in late) == Counter(dict.fromkeys(((r["k"], r["a"]) for r in late), 1))
    assert len(late) == 2 * 4 and {r["version"] for r in late} == {1, 2}
    assert Counter(r["k"] for r in three.emitted("quiet")) == Counter(["all", *(f"k{n}" for n in range(7))])
    assert {r["k"]: r["s"] for r in three.emitted("busy")} == dict(three.totals)
