"""Scripts in shapes that people write, each updated by another strategy and rolled back, with real drivers, against the
sums in plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Sums, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SAVE = '''"""What the scripts share."""

import json
import os


class Folder:
    def __init__(self, path):
        self.path = path

    def save(self, batch, batch_id):
        os.makedirs(self.path, exist_ok=True)
        target = os.path.join(self.path, f"{batch_id:04d}.json")
        with open(target + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(target + ".part", target)
'''
ROWS = """
rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", 1).json(given.input).where("a >= 0")
sums = rows.groupBy("k").agg(F.sum("a").alias("s"))
"""
TOP = """import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from shared.folder import Folder

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
given = parser.parse_args()
spark = SparkSession.builder.appName("sums").config("spark.sql.shuffle.partitions", 2).getOrCreate()
"""
START = 'sums.writeStream.outputMode("update").foreachBatch(Folder(given.output + "/sums").save)'
FILTER = ('"a >= 0"', "\"a >= 0 and k <> 'all'\"")
# A script, the strategy by which it is updated, and its change.
SHAPES = {
    "a loop that looks at its query, and a signal's handler": (
        f"""import logging
import signal
import time
{TOP}{ROWS}
logging.basicConfig(level=logging.INFO)
query = {START}.queryName("sums").start()
signal.signal(signal.SIGTERM, lambda number, frame: query.stop())
while query.isActive:
    logging.info("the last batch: %s", query.lastProgress)
    time.sleep(1)
""",
        "follow",
        ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2'),
    ),
    "two queries that their checkpoints name": (
        f"""{TOP}{ROWS}
{START}.option("checkpointLocation", given.output + "/ck/1").start()
counts = rows.groupBy("k").count()
folder = Folder(given.output + "/counts")
save = counts.writeStream.outputMode("update").foreachBatch(lambda batch, batch_id: folder.save(batch, batch_id))
save.option("checkpointLocation", given.output + "/ck/2").start()
spark.streams.awaitAnyTermination()
""",
        "standby",
        FILTER,
    ),
    "a class that runs what is there": (
        f"""{TOP}
class Job:
    def run(self):
        rows = spark.readStream.schema("k string, a long").json(given.input).where("a >= 0")
        sums = rows.groupBy("k").agg(F.sum("a").alias("s"))
        query = {START}.trigger(availableNow=True).queryName("sums").start()
        try:
            query.awaitTermination()
        finally:
            spark.stop()


if __name__ == "__main__":
    Job().run()
""",
        "restart",
        FILTER,
    ),
}


class Shape(Sums):
    app = "sums"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.job = folder / "repository" / "the job.py"
        (folder / "repository" / "shared").mkdir(parents=True)
        (folder / "repository" / "shared" / "folder.py").write_text(SAVE)

    def run_again(self) -> None:
        """Restart what has run to the end of its input."""
        wait_for(lambda: self.json("status", "sums")["state"] == "finished" or None, "its end", 120)
        self.cli("restart", "sums")

    def check_output(self, *without: str) -> None:
        """Wait for the sums; of the keys in `without` no row counts that came since the update."""
        wanted = {k: s for k, s in self.total.items() if k not in without}

        def right() -> bool | None:
            found = {row["k"]: row["s"] for row in rows_of(self.output / "sums")}
            return {k: s for k, s in found.items() if k not in without} == wanted or None

        wait_for(right, f"the sums {wanted}", 180)


GROUND = Shape


@pytest.mark.parametrize("shape", SHAPES)
def test_a_script_of_this_shape_is_updated_and_rolled_back(ground: Shape, shape: str) -> None:
    text, strategy, change = SHAPES[shape]
    ended = "availableNow" in text  # with what was there
    ground.job.write_text(text)
    for _ in range(2):
        ground.write()
    declared = [f"--seen-batch={name}=replaces" for name in names_of(text)]
    given = ("--", "--input", str(ground.input), "--output", str(ground.output))
    ground.cli("submit", str(ground.job), "--app", "sums", "--master", "local[2]", *declared, *given)
    ground.check_output()
    first = ground.json("status", "sums")["current"]["deployment"]
    ground.job.write_text(text.replace(*change))
    all_before = ground.total["all"]
    ground.write()
    ground.cli("update", str(ground.job), "--app", "sums", "--strategy", strategy)
    ground.write()
    if ended:
        ground.run_again()
    ground.check_output(*(["all"] if change == FILTER else []))
    # Either version may have had the file before the update; the one behind it the new version had.
    assert {row["k"]: row["s"] for row in rows_of(ground.output / "sums")}["all"] in (
        (all_before, all_before + 1) if change == FILTER else (all_before + 2,)
    )
    ground.cli("rollback", "sums")
    ground.write()
    if ended:
        ground.run_again()
    ground.check_output()
    assert ground.json("status", "sums")["current"]["deployment"] == first
    ground.cli("cancel", "sums")


def test_a_script_runs_beside_the_running_version(ground: Shape) -> None:
    """It writes elsewhere, which its arguments say."""
    text, _, change = SHAPES["a loop that looks at its query, and a signal's handler"]
    ground.job.write_text(text)
    ground.write()
    of_input = ("--", "--input", str(ground.input), "--output")
    submitted = ("--app", "sums", "--master", "local[2]", "--seen-batch=sums=replaces")
    ground.cli("submit", str(ground.job), *submitted, *of_input, str(ground.output))
    ground.check_output()
    ground.job.write_text(text.replace(*change))
    parallel = ("--app", "sums", "--strategy", "parallel", "--agree", "sums:fork")
    told = ground.cli("update", str(ground.job), *parallel, code=1)
    assert "is told the same as the running version" in told
    beside = ground.output / "beside"
    ground.cli("update", str(ground.job), *parallel, *of_input, str(beside))
    ground.write()

    def right() -> bool | None:
        found = {row["k"]: row["s"] for row in rows_of(beside / "sums")}
        return (found and found.items() <= ground.total.items() and found["all"] == ground.total["all"]) or None

    wait_for(right, f"the sums of {ground.total}", 180)
    ground.cli("cancel", "sums")


def names_of(text: str) -> list[str]:
    """Return the names of a script's queries."""
    return ["sums"] if 'queryName("sums")' in text else ["checkpoint-1", "checkpoint-2"]
