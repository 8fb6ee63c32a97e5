"""A drain stops at a batch boundary: the batch in flight commits, none begins, and a sink that is not idempotent sees
each batch once. A query whose checkpoint is fenced begins no batch."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from bench import Bench, distinct, row, stage
from followed_pair import wait_for
from pyspark.errors import StreamingQueryException

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.fence import fence, unfence
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.spark_internals.queries.queries import execution_of
from tests.cases import one_is_fast


def started(bench: Bench, df, function: Callable, trigger: str = "0 seconds") -> RunningQueries:
    queries = bench.queries(q=df.writeStream.trigger(processingTime=trigger).foreachBatch(function))
    queries.start()
    return queries


def checkpoint_of(bench: Bench) -> Checkpoint:
    return Checkpoint(bench.registry.checkpoint("d", "q"))


def wait_for_commit(checkpoint: Checkpoint, batch: int) -> None:
    wait_for(lambda: (there := checkpoint.committed_batch()) is not None and there >= batch, "a commit", pause=0.005)


@pytest.mark.parametrize("trigger", one_is_fast(["200 milliseconds", "0 seconds", "1 hour"]))
def test_every_batch_is_seen_once_over_many_drains(bench: Bench, trigger: str) -> None:
    """With a trigger every hour the stream thread sleeps when it is drained, and must not keep the drain waiting."""
    seen: Counter[int] = Counter()
    rows: list[str] = []
    entered = threading.Event()

    def append(batch, batch_id: int) -> None:
        entered.set()
        seen[batch_id] += 1
        rows.extend(r.k for r in batch.collect())

    df, checkpoint = distinct("k")(bench), checkpoint_of(bench)
    for drain in range(6):
        for n in range(3):
            bench.write([row(f"k{drain}-{n}", 1)])
        entered.clear()
        queries = started(bench, df, append, trigger)
        assert entered.wait(60)  # a batch is in flight, or has just been: the drain comes at any point of it
        queries.drain()
        committed = checkpoint.committed_batch()
        assert committed == checkpoint.logged_batch()  # nothing was left half done
        assert seen == Counter(range(committed + 1))
    assert len(rows) == len(set(rows)) == len(seen)


@pytest.mark.parametrize("drains", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_no_batch_is_left_logged_without_a_commit(bench: Bench, spark, tmp_path, drains: int) -> None:
    """Batches follow each other without a pause into a sink that appends, whatever the batch."""
    seen: Counter[int] = Counter()
    numbers = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="2", startTimestamp="0").load()
    df, checkpoint, sink = stage("once", numbers.select("value").dropDuplicates()), checkpoint_of(bench), tmp_path / "s"

    def append(batch, batch_id: int) -> None:
        seen[batch_id] += 1
        values = [r.value for r in batch.collect()]
        with sink.open("a") as file:
            file.writelines(f"{value}\n" for value in values)

    for drain in range(drains):
        queries = started(bench, df, append)
        wait_for_commit(checkpoint, 3 * (drain + 1))
        time.sleep(drain % 10 * 0.02)  # any point of a batch
        queries.drain()
        committed = checkpoint.committed_batch()
        assert committed == checkpoint.logged_batch()
        assert seen == Counter(range(committed + 1))
    assert sorted(map(int, sink.read_text().split())) == list(range(2 * len(seen)))


def test_a_query_whose_thread_has_ended_is_over_and_can_be_started_again(bench: Bench) -> None:
    """A thread that sleeps 10 ms at a time may wake up as a drain looks at it."""
    bench.write([row("a", 1)])
    queries = started(bench, distinct("k")(bench), lambda batch, number: batch.collect())
    wait_for_commit(checkpoint_of(bench), 0)
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


def test_a_query_that_runs_begins_no_batch_once_it_is_fenced(bench: Bench) -> None:
    seen: Counter[str] = Counter()
    df, checkpoint = distinct("k")(bench), checkpoint_of(bench)

    def keep(batch, _) -> None:
        seen.update(r.k for r in batch.collect())

    bench.write([row("a", 1)])
    queries = started(bench, df, keep)
    running = queries._queries["q"]
    running.processAllAvailable()
    assert fence(checkpoint) == fence(checkpoint) == 1
    assert (checkpoint.logged_batch(), checkpoint.fenced()) == (0, 1)
    bench.write([row("b", 1)])
    with pytest.raises(StreamingQueryException, match="Multiple streaming jobs detected for 1"):
        running.awaitTermination(120)
    queries.stop()
    assert seen == {"a": 1} and checkpoint.committed_batch() == 0
    assert checkpoint.export(carry_in_flight=True).in_flight is None  # what a deployment that takes over goes on from
    unfence(checkpoint)  # tests/engine_contract.py: the next one goes on
    assert (checkpoint.logged_batch(), checkpoint.fenced()) == (0, None)
