"""What is said of running queries: how long a batch has taken, which query is idle, what failed, and how far behind it
is (with a real broker: tests/ground/kafka.py)."""

from __future__ import annotations

import contextlib
import json
import threading

import pytest
from bench import Bench, by, row
from followed_pair import wait_for
from pyspark.errors import StreamingQueryException

from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.streaming.engine.queries import rows_arriving, rows_behind

SECONDS = 60.0


@pytest.mark.parametrize("trigger", ["0 seconds", "100 milliseconds"])
def test_a_batch_is_told_while_it_is_worked_at_and_only_then(bench: Bench, trigger: str) -> None:
    """What the SLO gate takes for a batch that hangs."""
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def wait(batch, batch_id: int) -> None:
        begun.release()
        assert may_end.acquire(timeout=SECONDS)

    queries = bench.queries(q=bench.source().writeStream.foreachBatch(wait).trigger(processingTime=trigger))

    def look() -> QueryStatus:
        return queries.progress()["q"]

    queries.start()
    try:
        for batch in range(3):
            bench.write([row(f"k{batch}", 1)])
            assert begun.acquire(timeout=SECONDS)
            first, second, third = look(), look(), look()
            assert first.batch == batch - 1
            assert first.batch_running < second.batch_running < third.batch_running
            may_end.release()
            # Between a batch's commit and the end of its trigger a look takes it for the next one.
            wait_for(lambda number=batch: (ended := look()).batch >= number and ended.idle, "the batch's end", SECONDS)
        # While nothing comes in it looks for data again and again: no look takes that for a batch.
        assert [look().batch_running for _ in range(100)] == [0.0] * 100
    finally:
        may_end.release()
        queries.stop()
    assert look().batch_running == 0.0


def test_a_query_stays_idle_while_it_looks_for_data_and_until_it_finds_some(bench: Bench) -> None:
    """Eleven queries without input, each of which looks for data most of the time, were hardly ever seen idle together:
    an update waited 52 s for that, and more of them would have been rolled back."""
    queries = bench.queries(**{f"q{n}": bench.source().writeStream.format("noop") for n in range(4)})

    def idle() -> list[bool]:
        return [status.idle for status in queries.progress().values()]

    queries.start()
    try:
        wait_for(lambda: all(idle()), "all to be idle", 60)
        assert [idle() for _ in range(50)] == [[True] * 4] * 50
        bench.write([row("k", 1)])
        wait_for(lambda: not any(idle()), "the row to be found", 60)
        wait_for(lambda: all(idle()), "all to be idle again", 60)
        assert set(queries.committed().values()) == {0}
    finally:
        queries.stop()
    assert idle() == [False] * 4


def test_the_error_of_a_query_is_its_own(bench: Bench) -> None:
    def fail(batch, batch_id: int) -> None:
        raise ValueError("no room for this row")

    bench.write([row("a", 1)])
    good = bench.source().writeStream.format("noop").trigger(processingTime="1 hour")
    queries = bench.queries(bad=bench.source().writeStream.foreachBatch(fail), good=good)
    queries.start()
    try:
        with contextlib.suppress(StreamingQueryException):
            assert queries._queries["bad"].awaitTermination(120)
        found = queries.progress()
        assert "no room for this row" in str(found["bad"].error) and "JVM stacktrace" not in str(found["bad"].error)
        assert (found["good"].error, found["good"].active) == (None, True)
    finally:
        queries.stop()


@pytest.mark.parametrize("kept", ["1", "2"])
def test_a_commit_that_spark_removed_has_no_time(kept: str, bench: Bench) -> None:
    bench.spark.conf.set("spark.sql.streaming.minBatchesToRetain", kept)
    for _ in range(5):
        bench.write([row("x", 1)])
    snapshot = bench.run(by("k"))
    bench.write([row("x", 1)])
    bench.run(by("k"), snapshot=snapshot)
    assert bench.last("k")["x",]["n"] == 6


FILES = {"endOffset": '{"logOffset":3}', "latestOffset": "null", "metrics": {}}


def kafka(latest: dict, read: dict, average: str) -> dict:
    offsets = {"startOffset": "null", "latestOffset": json.dumps(latest), "endOffset": json.dumps(read)}
    return {**offsets, "metrics": {"avgOffsetsBehindLatest": average}}


def strange(offset: str) -> dict:
    return {"endOffset": offset, "latestOffset": offset, "metrics": {"avgOffsetsBehindLatest": "3"}}


A = kafka({"a": {"0": 130, "1": 120, "2": 111}}, {"a": {"0": 11, "1": 10, "2": 9}}, "110.3")
B = kafka({"b": {"0": 5}, "c": {"0": 7, "1": 9}}, {"b": {"0": 5}, "c": {"0": 7, "1": 2}}, "2.3")


@pytest.mark.parametrize(
    ("sources", "names", "behind"),
    [
        ([A], ["one"], {"one": 331}),
        ([A, B], ["one", "two"], {"one": 331, "two": 7}),
        ([FILES, B], ["one", "two", "one"], {"two": 7}),
        ([kafka({"a": {"0": 3}}, {"a": {"0": 3}}, "0.0")], ["one"], {"one": 0}),
        ([FILES], ["one"], {}),
        ([], ["one"], {}),
        *(([strange(offset)], ["one"], {}) for offset in ('"shard-7:12"', "None", '{"shard": 7}')),
    ],
)
def test_rows_behind_are_those_of_all_partitions_and_topics_where_they_are_known(sources, names, behind) -> None:
    assert rows_behind({"sources": sources}, names) == behind


def test_rows_that_arrive_are_told_by_source() -> None:
    one, two = {"inputRowsPerSecond": 12.5}, {"inputRowsPerSecond": 0}
    assert rows_arriving({"sources": [one, two]}, ["a", "b", "a"]) == {"a": 12.5, "b": 0.0}
    assert rows_arriving({"sources": [one, two]}, ["a"]) == {}  # it is not known which is which
    for unknown in ({}, {"inputRowsPerSecond": None}, {"inputRowsPerSecond": float("nan")}):
        assert rows_arriving({"sources": [one, unknown]}, ["a", "b"]) == {"a": 12.5}
    assert rows_arriving({}, []) == {}
