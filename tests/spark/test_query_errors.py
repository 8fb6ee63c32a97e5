"""What a query failed with is told with the query, not with the app alone."""

from __future__ import annotations

import contextlib

from bench import Bench, row
from pyspark.errors import StreamingQueryException

from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


def test_the_error_of_a_query_is_its_own(bench: Bench, spark) -> None:
    def fail(batch, batch_id: int) -> None:
        raise ValueError("no room for this row")

    bench.write([row("a", 1)])
    writers = {
        "bad": bench.source().writeStream.foreachBatch(fail),
        "good": bench.source().writeStream.format("noop").trigger(processingTime="1 hour"),
    }
    checkpoints = {name: bench.registry.checkpoint("d", name) for name in writers}
    queries = RunningQueries(spark, writers, checkpoints, plan_app(spark, Declarations("bench"), writers))
    queries.start()
    try:
        with contextlib.suppress(StreamingQueryException):
            assert queries._queries["bad"].awaitTermination(120)
        found = queries.progress()
        assert "no room for this row" in str(found["bad"].error)
        assert "JVM stacktrace" not in str(found["bad"].error)
        assert (found["good"].error, found["good"].active) == (None, True)
    finally:
        queries.stop()
