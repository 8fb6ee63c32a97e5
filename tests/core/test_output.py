"""What was written since the last update: from the checkpoint's batches and the sink's own log."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.operations.context import Context
from airflow_provider_streamupdate.control.operations.verification.output.batches import output
from airflow_provider_streamupdate.core.errors import NotFoundError
from airflow_provider_streamupdate.core.plan.plan import SinkPlan
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry

from .builders import CheckpointFiles, app_plan, app_with_snapshots, query_plan, spec, write_json
from .test_slo_output import commit, sink, write_batch


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
