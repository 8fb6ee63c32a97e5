"""A dry run that goes on from another one is refused by Spark where a whole one is, and for the same reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench import Bench, row
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import spark_internals
from airflow_provider_streamupdate.streaming.planning.first_batch import dry_run
from airflow_provider_streamupdate.streaming.spark_internals import jvm


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
    planned = write(df, tmp_path / "first")
    whole, reused = (told(df, tmp_path, before) for before in (None, planned))
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
    planned = write(df, tmp_path / "saved")
    sessions = jvm.module(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession().get()
    assert told(df, tmp_path, planned) == ""
    assert sessions.getActiveSession().get().equals(before)


def test_what_is_thrown_away_has_neither_checksums_nor_state(bench: Bench, spark, tmp_path) -> None:
    write(counted("k")(spark, tmp_path), tmp_path / "saved")
    assert not [p.name for p in (tmp_path / "saved").rglob(".*")]
    bench.write([row("a", 1), row("b", 2)])
    assert bench.spark_check(bench.run(totals), totals).compatible
    made = {p.name for p in (tmp_path / "scratch").rglob("*") if p.is_file()}
    assert any("schema" in name for name in made)
    assert not {name for name in made if name.endswith((".zip", ".sst", ".changelog", ".crc"))}


def totals(bench: Bench):
    return bench.source().groupBy("k").agg(F.sum("a").alias("s"))
