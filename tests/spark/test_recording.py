"""The rows of both versions of an update are recorded by batch, and compared once both are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison
from airflow_provider_streamupdate.core.difference.expected import ExpectedDifference
from airflow_provider_streamupdate.core.difference.limits import Asked
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.difference import recording
from airflow_provider_streamupdate.streaming.difference.recording import compare_recorded, recorder


def rows(spark, *values: tuple[str, int]):
    return spark.createDataFrame(list(values), "k string, n int")


def comparison(folder: Path, keys: tuple[str, ...] = ("k",)) -> Comparison:
    made = Comparison(Folder.open(str(folder)))
    made.ask(Asked(keys={"q": keys}))
    made.expect([ExpectedDifference(query="q", where="n < 5")])
    return made


def test_batches_are_compared_once_both_versions_have_them(spark, tmp_path) -> None:
    made = comparison(tmp_path)
    old, new = recorder(made.rows(OLD, "q")), recorder(made.rows(NEW, "q"))
    compare_recorded(spark, made)
    assert made.found().rows == ()
    for batch in (7, 8):
        old(rows(spark, ("a", 10), ("b", 2), ("c", batch)), batch)
    new(rows(spark, ("c", 7), ("a", 10)), 7)
    compare_recorded(spark, made)
    compare_recorded(spark, made)  # what was compared is not counted again
    [found] = made.found().rows
    assert (found.equal, found.expected, found.differ, found.batches) == (2, 1, 0, (7, 7))
    new(rows(spark, ("c", 8), ("a", 11)), 8)
    compare_recorded(spark, made)
    [found] = made.found().rows
    assert (found.equal, found.expected, found.changed, found.batches) == (3, 2, 1, (7, 8))
    assert made.found().batches == {"q": (7, 8)}
    [sample] = found.samples
    assert (sample.old, sample.new) == ({"k": "a", "n": "10"}, {"k": "a", "n": "11"})
    assert made.recorded("q") == [] and not made.rows(OLD, "q").exists("7"), "compared, so no longer needed"
    old(rows(spark, ("a", 12)), 7)  # after a restart of both drivers
    new(rows(spark, ("a", 12)), 7)
    compare_recorded(spark, made)
    assert made.found().rows == (found,)
    made.remove_rows()
    assert made.rows(NEW, "q").names() == [] and made.found().rows == (found,)


@pytest.mark.parametrize("keys", [("k",), pytest.param((), marks=pytest.mark.slow)], ids=["by a key", "whole"])
def test_many_batches_are_compared_in_one_pass_each_with_its_own(
    spark, tmp_path, monkeypatch, keys: tuple[str, ...]
) -> None:
    """Of each key every batch has another number of rows, so that any mix of batches would be seen."""
    monkeypatch.setattr(recording, "BATCHES_AT_ONCE", 4)
    made = comparison(tmp_path, keys)
    made.expect([])
    for version in (OLD, NEW):
        for batch in (8, 9, 10, 11, 100, 101):
            values = [("same", 5), *[("twice", batch)] * (batch % 3 + 1), (f"{version} only", 100 - batch)]
            values += [("other", batch if version == OLD else batch + 1)]  # what is new in 8 is old in 9
            recorder(made.rows(version, "q"))(rows(spark, *values), batch)
    compare_recorded(spark, made)
    assert made.found().batches == {"q": (8, 9, 10, 11)} and made.recorded("q") == [100, 101]
    compare_recorded(spark, made)
    [found] = made.found().rows
    assert made.found().batches == {"q": (8, 9, 10, 11, 100, 101)} and found.batches == (8, 101)
    assert found.equal == 6 + sum(batch % 3 + 1 for batch in (8, 9, 10, 11, 100, 101))
    both = 6 if keys else 0
    assert (found.changed, found.only_old, found.only_new) == (both, 12 - both, 12 - both)
    assert all("streamupdate" not in name for s in found.samples for name in {**(s.old or {}), **(s.new or {})})


def test_a_batch_without_rows_and_one_that_runs_again(spark, tmp_path) -> None:
    made = comparison(tmp_path)
    old, new = recorder(made.rows(OLD, "q")), recorder(made.rows(NEW, "q"))
    old(rows(spark, ("a", 9)), 1)
    old(rows(spark, ("b", 9)), 1)  # after a failure, the same batch
    new(rows(spark, ("b", 9)), 1)
    for record in (old, new):
        record(rows(spark, ("x", 1)).where("false"), 2)
    compare_recorded(spark, made)
    [found] = made.found().rows
    assert (found.equal, found.differ, found.batches) == (1, 0, (1, 2))


def test_columns_of_one_name_and_of_odd_names_are_kept(spark, tmp_path) -> None:
    made = comparison(tmp_path, ("window",))
    made.expect([])
    frame = rows(spark, ("a", 1)).select(
        F.struct(F.lit(1).alias("start"), F.lit(2).alias("end")).alias("window"), F.col("n").alias("count(1) of `x y`")
    )
    for version in (OLD, NEW):
        recorder(made.rows(version, "q"))(frame, 0)
    compare_recorded(spark, made)
    [found] = made.found().rows
    assert (found.equal, found.differ, found.old_columns, found.new_columns) == (1, 0, (), ())


def test_settings_of_the_app_hide_no_difference(spark, tmp_path) -> None:
    """Found from outside: times cut to milliseconds, and batches without the mark that they are whole."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    spark.sparkContext._jsc.hadoopConfiguration().set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    try:
        made = comparison(tmp_path)
        made.expect([])
        for version, micros in ((OLD, 1), (NEW, 2)):
            frame = rows(spark, ("a", 1)).withColumn("at", F.timestamp_micros(F.lit(micros)))
            recorder(made.rows(version, "q"))(frame, 0)
        compare_recorded(spark, made)
        [found] = made.found().rows
        assert (found.changed, found.equal) == (1, 0)
        assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MILLIS"
    finally:
        spark.sparkContext._jsc.hadoopConfiguration().unset("mapreduce.fileoutputcommitter.marksuccessfuljobs")
