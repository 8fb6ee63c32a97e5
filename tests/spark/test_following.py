"""A version that follows another one's log, muted, and takes over without a start."""

from __future__ import annotations

import time
from functools import partial

import pytest
from bench import Bench, row
from followed_pair import counts, running_pair, updated, wait_for, windows
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.difference.difference import compare
from airflow_provider_streamupdate.core.difference.limits import Limits
from airflow_provider_streamupdate.streaming.engine.batch_reports import BatchReports
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.restore.restorer import mark_taken_over
from airflow_provider_streamupdate.streaming.spark_internals import FollowedQuery, execution_seconds
from airflow_provider_streamupdate.streaming.spark_internals.queries.queries import execution_of
from tests.cases import one_is_fast


def test_the_checkpoint_of_a_source_without_a_log_is_marked(bench: Bench) -> None:
    """A Delta source leaves no folder `sources`."""
    bench.write([row("a", 1)])
    name = bench.run(counts)
    folder = bench.registry.folder
    folder.remove("deployments/d1/checkpoint/q/sources")
    mark_taken_over(bench.saved(name), "q", bench.registry, "d1")
    assert folder.exists("deployments/d1/restored/q.json")


@pytest.mark.parametrize("record", [None, lambda rows, batch: None], ids=["nobody", "a function"])
def test_it_starts_no_query_elsewhere_than_in_its_checkpoint(bench: Bench, spark, tmp_path, record) -> None:
    """A session's file manager may be for a bucket only."""
    if spark.version < "4.1":
        pytest.skip("Spark 4.0 does not tell for which folder it looks for the file manager")
    bench.write([row("a", 1)])
    manager, writer = "spark.sql.streaming.checkpointFileManagerClass", counts(bench).writeStream.format("noop")
    writer = writer.outputMode("update").trigger(processingTime="1 second")
    (scratch := tmp_path / "scratch").mkdir()
    spark.conf.set(manager, "for.buckets.Only")
    try:
        with pytest.raises(Exception, match=r"of\.its\.own/\.scratch/own"):
            FollowedQuery(spark, writer, "counts", (tmp_path / "of.its.own").as_uri(), scratch, (), record)
    finally:
        spark.conf.unset(manager)


def test_what_it_made_beside_its_checkpoint_is_gone(spark, tmp_path) -> None:
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        pair.begin([row("a", 1)])
        pair.in_step([row("a", 2)])
        there = pair.own.folder.names(hidden=True)
        assert "commits" in there and ".scratch" not in there


def slow(bench: Bench):
    """Counts, with a filter above them that takes a second a row."""

    def wait(n):
        time.sleep(1)
        return True

    return counts(bench).where(F.udf(wait, "boolean")("n"))


@pytest.mark.slow  # each of its batches takes a second
def test_a_slower_version_is_told_by_its_figures(spark, tmp_path) -> None:
    """Its own reports say 0 s: its trigger's clock stands still during a batch."""
    with running_pair(Bench(spark, tmp_path), counts, slow) as pair:
        pair.begin([row("a", 1)])
        reports = BatchReports(), BatchReports(seconds=partial(execution_seconds, spark))
        for n in range(8):
            pair.in_step([row("b", n)])
            stages, committed = pair.old_plan.query("q").stages, pair.running.committed_batch()
            reports[0].update(pair.queries._queries["q"], stages, committed)
            wait_for(lambda: told_of(reports[1], pair), "the figures", 10)
        found = compare(reports[0].known, reports[1].warm, "q", Limits(max_slower=1.5))
        assert any("median seconds" in problem for problem in found.problems), found
        assert all(figures.seconds >= 1.0 for figures in reports[1].known)


def told_of(reports: BatchReports, pair) -> bool:
    committed = pair.own.committed_batch()
    reports.update(pair.follower.query, pair.plan.query("q").stages, committed)
    return bool(reports.known) and reports.known[-1].batch == committed


def test_after_the_takeover_the_query_reports_by_a_clock_that_goes(spark, tmp_path) -> None:
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "500")
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        updated(pair, [[row("a", 1)]], [[row("a", 1)], [row("b", 1)]], [[row("c", 1)]])
        query = pair.follower.query

        def idle() -> bool:
            last = query.lastProgress
            return last is not None and "addBatch" not in last["durationMs"] and last["numInputRows"] == 0

        wait_for(idle, "a report without a batch", 20)
        assert query.lastProgress["durationMs"]["triggerExecution"] >= 0


@pytest.mark.parametrize("files", one_is_fast([1, 4]))
def test_a_query_that_finds_no_data_after_the_takeover_says_so(spark, tmp_path, files: int) -> None:
    """Found from outside: the clock that was set is hours ahead, and until then no report said that it is idle, so that
    the hand-over was taken for failed after five minutes."""
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        pair.begin([row("a", 1)])
        pair.in_step(*([row("a", number)] for number in range(files)))
        pair.end_old()
        pair.take_over()
        queries = RunningQueries(spark, {"q": pair.follower._writer}, {"q": pair.own.folder}, pair.plan)
        queries.adopt("q", pair.follower.query)
        wait_for(lambda: queries.progress()["q"].idle, "a report without a batch", 30)
        pair.write([row("b", 1)])
        wait_for(lambda: queries.progress()["q"].first_batch == pair.last_old + 1, "a batch of its own", 30)


def test_watermarks_of_batches_that_were_followed_are_forgotten(spark, tmp_path) -> None:
    """Found from outside: a hot standby kept them for good, two entries for each batch."""
    with running_pair(Bench(spark, tmp_path), windows, mode="append") as pair:
        pair.begin([row("a", 1)])
        pair.in_step(*([row("a", number)] for number in range(8)))
        execution = execution_of(pair.follower.query)
        for name in ("watermarkPropagator", "batchIdToWatermark"):
            field = execution.getClass().getDeclaredField(name)
            field.setAccessible(True)
            execution = field.get(execution)
        assert 0 < execution.size() <= 4
