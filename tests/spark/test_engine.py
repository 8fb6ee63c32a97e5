"""Spark's engine does what the lifecycle of a driver relies on, and what the engine without Spark does, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import StreamingApp, stage
from airflow_provider_streamupdate.streaming.engine import warm_up
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.engine.spark_engine import SparkEngine
from tests.engine_contract import APP, CONTRACT, QUERY, Ground


class OnSpark(Ground):
    """A count by key of files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.written = 0
        self.input = folder / "in"
        self.input.mkdir()
        self.streaming_app = StreamingApp(APP, reloadable={"mark"})
        self.streaming_app.query(QUERY, seen_batch="adds")(self.query)

    def query(self, spark: Any, params: Any) -> Any:
        mark = params["mark"]

        def keep(batch: Any, number: int) -> None:
            batch.collect()
            if mark == "bad":
                raise ValueError(f"batch {number} is bad")

        rows = spark.readStream.schema("k string").json(str(self.folder / params["path"]))
        counted = stage("rooms", rows.groupBy("k").agg(F.count("*").alias("n")))
        return counted.writeStream.outputMode("update").foreachBatch(keep)

    def make(self, deployment: str) -> SparkEngine:
        return SparkEngine(self.streaming_app, self.registry, deployment)

    def more(self) -> None:
        part = self.folder / "part"
        part.write_text('{"k": "a"}\n')
        part.rename(self.input / f"{self.written}.json")
        self.written += 1


@pytest.fixture
def ground(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnSpark]:
    monkeypatch.setattr(warm_up, "STARTS", 1)
    monkeypatch.setattr(warm_up, "ROW_BATCHES", 1)
    made = OnSpark(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_what_every_engine_does(ground: OnSpark, promise: Callable[[Ground], None]) -> None:
    promise(ground)


class FailsBetween:
    """A query that runs at the first look and has failed at the next one."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def isActive(self) -> bool:
        self.looks += 1
        return self.looks == 1

    def exception(self) -> Exception | None:
        return RuntimeError("it failed") if self.looks else None


def test_a_query_that_fails_between_two_looks_has_not_ended_by_itself() -> None:
    """Or its driver would be finished, and no supervisor would start it."""
    queries = RunningQueries.__new__(RunningQueries)
    queries._queries = {"q": FailsBetween()}  # type: ignore[dict-item]
    assert queries.ended() is False
    with pytest.raises(RuntimeError, match="it failed"):
        queries.ended()
