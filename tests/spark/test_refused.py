"""Changes Spark accepts by position and type, and gets wrong: each is refused, and the report says what changed.

The plans are made by real Spark; nothing needs to be run but the first version, whose snapshot they are compared with.
"""

from __future__ import annotations

import sys

import pytest
from bench import Bench, row
from pyspark import cloudpickle
from pyspark.sql import functions as F
from test_restore_by_name import Seen, seen

from airflow_provider_streamupdate.state.errors import InvalidInputError
from airflow_provider_streamupdate.streaming import stage

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules


def grouped(*keys: str, aggregates=None):
    made = aggregates or (lambda: [F.count("*").alias("n"), F.sum("a").alias("s")])
    return lambda bench: stage("totals", bench.source().groupBy(*keys).agg(*made()))


def window(*arguments: str, delay: str = "10 minutes"):
    def build(bench: Bench):
        stream = bench.source().withWatermark("ts", delay)
        return stage("w", stream.groupBy(F.window("ts", *arguments), "k").count())

    return build


def dedup(*columns: str):
    return lambda bench: stage("once", bench.source().dropDuplicates(list(columns)))


def hidden_rename(bench: Bench):
    source = bench.source().select(F.col("k2").alias("k"), "a")
    return stage("totals", source.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))


def pruned(column: str):
    """Both sums are asked for, one is used: the optimizer keeps only that one in the state row."""

    def build(bench: Bench):
        both = stage("totals", bench.source().groupBy("k").agg(F.sum("a").alias("x"), F.sum("b").alias("y")))
        return both.select("k", F.col(column).alias("total"))

    return build


def selected(*columns: str):
    """The optimizer puts the selected columns into the aggregation, so their order is the order in the state row."""

    def build(bench: Bench):
        both = stage("totals", bench.source().groupBy("k").agg(F.sum("a").alias("x"), F.sum("b").alias("y")))
        return both.select("k", *columns)

    return build


def aggregated(*functions):
    return grouped("k", aggregates=lambda: [f() for f in functions])


class OtherVariable(Seen):
    def init(self, handle) -> None:
        self.count = handle.getValueState("hits", "n long")
        self.largest = handle.getMapState("largest", "k2 string", "a long")


class OtherType(Seen):
    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n string")
        self.largest = handle.getMapState("largest", "k2 string", "a long")


TRAPS = {
    "swapped grouping keys": (grouped("k", "k2"), grouped("k2", "k"), "update", "keys"),
    "another key": (grouped("k"), grouped("k2"), "update", "keys"),
    "another column under the old name": (grouped("k"), hidden_rename, "update", "keys"),
    "sum to max": (aggregated(lambda: F.sum("a")), aggregated(lambda: F.max("a")), "update", "aggregates"),
    "sum of another column": (aggregated(lambda: F.sum("a")), aggregated(lambda: F.sum("b")), "update", "aggregates"),
    "pruned to the other sum": (pruned("x"), pruned("y"), "update", "aggregates"),
    "tumbling 10 to 15 minutes": (window("10 minutes"), window("15 minutes"), "append", "keys"),
    "tumbling to sliding": (window("10 minutes"), window("10 minutes", "5 minutes"), "append", "keys"),
    "window offset": (window("10 minutes"), window("10 minutes", "10 minutes", "3 minutes"), "append", "keys"),
    "watermark delay": (window("10 minutes"), window("10 minutes", delay="1 minute"), "append", "watermark"),
    "another deduplication column": (dedup("k"), dedup("k2"), "append", "keys"),
    "output mode": (grouped("k"), grouped("k"), "complete", "output mode"),
    "another state variable": (seen(Seen), seen(OtherVariable), "update", "state variables"),
    "another type of a state variable": (seen(Seen), seen(OtherType), "update", "value type"),
}


# Traps as well, but not refused: the state can be rewritten to what the new plan means (test_migration.py).
MIGRATED = {
    "swapped aggregates": (
        aggregated(lambda: F.sum("a"), lambda: F.sum("b")),
        aggregated(lambda: F.sum("b"), lambda: F.sum("a")),
        "update",
        (),
    ),
    "reordered select, which reorders the state row": (selected("x", "y"), selected("y", "x"), "update", ()),
    "tumbling 10 to 20 minutes": (window("10 minutes"), window("20 minutes"), "append", ("q/w",)),
}


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.parametrize("name", TRAPS)
def test_a_change_of_meaning_is_refused(name: str, bench: Bench) -> None:
    old, new, mode, reason = TRAPS[name]
    bench.write([row("a", 1)])
    snapshot = bench.run(old, "update" if mode == "complete" else mode)
    assert bench.check(snapshot, old, "update" if mode == "complete" else mode).compatible
    report = bench.check(snapshot, new, mode)
    assert not report.compatible
    refused = [i for i in report.items if i.verdict == "refused"]
    assert any(i.reason.startswith(reason) for i in refused), report.problems


@pytest.mark.parametrize("name", MIGRATED)
def test_a_change_that_can_be_made_good_is_migrated(name: str, bench: Bench) -> None:
    old, new, mode, agree = MIGRATED[name]
    bench.write([row("a", 1)])
    snapshot = bench.run(old, mode)
    report = bench.check(snapshot, new, mode)
    assert [i.verdict for i in report.items if i.thing == "stage"] == ["migrated"]
    assert tuple(i.name for i in report.items if i.blocks) == agree


def test_a_python_function_in_a_key_is_refused_because_its_code_is_not_compared(bench: Bench) -> None:
    def build(bench: Bench):
        shorten = F.udf(lambda text: text[:1], "string")
        return stage("totals", bench.source().groupBy(shorten("k").alias("key")).count())

    bench.write([row("a", 1)])
    snapshot = bench.run(build)
    report = bench.check(snapshot, build)
    assert not report.compatible
    assert "Python function" in report.problems[0]


def test_a_stage_of_a_kind_that_is_not_understood_is_refused(bench: Bench) -> None:
    def sessions(bench: Bench):
        stream = bench.source().withWatermark("ts", "10 minutes")
        return stage("visits", stream.groupBy(F.session_window("ts", "5 minutes"), "k").count())

    bench.write([row("a", 1)])
    snapshot = bench.run(sessions, "append")
    report = bench.check(snapshot, sessions, "append")
    assert not report.compatible
    assert "not understood" in report.problems[0]


def test_agreeing_to_something_that_is_no_loss_is_an_error(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(grouped("k"))
    with pytest.raises(InvalidInputError, match="q/other"):
        bench.check(snapshot, grouped("k"), agree=("q/other",))
