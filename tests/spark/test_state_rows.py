"""How many rows Spark says have left a stage: with those that are there, never fewer than there were. That is what the
health of a new version rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import attrs
import pytest
from bench import Bench, counts, deploy, row

from airflow_provider_streamupdate.control.operations.verification.health import Health, assess
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.plan.expressions import Column
from airflow_provider_streamupdate.core.plan.plan import Aggregation, StagePlan
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.engine.state_rows import StateRows
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.spark_internals import ExecutedBatch, OperatorReport
from tests.cases import one_is_fast
from tests.golden import STORES
from tests.golden.__main__ import choose_store
from tests.golden.app import NAME, QUERIES, app

# So many batches fill the state (it is drained a little later), and so many more remove from it.
FIRST, MORE = 3, 6
# Every kind of stage and every store, not each with each.
SLOW = [(query, list(STORES)[(n + 1) % len(STORES)]) for n, query in enumerate(QUERIES)]
FAST = [("sessions", "changelog-v2"), ("once-in-time", "hdfs"), ("windows", "rocksdb"), ("pairs", "rocksdb")]


@pytest.mark.parametrize(
    ("name", "store"),
    [*one_is_fast(FAST, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in FAST)],
)
def test_rows_that_are_there_and_rows_that_left_are_never_fewer_than_there_were(
    spark, tmp_path, name: str, store: str
) -> None:
    choose_store(spark, store)
    writers = app((name,), {}).build(spark, {})
    plan = plan_app(spark, Declarations(NAME), writers)
    registry = Registry(str(tmp_path)).app(NAME)
    deploy(registry, "d1")
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
        for more in range(1, MORE + 1):
            found = wait(again, name, saved.queries[name].batch + more)
            health = assess("d1", "running", running({name: found}), saved, batches=1)
            assert health.healthy, health.reasons
            assert any("of which" in text for text in health.holds), health.holds
    finally:
        again.stop()


def wait(queries: RunningQueries, name: str, batch: int) -> QueryStatus:
    """Its status once the batch is committed and reported; fails where batches are reported and none is exact."""
    while True:
        status = queries.progress()[name]
        assert status.error is None
        assert status.batch <= batch + 100, status
        if not status.active or (status.rows_batch is not None and min(status.rows_batch, status.batch) >= batch):
            return status
        time.sleep(0.05)


def running(queries: Mapping[str, QueryStatus]) -> Status:
    at = "2026-01-01T00:00:00+00:00"
    return Status(state="running", epoch=1, heartbeat_at=at, started_at=at, queries=dict(queries))


def test_a_state_that_lacks_a_row_is_not_healthy(bench: Bench) -> None:
    """A tenth of the rows would have passed for it."""
    for n in range(3):
        bench.write([row(f"k{n}{m}", 1) for m in range(10)])
    bench.run(counts)
    saved = SnapshotStore(bench.registry).get("s1")
    assert saved.queries["q"].state_rows == {"counts": 30}
    bench.write([row("new", 1)])
    assert bench_health(bench, saved, counts, "restored", "s1").reasons == ()
    saved.queries["q"] = attrs.evolve(saved.queries["q"], state_rows={"counts": 32})
    health = bench_health(bench, saved, counts, "less", "s1")
    assert health.reasons == ("stage q/counts holds 31 rows; it held 32, of which 0 have left",)


def bench_health(bench: Bench, saved: Snapshot, build: Callable, deployment: str, snapshot: str) -> Health:
    plan, writers = bench.plan(build, snapshot=snapshot)
    restore_app(bench.saved(snapshot), plan, writers, bench.registry, deployment)
    queries = RunningQueries(bench.spark, writers, {"q": bench.registry.checkpoint(deployment, "q")}, plan)
    queries.start()
    try:
        return assess(deployment, "running", running({"q": wait(queries, "q", 0)}), saved, batches=1)
    finally:
        queries.stop()


BY_KEY = Aggregation(keys=(Column("in", "k"),))
KEYED = StagePlan(name="counts", named=True, kind="aggregate", operator="", operator_id=0, definition=BY_KEY)
LIMIT = StagePlan(name="first", named=True, kind="limit", operator="", operator_id=0)


def report(rows: int, removed: int, runs: float = 1) -> OperatorReport:
    """Of a stage with two partitions of one store."""
    return OperatorReport(rows=rows, removed=removed, stores=int(2 * runs), partitions=2)


def batch(number: int, *stages: OperatorReport) -> ExecutedBatch:
    return ExecutedBatch(batch=number, rows_in=1, rows_out=-1, seconds=0.1, stages=stages)


def test_what_left_is_added_up_and_unknown_after_a_gap() -> None:
    rows = StateRows.since(4)
    assert (rows.rows, rows.after([], [KEYED, KEYED]).rows, rows.exact) == (None, None, False)
    rows = rows.after([batch(5, report(10, 1), report(3, 0)), batch(6, report(9, 2), report(3, 1))], [KEYED, KEYED])
    assert (rows.start, rows.batch, rows.rows, rows.exact, rows.removed) == (4, 6, (9, 3), True, (3, 1))
    rows = rows.after([batch(7, report(9, 0), report(2, 1))], [KEYED, KEYED])
    assert (rows.batch, rows.rows, rows.removed) == (7, (9, 2), (3, 2))
    gap = rows.after([batch(9, report(8, 1), report(2, 0)), batch(10, report(8, 1), report(2, 0))], [KEYED, KEYED])
    assert (gap.batch, gap.rows, gap.exact, gap.removed) == (10, (8, 2), True, None)


@pytest.mark.parametrize("runs", [2, 1.5, 0.5])
def test_what_ran_twice_or_in_part_is_not_exact(runs: float) -> None:
    rows = StateRows.since(4).after([batch(5, report(10, 1)), batch(6, report(20, 2, runs))], [KEYED])
    assert (rows.rows, rows.exact, rows.removed) == ((20,), False, None)
    assert rows.after([batch(7, report(9, 1))], [KEYED]).removed is None


def test_a_stage_that_spark_gathers_in_one_partition_opens_one_store() -> None:
    assert StateRows.since(4).after([batch(5, report(1, 0, runs=0.5))], [LIMIT]).exact
    assert not StateRows.since(4).after([batch(5, report(1, 0, runs=1))], [LIMIT]).exact  # it ran twice


def test_a_batch_that_its_sink_did_not_ask_for_says_nothing() -> None:
    rows = StateRows.since(4).after([batch(5, report(10, 1)), batch(6, report(0, 0, 0))], [KEYED])
    assert (rows.rows, rows.exact, rows.removed) == ((10,), False, None)


@pytest.mark.parametrize("asks", ["twice", "isEmpty"])
def test_a_function_that_asks_for_its_rows_twice_is_not_compared_exactly(bench: Bench, asks: str) -> None:
    """All of a batch is counted as often as it is computed, and the part that isEmpty computes once more."""

    def version(times: int) -> Callable:
        def keep(batch, batch_id: int) -> None:
            for _ in range(times - 1):
                batch.count() if asks == "twice" else batch.isEmpty()
            batch.collect()

        bench.sink, bench.sink_seen_batch = lambda writer: writer.foreachBatch(keep), "adds"
        return counts

    for n in range(3):
        bench.write([row(f"k{n}{m}", 1) for m in range(10)])
    bench.run(version(2))
    saved = SnapshotStore(bench.registry).get("s1").queries["q"]
    assert saved.rows_batch is None and saved.state_rows["counts"] >= 30
    bench.write([row("new", 1)])
    health = bench_health(bench, SnapshotStore(bench.registry).get("s1"), version(1), "fewer", "s1")
    assert health.healthy, health.reasons
    assert f"stage q/counts holds 31 rows; it held about {saved.state_rows['counts']}" in health.holds
