"""A stage above another one that is migrated, or whose change is agreed to: what it has kept is of the rows that the
other one gave it before. An outside review found it carried without a word, and its counts wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, blocking, row, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Version = Callable[[Bench], DataFrame]
MODE = "append"


def minutes(bench: Bench, *keys: str, more: bool = False) -> DataFrame:
    sums = [F.sum("a").alias("x"), *([F.max("b").alias("y")] if more else [])]
    return stage("a", bench.late("1 minute").groupBy(F.window("ts", "1 minute"), *keys).agg(*sums))


def hours(rows: DataFrame) -> DataFrame:
    return stage("b", rows.groupBy(F.window(F.window_time("window"), "1 hour")).agg(F.count("x").alias("n")))


def once(bench: Bench, *keys: str) -> DataFrame:
    return stage("a", bench.late("1 minute").dropDuplicates([*keys]))


def per_key(rows: DataFrame) -> DataFrame:
    return stage("b", rows.groupBy(F.window("ts", "1 hour"), "k").count())


def few(bench: Bench, number: int) -> DataFrame:
    return stage("b", stage("a", bench.source().limit(number)).dropDuplicates(["k"]))


OTHER_ROWS: dict[str, tuple[Version, Version]] = {
    "a key dropped": (lambda b: hours(minutes(b, "k", "k2")), lambda b: hours(minutes(b, "k"))),
    "a key added": (lambda b: hours(minutes(b, "k")), lambda b: hours(minutes(b, "k", "k2"))),
    "a deduplication by fewer columns": (lambda b: per_key(once(b, "k", "k2")), lambda b: per_key(once(b, "k"))),
    "another limit": (lambda b: few(b, 5), lambda b: few(b, 10)),
}
SAME_ROWS: dict[str, tuple[Version, Version]] = {
    "nothing": (lambda b: hours(minutes(b, "k")), lambda b: hours(minutes(b, "k"))),
    "an aggregate added": (lambda b: hours(minutes(b, "k")), lambda b: hours(minutes(b, "k", more=True).drop("y"))),
    "keys in another order": (lambda b: hours(minutes(b, "k", "k2")), lambda b: hours(minutes(b, "k2", "k"))),
    "a filter above both": (lambda b: hours(minutes(b, "k")), lambda b: hours(minutes(b, "k")).where("n > 0")),
}


def verdicts(bench: Bench, old: Version, new: Version) -> dict[str, tuple[str, ...]]:
    """The stages that are refused or have to be agreed to, with their rules."""
    plans = [bench.plan(version, MODE)[0] for version in (old, new)]
    return {i.name.rpartition("/")[2]: i.rules for i in blocking(*plans)}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_a_stage_above_one_that_gives_other_rows_is_agreed_to(spark, tmp_path, name: str) -> None:
    old, new = OTHER_ROWS[name]
    assert "stage.upstream" in verdicts(Bench(spark, tmp_path), old, new).get("b", ())


@pytest.mark.parametrize("name", SAME_ROWS)
def test_a_stage_above_one_that_gives_the_same_rows_is_carried(spark, tmp_path, name: str) -> None:
    assert "b" not in verdicts(Bench(spark, tmp_path), *SAME_ROWS[name])


def test_what_it_has_counted_is_not_what_the_new_version_would_have(spark, tmp_path) -> None:
    """The state above holds two groups of the first minute, where the new version makes one."""
    bench, (old, new) = Bench(spark, tmp_path), OTHER_ROWS["a key dropped"]
    bench.write([row("x", 1, k2="p"), row("x", 1, k2="q")])
    bench.write([row("x", 1, minute=10, k2="p")])
    snapshot = bench.run(old, MODE)
    bench.write([row("x", 1, minute=180, k2="p")])
    bench.write([row("x", 1, minute=360, k2="p")])
    [problem] = bench.check(snapshot, new, MODE).problems
    assert "it receives other rows from stage a (keys), which changes" in problem
    bench.run(new, MODE, snapshot, agree=("q/b",))
    carried = {str(r["window"]["start"]): r["n"] for rows in bench.emitted.values() for r in rows}
    right = {str(r["window"]["start"]): r["n"] for r in bench.batch(new)}
    first = min(right)
    assert (carried[first], right[first]) == (3, 2)
