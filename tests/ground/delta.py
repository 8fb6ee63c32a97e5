"""Sinks that tell a batch by its id: Delta Lake, files, Delta Lake from a function. The old version's driver dies when
its last batch is in every sink and committed in none; the new version goes through that batch again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for

from .records import Records, jars

QUERIES = ("delta", "files", "transactions")
CONF = {
    "spark.jars": jars("delta"),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",  # so that it is compacted on both sides of the update
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path, QUERIES, CONF, hold=str(tmp_path / "hold"))
    yield made
    made.end()


@pytest.mark.timeout(560)
def test_a_batch_that_every_sink_has_and_no_commit_log_is_not_doubled(ground: Records) -> None:
    for _ in range(3):
        ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app)
    ground.wait_for_all()
    (ground.folder / "hold").touch()
    ground.write()
    wait_for(lambda: (ground.folder / "held").exists() or None, "the batch that is held", 100)
    checkpoints = {q: ground.client.registry.app(ground.app).checkpoint("one", q) for q in QUERIES}
    wait_for(lambda: all(checkpoints[q].exists("commits/3") for q in QUERIES[:2]) or None, "the others' batch", 100)
    with subprocess.Popen(ground.command(*ground.updating()), env=ground.environment) as update:
        wait_for(lambda: ground.client.deployment_state(ground.app, "one") == "draining" or None, "the drain", 200)
        update.send_signal(signal.SIGSTOP)
        ground.client.drivers(ground.app).kill("one")
        for query in QUERIES[:2]:  # what a driver writes next after its sink, and would not have written yet
            checkpoints[query].remove("commits/3")
        (ground.folder / "hold").unlink()
        update.send_signal(signal.SIGCONT)
        assert update.wait(280) == 0
    snapshot = ground.client.snapshot(ground.app, "before-two")
    assert {q: s.in_flight for q, s in snapshot.queries.items()} == dict.fromkeys(QUERIES, 3)
    for _ in range(3):
        ground.write()
    ground.wait_for_all()
    ground.check("delta", delta_rows(ground.output / "delta"))
    log = (ground.output / "files" / "_spark_metadata").iterdir()
    assert any(path.suffix == ".compact" for path in log)
    ground.check("files", ground.file_sink())
    ground.check("transactions", delta_rows(ground.output / "transactions"))


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a table as its log has it (Delta's protocol: files added and not removed), without Delta's own code.
    The log is too short for a checkpoint."""
    files: dict[str, None] = {}
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = None
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
    return [row for file in files for row in pyarrow.parquet.read_table(table / file).to_pylist()]
