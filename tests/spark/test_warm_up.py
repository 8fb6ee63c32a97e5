"""Getting warm: the query runs on a clone of the state, and nothing of the app is touched."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, ROCKSDB, Bench, row, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQueryListener

from airflow_provider_streamupdate.streaming.engine import warm_up as warm_ups
from airflow_provider_streamupdate.streaming.engine.warm_up import (
    BATCHES,
    LEAST_STARTS,
    ROW_BATCHES,
    ROWS,
    STARTS,
    count_rows,
    warm_up,
)


class Heard(StreamingQueryListener):
    """The state rows of each batch, as Spark reports them."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.ends = threading.Semaphore(0)

    def onQueryStarted(self, event) -> None:
        pass

    def onQueryProgress(self, event) -> None:
        self.rows += [operator.numRowsTotal for operator in event.progress.stateOperators]

    def onQueryTerminated(self, event) -> None:
        self.ends.release()


@pytest.fixture
def heard(spark) -> Iterator[Heard]:
    listener = Heard()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


def totals(bench: Bench):
    return stage("totals", bench.source().groupBy("k").agg(F.count("*").alias("n")))


def wider(bench: Bench):
    return stage("totals", bench.source().groupBy("k", "k2").agg(F.count("*").alias("n")))


@pytest.fixture
def as_often_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a start was faster than the ones before is a matter of the machine's mood."""
    monkeypatch.setattr(warm_ups, "FASTER", math.inf)


def files_of(bench: Bench) -> dict[str, bytes | None]:
    return {path: bench.registry.folder.read(path) for path in bench.registry.folder.files()}


@pytest.mark.parametrize(
    "store",
    [
        (ROCKSDB, True),
        pytest.param((HDFS,), marks=pytest.mark.slow),
        pytest.param((ROCKSDB, True, 2), marks=pytest.mark.slow),
    ],
)
def test_a_query_gets_warm_on_a_clone_of_its_state(
    spark, tmp_path, capfd, as_often_as_allowed: None, heard: Heard, store: tuple
) -> None:
    bench = Bench(spark, tmp_path, *store)
    bench.write([row("a", 1), row("b", 2), row("c", 3)])
    snapshot = bench.run(totals)
    assert heard.ends.acquire(timeout=60)
    heard.rows.clear()
    before = files_of(bench)
    emitted = dict(bench.emitted)
    plan, writers = bench.plan(totals, snapshot=snapshot)
    capfd.readouterr()
    list(warm_up(spark, writers, bench.saved(snapshot), plan, tmp_path / "warm"))
    for _ in range(STARTS):
        assert heard.ends.acquire(timeout=60)
    assert heard.rows == [3] * BATCHES * STARTS
    assert "WARNING" not in capfd.readouterr().err
    assert files_of(bench) == before and bench.emitted == emitted


@pytest.mark.slow
def test_large_state_is_not_loaded_again_and_again(
    spark, tmp_path, monkeypatch, as_often_as_allowed: None, heard: Heard
) -> None:
    """The executors' disks are the running app's, too."""
    bench = Bench(spark, tmp_path, ROCKSDB, True)
    bench.write([row("a", 1), row("b", 2), row("c", 3)])
    snapshot = bench.run(totals)
    assert heard.ends.acquire(timeout=60)  # of this run: else it is counted as one of a warm-up's, when it comes late
    plan, writers = bench.plan(totals, snapshot=snapshot)
    saved = bench.saved(snapshot)
    size = sum(file.size for file in saved.queries["q"].files if file.path.startswith("state/"))
    for most, rows in ((STARTS * size, 3), (STARTS * size - 1, 0)):
        monkeypatch.setattr(warm_ups, "MOST_BYTES", most)
        list(warm_up(spark, writers, saved, plan, tmp_path / f"warm-{most}"))
        for _ in range(STARTS):
            assert heard.ends.acquire(timeout=60)
        assert heard.rows[-BATCHES * STARTS :] == [rows] * BATCHES * STARTS


def test_a_migration_that_fails_fails_before_anything_is_stopped(bench: Bench, spark, tmp_path) -> None:
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(totals)

    def broken(state: DataFrame) -> DataFrame:
        raise ValueError("no such country")

    bench.migrations["totals", "k string -> count bigint"] = broken
    plan, writers = bench.plan(wider, snapshot=snapshot)
    with pytest.raises(ValueError, match="no such country"):
        list(warm_up(spark, writers, bench.saved(snapshot), plan, tmp_path / "warm", bench.migrations))


