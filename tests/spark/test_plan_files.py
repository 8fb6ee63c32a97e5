"""A check against a plan that no run has followed yet, as a pull request has it (`check --plan`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import HDFS, ROCKSDB, Bench, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


def averages(bench: Bench):
    """An average has two columns in a state row, and a window key of two: format 1 keeps its keys in the value, too."""
    rows = bench.source().withWatermark("ts", "10 minutes")
    return stage(
        "s", rows.groupBy(F.window("ts", "1 hour"), "k").agg(F.avg("a").alias("mean"), F.count("*").alias("n"))
    )


@pytest.mark.parametrize("provider", [ROCKSDB, HDFS])
def test_the_same_version_is_compatible_with_its_own_plan(spark, tmp_path: Path, provider: str) -> None:
    bench = Bench(spark, tmp_path, provider)
    first, _ = bench.plan(averages)
    file = tmp_path / "plan.json"
    file.write_bytes(to_json(first))
    kept = PlanFile.read(str(file))
    assert set(kept.recorded) == {"q"}
    again = plan_app(spark, Declarations("bench"), bench.app(averages).build(spark, {}), recorded=kept.recorded)
    assert again.queries[0].stages[0].schemas == first.queries[0].stages[0].schemas
    report = compare(kept.plan, again, kept.source)
    assert report.compatible, report.problems
