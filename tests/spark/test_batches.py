"""Queries whose batches are not logged before and committed after are refused, before anything is started."""

from __future__ import annotations

import pytest
from bench import HDFS, Bench

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

STORE = HDFS  # of `bench`


def plan(bench: Bench, trigger: dict | None = None, mode: str = "append", **options: str):
    writer = bench.source().select("k").writeStream.format("noop").outputMode(mode).options(**options)
    return plan_app(bench.spark, Declarations("bench"), {"q": writer.trigger(**trigger) if trigger else writer})


@pytest.mark.parametrize(
    ("trigger", "options", "words"),
    [
        ({"realTime": "5 minutes"}, {}, "real-time mode"),
        ({"continuous": "1 second"}, {}, "continuous processing"),
        (None, {"asyncProgressTrackingEnabled": "true"}, "asynchronous progress tracking"),
        ({"processingTime": "1 second"}, {"ASYNCPROGRESSTRACKINGENABLED": "TRUE"}, "asynchronous progress tracking"),
    ],
)
def test_other_than_micro_batches_are_refused(trigger: dict | None, options: dict, words: str, bench: Bench) -> None:
    with pytest.raises(ApplicationError) as raised:
        plan(bench, trigger, **options)
    assert words in str(raised.value) and "query q" in str(raised.value) and "nothing was started" in str(raised.value)


@pytest.mark.parametrize("trigger", [None, {"processingTime": "1 second"}, {"availableNow": True}, {"once": True}])
def test_micro_batches_are_planned(trigger: dict | None, bench: Bench) -> None:
    assert plan(bench, trigger, asyncProgressTrackingEnabled="false").query("q")


def test_what_spark_would_refuse_at_the_start_is_refused_by_the_plan(bench: Bench) -> None:
    bench.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "true")
    with pytest.raises(ApplicationError, match=r"query q: Spark will refuse to start it: .*omplete"):
        plan(bench, mode="complete")


def test_a_source_and_a_stage_have_different_names(bench: Bench) -> None:
    from airflow_provider_streamupdate.streaming import source, stage

    named = stage("orders", source("orders", bench.source()).dropDuplicates(["k"]))
    with pytest.raises(ApplicationError, match=r"query q: a source and a stage are both named 'orders'.*another name"):
        plan_app(bench.spark, Declarations("bench"), {"q": named.writeStream.format("noop")})
