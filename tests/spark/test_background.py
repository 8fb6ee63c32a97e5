"""Spark plans a query's first batch beside the reading of the query: whose error comes, and under which settings."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import spark_internals
from airflow_provider_streamupdate.streaming.planning import planner
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.first_batch import planned_beside
from airflow_provider_streamupdate.streaming.spark_internals.queries import dry_runs


def counted(spark, folder: Path):
    return spark.readStream.schema("k string, a int").json(str(folder)).groupBy("k").count()


def plan(spark, folder: Path):
    writer = counted(spark, folder).writeStream.outputMode("update").format("noop")
    return planner.plan_app(spark, Declarations("app"), {"q": writer})


def test_the_work_has_ended_when_the_block_has(spark) -> None:
    ended, go = threading.Event(), threading.Event()

    def work() -> str:
        go.wait()
        ended.set()
        return "done"

    with spark_internals.in_background(spark, work) as done:
        assert not done.done()
        go.set()
    assert ended.is_set()
    assert done.result() == "done"


def test_an_error_of_the_block_comes_first(spark) -> None:
    def fails() -> None:
        raise ValueError("of the work")

    with pytest.raises(KeyError, match="of the block"), spark_internals.in_background(spark, fails):
        raise KeyError("of the block")
    with spark_internals.in_background(spark, fails) as done:
        pass
    with pytest.raises(ValueError, match="of the work"):
        done.result()


def test_the_work_has_the_session_of_the_query(spark) -> None:
    """A new thread of the JVM has the session of the thread that made it, or none: then Spark's defaults."""
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    def zone() -> str:
        conf = spark_internals.jvm.module(other, "org.apache.spark.sql.internal.SQLConf").get()
        return str(conf.sessionLocalTimeZone())

    with spark_internals.in_background(other, zone) as done:
        assert done.result() == "Asia/Tokyo"


def test_what_spark_refuses_is_said_and_not_that_the_plan_cannot_be_read(spark, tmp_path, monkeypatch) -> None:
    real = dry_runs._dry_run

    def refuses(*arguments, **named):
        real(*arguments, **named)
        raise RuntimeError("Spark does not like it")

    monkeypatch.setattr(dry_runs, "_dry_run", refuses)
    monkeypatch.setattr(dry_runs, "plan_json", lambda *_: {}["unread"])
    with pytest.raises(ApplicationError, match=r"Spark cannot plan it, and would refuse to start it.*does not like"):
        plan(spark, tmp_path)


def test_a_plan_that_cannot_be_read_is_said_to_be(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(dry_runs, "plan_json", lambda *_: {}["unread"])
    with pytest.raises(ApplicationError, match=r"its plan is not understood.*unread"):
        plan(spark, tmp_path)


def test_planning_that_fails_before_it_begins_keeps_nobody_waiting(spark, tmp_path, monkeypatch) -> None:
    def fails(*_arguments, **_named):
        raise RuntimeError("no session")

    monkeypatch.setattr(dry_runs, "_dry_run", fails)
    with planned_beside(counted(spark, tmp_path), "update", tmp_path / "scratch", {}) as first:
        with pytest.raises(RuntimeError, match="no session"):
            first.optimized().result()
        with pytest.raises(RuntimeError, match="no session"):
            first.whole()


def test_the_optimized_plan_is_read_before_the_rest_is_planned(spark, tmp_path, monkeypatch) -> None:
    read, real = threading.Event(), dry_runs._dry_run

    def waits(*arguments):
        done = real(*arguments)
        assert read.wait(60), "nobody has read the optimized plan"
        return done

    monkeypatch.setattr(dry_runs, "_dry_run", waits)
    with planned_beside(counted(spark, tmp_path), "update", tmp_path / "scratch", {}) as first:
        assert any(node["class"].endswith(".Aggregate") for node in first.optimized().result())
        read.set()
        assert first.whole().buffers
