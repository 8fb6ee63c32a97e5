"""Sinks that tell a batch by its id: Delta Lake, files, Delta Lake from a function. The old version's driver dies when
its last batch is in every sink and committed in none; the new version goes through that batch again. The queries
have no state; for that see tests/spark/test_skipped_batch.py."""

from __future__ import annotations

import json
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
    "spark.sql.streaming.fileSink.log.compactInterval": "2",  # so that it is compacted on both sides of the update
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path, QUERIES, CONF, hold=str(tmp_path / "hold"))
    yield made
    made.end()


@pytest.mark.timeout(900)
def test_a_batch_that_every_sink_has_and_no_commit_log_is_not_doubled(ground: Records) -> None:
    hold_a_batch(ground)
    die_with_it(ground)
    go_on(ground)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["standby", "follow"])
def test_an_update_from_a_table_into_a_table_loses_and_doubles_nothing(tmp_path: Path, strategy: str) -> None:
    ground = Records(tmp_path, ("delta", "onward"), CONF)
    ground.feed_seconds = 8.0  # Delta writes a batch in seconds here
    try:
        ground.write()
        ground.client.submit(ground.of_version(1), "one", app=ground.app)
        ground.feed()
        wait_for(lambda: onward(ground) or None, "rows in the second table", 300)
        ground.update(strategy=strategy)
        ground.stop_feeding()
        ground.write()
        wait_for(lambda: len(onward(ground)) >= len(ground.records) or None, "all rows in the second table", 300)
        ground.check("delta", delta_rows(ground.output / "delta"))
        ground.count_up("onward", onward(ground))
    finally:
        ground.end()


def onward(ground: Records) -> list[dict[str, Any]]:
    return delta_rows(ground.output / "onward")


def hold_a_batch(ground: Records) -> None:
    """Version 1, in the middle of its third batch."""
    ground.run_version_1()
    (ground.folder / "hold").touch()
    ground.write()
    wait_for(lambda: (ground.folder / "held").exists() or None, "the batch that is held", 200)
    checkpoints = [ground.client.registry.app(ground.app).checkpoint("one", q) for q in QUERIES[:2]]
    wait_for(lambda: all(c.exists("commits/2") for c in checkpoints) or None, "the others' batch", 200)


def die_with_it(ground: Records) -> None:
    """The driver dies while it drains for the snapshot that version 2 starts from."""
    ground.client.begin_snapshot(ground.app, "before-two", cancel=True)
    wait_for(lambda: ground.client.deployment_state(ground.app, "one") == "draining" or None, "the drain", 200)
    ground.client.drivers(ground.app).kill("one")
    for query in QUERIES[:2]:  # what a driver writes next after its sink, and would not have written yet
        ground.client.registry.app(ground.app).checkpoint("one", query).remove("commits/2")
    (ground.folder / "hold").unlink()
    snapshot = wait_for(lambda: ground.client.poll_snapshot(ground.app, "before-two", cancel=True), "the snapshot", 200)
    assert {q: s.in_flight for q, s in snapshot.queries.items()} == dict.fromkeys(QUERIES, 2)


def go_on(ground: Records) -> None:
    """Version 2 from there."""
    ground.client.submit(ground.of_version(2), "two", snapshot="before-two", app=ground.app)
    ground.run_version_2()
    log = (ground.output / "files" / "_spark_metadata").iterdir()
    assert any(path.suffix == ".compact" for path in log)
    ground.check("delta", delta_rows(ground.output / "delta"))
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
