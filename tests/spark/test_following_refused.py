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


def refused(pair) -> list[str]:
    pair.start_old()
    pair.old_reads_all()
    return pair.follow(refused=True)


def once(bench: Bench, least: int):
    return stage("once", bench.source().where(f"a > {least}").dropDuplicates(["k"])).select("k", "a")


def test_a_deduplication_that_lets_more_pass_would_remember_what_nobody_wrote(
    bench: Bench, spark, tmp_path, monkeypatch
) -> None:
    bench.write([row("a", 9)])
    with running_pair(bench, lambda b: once(b, 5), lambda b: once(b, 0), mode="append") as pair:
        assert any("stage once of query q is given other rows" in problem for problem in refused(pair))
    monkeypatch.setattr(followed_pair, "unfollowable", lambda new, old: [])
    bench = Bench(spark, tmp_path / "again")
    bench.folder.mkdir()
    with running_pair(bench, lambda b: once(b, 5), lambda b: once(b, 0), mode="append") as pair:
        updated(pair, [[row("a", 9)]], [[row("x", 1)]], [[row("x", 7)]], states=None)
        found = Counter((r["k"], r["a"]) for r in pair.all())
        assert found == Counter([("a", 9)])  # x is lost: with a restart it would have been written with 7


def test_a_source_that_goes_would_be_missing_from_the_counts(bench: Bench) -> None:
    def both(bench: Bench):
        rows = source("a", bench.source(name="a")).select("k").union(source("b", bench.source(name="b")).select("k"))
        return stage("counts", rows.groupBy("k").count())

    def one(bench: Bench):
        return stage("counts", source("a", bench.source(name="a")).select("k").groupBy("k").count())

    bench.write([row("a", 9)], "a")
    bench.write([row("a", 9)], "b")
    with running_pair(bench, both, one) as pair:
        assert any("stage counts of query q is given other rows" in problem for problem in refused(pair))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (lambda b: b.source().where("rand() < 0.5"), "depends on chance (rand)"),
        (lambda b: b.source().where(F.udf(lambda k: True, "boolean").asNondeterministic()("k")), "depends on chance"),
        (
            lambda b: b.source().join(b.spark.read.schema("k string, tier string").json(str(b.input("tiers"))), "k"),
            "depends on a table",
        ),
        (lambda b: b.source().where("a > (select count(*) from range(3))"), "depends on a table"),
    ],
)
def test_what_is_not_in_a_batch(bench: Bench, rows, reason: str) -> None:
    def build(bench: Bench):
        return stage("counts", rows(bench).groupBy("k").count())

    bench.write([row("a", 9)])
    with running_pair(bench, build) as pair:
        assert any(reason in problem for problem in refused(pair))


@pytest.mark.parametrize(
    "rows",
    [
        lambda b: b.source().where(F.udf(lambda k: k != "z", "boolean")("k")),
        lambda b: b.source().where("ts < now() and k <> uuid() or true"),
    ],
)
def test_what_is_in_it(bench: Bench, rows) -> None:
    def build(bench: Bench):
        return stage("counts", rows(bench).groupBy("k").count())

    bench.write([row("a", 9)])
    with running_pair(bench, build) as pair:
        assert refused(pair) == []


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
