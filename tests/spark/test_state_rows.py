"""How many rows Spark says have left a stage: with those that are there, never fewer than there were. That is what the
health of a new version rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from bench import Bench, row, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.control.health import Health, assess
from airflow_provider_streamupdate.state.application import Application
from airflow_provider_streamupdate.state.deployment import DeploymentSpec, QueryStatus, Status
from airflow_provider_streamupdate.state.export import export
from airflow_provider_streamupdate.state.registry import Registry
from airflow_provider_streamupdate.state.snapshot import Snapshot
from airflow_provider_streamupdate.state.snapshots import SnapshotStore
from airflow_provider_streamupdate.streaming.planner import plan_app
from airflow_provider_streamupdate.streaming.queries import RunningQueries
from airflow_provider_streamupdate.streaming.restorer import restore_app
from airflow_provider_streamupdate.streaming.state_rows import StateRows
from tests.golden import STORES
from tests.golden.__main__ import choose_store
from tests.golden.app import NAME, QUERIES, app

# Batches after which the counts are compared: the first ones fill the state, and all others remove from it.
FIRST, LAST = 3, 10
SLOW = [(query, store) for query in QUERIES for store in STORES if (query, store) != ("seen", "hdfs")]
FAST = [("windows", "rocksdb"), ("sessions", "changelog-v2"), ("once-in-time", "hdfs"), ("pairs", "rocksdb")]


@pytest.mark.parametrize(
    ("name", "store"),
    [*FAST, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in FAST)],
)
def test_rows_that_are_there_and_rows_that_left_are_never_fewer_than_there_were(
    spark, tmp_path, name: str, store: str
) -> None:
    choose_store(spark, store)
    writers = app((name,), {}).build(spark, {})
    plan = plan_app(spark, NAME, writers)
    registry = Registry(str(tmp_path)).app(NAME)
    registry.create_deployment(
        DeploymentSpec(
            app=NAME,
            deployment="d1",
            application=Application(file="app.py"),
            digest="",
            submitted_at="2026-01-01T00:00:00+00:00",
        )
    )
    queries = RunningQueries(spark, writers, {name: registry.checkpoint("d1", name)}, plan)
    queries.start()
    try:
        wait(queries, name, FIRST)
        queries.drain()
        saved = export(registry, "d1", "s1", plan, True, queries.progress())
    finally:
        queries.stop()
    assert saved.queries[name].rows_batch == saved.queries[name].batch
    again = RunningQueries(spark, app((name,), {}).build(spark, {}), {name: registry.checkpoint("d1", name)}, plan)
    again.start()
    try:
        for batch in range(FIRST + 1, LAST):
            found = wait(again, name, batch)
            health = assess("d1", "running", running({name: found}), saved, batches=1)
            assert health.healthy, health.reasons
            assert any("of which" in text for text in health.holds), health.holds
    finally:
        again.stop()


def wait(queries: RunningQueries, name: str, batch: int) -> QueryStatus:
    """Its status once it has reported the batch."""
    while (status := queries.progress()[name]).active and (status.rows_batch is None or status.rows_batch < batch):
        assert status.error is None
        time.sleep(0.05)
    return status


def running(queries: Mapping[str, QueryStatus]) -> Status:
    return Status(
        state="running",
        epoch=1,
        heartbeat_at="2026-01-01T00:00:00+00:00",
        started_at="2026-01-01T00:00:00+00:00",
        queries=dict(queries),
    )


def test_a_state_that_did_not_arrive_is_not_healthy(spark, tmp_path) -> None:
    """A tenth of the rows would have passed for it."""
    bench = Bench(spark, tmp_path)
    for n in range(3):
        bench.write([row(f"k{n}{m}", 1) for m in range(10)])
    bench.run(counts)
    saved = SnapshotStore(bench.registry).get("s1")
    assert saved.queries["q"].state_rows == {"counts": 30}
    bench.write([row("new", 1)])
    assert bench_health(bench, saved, counts, "restored", "s1").reasons == ()
    bench.write([row(f"n{n}", 1) for n in range(20)], "other")
    health = bench_health(bench, saved, lambda b: stage("counts", counted(b.source(name="other"))), "empty", None)
    assert health.reasons == ("stage q/counts holds 20 rows; it held 30, of which 0 have left",)


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"))


def counts(bench: Bench) -> DataFrame:
    return stage("counts", counted(bench.source()))


def bench_health(bench: Bench, saved: Snapshot, build: Callable, deployment: str, snapshot: str | None) -> Health:
    plan, writers = bench.plan(build, snapshot=snapshot)
    if snapshot:
        restore_app(bench.saved(snapshot), plan, writers, bench.registry, deployment)
    queries = RunningQueries(bench.spark, writers, {"q": bench.registry.checkpoint(deployment, "q")}, plan)
    queries.start()
    try:
        return assess(deployment, "running", running({"q": wait(queries, "q", 0)}), saved, batches=1)
    finally:
        queries.stop()


def test_what_left_is_added_up_and_unknown_after_a_gap() -> None:
    rows = StateRows(batch=4)
    assert (rows.rows, rows.after([]).rows) == (None, None)
    rows = rows.after([(5, [(10, 1), (3, 0)]), (6, [(9, 2), (3, 1)])])
    assert (rows.batch, rows.rows, rows.removed) == (6, (9, 3), (3, 1))
    rows = rows.after([(7, [(9, 0), (2, 1)])])
    assert (rows.batch, rows.rows, rows.removed) == (7, (9, 2), (3, 2))
    gap = rows.after([(9, [(8, 1), (2, 0)]), (10, [(8, 1), (2, 0)])])
    assert (gap.batch, gap.rows, gap.removed) == (10, (8, 2), None)
