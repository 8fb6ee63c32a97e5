"""Found from outside: names and aliases that change places, and how many rows are made of one. Each test says above it
what came out."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from bench import Bench, row, stage
from pairs import Ground, Version, count
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import source

FIRST = [row("x", 1, minute=1), row("x", 2, minute=2), row("x", -1, minute=3)]
SECOND = [row("x", 1, minute=4), row("x", -1, minute=5)]


def right_or_asked(bench: Bench, old: Callable, new: Callable) -> None:
    """The new version gives what a batch gives of all input, unless the update is asked about or refused."""
    bench.write(FIRST)
    snapshot = bench.run(old)
    bench.write(SECOND)
    if not bench.check(snapshot, new).compatible:
        return
    bench.run(new, snapshot=snapshot)
    assert bench.last("k") == {(r["k"],): r for r in bench.batch(new)}


def unpivoted(*columns: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source().withColumn("c", F.col("a") + F.col("b"))
        return stage("t", rows.unpivot(["k"], [*columns], "name", "value").groupBy("k").agg(F.count("*").alias("n")))

    return build


def sliding(size: str) -> Callable:
    def build(bench: Bench) -> DataFrame:
        windows = bench.source().select("k", F.window("ts", size, "5 minutes").alias("w"))
        return stage("t", windows.groupBy("k").agg(F.count("*").alias("n")))

    return build


# How many rows an Expand makes of one counts nowhere, where the optimizer has removed each
# column that differs between them: `several` is empty, and so is the digest. Carried (stage.same): x comes out with
# 3 * 2 + 2 * 3 = 12 rows, and is 15.
def test_another_column_in_an_unpivot_of_which_only_the_number_is_used(bench: Bench) -> None:
    right_or_asked(bench, unpivoted("a", "b"), unpivoted("a", "b", "c"))


# Two windows of each row, then four. Carried (stage.same): x comes out with 14, and is 20.
def test_a_longer_sliding_window_of_which_only_the_number_is_used(bench: Bench) -> None:
    right_or_asked(bench, sliding("10 minutes"), sliding("20 minutes"))


def signs(above: str, below: str) -> Callable:
    """Counts of positive and negative values, with these aliases; an empty one is none."""

    def counted(rows: DataFrame, sign: str, called: str) -> DataFrame:
        found = rows.where(f"a {sign} 0").groupBy("k").count()
        return (found.alias(called) if called else found).select(F.concat("k", F.lit(sign)).alias("k"), "count")

    def build(bench: Bench) -> DataFrame:
        rows = bench.source()
        return counted(rows, ">", above).union(counted(rows, "<", below))

    return build


# Aliases are labels, and these two programs are the same one. Exchanged, each stage
# gets the other's state: carried (stage.filters, "filtered differently from now on"). `x>` comes out as 2 and is 3,
# `x<` as 3 and is 2. Before there were aliases as names, the two stages had the same position and were right.
# The same comes out when the alias moves to the other stage; there the state of the unnamed one, too, goes astray.
@pytest.mark.parametrize("other", ["r", ""], ids=["exchanged", "moved"])
def test_aliases_of_two_stages_that_differ_in_their_filters(bench: Bench, other: str) -> None:
    right_or_asked(bench, signs("l", other), signs(other, "l"))


def signs_in_sql(above: str, below: str) -> Callable:
    """The same in SQL, where the aliases are of subqueries."""

    def build(bench: Bench) -> DataFrame:
        bench.source().createOrReplaceTempView("arrived")
        found = "SELECT concat(k, '{0}') k, n FROM (SELECT k, count(*) n FROM arrived WHERE a {0} 0 GROUP BY k) {1}"
        return bench.spark.sql(f"{found.format('>', above)} UNION ALL {found.format('<', below)}")

    return build


# In SQL, where hardly anybody thinks of the name of a subquery as that of its state.
def test_aliases_of_two_subqueries_that_differ_in_their_filters(bench: Bench) -> None:
    right_or_asked(bench, signs_in_sql("p", "q"), signs_in_sql("q", "p"))


def signs_of_stages(above: str, below: str) -> Callable:
    """The same with names given by `stage`; an empty one is none."""

    def build(bench: Bench) -> DataFrame:
        rows, parts = bench.source(), []
        for sign, name in ((">", above), ("<", below)):
            found = rows.where(f"a {sign} 0").groupBy("k").count()
            found = stage(name, found) if name else found
            parts.append(found.select(F.concat("k", F.lit(sign)).alias("k"), "count"))
        return parts[0].union(parts[1])

    return build


# `x` is the author's word, but the stage without a name is matched by its number, with
# other filters, while one that means the same with its filters is there, too (x). Were both without names, it would be
# refused (stage.ambiguous).
def test_a_name_that_moves_to_the_other_of_two_stages(bench: Bench) -> None:
    right_or_asked(bench, signs_of_stages("x", ""), signs_of_stages("", "x"))


def readings(first: str, second: str) -> Callable:
    """Two readings of one folder, of which the first is slow, with these aliases."""

    def build(bench: Bench) -> DataFrame:
        slow = bench.source(maxFilesPerTrigger="1").alias(first).where("a > 0")
        fast = bench.source(maxFilesPerTrigger="100").alias(second).where("a < 0")
        return stage("t", slow.select("k").union(fast.select("k")).groupBy("k").count())

    return build


# As above, of two readings of one place that are not equally far: exchanged aliases
# exchange their offsets. Carried (source.same, stage.filters): the negative rows are read again (58 instead of 30), and
# the positive ones never (2 instead of 30).
def test_aliases_of_two_readings_of_one_folder(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_batches(query, plan) -> None:
        while not any(p["numInputRows"] for p in query.recentProgress):
            assert query.isActive
            time.sleep(0.05)

    for _ in range(30):
        bench.write([row("pos", 1), row("neg", -1)])
    with monkeypatch.context() as patch:
        patch.setattr(bench, "_wait", first_batches)
        snapshot = bench.run(readings("l", "r"))
    assert bench.last("k")["pos",]["count"] < 30
    bench.unread = 0
    new = readings("r", "l")
    if bench.check(snapshot, new).compatible:
        bench.run(new, snapshot=snapshot)
        assert {r["k"]: r["count"] for r in bench.last("k").values()} == {"pos": 30, "neg": 30}


ALIKE: dict[str, Version] = {
    "a source's alias and a stage": lambda g: count(g.read().alias("t"), "k"),
    "a stage's alias and a source": lambda g: source("t", g.read()).groupBy("k").count().alias("t"),
    "a stage's alias and another stage": lambda g: (
        count(g.read(), "k").select("k").union(g.read(folder="o").groupBy("k2").count().alias("t").select("k2"))
    ),
    "a source's alias and another source": lambda g: (
        source("t", g.read()).select("k").union(g.read(folder="o").alias("t").select("k")).groupBy("k").count()
    ),
}


# An alias for a join that is also a name given with stage() or source() was no matter before; now the
# app, which runs, cannot be planned any more: ApplicationError. A name that was given should win, as one that is given
# twice is left out.
@pytest.mark.parametrize("name", ALIKE)
def test_an_alias_that_is_also_a_given_name(ground: Ground, name: str) -> None:
    assert ground.plan(ALIKE[name]).queries[0].stages


def within(delay: str) -> Callable:
    return lambda bench: stage("t", bench.late(delay).dropDuplicatesWithinWatermark(["k"])).select("k", "a")


# A key that is stored keeps the old, longer expiry. Carried; the second
# row of `a`, 34 minutes after the first one, is dropped, where the new version by itself (a delay of one minute) lets
# it through. Spark promises only that nearer ones are dropped.
def test_an_expiry_that_the_longer_delay_has_stored(bench: Bench) -> None:
    bench.write([row("a", 1, minute=1)])
    bench.write([row("b", 1, minute=2)])
    snapshot = bench.run(within("60 minutes"), "append")
    assert bench.rules(snapshot, within("1 minute"), "append") == {"watermark.delay"}
