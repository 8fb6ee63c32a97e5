"""What the author's code raises while a query runs: its file and line come first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pandas as pd
import pytest
from bench import Bench
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.core.errors import ApplicationError, CorruptError
from airflow_provider_streamupdate.streaming.planning.author import Declarations, describe_failure
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

PLACE = r"^test_author\.py:(\d+) raised an error: StreamingQueryException: "


def ended(bench: Bench, start: Callable) -> StreamingQueryException:
    """The error that a query ends with."""
    bench.write([{"k": "a", "a": 1}])
    query = start(bench.source()).trigger(availableNow=True).start(checkpointLocation=str(bench.folder / "own"))
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    return raised.value


def line_of(text: str) -> int:
    with open(__file__) as file:
        [number] = [n for n, line in enumerate(file, 1) if text in line and "line_of" not in line]
    return number


def test_in_the_function_of_a_sink(bench: Bench) -> None:
    def write(rows, batch_id):
        raise OSError("no room")  # the sink's place

    words = describe_failure(ended(bench, lambda rows: rows.writeStream.foreachBatch(write)))
    match = re.match(PLACE, words)
    assert match and int(match[1]) == line_of("# the sink's place"), words
    assert "no room" in words and "JVM stacktrace" not in words


def test_in_a_function_that_workers_run(bench: Bench) -> None:
    @F.udf("int")
    def half(a):
        return a // 0  # the function's place

    words = describe_failure(ended(bench, lambda rows: rows.select(half("a")).writeStream.format("noop")))
    match = re.match(PLACE, words)
    assert match and int(match[1]) == line_of("# the function's place"), words
    assert "ZeroDivisionError" in words


class NoLimit(StatefulProcessor):
    def init(self, handle):
        raise LookupError("the limit is missing")  # the processor's place

    def handleInputRows(self, key, rows, timer):
        yield pd.DataFrame({"k": [key[0]]})

    def close(self):
        pass


def limited(rows):
    grouped = rows.groupBy("k").transformWithStateInPandas(NoLimit(), "k string", "append", "none")
    return grouped.writeStream.outputMode("append").format("noop")


@pytest.mark.slow  # each plan of one starts a Python of its own
def test_in_the_init_of_a_stateful_processor(bench: Bench) -> None:
    """Spark says "driver worker exited unexpectedly", and has the error as the cause of its own one only."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        words = describe_failure(ended(bench, limited))
        match = re.match(PLACE, words)
        assert match and int(match[1]) == line_of("# the processor's place"), words
        assert words.endswith("init() failed: LookupError: the limit is missing"), words
        with pytest.raises(ApplicationError) as planned:
            plan_app(bench.spark, Declarations("bench"), {"q": limited(bench.source())})
        assert "init() failed: LookupError: the limit is missing" in str(planned.value)
        assert "unexpectedly" not in words + str(planned.value)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_what_is_none_of_the_author_s_names_no_place() -> None:
    assert describe_failure(ValueError('x\n  File "/lib/python3.11/site-packages/pyspark/a.py", line 3')).startswith(
        "ValueError: x"
    )
    ours = CorruptError('read File "/app.py", line 3')
    assert describe_failure(ours) == str(ours)
