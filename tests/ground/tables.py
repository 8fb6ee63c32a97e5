"""Sinks that tell a batch by its id: tables (Delta Lake or Iceberg), files, a table from a function. The old version's
driver dies when its last batch is in every sink and committed in none; the new version goes through that batch again.
The queries have no state; for that see tests/spark/test_skipped_batch.py. And updates of an app that reads a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import RefusedError

from .formats import DELTA, Tables
from .records import Records

QUERIES = ("table", "files", "transactions")
COMPACTION = {"spark.sql.streaming.fileSink.log.compactInterval": "2"}  # it is compacted on both sides of the update
COLUMNS = "id long, k string, a long, version int"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = Tables(tmp_path)
    with made.sql:
        for name in ("table", "transactions", "onward"):
            made.make(name, COLUMNS)
        yield made


@pytest.fixture
def ground(tmp_path: Path, tables: Tables) -> Iterator[Records]:
    made = Records(tmp_path, QUERIES, {**tables.conf, **COMPACTION}, hold=str(tmp_path / "hold"), **tables.given)
    made.feed_seconds = 8.0  # Delta writes a batch in seconds here
    yield made
    made.end()


@pytest.mark.timeout(900)
def test_a_batch_that_every_sink_has_and_no_commit_log_is_not_doubled(ground: Records, tables: Tables) -> None:
    hold_a_batch(ground)
    die_with_it(ground)
    if DELTA:  # Iceberg knows the batch by its snapshot
        tables.forget_the_past("table")
    go_on(ground, tables)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["restart", "standby", "follow"])
def test_an_update_from_a_table_into_a_table_loses_and_doubles_nothing(
    ground: Records, tables: Tables, strategy: str
) -> None:
    ground.queries = ("table", "onward")
    ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app)
    ground.feed()
    wait_for(lambda: tables.rows("onward") or None, "rows in the second table", 300)
    if strategy == "follow" and not DELTA:
        with pytest.raises(RefusedError, match=r"source .* of query onward is of format iceberg, which was not tried"):
            ground.update(strategy=strategy)
        strategy = "standby"
    ground.update(strategy=strategy)
    ground.stop_feeding()
    ground.write()
    all_of_it(ground, tables)
    ground.check("table", tables.rows("table"))


@pytest.mark.timeout(900)
def test_columns_that_both_tables_are_given_are_read_and_written_from_the_update_on(
    ground: Records, tables: Tables
) -> None:
    ground.queries = ("table", "onward")
    ground.run_version_1()
    all_of_it(ground, tables)
    tables.sql.run(*(f"alter table {name} add column extra string" for name in ("table", "onward")))
    if DELTA:  # its source ends there (DELTA_SCHEMA_CHANGED)
        wait_for(lambda: ground.client.deployment_state(ground.app, "one") == "failed" or None, "the end", 200)
    ground.given["extra"] = "x"
    ground.update(strategy="restart")
    ground.write()
    ground.write()
    all_of_it(ground, tables)
    for name in ("table", "onward"):
        ground.check(name, rows := tables.rows(name))
        assert {(row["version"], row.get("extra")) for row in rows} == {(1, None), (2, "x")}


def all_of_it(ground: Records, tables: Tables) -> None:
    wait_for(lambda: len(tables.rows("onward")) >= len(ground.records) or None, "all rows in the second table", 300)
    ground.count_up("onward", tables.rows("onward"))


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


def go_on(ground: Records, tables: Tables) -> None:
    """Version 2 from there."""
    ground.client.submit(ground.of_version(2), "two", snapshot="before-two", app=ground.app)
    ground.run_version_2()
    log = (ground.output / "files" / "_spark_metadata").iterdir()
    assert any(path.suffix == ".compact" for path in log)
    ground.check("table", tables.rows("table"))
    ground.check("files", ground.file_sink())
    ground.check("transactions", tables.rows("transactions"))
