"""The SLO gate's nulls: counted in what file sinks and tables of Delta Lake wrote, and held to the batches before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from airflow_provider_streamupdate.control.operations.verification.output.reading import UnreadableOutputError, outputs
from airflow_provider_streamupdate.core.plan.plan import SinkPlan
from airflow_provider_streamupdate.core.slo.output import Output, Outputs, judge_nulls

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


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_nulls_of_a_file_sink_are_counted_by_batch(tmp_path: Path, format: str) -> None:
    for batch in range(12):
        write_batch(tmp_path, format, batch, nulls=batch)
    (tmp_path / "_spark_metadata" / "9").rename(tmp_path / "_spark_metadata" / "9.compact")
    (tmp_path / "_spark_metadata" / ".10.tmp").write_text("torn")
    where = sink(tmp_path, format)
    found = outputs((where, where), ("", ""), 10, {})
    assert [(o.batch, o.rows, o.nulls) for o in found.before] == [(b, 20, {"k": 0, "v": b}) for b in range(9)]
    assert [(o.batch, o.rows, o.nulls) for o in found.after] == [(b, 20, {"k": 0, "v": b}) for b in (10, 11)]


def test_of_two_sinks_each_version_has_its_own(tmp_path: Path) -> None:
    """A version that runs beside the old one writes elsewhere, under batch ids of its own."""
    old, new = tmp_path / "old", tmp_path / "new"
    for batch in range(6):
        write_batch(old, "json", batch, nulls=0)
        write_batch(new, "json", batch, nulls=20)
    found = outputs((sink(old, "json"), sink(new, "json")), ("", ""), 3, {})
    assert {o.nulls["v"] for o in found.before} == {0} and len(found.before) == 6
    assert {o.nulls["v"] for o in found.after} == {20} and len(found.after) == 3


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
    found = outputs((where, where), ("old", "new"), 10, {})
    assert [(o.batch, o.rows, o.nulls) for o in found.before] == [(b, 20, {"v": 2}) for b in range(10)]
    assert [(o.batch, o.rows, o.nulls) for o in found.after] == [(b, 20, {"v": 18}) for b in range(10, 13)]


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
    with pytest.raises(UnreadableOutputError, match=why):
        outputs((where, where), ("", ""), 0, {})


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
    where = sink(tmp_path, "parquet")
    with pytest.raises(UnreadableOutputError, match="cannot be read from here"):
        outputs((where, where), ("", ""), 0, {})


def test_a_sink_that_nothing_was_written_to_has_no_batches(tmp_path: Path) -> None:
    where = sink(tmp_path / "none", "json")
    assert outputs((where, where), ("", ""), 0, {}) == Outputs(before=(), after=())


def some(first: int, count: int, share: float, rows: int = 100, column: str = "v") -> tuple[Output, ...]:
    return tuple(Output(batch=first + n, rows=rows, nulls={column: round(rows * share)}) for n in range(count))


@pytest.mark.parametrize(
    ("before", "after", "exceeded"),
    [
        (0.0, 0.05, False),
        (0.0, 0.5, True),
        (0.0, 1.0, True),
        (0.5, 0.55, False),
        (0.5, 0.9, True),
        (1.0, 1.0, False),
        (1.0, 0.0, False),
    ],
)
def test_a_column_with_more_nulls_exceeds_the_limit(before: float, after: float, exceeded: bool) -> None:
    [(found, text)] = judge_nulls(Outputs(before=some(0, 10, before), after=some(10, 5, after)), 0.1)
    assert found is exceeded
    if exceeded:
        assert f"column v is null in {after * 100:g}% of 500 rows; before, in {before * 100:g}% at most" in text


def test_nulls_of_small_batches_are_taken_together() -> None:
    """One null in one row of a batch is no share."""
    before = tuple(Output(batch=n, rows=2, nulls={"v": n % 10 == 0}) for n in range(60))
    after = some(60, 5, 0.5)
    assert judge_nulls(Outputs(before=before, after=after), 0.1)[0][0] is True
    assert judge_nulls(Outputs(before=before, after=some(60, 5, 0.05)), 0.1)[0][0] is False


def test_what_cannot_be_judged_is_told() -> None:
    few = Outputs(before=some(0, 4, 0.0), after=some(4, 5, 1.0))
    assert judge_nulls(few, 0.1) == [(None, "500 rows of the output and 4 batches before can be read")]
    tiny = Outputs(before=some(0, 10, 0.0), after=some(10, 1, 1.0, rows=3))
    assert judge_nulls(tiny, 0.1)[0][0] is None
    other = Outputs(before=some(0, 10, 0.0), after=some(10, 5, 1.0, column="added"))
    assert judge_nulls(other, 0.1) == [(None, "of no column the nulls are known in every batch")]
    empty = Outputs(before=(*some(0, 10, 0.0), Output(batch=10, rows=0, nulls={})), after=some(11, 5, 1.0))
    assert judge_nulls(empty, 0.1)[0][0] is True, "a batch without rows says nothing of its columns"
