"""Getting warm: the query runs on a clone of the state, and nothing of the app is touched."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import HDFS, ROCKSDB, Bench, by, row, stage
from pyspark.sql import DataFrame
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
from tests.cases import one_is_fast

totals, wider = by("k"), by("k; k2")


class Heard(StreamingQueryListener):
    """The state rows of each batch, as Spark reports them."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.ends = threading.Semaphore(0)

    def onQueryStarted(self, event) -> None: ...

    def onQueryProgress(self, event) -> None:
        self.rows += [operator.numRowsTotal for operator in event.progress.stateOperators]

    def onQueryTerminated(self, event) -> None:
        self.ends.release()

    def wait(self, ends: int = 1) -> None:
        for _ in range(ends):
            assert self.ends.acquire(timeout=60)


def saved(bench: Bench, heard: Heard, build: Callable = totals, mode: str = "update") -> tuple:
    """A snapshot with three rows of state, and the plan and writers of a version that goes on from it."""
    bench.write([row("a", 1), row("b", 2), row("c", 3)])
    snapshot = bench.run(build, mode)
    heard.wait()  # of this run: else it is counted as one of a warm-up's, when it comes late
    heard.rows.clear()
    return bench.saved(snapshot), *bench.plan(build, mode, snapshot)


@pytest.fixture
def heard(spark) -> Iterator[Heard]:
    listener = Heard()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


@pytest.fixture
def as_often_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a start was faster than the ones before is a matter of the machine's mood."""
    monkeypatch.setattr(warm_ups, "FASTER", math.inf)


def files_of(bench: Bench) -> dict[str, bytes | None]:
    return {path: bench.registry.folder.read(path) for path in bench.registry.folder.files()}


STORES = one_is_fast(map(pytest.param, [(ROCKSDB, True), (HDFS,), (ROCKSDB, True, 2)]))


@pytest.mark.parametrize("store", STORES)
def test_a_query_gets_warm_on_a_clone_of_its_state(spark, tmp_path, capfd, as_often_as_allowed, heard, store) -> None:
    bench = Bench(spark, tmp_path, *store)
    state, plan, writers = saved(bench, heard)
    before, emitted = files_of(bench), dict(bench.emitted)
    capfd.readouterr()
    list(warm_up(spark, writers, state, plan, tmp_path / "warm"))
    heard.wait(STARTS)
    assert heard.rows == [3] * BATCHES * STARTS
    assert "WARNING" not in capfd.readouterr().err
    assert files_of(bench) == before and bench.emitted == emitted


@pytest.mark.slow
def test_large_state_is_not_loaded_again_and_again(spark, tmp_path, monkeypatch, as_often_as_allowed, heard) -> None:
    """The executors' disks are the running app's, too."""
    bench = Bench(spark, tmp_path, ROCKSDB, True)
    state, plan, writers = saved(bench, heard)
    size = sum(file.size for file in state.queries["q"].files if file.path.startswith("state/"))
    for most, rows in ((STARTS * size, 3), (STARTS * size - 1, 0)):
        monkeypatch.setattr(warm_ups, "MOST_BYTES", most)
        list(warm_up(spark, writers, state, plan, tmp_path / f"warm-{most}"))
        heard.wait(STARTS)
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


SCHEMA = "k string, n long"


def remembered(bench: Bench):
    """A state function that is asked again and again whether a key's time is over."""

    def remember(key, frames, state) -> Iterator[pd.DataFrame]:
        if not state.hasTimedOut:
            state.update((sum(len(frame) for frame in frames),))
            state.setTimeoutDuration(3_600_000)
        yield pd.DataFrame({"k": [key[0]], "n": list(state.get)})

    grouped, timeout = bench.source().groupBy("k"), "ProcessingTimeTimeout"
    return stage("kept", grouped.applyInPandasWithState(remember, SCHEMA, "n long", "append", timeout))


class Remember(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[pd.DataFrame]:
        self.count.update((sum(len(frame) for frame in rows),))
        yield pd.DataFrame({"k": [key[0]], "n": list(self.count.get())})

    def close(self) -> None:
        pass


def remembered_by_variables(bench: Bench):
    made = bench.source().groupBy("k").transformWithStateInPandas(Remember(), SCHEMA, "Append", "ProcessingTime")
    return stage("kept", made)


@pytest.mark.parametrize("build", one_is_fast([remembered, remembered_by_variables]))
def test_a_query_that_always_has_another_batch_gets_warm(
    bench: Bench, spark, tmp_path, capfd, monkeypatch, heard: Heard, build: Callable
) -> None:
    """Spark makes batches without data for it, one after the other, and `availableNow` waits for the last of them."""
    state, plan, writers = saved(bench, heard, build, "append")
    monkeypatch.setattr(warm_ups, "STARTS", 1)
    monkeypatch.setattr(warm_ups, "MOST_SECONDS", 600.0)
    capfd.readouterr()
    list(warm_up(spark, writers, state, plan, tmp_path / "warm"))
    heard.wait()
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


def test_it_ends_once_a_start_is_no_faster(bench: Bench, spark, tmp_path, monkeypatch, heard: Heard) -> None:
    state, plan, writers = saved(bench, heard)
    monkeypatch.setattr(warm_ups, "FASTER", 0.0)
    list(warm_up(spark, writers, state, plan, tmp_path / "warm"))
    heard.wait(LEAST_STARTS)
    assert heard.rows == [3] * BATCHES * LEAST_STARTS


def test_rows_are_counted_beside_the_app_s_session(spark, tmp_path) -> None:
    before = spark.conf.getAll
    count_rows(spark, tmp_path / "rows")
    assert spark.conf.getAll == before
    state = spark.read.format("statestore").load(str(tmp_path / "rows" / "checkpoint"))
    counts = [tuple(counted) for counted in state.selectExpr("key.k", "value.count").collect()]
    assert sorted(counts) == [(k, ROW_BATCHES) for k in range(ROWS)]
