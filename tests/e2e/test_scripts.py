"""A plain script, which spark-submit runs as it is: submitted, updated, rolled back and cancelled unchanged, with real
drivers, against the sums in plain Python."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.drivers.launcher import spark_environment
from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import SPARK_SUBMIT, Sums, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOB = '''"""Sums of keys, as a team has it in its repository."""

import argparse
import json
import logging
import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lib.keys import group

log = logging.getLogger("job")


def write(folder):
    os.makedirs(folder, exist_ok=True)

    def save(batch, batch_id):
        rows = [row.asDict() for row in batch.collect()]
        (Path(folder) / f".{batch_id}").write_text(json.dumps(rows))
        (Path(folder) / f".{batch_id}").rename(Path(folder) / f"{batch_id:04d}.json")

    return save


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    if "STREAMUPDATE_PLANNING" not in os.environ:
        os.makedirs(arguments.output, exist_ok=True)
        with open(f"{arguments.output}/begun", "a") as file:
            file.write("begun\\n")
    settings = json.loads((Path(__file__).parent / "settings.json").read_text())
    spark = SparkSession.builder.appName("sums").config(map=settings).getOrCreate()
    rows = spark.readStream.schema("k string, a long").option("maxFilesPerTrigger", 1).json(arguments.input)
    sums = rows.groupBy(F.udf(group, "string")("k").alias("k")).agg(F.sum("a").alias("s"))
    query = (
        sums.writeStream.queryName("sums")
        .outputMode("update")
        .option("checkpointLocation", f"{arguments.output}/checkpoint")
        .foreachBatch(write(f"{arguments.output}/sums"))
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        with open(f"{arguments.output}/ended", "a") as file:
            file.write("ended\\n")
        spark.stop()


if __name__ == "__main__":
    main()
'''


class Script(Sums):
    app = "sums"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.repository = folder / "repository"
        (self.repository / "lib").mkdir(parents=True)
        (self.repository / "lib" / "__init__.py").touch()
        (self.repository / "lib" / "keys.py").write_text("def group(key):\n    return key.strip()\n")
        (self.repository / "settings.json").write_text('{"spark.sql.shuffle.partitions": "2"}')
        self.job = self.repository / "job.py"
        self.job.write_text(JOB)

    @property
    def arguments(self) -> list[str]:
        return ["--input", str(self.input), "--output", str(self.output)]

    def change(self, old: str, new: str) -> None:
        assert old in self.job.read_text()
        self.job.write_text(self.job.read_text().replace(old, new))

    def check_output(self) -> None:
        def read_all() -> bool | None:
            return {row["k"]: row["s"] for row in rows_of(self.output / "sums")} == dict(self.total) or None

        wait_for(read_all, f"the sums {dict(self.total)}", 120)


GROUND = Script


def test_a_script_is_updated_as_it_is(ground: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        ground.write()
    # Relative paths lie where it was submitted, wherever it is updated from.
    monkeypatch.chdir(ground.folder)
    given = [word if word[:2] == "--" else os.path.relpath(word) for word in ground.arguments]
    of_script = ("--app", "sums", "--master", "local[2]")
    declared = ("--seen-batch", "sums=replaces")
    ground.cli("submit", str(ground.job), *of_script, *declared, "--deployment", "one", "--", *given)
    ground.check_output()
    monkeypatch.chdir(ground.repository)
    # Of what is not given the running version's counts: the arguments, the master, what is declared.
    ground.change('log = logging.getLogger("job")', 'log = logging.getLogger("sums")  # by its name')
    ground.feed()
    ground.cli("update", str(ground.job), "--app", "sums", "--deployment", "two")
    ground.stop_feeding()
    ground.check_output()
    assert (ground.output / "ended").read_text() == "ended\n", "the first version's, once"
    spec = ground.client.registry.app("sums").spec("two")
    script = spec.application.script
    assert script is not None and list(script.arguments) == given and script.seen_batch == {"sums": "replaces"}
    # Another module beside it is another version; its key is another one, which is told.
    (ground.repository / "lib" / "keys.py").write_text("def group(key):\n    return key.upper()\n")
    told = ground.cli("update", str(ground.job), "--app", "sums", code=1)
    assert "lib/keys.py" in told and "key.upper()" in told and "sums/aggregate-1" in told
    (ground.repository / "lib" / "keys.py").write_text("def group(key):\n    return key.strip()\n")
    ground.change('.option("maxFilesPerTrigger", 1)', '.option("maxFilesPerTrigger", 2)')
    ground.cli("update", str(ground.job), "--app", "sums", "--deployment", "three", "--strategy", "restart")
    ground.write()
    ground.check_output()
    ground.cli("rollback", "sums")
    ground.write()
    ground.check_output()
    assert ground.json("status", "sums")["current"]["deployment"] == "two"
    ground.cli("cancel", "sums")
    assert (ground.output / "ended").read_text().count("ended") == 4


def test_what_spark_submit_has_run_is_adopted_with_its_own_checkpoint(ground: Script) -> None:
    ground.write()
    ground.change('.outputMode("update")', '.outputMode("update").trigger(availableNow=True)')
    command = [SPARK_SUBMIT, "--master", "local[1]", str(ground.job), *ground.arguments]
    environment = spark_environment(SPARK_SUBMIT, {})
    subprocess.run(command, cwd=ground.repository, env=environment, check=True, capture_output=True, timeout=200)
    ground.check_output()
    of_script = ("--app", "sums", "--master", "local[2]", "--seen-batch", "sums=replaces")
    told = ground.cli("adopt", str(ground.job), *of_script, "--", *ground.arguments)
    assert "adopted snapshot adopted of sums" in told
    ground.change(".trigger(availableNow=True)", "")
    ground.cli("submit", str(ground.job), *of_script, "--snapshot", "adopted", "--", *ground.arguments)
    ground.write()
    ground.check_output()
    assert (ground.output / "begun").read_text().count("begun") == 2, "not where it was only planned"
    ground.cli("cancel", "sums")


def test_a_script_is_tried_without_writing_anything(ground: Script) -> None:
    ground.write()
    told = ground.cli("try", str(ground.job), "--", *ground.arguments)
    assert "can be managed as it is: its update to itself carried sums/aggregate-1 (3 rows)" in told
    assert f"next: streamupdate submit {ground.job} --app job --master 'local[2]' -- --input {ground.input}" in told
    assert not [*(ground.output / "sums").glob("*")]  # no foreachBatch function was called
    assert not ground.root.exists()
    ground.change(".json(arguments.input)", '.option("cleanSource", "delete").json(arguments.input)')
    told = ground.cli("try", str(ground.job), "--", *ground.arguments, code=1)
    assert "cannot be tried: it removes the files it has read (cleanSource)" in told


def test_a_trial_that_is_told_to_end_leaves_nothing_behind(ground: Script, tmp_path: Path) -> None:
    ground.write()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = ground.command("try", str(ground.job), "--", *ground.arguments)
    trial = subprocess.Popen(command, env={**ground.environment, "TMPDIR": str(scratch)}, stderr=subprocess.DEVNULL)
    wait_for(lambda: [*scratch.glob("*/*/deployments/first/status.json")] or None, "its first driver", 120)
    trial.terminate()
    assert trial.wait(60) == 128 + signal.SIGTERM
    assert not [*scratch.glob("streamupdate-try-*")]
    words = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert not [word for word in words if str(scratch).encode() in word]
