"""A dry run that goes on from another one is refused by Spark where a whole one is, and for the same reason; one
that is made beside the reading of a query has the query's session, and its errors come in order. And which Spark a
driver runs on."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from bench import Bench, by, planned, row
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import ApplicationError, EnvironmentProblem
from airflow_provider_streamupdate.streaming import spark_internals
from airflow_provider_streamupdate.streaming.planning.first_batch import dry_run, planned_beside
from airflow_provider_streamupdate.streaming.spark_internals import check_version, disable_nagle, jvm
from airflow_provider_streamupdate.streaming.spark_internals.queries import dry_runs
from airflow_provider_streamupdate.streaming.spark_internals.version import ADAPTERS


def rows(spark, folder: Path, name: str = "in"):
    (folder / name).mkdir(exist_ok=True)
    schema = "k string, k2 string, a int, b bigint, ts timestamp"
    return spark.readStream.schema(schema).json(str(folder / name)).withWatermark("ts", "1 minute")


def counted(key: str, made: str = "sum(a)"):
    return lambda spark, folder: rows(spark, folder).groupBy(key).agg(F.expr(made))


def once(*keys: str):
    return lambda spark, folder: rows(spark, folder).dropDuplicates(list(keys))


def joined(key: str):
    def build(spark, folder):
        left, right = rows(spark, folder).alias("l"), rows(spark, folder, "other").alias("r")
        return left.join(right, F.expr(f"l.{key} = r.{key} and l.ts = r.ts"))

    return build


def twice(spark, folder):
    return rows(spark, folder).dropDuplicates(["k", "ts"]).groupBy(F.window("ts", "1 hour")).count()


# What was saved, and what is planned on it; whether Spark takes it.
CASES = {
    "the same": (counted("k"), counted("k"), True),
    "another aggregate": (counted("k"), counted("k", "max(k2)"), False),
    "another key": (counted("k"), counted("b"), False),
    "one more key": (once("k"), once("k", "a"), False),
    "another kind": (once("k"), counted("k"), False),
    "one stage more": (once("k", "ts"), twice, False),
    "two stages": (twice, twice, True),
    "a join": (joined("k"), joined("k"), True),
    "a join by another column": (joined("k"), joined("b"), False),
}


@pytest.mark.parametrize("name", CASES)
def test_spark_checks_what_was_planned_before(spark, tmp_path, name) -> None:
    saved, new, taken = CASES[name]
    write(saved(spark, tmp_path), tmp_path / "saved")
    df = new(spark, tmp_path)
    first = write(df, tmp_path / "first")
    whole, reused = (told(df, tmp_path, before) for before in (None, first))
    assert whole == reused
    assert (whole == "") == taken, whole


def write(df, folder: Path):
    folder.mkdir()
    return dry_run(df, "update", f"file://{folder}", folder, {}, scratch=True, stages=2)


def told(df, folder: Path, before) -> str:
    """What Spark says of the second batch on what was saved, but for where that is."""
    checkpoint = folder / ("reused" if before else "whole")
    shutil.copytree(folder / "saved", checkpoint)
    for batch in ("0", "1"):
        (checkpoint / "offsets" / batch).touch()
    try:
        options = spark_internals.DryRunOptions(scratch=True, planned=before)
        spark_internals.dry_run(df, "update", f"file://{checkpoint}", 1, {}, options)
    except Exception as error:
        return str(error).split("JVM stacktrace")[0].replace(str(checkpoint), "there").strip()
    return ""


def test_the_session_of_the_thread_is_the_one_it_was(spark, tmp_path) -> None:
    df = counted("k")(spark, tmp_path)
    first = write(df, tmp_path / "saved")
    sessions = jvm.module(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession().get()
    assert told(df, tmp_path, first) == ""
    assert sessions.getActiveSession().get().equals(before)


def test_what_is_thrown_away_has_neither_checksums_nor_state(bench: Bench, spark, tmp_path) -> None:
    write(counted("k")(spark, tmp_path), tmp_path / "saved")
    assert not [p.name for p in (tmp_path / "saved").rglob(".*")]
    bench.write([row("a", 1), row("b", 2)])
    assert bench.spark_check(bench.run(by("k")), by("k")).compatible
    made = {p.name for p in (tmp_path / "scratch").rglob("*") if p.is_file()}
    assert any("schema" in name for name in made)
    assert not {name for name in made if name.endswith((".zip", ".sst", ".changelog", ".crc"))}


def plan(spark, folder: Path):
    writer = counted("k")(spark, folder).writeStream.outputMode("update").format("noop")
    return planned(spark, q=writer)


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
    with planned_beside(counted("k")(spark, tmp_path), "update", tmp_path / "scratch", {}) as first:
        for waits in (lambda: first.optimized().result(), first.whole):
            with pytest.raises(RuntimeError, match="no session"):
                waits()


def test_the_optimized_plan_is_read_before_the_rest_is_planned(spark, tmp_path, monkeypatch) -> None:
    read, real = threading.Event(), dry_runs._dry_run

    def waits(*arguments):
        done = real(*arguments)
        assert read.wait(60), "nobody has read the optimized plan"
        return done

    monkeypatch.setattr(dry_runs, "_dry_run", waits)
    with planned_beside(counted("k")(spark, tmp_path), "update", tmp_path / "scratch", {}) as first:
        assert any(node["class"].endswith(".Aggregate") for node in first.optimized().result())
        read.set()
        assert first.whole().buffers


@pytest.mark.parametrize("version", ["3.5.6", "4.4.0", "5.0.0"])
def test_a_version_that_is_not_known_is_refused(monkeypatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(
        EnvironmentProblem, match=rf"Spark {version} is not supported \(supported: 4\.0, 4\.1, 4\.2, 4\.3\)"
    ):
        check_version(SimpleNamespace(version=version))


def test_two_mixed_versions_are_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    with pytest.raises(EnvironmentProblem, match=r"pyspark 4\.2\.1 is driving Spark 4\.3\.0"):
        check_version(SimpleNamespace(version="4.3.0"))


def test_a_patch_of_a_known_version_is_fine(monkeypatch) -> None:
    for minor in ADAPTERS:
        monkeypatch.setattr(pyspark, "__version__", f"{minor}.7")
        assert check_version(SimpleNamespace(version=f"{minor}.7")) == f"{minor}.7"


def test_a_python_worker_that_is_late_says_nothing_about_the_query(monkeypatch) -> None:
    """Not to be had at will: Spark's error is put in place of it."""
    tries = []

    def late(times: int):
        def work(*_: object) -> str:
            tries.append(1)
            if len(tries) <= times:
                raise RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")
            return "planned"

        tries.clear()
        monkeypatch.setattr(dry_runs, "_dry_run", work)
        return dry_runs.dry_run(None, "append", "file:///nowhere", 0)

    assert (late(2), len(tries)) == ("planned", 3)
    with pytest.raises(EnvironmentProblem, match="the machine is too busy"):
        late(3)


def test_a_long_answer_comes_as_soon_as_it_is_made(spark):
    ensure_callback_server_started(spark.sparkContext._gateway)  # as for foreachBatch
    long = spark._jvm.java.lang.StringBuilder("x" * 20_000)
    found = []

    def work() -> None:  # a thread has a connection of its own
        disable_nagle(spark)
        found.append(min(_seconds(long.toString) for _ in range(5)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] < 0.02  # held back, each took 0.04


def _seconds(work):
    before = time.perf_counter()
    work()
    return time.perf_counter() - before
