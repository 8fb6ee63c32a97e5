"""What would be silently wrong if it were followed, and is refused: shown by following it all the same."""

from __future__ import annotations

from collections import Counter

import followed_pair
import pytest
from bench import Bench, row, stage
from followed_pair import running_pair, updated
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import RefusedError
from airflow_provider_streamupdate.streaming import source
from airflow_provider_streamupdate.streaming.spark_internals.queries import following
from airflow_provider_streamupdate.streaming.spark_internals.queries.following import check_followable_here


def refused(bench: Bench, old, new=None, mode: str = "update") -> str:
    bench.write([row("a", 9)])
    with running_pair(bench, old, new, mode=mode) as pair:
        return "; ".join(pair.begin(refused=True))


def once(least: int):
    return lambda b: stage("once", b.source().where(f"a > {least}").dropDuplicates(["k"])).select("k", "a")


def test_what_nobody_wrote_would_be_remembered(bench: Bench, spark, tmp_path, monkeypatch) -> None:
    """By a deduplication that lets more pass."""
    words = refused(bench, once(5), once(0), "append")
    assert "stage once of query q is given other rows" in words
    monkeypatch.setattr(followed_pair, "unfollowable", lambda new, old: [])
    bench = Bench(spark, tmp_path / "again")
    bench.folder.mkdir()
    with running_pair(bench, once(5), once(0), mode="append") as pair:
        updated(pair, [[row("a", 9)]], [[row("x", 1)]], [[row("x", 7)]], states=None)
        found = Counter((r["k"], r["a"]) for r in pair.all())
        assert found == Counter([("a", 9)])  # x is lost: with a restart it would have been written with 7


def test_a_source_that_goes_would_be_missing_from_the_counts(bench: Bench) -> None:
    def of(*names: str):
        def build(bench: Bench):
            first, *others = (source(name, bench.source(name=name)).select("k") for name in names)
            return stage("counts", (first.union(others[0]) if others else first).groupBy("k").count())

        return build

    for name in "ab":
        bench.write([row("a", 9)], name)
    assert "stage counts of query q is given other rows" in refused(bench, of("a", "b"), of("a"))


def counted(rows):
    return lambda bench: stage("counts", rows(bench).groupBy("k").count())


def tiers(bench: Bench):
    return bench.source().join(bench.spark.read.schema("k string, tier string").json(str(bench.input("tiers"))), "k")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (lambda b: b.source().where("rand() < 0.5"), "depends on chance (rand)"),
        (lambda b: b.source().where(F.udf(lambda k: True, "boolean").asNondeterministic()("k")), "depends on chance"),
        (tiers, "depends on a table"),
        (lambda b: b.source().where("a > (select count(*) from range(3))"), "depends on a table"),
        (lambda b: b.source().where(F.udf(lambda k: k != "z", "boolean")("k")), ""),
        (lambda b: b.source().where("ts < now() and k <> uuid() or true"), ""),
    ],
)
def test_what_is_not_in_a_batch_is_refused_and_what_is_in_it_is_not(bench: Bench, rows, reason: str) -> None:
    words = refused(bench, counted(rows))
    assert reason in words and bool(words) == bool(reason)


def test_a_query_that_does_not_run_for_good(bench: Bench, spark, tmp_path) -> None:
    writer = bench.source().writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(RefusedError, match="only a query that runs for good"):
        following.FollowedQuery(spark, writer, "q", (tmp_path / "c").as_uri(), tmp_path)


@pytest.mark.parametrize(
    ("owner", "used", "words"),
    [
        (following._FILES, (("seenNothing",), ()), "has no field seenNothing"),
        (following._TIMER, ((), (("execute", 7),)), "has no method execute of 7"),
        ("org.apache.spark.NoSuchThing", ((), ()), "there is no class org.apache.spark.NoSuchThing"),
        ("org.apache.spark.util.ManualClock", ((), (("<init>", 4),)), "has no constructor of 4"),
    ],
)
def test_a_spark_that_is_another_inside_is_told(spark, monkeypatch, owner: str, used, words: str) -> None:
    check_followable_here(spark)
    monkeypatch.setitem(following.USED, owner, used)
    with pytest.raises(RefusedError, match=words):
        check_followable_here(spark)
