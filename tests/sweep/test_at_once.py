"""Fields that the JVM is asked for at once (plans/expressions.py) are what each expression says of itself.

The expressions are of Spark's own functions."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_streamupdate.streaming.spark_internals.plans.expressions import Expressions
from airflow_provider_streamupdate.streaming.spark_internals.plans.plans import plan_json
from tests.cases import one_is_fast
from tests.sweep.corpus import own_seeds, registry, seeds
from tests.sweep.table import stream


def _frames(spark: SparkSession, rows: DataFrame, every: int, pack: int) -> list[DataFrame]:
    """Columns of the corpus, many in one plan; what is no column by itself is left out."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # what is no column by itself fails
    fine = []
    for text in [*own_seeds()["in"], *(e.sql for e in seeds(spark, registry(spark)))][::every]:
        with contextlib.suppress(Exception):  # an aggregate's own place, a generator, a table's function
            plan = rows.selectExpr(f"({text}) AS x")._jdf.queryExecution().analyzed()
            if plan.nodeName() == "Project" and plan.child().nodeName() == "StreamingRelation":
                fine.append(f"({text}) AS x{len(fine)}")
    return [rows.selectExpr(*fine[i : i + pack]) for i in range(0, len(fine), pack)]


# of about 1,500 expressions
@pytest.mark.parametrize(("every", "pack"), one_is_fast([(36, 12), (12, 60)]))
def test_what_is_asked_at_once_is_what_each_says(sweep_spark, tmp_path, monkeypatch, every: int, pack: int) -> None:
    rows = stream(sweep_spark, str(tmp_path))
    frames = _frames(sweep_spark, rows, every, pack)
    plans = [f._jdf.queryExecution().analyzed() for f in frames]
    at_once = [plan_json(sweep_spark, plan) for plan in plans]
    asked: Counter[str] = Counter()

    def alone(self: Expressions, name: str, method: str) -> dict[int, str]:
        asked[method] += 1
        return {}

    monkeypatch.setattr(Expressions, "results_of", alone)
    assert [plan_json(sweep_spark, plan) for plan in plans] == at_once
    assert len(plans) >= 3 and {"evalMode", "evalContext", "needsTimeZone"} <= asked.keys(), asked
