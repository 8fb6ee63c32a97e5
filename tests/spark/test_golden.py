"""Checkpoints that Spark wrote earlier, also an older Spark, go on here: every batch emits what it should.

STREAMUPDATE_GOLDEN names another folder of archives than tests/data/golden (make test-spark has just written it).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench import deploy

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.golden import DEPLOYMENT, FOLDER, NAME, STORES, kept, unpack
from tests.golden.__main__ import run
from tests.golden.app import Emitted, app, expected, queries_kept

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ARCHIVES = Path(os.environ.get("STREAMUPDATE_GOLDEN", FOLDER))
# A setting with another default in Spark 4.0, and the module of the app, which has changed since.
OTHERS = (":spark.sql.execution.arrow.maxBytesPerBatch", ":python.imports")
FAST = (*kept()[0], ("pairs",))  # of the oldest Spark; all are for make test-slow


def archives() -> list:
    slow = [pytest.mark.slow, pytest.mark.timeout(600)]
    every = [pytest.param(spark, store, (), id=f"{spark}-{store}-all", marks=slow) for spark, store in kept(ARCHIVES)]
    return every if ARCHIVES != FOLDER else [FAST, *every]


@pytest.mark.parametrize(("spark_version", "store", "names"), archives())
def test_a_checkpoint_goes_on(spark, tmp_path, spark_version: str, store: str, names: tuple[str, ...]) -> None:
    registry = unpack(spark_version, store, tmp_path, ARCHIVES)
    old = registry.plan(DEPLOYMENT)
    assert old is not None
    export(registry, DEPLOYMENT, "s1", old, True, {})
    saved = SavedState.find(registry, "snapshot:s1")
    emitted: Emitted = {}
    chosen = names or tuple(q.name for q in old.queries)
    assert set(queries_kept(store, spark_version)) == {q.name for q in old.queries}
    made = app(chosen, emitted)
    writers = made.build(spark, {})
    plan = plan_app(spark, Declarations(NAME, seen_batch=made.seen_batch), writers, recorded=saved.recorded())
    gone = [f"{q.name}" for q in old.queries if q.name not in chosen]
    report = saved.compare(plan, gone)
    # The digests of functions hold the versions of Python and of packages, which were others when it was written; what
    # plans say of filters was less then, which `app.texts` asks about; and no app said what its function does with ids.
    older = {"stage.code", "sink.batch-again"}
    if old.version != plan.version:
        older |= {"app.texts", "app.engine-later", "stage.hidden-filter", "stage.filters"}
    asked = [i for i in report.items if i.needs_agreement]
    gone += [i.name for i in asked if set(i.rules) <= older or i.name.endswith(OTHERS)]
    report = saved.compare(plan, gone)
    if spark_version > ".".join(spark.version.split(".")[:2]):
        assert "is not known to read it" in report.problems[0]
        return
    assert report.compatible, report.problems
    deploy(registry, "d2", 1, from_snapshot="s1")
    if spark.version < "4.3":  # it would go on in the session's checkpoint format, not the checkpoint's
        format = STORES[store][2]
        spark.conf.set(FORMAT, str(3 - format))
        with pytest.raises(ApplicationError, match=f"in checkpoint format v{format}, but the session asks for v"):
            restore_app(saved, plan, writers, registry, "d2")
        assert not registry.checkpoint("d2", chosen[0]).names()
        spark.conf.set(FORMAT, str(format))
    restore_app(saved, plan, writers, registry, "d2")
    for name in chosen:
        batch = saved.queries[name].batch
        run(spark, registry, "d2", name, writers, batch + 3, plan)
        mine = {b: rows for (query, b), rows in emitted.items() if query == name}
        assert min(mine) == batch + 1 and len(mine) >= 2
        assert mine == {b: expected(name, b) for b in mine}
