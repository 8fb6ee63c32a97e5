"""What is done with snapshots, in a root that is not on a local disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.restore import bring_files, plan_restore
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from tests.golden import DEPLOYMENT, unpack


def go_through_snapshots(registry: Registry, scratch: Path) -> None:
    """Of a checkpoint that Spark wrote to a disk, brought into the root file by file."""
    local = unpack("4.3", "rocksdb", scratch)
    app = registry.app(local.name)
    for path in local.folder.files():
        app.folder.copy_from(local.folder, path, path)
    plan = app.plan(DEPLOYMENT)
    assert plan is not None
    store = SnapshotStore(app)
    first, second = (export(app, DEPLOYMENT, name, plan, True, {}) for name in ("first", "second"))
    assert 0 < second.bytes_new < first.bytes_new, "SSTs are shared"
    assert store.names() == ["first", "second"]
    assert store.verify("second") == sum(len(q.files) for q in second.queries.values())
    for query in plan.queries:
        restored = app.checkpoint("new", query.name)
        bring_files(plan_restore(second.queries[query.name], query, query), app.folder, restored)
        brought = second.queries[query.name].files  # but for what Spark's dry run of the new version writes
        files = {f.path: f.size for f in brought if not {"_metadata", "_stateSchema"} & set(f.path.split("/"))}
        assert {path: restored.size(path) for path in files} == files
        assert Checkpoint(restored).export(carry_in_flight=True).batch == second.queries[query.name].batch
    app.folder.remove(f"objects/{next(iter(first.queries.values())).files[0].object.split('/')[1]}")
    with pytest.raises(CorruptError, match="is missing"):
        store.verify("first")
    store.delete("second")
    assert store.names() == ["first"]