def remembered(bench: Bench):
    """A state function that is asked again and again whether a key's time is over."""

    def remember(key, frames, state) -> Iterator[pd.DataFrame]:
        if not state.hasTimedOut:
            state.update((sum(len(frame) for frame in frames),))
            state.setTimeoutDuration(3_600_000)
        yield pd.DataFrame({"k": [key[0]], "n": list(state.get)})

    kept, timeout = "k string, n long", "ProcessingTimeTimeout"
    grouped = bench.source().groupBy("k")
    return stage("kept", grouped.applyInPandasWithState(remember, kept, "n long", "append", timeout))


class Remember(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[pd.DataFrame]:
        self.count.update((sum(len(frame) for frame in rows),))
        yield pd.DataFrame({"k": [key[0]], "n": list(self.count.get())})

    def close(self) -> None:
        pass


def remembered_by_variables(bench: Bench):
    grouped, schema = bench.source().groupBy("k"), "k string, n long"
    return stage("kept", grouped.transformWithStateInPandas(Remember(), schema, "Append", "ProcessingTime"))


@pytest.mark.parametrize("build", [remembered, pytest.param(remembered_by_variables, marks=pytest.mark.slow)])
def test_a_query_that_always_has_another_batch_gets_warm(
    bench: Bench, spark, tmp_path, capfd, monkeypatch, heard: Heard, build: Callable
) -> None:
    """Spark makes batches without data for it, one after the other, and `availableNow` waits for the last of them."""
    bench.write([row("a", 1), row("b", 2), row("c", 3)])
    snapshot = bench.run(build, "append")
    assert heard.ends.acquire(timeout=60)
    heard.rows.clear()
    plan, writers = bench.plan(build, "append", snapshot)
    monkeypatch.setattr(warm_ups, "STARTS", 1)
    monkeypatch.setattr(warm_ups, "MOST_SECONDS", 600.0)
    capfd.readouterr()
    list(warm_up(spark, writers, bench.saved(snapshot), plan, tmp_path / "warm"))
    assert heard.ends.acquire(timeout=60)
    assert heard.rows == [3] * BATCHES
    assert "WARNING" not in capfd.readouterr().err
    assert spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled") == "true"


def test_a_query_whose_batches_do_not_end_is_only_less_warm(bench: Bench, spark, tmp_path, capfd, monkeypatch) -> None:
    """Whatever keeps a batch: the driver stands by, and says it."""
    bench.write([row("a", 1)])
    snapshot = bench.run(totals)
    plan, writers = bench.plan(totals, snapshot=snapshot)
    monkeypatch.setattr(warm_ups, "MOST_SECONDS", 0.0)
    began = time.monotonic()
    list(warm_up(spark, writers, bench.saved(snapshot), plan, tmp_path / "warm"))
    assert time.monotonic() - began < 30
    assert "WARNING: query q could not be warmed up: it took more than 0 s" in capfd.readouterr().err
    assert spark.streams.active == []


def test_it_ends_once_a_start_is_no_faster_than_the_one_before(
    bench: Bench, spark, tmp_path, monkeypatch, heard: Heard
) -> None:
    bench.write([row("a", 1), row("b", 2), row("c", 3)])
    snapshot = bench.run(totals)
    assert heard.ends.acquire(timeout=60)
    heard.rows.clear()
    plan, writers = bench.plan(totals, snapshot=snapshot)
    monkeypatch.setattr(warm_ups, "FASTER", 0.0)
    list(warm_up(spark, writers, bench.saved(snapshot), plan, tmp_path / "warm"))
    for _ in range(LEAST_STARTS):
        assert heard.ends.acquire(timeout=60)
    assert heard.rows == [3] * BATCHES * LEAST_STARTS


def test_rows_are_counted_beside_the_app_s_session(spark, tmp_path) -> None:
    before = spark.conf.getAll
    count_rows(spark, tmp_path / "rows")
    assert spark.conf.getAll == before
    state = spark.read.format("statestore").load(str(tmp_path / "rows" / "checkpoint"))
    counts = [tuple(counted) for counted in state.selectExpr("key.k", "value.count").collect()]
    assert sorted(counts) == [(k, ROW_BATCHES) for k in range(ROWS)]
