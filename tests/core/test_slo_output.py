"""What batches wrote, read from the logs of file sinks and Delta tables: the nulls, which the SLO gate holds to the
batches before, and what an update wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pyarrow
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.operations.context import Context
from airflow_provider_streamupdate.control.operations.verification.output.batches import output
from airflow_provider_streamupdate.control.operations.verification.output.nulls import (
    READ_BATCHES,
    judge_nulls,
    nulls,
    read_counts,
)
from airflow_provider_streamupdate.control.operations.verification.output.sink_logs import RowCounts
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import NotFoundError, StreamUpdateError
from airflow_provider_streamupdate.core.plan.plan import SinkPlan
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.storage import Folder

from .builders import CheckpointFiles, app_plan, app_with_snapshots, deploy, query_plan, spec, write_json

COLUMNS = (("k", "string"), ("v", "long"), ("day", "string"))


def sink(folder: Path, format: str) -> SinkPlan:
    return SinkPlan(format=format, location=folder.as_uri(), columns=COLUMNS, partitioned_by=("day",))


def write_file(folder: Path, format: str, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / "day=mon day" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "json":
        path.write_text("".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows))
    else:
        made = {
            name: pyarrow.array([row[name] for row in rows], kind) for name, kind in (("k", "string"), ("v", "int64"))
        }
        pyarrow.parquet.write_table(pyarrow.table(made), path)
    return path


def write_batch(folder: Path, format: str, batch: int, nulls: int, rows: int = 20, parts: int = 2) -> None:
    """As Spark does: the files, then their names in the log (SinkFileStatus)."""
    entries = ["v1"]
    for part in range(parts):
        of_part = range(part, rows, parts)
        made = [{"k": f"k{n}", "v": None if n < nulls else n} for n in of_part]
        path = write_file(folder, format, f"part-{batch}-{part}.{format}", made)
        entry = {"path": path.as_uri(), "size": path.stat().st_size, "isDir": False, "action": "add"}
        entries.append(json.dumps(entry))
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    (log / str(batch)).write_text("\n".join(entries))


EVERY = range(1000)


def counts(where: SinkPlan, batches: range = EVERY, query: str = "", folder: Path = Path("/none")) -> list[RowCounts]:
    """What the query of this id wrote; its checkpoint is needed for tables alone."""
    checkpoint = Checkpoint(Folder.open(str(folder)))
    if query:
        checkpoint.folder.write("metadata", json.dumps({"id": query}).encode())
    return read_counts(where, checkpoint, batches, {})


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_nulls_of_a_file_sink_are_counted_by_batch(tmp_path: Path, format: str) -> None:
    for batch in range(12):
        write_batch(tmp_path, format, batch, nulls=batch)
    (tmp_path / "_spark_metadata" / "9").rename(tmp_path / "_spark_metadata" / "9.compact")
    (tmp_path / "_spark_metadata" / ".10.tmp").write_text("torn")
    where = sink(tmp_path, format)
    assert counts(where, range(10)) == [RowCounts(20, {"k": 0, "v": batch}) for batch in range(8, -1, -1)]
    assert counts(where, range(10, 1000)) == [RowCounts(20, {"k": 0, "v": batch}) for batch in (11, 10)]


def test_only_the_last_batches_are_read(tmp_path: Path) -> None:
    for batch in range(READ_BATCHES + 5):
        write_batch(tmp_path, "json", batch, nulls=0, rows=2, parts=1)
        commit(tmp_path, batch, "q", batch, nulls=0)
    delta = SinkPlan(format="delta", options={"path": str(tmp_path)})
    assert len(counts(sink(tmp_path, "json"))) == len(counts(delta, EVERY, "q", tmp_path)) == READ_BATCHES
    # a sink that nothing was written to has no batches
    assert counts(sink(tmp_path / "none", "json")) == []


def commit(folder: Path, version: int, app: str | None, batch: int, nulls: int) -> None:
    stats = {"numRecords": 10, "nullCount": {"v": nulls, "nested": {"x": 1}}}
    actions = [{"commitInfo": {}}, *([{"txn": {"appId": app, "version": batch}}] if app else [])]
    actions += [{"add": {"path": f"f{n}", "stats": json.dumps(stats)}} for n in range(2)]
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_nulls_of_a_delta_table_are_those_of_the_query_alone(tmp_path: Path) -> None:
    for version in range(10):
        commit(tmp_path, 3 * version, "old", version, nulls=1)
        commit(tmp_path, 3 * version + 1, "another", version, nulls=10)
        commit(tmp_path, 3 * version + 2, None, 0, nulls=10)
    for version in range(10, 13):
        commit(tmp_path, 3 * version, "new", version, nulls=9)
    where = SinkPlan(format="delta", options={"path": str(tmp_path)})
    assert counts(where, range(10), "old", tmp_path) == 10 * [RowCounts(20, {"v": 2})]
    assert counts(where, range(10, 1000), "new", tmp_path) == 3 * [RowCounts(20, {"v": 18})]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (SinkPlan(format="foreachBatch"), "sink of format foreachBatch are not counted"),
        (SinkPlan(format="csv", location="file:///x"), "sink of format csv are not counted"),
        (SinkPlan(format="delta", options={"table": "t"}), "are not counted"),
        (SinkPlan(format="json", location="nosuch://x/y"), "cannot be read from here"),
    ],
)
def test_a_sink_that_cannot_be_read_says_why(where: SinkPlan, why: str) -> None:
    with pytest.raises(StreamUpdateError, match=why):
        counts(where)


@pytest.mark.parametrize("damage", ["gone", "torn", "no json"])
def test_damaged_output_is_unreadable_and_no_other_error(tmp_path: Path, damage: str) -> None:
    write_batch(tmp_path, "parquet", 0, nulls=1, parts=1)
    [file] = tmp_path.glob("day=*/part-0-0.parquet")
    if damage == "gone":
        file.unlink()
    elif damage == "torn":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        (tmp_path / "_spark_metadata" / "0").write_text("v1\n{")
    with pytest.raises(StreamUpdateError, match="cannot be read from here"):
        counts(sink(tmp_path, "parquet"))


def app(tmp_path: Path, old: Path, new: Path) -> AppRegistry:
    """v2 follows v1, which wrote the batches before the sixth."""
    made = Registry(str(tmp_path / "root")).app("a")
    for deployment, folder in (("v1", old), ("v2", new)):
        deploy(made, deployment)
        plan = app_plan(query_plan(sink=sink(folder, "json")), app="a")
        write_json(made, f"deployments/{deployment}/plan.json", plan)
        CheckpointFiles(made.checkpoint(deployment, "windows"))
    return made


@pytest.mark.parametrize("apart", [False, True])
def test_each_version_is_held_to_the_other_in_one_sink_or_two(tmp_path: Path, apart: bool) -> None:
    """One that runs beside the old version writes elsewhere, under batch ids of its own."""
    old, new, first = tmp_path / "old", tmp_path / ("new" if apart else "old"), 2 if apart else 6
    for batch in range(12):
        write_batch(old, "json", batch, nulls=0 if apart or batch < first else 20)
        write_batch(new, "json", batch, nulls=0 if batch < first else 20)
    record = UpdateRecord(app="a", old="v1", new="v2", started_at=clock.now())
    registry = app(tmp_path, old, new)
    found = nulls(registry, record, "windows", first, 0.1, {})
    assert found.exceeded and "column v is null in 100% of" in found.why and "before, in 0% at most" in found.why
    assert nulls(registry, record, "other", 6, 0.1, {}).why == "a plan is missing"


def some(count: int, share: float, rows: int = 100, column: str = "v") -> list[RowCounts]:
    return count * [RowCounts(rows, {column: round(rows * share)})]


@pytest.mark.parametrize(
    ("before", "after", "exceeded"),
    [(0.0, 0.1, False), (0.0, 0.11, True), (0.5, 0.6, False), (0.5, 0.61, True), (1.0, 1.0, False), (1.0, 0.0, False)],
)
def test_a_column_with_more_nulls_exceeds_the_limit(before: float, after: float, exceeded: bool) -> None:
    found = judge_nulls(some(10, before), some(5, after), 0.1)
    assert (found.exceeded, found.waits) == (exceeded, 60.0 if exceeded else 0.0)


def test_nulls_of_small_and_empty_batches() -> None:
    # One null in one row of a batch is no share.
    before = [RowCounts(2, {"v": int(n % 10 == 0)}) for n in range(60)]
    assert judge_nulls(before, some(5, 0.5), 0.1).exceeded
    assert judge_nulls(before, some(5, 0.1), 0.1).exceeded is False
    assert judge_nulls([*some(9, 0.0), *some(1, 0.5)], some(5, 0.5), 0.1).exceeded is False, "one had as many"
    # a batch without rows says nothing of its columns
    assert judge_nulls([*some(10, 0.0), RowCounts(0, {})], some(5, 1.0), 0.1).exceeded


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (some(9, 0.0, rows=11), some(5, 1.0)),
        (some(10, 0.0), some(1, 1.0, rows=99)),
        (some(10, 0.0), some(10, 1.0, column="added")),
        ([], []),
    ],
)
def test_too_few_rows_and_other_columns_are_not_compared(before: list[RowCounts], after: list[RowCounts]) -> None:
    found = judge_nulls(before, after, 0.1)
    assert found.exceeded is None and "rows of the output" in found.why


def update(registry: AppRegistry, written: SinkPlan, batches: range) -> None:
    """v2 took over from v1 after snapshot s3 (batches 0 to 2), and has committed these batches."""
    registry.create_deployment(spec("v2", from_snapshot="s3", parent="v1"))
    write_json(registry, "deployments/v2/plan.json", app_plan(attrs.evolve(query_plan(), sink=written)))
    files = CheckpointFiles(registry.checkpoint("v2", "windows"))
    for batch in batches:
        files.batch(batch)
    registry.set_current(Current(deployment="v2", epoch=2, promoted=True))


@pytest.fixture
def registry(tmp_path: Path) -> AppRegistry:
    return app_with_snapshots(tmp_path / "root", ("s1", "s2", "s3"))


def context(registry: AppRegistry) -> Context:
    return Context.of(str(Path(registry.folder.path("")).parent))


def test_the_files_of_each_batch_since_the_update(registry: AppRegistry, tmp_path: Path) -> None:
    for batch in range(12):
        write_batch(tmp_path / "out", "json", batch, nulls=0)
    log = tmp_path / "out" / "_spark_metadata"
    (log / "9").rename(log / "9.compact")
    update(registry, sink(tmp_path / "out", "json"), range(2, 11))  # batch 11 is not committed
    [found] = output(context(registry), "flights")
    assert (found.deployment, found.query, found.first, found.last) == ("v2", "windows", 3, 10)
    assert [b.batch for b in found.batches] == list(range(3, 11))
    for batch in found.batches:
        expected = (f"day=mon day/part-{batch.batch}-0.json", f"day=mon day/part-{batch.batch}-1.json")
        assert batch.files == (None if batch.batch == 9 else expected) and batch.committed_at
    assert "compacted" in found.note
    [before] = output(context(registry), "flights", "v1")
    assert (before.first, before.last) == (0, 2)
    with pytest.raises(NotFoundError):
        output(context(registry), "flights", "v7")


def test_the_versions_of_a_delta_table(registry: AppRegistry, tmp_path: Path) -> None:
    update(registry, SinkPlan(format="delta", options={"path": str(tmp_path / "t")}), range(2, 6))
    (tmp_path / "t").mkdir()
    query = "11111111-2222-3333-4444-555555555555"
    for version, (app, batch) in enumerate([(query, 2), (query, 3), (None, 0), ("another", 4), (query, 4), (query, 5)]):
        commit(tmp_path / "t", version, app, batch, nulls=0)
    [found] = output(context(registry), "flights")
    assert [(b.batch, b.version, b.files) for b in found.batches] == [
        (3, 1, ("f0", "f1")),
        (4, 4, ("f0", "f1")),
        (5, 5, ("f0", "f1")),
    ]
    assert found.note == ""


def test_of_a_function_and_a_sink_that_is_gone_the_batches_are_told(registry: AppRegistry, tmp_path: Path) -> None:
    update(registry, SinkPlan(format="foreachBatch"), range(2, 5))
    [found] = output(context(registry), "flights")
    assert [(b.batch, b.files) for b in found.batches] == [(3, None), (4, None)]
    assert found.note == "its sink has no log of files that can be read from here"
    lost = app_plan(attrs.evolve(query_plan(), sink=sink(tmp_path / "gone", "json")))
    write_json(registry, "deployments/v2/plan.json", lost)
    [found] = output(context(registry), "flights")
    assert [b.batch for b in found.batches] == [3, 4] and found.note


def test_the_command(registry: AppRegistry, tmp_path: Path) -> None:
    root = str(Path(registry.folder.path("")).parent)
    for batch in range(5):
        write_batch(tmp_path / "out", "json", batch, nulls=0, parts=1)
    update(registry, sink(tmp_path / "out", "json"), range(2, 5))
    result = CliRunner().invoke(main, ["output", "flights", "--root", root])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["batches", "3-4"] in lines and ["query", "windows"] in lines and ["deployment", "v2"] in lines
    assert [line[0] for line in lines if line and line[-1].endswith(".json")] == ["3", "4"]
