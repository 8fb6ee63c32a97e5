"""Changes of a stream-stream join that Spark accepts, and what becomes of the pairs; each is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import HDFS, Bench, row, stage
from pyspark.sql import functions as F

STORE = HDFS  # of `bench`

pytestmark = pytest.mark.slow


def join(kind: str = "inner", key: str = "k", minutes: int = 3, shown: tuple[str, ...] = ("lk", "la")) -> Callable:
    def build(bench: Bench):
        left, right = (
            bench.source(name=side)
            .withWatermark("ts", "0 minutes")
            .select(*(F.col(c).alias(side[0] + c) for c in ("k", "k2", "a", "ts")))
            for side in ("left", "right")
        )
        within = f"rts >= lts AND rts <= lts + INTERVAL {minutes} MINUTES"
        return stage("pairs", left.join(right, F.expr(f"l{key} = r{key} AND {within}"), kind)).select(*shown)

    return build


def both(bench: Bench, *minutes: int) -> None:
    """Rows without partners that bring the time on."""
    for minute in minutes:
        bench.write([row("left", 0, minute=minute, k2="left")], "left")
        bench.write([row("right", 0, minute=minute, k2="right")], "right")


def wrong_and_refused(bench: Bench, old: Callable, new: Callable, then: list[dict], rule: str) -> None:
    """Version 2 starts on version 1's own checkpoint and does not find a pair that it finds in all rows at rest."""
    bench.write([row("a", 1, minute=1)], "left")
    bench.write([row("a", 2, minute=2)], "right")
    both(bench, 5)
    snapshot = bench.run(old, "append")
    before = len(bench.all())
    bench.write([], "left")
    bench.write(then, "right")
    bench.spark_alone(new, "append")
    assert len(bench.all()) - before < len(bench.batch(new)) - before
    assert bench.rules(snapshot, new, "append") == {rule}


def test_a_wider_time_range_does_not_find_what_was_removed(bench: Bench) -> None:
    then = [row("a", 3, minute=11)]
    wrong_and_refused(bench, join(minutes=3), join(minutes=12), then, "stage.join-condition")


def test_another_column_does_not_find_what_lies_under_the_old_one(bench: Bench) -> None:
    shown = ("lk", "lk2", "la", "rk", "rk2", "ra")
    old, new = join(minutes=12, shown=shown), join(key="k2", minutes=12, shown=shown)
    wrong_and_refused(bench, old, new, [row("z", 3, minute=8, k2="x")], "stage.join-rows")


def test_a_left_semi_join_has_not_kept_what_an_inner_one_needs(bench: Bench) -> None:
    old, new = join("left_semi", minutes=12), join(minutes=12)
    wrong_and_refused(bench, old, new, [row("a", 3, minute=8)], "stage.join-type")
