"""A rehearsal runs the new version on real input from a clone of a snapshot, and leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import Bench, by, counts, deploy, distinct, row, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.serde import from_dict
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.rehearsal import BATCHES, ERROR, INPUT, Rehearsal
from airflow_provider_streamupdate.streaming.agent import driver
from airflow_provider_streamupdate.streaming.agent.arguments import parser_of
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries


def counts_of_new(bench: Bench):
    """The next version: fewer rows come out, and a new stage keeps state of its own."""
    seen = distinct("k", "a", name="seen")(bench)
    return stage("counts", seen.groupBy("k").agg(F.count("*").alias("n"))).where("n > 1")


def play(bench: Bench, build, batches: int = 10, snapshot: str = ""):
    """Rehearse a version as its driver does: the report, and what was seen."""
    options = ["plan", f"--out={bench.folder}/out.json", f"--root={bench.folder}/root"]
    options += [f"--against=snapshot:{snapshot}", f"--rehearse={batches}", "--scratch=mine"]
    driver.plan(bench.app(build), parser_of("bench").parse_args(options))
    answer = json.loads((bench.folder / "out.json").read_text())
    assert answer["error"] is None, answer["error"]
    report = from_dict(answer["report"], CompatibilityReport)
    return report, from_dict(answer["rehearsal"], Rehearsal) if answer["rehearsal"] else None


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    """Its app ran over two files and left snapshot s1; three more files came since."""
    made = Bench(spark, tmp_path)
    for n in range(2):
        made.write([row("a", n), row("b", n), row(f"only{n}", n)])
    assert made.run(counts) == "s1"
    for n in range(2, 5):
        made.write([row("a", n), row("a", n), row(f"only{n}", n)])
    return made


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_it_computes_what_the_version_then_computes_and_leaves_no_trace(bench: Bench) -> None:
    emitted, before = dict(bench.emitted), tree(bench.folder / "root")
    report, found = play(bench, counts_of_new)
    assert report.compatible and found is not None
    assert bench.emitted == emitted, "the foreachBatch function was called"
    assert tree(bench.folder / "root") == before
    assert (found.snapshot, found.deployment) == ("s1", "d1")
    assert found.state_rows == {"q": {"counts": 4}}  # a, b, only0, only1
    [query] = found.queries
    assert query.ended == INPUT and query.error is None
    assert [(b.batch, b.rows_in) for b in query.batches] == [(2, 3), (3, 3), (4, 3)]
    # a and b were counted twice before; every further a is counted again, once a file, and nothing else passes n > 1
    assert [b.rows_out for b in query.batches] == [1, 1, 1]
    assert [b.state_rows for b in query.batches] == [{"counts": 4 + n, "seen": 2 * n} for n in (1, 2, 3)]
    assert all(b.seconds > 0 for b in query.batches)

    # The oracle: the same version, deployed from the same snapshot over the same files.
    bench.run(counts_of_new, snapshot="s1")
    assert [len(bench.emitted[b.batch]) for b in query.batches] == [b.rows_out for b in query.batches]


def test_it_ends_after_as_many_batches_as_were_asked_for(bench: Bench) -> None:
    _, found = play(bench, counts, batches=2, snapshot="s1")
    [query] = found.queries
    assert query.ended == BATCHES and [b.batch for b in query.batches] == [2, 3]
    assert bench.spark.streams.active == []


def test_a_version_that_dies_says_why_and_what_it_did_before(bench: Bench) -> None:
    def fails(bench: Bench):
        late = F.when(F.col("a") == 3, F.raise_error(F.lit("a row it cannot read"))).otherwise(F.col("k"))
        read = bench.source().withColumn("x", late.cast("string")).where("x != ''")
        return stage("counts", read.groupBy("k").agg(F.count("*").alias("n")))

    before = tree(bench.folder / "root")
    report, found = play(bench, fails)
    assert report.compatible, report.problems
    [query] = found.queries
    assert query.ended == ERROR and "a row it cannot read" in query.error
    assert [b.batch for b in query.batches] == [2]
    assert tree(bench.folder / "root") == before


def test_what_does_not_fit_or_would_touch_its_source_is_not_run(bench: Bench) -> None:
    """Why: tests/core/test_rehearsal.py."""
    inputs = sorted(p.name for p in bench.input().iterdir())
    for version in (by("k2", name="counts"), by("k", name="counts", cleanSource="delete")):
        report, found = play(bench, version)
        assert not report.compatible and found is None
    assert "(cleanSource)" in report.problems[-1]
    assert sorted(p.name for p in bench.input().iterdir()) == inputs


def test_no_input_since_the_snapshot_is_no_failure(bench: Bench) -> None:
    bench.run(counts, snapshot="s1")
    _, found = play(bench, counts)
    [query] = found.queries
    assert (query.ended, query.batches) == (INPUT, ())


@pytest.mark.slow
@pytest.mark.parametrize("format", ["rate", "rate-micro-batch"])
def test_sources_without_an_end_give_what_they_have_at_the_start(spark, tmp_path, format: str) -> None:
    bench = Bench(spark, tmp_path)

    def numbers(bench: Bench):
        options = {"rate": {"rowsPerSecond": "5"}, "rate-micro-batch": {"rowsPerBatch": "7", "startTimestamp": "0"}}
        rows = spark.readStream.format(format).options(**options[format]).load()
        return stage("counts", rows.groupBy((F.col("value") % 3).alias("k")).count())

    plan, writers = bench.plan(numbers)
    deploy(bench.registry, "d")
    queries = RunningQueries(spark, writers, {"q": bench.registry.checkpoint("d", "q")}, plan)
    queries.start()
    while queries.progress()["q"].batch < 1:
        assert queries._queries["q"].isActive
    queries.drain()
    last = queries.progress()["q"].batch
    export(bench.registry, "d", "s", plan, True, queries.progress())
    _, found = play(bench, numbers)
    [query] = found.queries
    assert query.ended == INPUT and query.error is None
    assert [b.batch for b in query.batches] in ([last + 1], []) if format == "rate" else [last + 1]
