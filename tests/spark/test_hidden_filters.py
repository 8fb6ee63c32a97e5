"""A filter written above a stage that the optimizer puts below it: the state lacks what it kept out, and when it goes,
the results that need these rows are missing. Checked against what the new version computes of all rows at rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, row, stage
from pyspark.sql import functions as F

from tests.cases import one_is_fast


def filtered(build: Callable) -> Callable:
    """Versions of a stage with a filter above it, or without."""

    def version(condition: str | None = None) -> Callable:
        return lambda bench: build(bench).where(condition) if condition else build(bench)

    return version


@filtered
def joined(bench: Bench):
    left, right = (bench.source(name=n).select(*(F.col(c).alias(n + c) for c in ("k", "a"))) for n in "lr")
    return stage("pairs", left.join(right, F.expr("lk = rk")))


@filtered
def counted(bench: Bench):
    return stage("pairs", bench.source(name="l").groupBy("k").agg(F.count("*").alias("n")))


@filtered
def distinct(bench: Bench):
    return stage("pairs", bench.spark.sql("SELECT DISTINCT k, a FROM {rows}", rows=bench.source(name="l")))


def rows_of(rows: list[dict]) -> set[tuple]:
    return {tuple(sorted(r.items())) for r in rows}


@pytest.mark.parametrize(
    ("version", "mode", "condition", "told"),
    one_is_fast(
        [
            (joined, "append", "ra < 5", "source-2.a < 5"),
            (counted, "update", "k <> 'b'", "k = 'b'"),
            (distinct, "update", "a < 5", "a < 5"),
        ]
    ),
)
def test_what_a_filter_above_kept_out_of_the_state_is_a_loss(
    bench: Bench, version: Callable, mode: str, condition: str, told: str
) -> None:
    bench.write([row("a", 1), row("b", 9)], "l")
    bench.write([row("a", 2), row("b", 8)], "r")
    snapshot = bench.run(version(condition), mode)
    item = bench.item(snapshot, version(), mode)
    assert "stage.hidden-filter" in item.rules and item.blocks and told in item.reason, item
    assert bench.item(snapshot, version(condition), mode).rules == ("stage.same",)

    # Why: what is computed of all rows has more.
    bench.write([row("b", 3)], "l")
    bench.run(version(), mode, snapshot=snapshot, agree=("q/pairs",))
    assert rows_of(bench.batch(version())) != rows_of(bench.all())


@pytest.mark.parametrize(
    ("version", "mode", "condition", "told"),
    one_is_fast([(counted, "complete", "k <> 'b'", "k = 'b'"), (joined, "append", "la < 5", "a < 5")]),
)
def test_what_a_filter_above_would_keep_out_is_in_the_state(
    bench: Bench, version: Callable, mode: str, condition: str, told: str
) -> None:
    bench.write([row("a", 1), row("b", 9)], "l")
    bench.write([row("a", 2)], "r")
    snapshot = bench.run(version(), mode)
    item = bench.item(snapshot, version(condition), mode)
    assert "stage.hidden-filter" in item.rules and item.blocks and told in item.reason, item

    # Why: rows come that the filter above would never let through.
    bench.emitted.clear()
    bench.write([row("a", 3)], "l")
    bench.write([row("b", 8)], "r")
    bench.run(version(condition), mode, snapshot=snapshot, agree=("q/pairs",))
    assert rows_of(bench.all()) - rows_of(bench.batch(version(condition)))


@pytest.mark.parametrize(("version", "condition", "told"), [(counted, "k <> 'b'", "ac"), (distinct, "a < 5", "abc")])
def test_state_that_is_not_emitted_again_needs_no_agreement(
    bench: Bench, version: Callable, condition: str, told: str
) -> None:
    bench.write([row("a", 1), row("b", 9)], "l")
    snapshot = bench.run(version())
    bench.emitted.clear()
    bench.write([row("b", 1), row("a", 1), row("c", 3)], "l")
    bench.run(version(condition), snapshot=snapshot)
    assert sorted(r["k"] for r in bench.all()) == list(told)


@pytest.mark.parametrize("condition", ["a < 5", "a BETWEEN 1 AND 4", "k IN ('a', 'b') AND ts > '2024-01-01'"])
def test_a_filter_written_below_holds_from_now_on(bench: Bench, condition: str) -> None:
    """However the optimizer writes it."""

    def build(bench: Bench):
        return stage("totals", bench.source().where(condition).groupBy("k").agg(F.count("*").alias("n")))

    plan, _ = bench.plan(build)
    assert plan.queries[0].stages[0].filters and plan.queries[0].stages[0].hidden == ()
