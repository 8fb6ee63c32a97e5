"""The state that a version which follows begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming.agent.saved_state_source import SavedStateSource

from .builders import CheckpointFiles, app_plan, deploy, query_plan, spec, stage_plan


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """Deployment one has committed the batches 0 to 9, with the state of 4 to 9."""
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "one")
    plan = app_plan(query_plan(stage_plan(), name="windows"))
    registry.deployment_folder("one").write("plan.json", to_json(plan))
    files = CheckpointFiles(registry.checkpoint("one", "windows"))
    for batch in range(10):
        files.batch(batch)
        if batch >= 4:
            files.rocksdb(0, 0, batch + 1, [f"{batch:06}.sst"])
    return registry


def batch_of(app: AppRegistry, batches: int) -> int:
    origin = SavedStateSource(app, spec("two", parent="one"))
    return origin.before(batches).queries["windows"].batch


def test_it_is_so_many_batches_back_or_fewer_where_the_state_was_not_kept_so_long(app: AppRegistry) -> None:
    assert [batch_of(app, batches) for batches in (1, 3, 5, 8)] == [8, 6, 4, 4]
    for name in range(5, 10):
        app.folder.remove(f"deployments/one/checkpoint/windows/state/0/0/{name}.zip")
    assert batch_of(app, 8) == 9
    # state of no batch
    CheckpointFiles(app.checkpoint("one", "windows")).rocksdb(0, 0, 12, ["000012.sst"])
    app.folder.remove("deployments/one/checkpoint/windows/state/0/0/10.zip")
    with pytest.raises(CorruptError, match="has no files for version 10"):
        batch_of(app, 8)


def test_it_does_not_go_back_before_the_first_batch(app: AppRegistry) -> None:
    checkpoint = app.checkpoint("one", "windows")
    for batch in range(1, 10):
        checkpoint.remove(f"commits/{batch}")
        checkpoint.remove(f"offsets/{batch}")
    CheckpointFiles(checkpoint).rocksdb(0, 0, 1, ["000000.sst"])
    assert batch_of(app, 8) == 0
