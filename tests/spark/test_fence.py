"""A query whose checkpoint is fenced begins no batch; the one that is started when the fence is down goes on."""

from __future__ import annotations

from collections import Counter

import pytest
from bench import Bench, row
from pyspark.errors import StreamingQueryException

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.fence import fence, unfence
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


def test_a_fenced_query_begins_no_batch(bench: Bench, spark) -> None:
    seen: Counter[str] = Counter()
    df = stage("once", bench.source().dropDuplicates(["k"]))
    folder = bench.registry.checkpoint("d", "q")
    checkpoint = Checkpoint(folder)

    def start() -> RunningQueries:
        writer = df.writeStream.outputMode("append")
        writers = {"q": writer.foreachBatch(lambda batch, _: seen.update(r.k for r in batch.collect()))}
        queries = RunningQueries(spark, writers, {"q": folder}, plan_app(spark, Declarations("bench"), writers))
        queries.start()
        return queries

    bench.write([row("a", 1)])
    queries = start()
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

    unfence(checkpoint)
    unfence(checkpoint)
    assert (checkpoint.logged_batch(), checkpoint.fenced()) == (0, None)
    queries = start()
    queries._queries["q"].processAllAvailable()
    queries.drain()
    assert seen == {"a": 1, "b": 1}
