"""A drain stops at a batch boundary: the batch in flight commits, none begins, and a sink that is not idempotent sees
each batch once."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from bench import Bench, row
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.spark_internals.queries.queries import execution_of
from tests.cases import one_is_fast


@pytest.mark.parametrize("trigger", one_is_fast(["200 milliseconds", "0 seconds", "1 hour"]))
def test_every_batch_is_seen_once_over_many_drains(bench: Bench, spark, trigger: str) -> None:
    """With a trigger every hour the stream thread sleeps when it is drained, and must not keep the drain waiting."""
    seen: Counter[int] = Counter()
    rows: list[str] = []
    entered = threading.Event()

    def append(batch, batch_id: int) -> None:
        entered.set()
        seen[batch_id] += 1
        rows.extend(r.k for r in batch.collect())

    df = stage("once", bench.source().dropDuplicates(["k"]))
    checkpoint = bench.registry.checkpoint("d", "q")

    def start() -> RunningQueries:
        writer = df.select("k", F.lit(1)).writeStream.outputMode("append").trigger(processingTime=trigger)
        writers = {"q": writer.foreachBatch(append)}
        queries = RunningQueries(spark, writers, {"q": checkpoint}, plan_app(spark, Declarations("bench"), writers))
        queries.start()
        return queries

    for drain in range(6):
        for n in range(3):
            bench.write([row(f"k{drain}-{n}", 1)])
        entered.clear()
        queries = start()
        assert entered.wait(60)  # a batch is in flight, or has just been: the drain comes at any point of it
        queries.drain()
        committed = Checkpoint(checkpoint).committed_batch()
        assert committed == Checkpoint(checkpoint).logged_batch()  # nothing was left half done
        assert seen == Counter(range(committed + 1))
    assert len(rows) == len(set(rows)) == len(seen)


@pytest.mark.parametrize("drains", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_no_batch_is_left_logged_without_a_commit(bench: Bench, spark, tmp_path, drains: int) -> None:
    """Batches follow each other without a pause into a sink that appends, whatever the batch. Each drain comes at
    another point after a commit: mostly while the next batch is planned, which Spark itself would give up when it sees
    the query ended (MicroBatchExecution.runBatch)."""
    seen: Counter[int] = Counter()
    numbers = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "2").option("startTimestamp", "0").load()
    )
    once = stage("once", numbers.select("value").dropDuplicates())
    folder = bench.registry.checkpoint("d", "q")
    checkpoint = Checkpoint(folder)
    sink = tmp_path / "sink"

    def append(batch, batch_id: int) -> None:
        seen[batch_id] += 1
        values = [r.value for r in batch.collect()]
        with sink.open("a") as file:
            file.writelines(f"{value}\n" for value in values)

    for drain in range(drains):
        writer = once.writeStream.outputMode("append").foreachBatch(append)
        queries = RunningQueries(
            spark, {"q": writer}, {"q": folder}, plan_app(spark, Declarations("bench"), {"q": writer})
        )
        queries.start()
        wait_for_commit(checkpoint, 3 * (drain + 1))
        time.sleep(drain % 10 * 0.02)  # any point of a batch
        queries.drain()
        committed = checkpoint.committed_batch()
        assert committed == checkpoint.logged_batch()
        assert seen == Counter(range(committed + 1))
    assert sorted(map(int, sink.read_text().split())) == list(range(2 * len(seen)))


def test_a_query_whose_thread_has_ended_is_over_and_can_be_started_again(bench: Bench, spark) -> None:
    """A thread that sleeps 10 ms at a time may wake up as a drain looks at it: the attempt is taken back, and the
    thread may have ended on seeing it. That left a query without a thread that looked active, and was not started again
    (measured, in a change in flight); here that state is made."""
    bench.write([row("a", 1)])
    folder = bench.registry.checkpoint("d", "q")
    writer = stage("once", bench.source().dropDuplicates(["k"])).writeStream.outputMode("append").format("noop")
    queries = RunningQueries(spark, {"q": writer}, {"q": folder}, plan_app(spark, Declarations("bench"), {"q": writer}))
    queries.start()
    wait_for_commit(Checkpoint(folder), 0)
    query = queries._queries["q"]
    active = execution_of(query).state().get()
    queries.drain()
    execution_of(query).state().set(active)
    assert query.isActive
    queries.drain()
    assert not query.isActive
    queries.start()
    assert queries._queries["q"].runId != query.runId
    queries.drain()


def wait_for_commit(checkpoint: Checkpoint, batch: int) -> None:
    deadline = time.monotonic() + 120
    while (committed := checkpoint.committed_batch()) is None or committed < batch:
        assert time.monotonic() < deadline, f"batch {batch} was not committed"
        time.sleep(0.005)
