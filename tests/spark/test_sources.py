"""Sources matched by name: their order changes, one is added, one is removed; by `source()` and by Spark's own name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from bench import HDFS, SCHEMA, Bench, row, totals_of
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import source, stage
from tests.cases import one_is_fast

STORE = HDFS  # of `bench`

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def ours(bench: Bench, name: str):
    return source(name, bench.source(name=name)).select("k", "a")


def sparks(bench: Bench, name: str):
    reader = bench.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").name(name)
    return reader.json(str(bench.input(name))).select("k", "a")


def totals(read: Callable, *names: str) -> Callable:
    def build(bench: Bench):
        first, *others = (read(bench, name) for name in names)
        for other in others:
            first = first.union(other)
        return stage("totals", first.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))

    return build


@pytest.mark.parametrize("read", one_is_fast([ours, sparks]), ids=["source", "name"])
def test_sources_change_their_order_come_and_go(bench: Bench, read: Callable) -> None:
    if read is sparks:
        if bench.spark.version < "4.2":
            pytest.skip("Spark before 4.2 has no DataStreamReader.name")
        bench.spark.conf.set(EVOLUTION, "true")
    rows = []

    def feed(name: str, *more: dict) -> None:
        bench.write(more, name)
        rows.extend(more)

    feed("a", row("x", 1), row("y", 2))
    feed("a", row("x", 3))  # the two sources are at different offsets from here on
    feed("b", row("x", 10))
    first = bench.run(totals(read, "a", "b"))
    assert bench.last("k") == totals_of(rows)

    # c is new and has data already; b and a change places
    feed("c", row("x", 100), row("z", 200))
    feed("b", row("y", 20))
    feed("a", row("y", 4))
    version2 = totals(read, "c", "b", "a")
    report = bench.check(first, version2)
    assert [(i.name, i.verdict) for i in report.items if i.thing == "source"] == [
        ("q/c", "empty"), ("q/b", "carried"), ("q/a", "carried")
    ]  # fmt: skip
    second = bench.run(version2, snapshot=first)
    assert bench.last("k") == totals_of(rows)

    # b is gone: what it gave so far stays in the state, what comes there is not read
    version3 = totals(read, "a", "c")
    assert [p for p in bench.check(second, version3).problems if "--agree q/b" in p]
    feed("c", row("z", 300))
    bench.write([row("x", 999)], "b")
    third = bench.run(version3, snapshot=second, agree=("q/b",))
    assert bench.last("k") == totals_of(rows)
    entry = Checkpoint(bench.registry.checkpoint("d3", "q")).offsets(bench.saved(third).queries["q"].batch)
    assert entry.names == (() if read is ours else ("a", "c")) and len(entry.sources) == 2


def test_a_stage_and_a_source_get_new_names_by_renames(bench: Bench) -> None:
    def build(read: Callable, name: str) -> Callable:
        return lambda bench: stage(name, read(bench).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))

    rows = [row("x", 1)]
    bench.write(rows, "a")
    first = bench.run(build(lambda bench: bench.source(name="a"), "totals"))
    named = build(lambda bench: ours(bench, "a"), "sums")
    assert not bench.check(first, named).compatible
    rows.append(row("x", 2))
    bench.write(rows[-1:], "a")
    bench.run(named, snapshot=first, renames={"source-1": "a", "totals": "sums"})
    assert bench.last("k") == totals_of(rows)


def test_sources_and_a_stage_without_names_get_them_and_nothing_is_asked(bench: Bench) -> None:
    """Old behaviour: the report offered the agreement to lose the sources; with it every file was read again."""

    def version1(bench: Bench):
        first, second = (bench.source(name=name).select("k", "a") for name in "ab")
        return first.union(second).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))

    rows = [row("x", 1), row("y", 2), row("x", 3)]
    bench.write(rows[:1], "a")
    bench.write(rows[1:2], "a")
    bench.write(rows[2:], "b")
    first = bench.run(version1)
    version2 = totals(ours, "b", "a")  # in another order
    assert {i.name: i.verdict for i in bench.check(first, version2).items if i.thing in ("source", "stage")} == {
        "q/a": "carried", "q/b": "carried", "q/totals": "carried"
    }  # fmt: skip
    more = [row("y", 10), row("z", 20)]
    bench.write(more[:1], "a")
    bench.write(more[1:], "b")
    bench.run(version2, snapshot=first)
    assert bench.last("k") == totals_of([*rows, *more])


def test_what_the_report_offers_for_a_source_with_another_name_gives_the_right_totals(bench: Bench) -> None:
    rows = [row("x", 1), row("y", 2)]
    bench.write(rows, "a")
    first = bench.run(totals(ours, "a"))

    def version2(bench: Bench):
        made = F.count("*").alias("n"), F.sum("a").alias("s")
        return stage("totals", source("eu", bench.source(name="a")).groupBy("k").agg(*made))

    rows.append(row("x", 3))
    bench.write(rows[-1:], "a")
    [problem] = [p for p in bench.check(first, version2).problems if p.startswith("source")]
    given = dict(re.findall(r"--rename (\S+)=(\S+)", problem))
    assert given == {"q/a": "eu"} and "rows are counted twice" in problem
    assert bench.check(first, version2, renames=given).compatible
    bench.run(version2, snapshot=first, renames=given)
    assert bench.last("k") == totals_of(rows)


def test_a_name_is_given_once_and_to_one_source(bench: Bench) -> None:
    a, b = bench.source(name="a"), bench.source(name="b")
    for name, rows, words in (
        ("both", a.union(b), "reads 2 streaming sources"),
        ("two", source("one", a), "already has the name 'one'"),
        ("none", bench.spark.range(1), "not a streaming DataFrame"),
    ):
        with pytest.raises(ApplicationError, match=words):
            source(name, rows)
    with pytest.raises(ApplicationError, match="two sources are named 'same'"):
        bench.plan(lambda bench: source("same", a).union(source("same", b)), "append")


def test_secrets_are_left_out_of_plans(bench: Bench) -> None:
    def build(bench: Bench):
        reader = bench.spark.readStream.schema(SCHEMA).option("Password", "hunter2").option("multiLine", "true")
        return reader.json(str(bench.input("a")))

    plan, _ = bench.plan(build, "append")
    [found] = plan.queries[0].sources
    assert found.options["password"] == "(hidden)" and found.options["multiline"] == "true"
