"""Times to live of transformWithState under other code: what the old version wrote keeps its own; another time mode is
refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from bench import Bench, row
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.streaming import stage

pytestmark = pytest.mark.slow


class Count(StatefulProcessor):
    def __init__(self, ttl: int | None = None) -> None:
        self.ttl = ttl

    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long", ttlDurationMs=self.ttl)

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        n = (self.count.get()[0] if self.count.exists() else 0) + sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self) -> None:
        pass


def counting(mode: str, ttl: int | None = None) -> Callable:
    def build(bench: Bench):
        grouped = bench.source().withWatermark("ts", "0 minutes").groupBy("k")
        return stage("counts", grouped.transformWithState(Count(ttl), "k string, n long", "Update", mode))

    return build


DAY = 24 * 3600 * 1000
AT_ONCE = 1  # expired before the next version has begun


def test_a_longer_time_to_live_does_not_bring_back_what_expired_under_the_old_one(bench: Bench) -> None:
    short, long = counting("ProcessingTime", AT_ONCE), counting("ProcessingTime", DAY)
    bench.write([row("a", 1)])
    first = bench.run(short)
    assert bench.rules(first, long) == {"stage.code"}
    bench.write([row("a", 1)])
    second = bench.run(long, snapshot=first, agree=("q/counts",))
    bench.write([row("a", 1)])
    bench.run(long, snapshot=second)
    assert [r["n"] for r in bench.all()] == [1, 1, 2]


def test_a_shorter_time_to_live_holds_for_what_is_written_from_now_on(bench: Bench) -> None:
    long, short = counting("ProcessingTime", DAY), counting("ProcessingTime", AT_ONCE)
    bench.write([row("a", 1)])
    first = bench.run(long)
    bench.write([row("a", 1)])
    second = bench.run(short, snapshot=first, agree=("q/counts",))
    bench.write([row("a", 1)])
    bench.run(short, snapshot=second)
    assert [r["n"] for r in bench.all()] == [1, 2, 1]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (counting("None"), counting("EventTime"), "stage.function"),
        (counting("ProcessingTime", DAY), counting("ProcessingTime"), "stage.variable-changed"),
    ],
    ids=["time mode", "time to live switched off"],
)
def test_what_spark_refuses_as_well_is_named(bench: Bench, old: Callable, new: Callable, rule: str) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(old)
    bench.write([row("a", 1)])
    assert rule in bench.rules(snapshot, new)
    with pytest.raises(StreamingQueryException):
        bench.spark_alone(new)


def test_it_is_moved_to_another_operator_id_by_a_stage_nearer_to_the_sink(bench: Bench) -> None:
    def counted(bench: Bench):
        made = bench.source().groupBy("k").transformWithState(Count(), "k string, n long", "Append", "None")
        return stage("counts", made)

    def once(bench: Bench):
        return stage("once", counted(bench).select("k", F.abs("n").alias("n")).dropDuplicates())

    bench.write([row("a", 1), row("b", 1)])
    snapshot = bench.run(counted, "append")
    bench.keys("ab")
    bench.run(once, "append", snapshot=snapshot)
    before, after = (bench.registry.plan(d).query("q").stage("counts").operator_id for d in ("d1", "d2"))
    assert (before, after) == (0, 1)
    assert sorted((r["k"], r["n"]) for r in bench.all()) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
