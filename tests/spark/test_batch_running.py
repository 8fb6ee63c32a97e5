"""How long a query has worked at its batch, by real queries: what the SLO gate takes for a batch that hangs."""

from __future__ import annotations

import threading
import time

import pytest
from bench import Bench, row

from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

SECONDS = 60.0


@pytest.mark.parametrize("trigger", ["0 seconds", "100 milliseconds"])
def test_a_batch_is_told_while_it_is_worked_at_and_only_then(bench: Bench, spark, trigger: str) -> None:
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def wait(batch, batch_id: int) -> None:
        begun.release()
        assert may_end.acquire(timeout=SECONDS)

    writer = bench.source().writeStream.foreachBatch(wait).trigger(processingTime=trigger)
    queries = RunningQueries(
        spark,
        {"q": writer},
        {"q": bench.registry.checkpoint("d", "q")},
        plan_app(spark, Declarations("bench"), {"q": writer}),
    )

    def look() -> QueryStatus:
        return queries.progress()["q"]

    queries.start()
    try:
        for batch in range(3):
            bench.write([row(f"k{batch}", 1)])
            assert begun.acquire(timeout=SECONDS)
            first = look()
            assert first.batch == batch - 1
            second, third = look(), look()
            assert first.batch_running < second.batch_running < third.batch_running
            may_end.release()
            deadline = time.monotonic() + SECONDS
            # Between a batch's commit and the end of its trigger a look takes it for the next one.
            while (ended := look()).batch < batch or not ended.idle:
                assert time.monotonic() < deadline
                time.sleep(0.01)  # what is looked for is said nowhere else
        # While nothing comes in it looks for data again and again: no look takes that for a batch.
        assert [look().batch_running for _ in range(100)] == [0.0] * 100
    finally:
        may_end.release()
        queries.stop()
    assert look().batch_running == 0.0
