"""A query of which Spark keeps few batches: the commit of its first batch is gone when somebody looks."""

from __future__ import annotations

import pytest
from bench import HDFS, Bench, row, stage


@pytest.mark.parametrize("kept", ["1", "2"])
def test_a_commit_that_spark_removed_has_no_time(kept: str, spark, tmp_path) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", kept)

    def totals(bench: Bench):
        return stage("t", bench.source().groupBy("k").count())

    for _ in range(5):
        bench.write([row("x", 1)])
    snapshot = bench.run(totals)
    bench.write([row("x", 1)])
    bench.run(totals, snapshot=snapshot)
    assert bench.last("k")["x",]["count"] == 6
