"""The function sweep (issue 15): no two expressions with different results have one meaning, and none has two.

A slice runs with the other tests; `make sweep` runs all of it.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from tests.sweep.judge import Verdict, session, verdict
from tests.sweep.sql_tests import queries, sparks_test_jar
from tests.sweep.sweep import judged_changes, report, sweep
from tests.sweep.table import stream

# One function of each cause that was found.
_SLICE = {"in", "like", "cast", "from_json", "struct", "explode", "sum", "hash"}
_PAIRS = 10_000


def _nothing_wrong(found: Verdict) -> None:
    assert not found.wrong, found.wrong[:5]
    assert not found.unequal, found.unequal[:5]


def test_a_slice_of_the_functions(sweep_spark, tmp_path, capsys) -> None:
    done = sweep(sweep_spark, str(tmp_path), seed=1, most=3, most_seeds=4, only=sorted(_SLICE))
    with capsys.disabled():
        print(report(done))
    assert done.covered == _SLICE
    assert done.verdict.different > 100
    _nothing_wrong(done.verdict)


@pytest.mark.sweep
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_function_of_the_registry(sweep_spark, tmp_path, capsys, ansi: str) -> None:
    seed = int(os.environ.get("SEED") or time.time())
    most = int(os.environ.get("N") or 8)
    done = sweep(sweep_spark, str(tmp_path), seed=seed, most=most, ansi=ansi)
    with capsys.disabled():
        print(report(done))
    assert done.verdict.pairs >= _PAIRS
    _nothing_wrong(done.verdict)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_expressions_of_spark_s_own_sql_tests(sweep_spark, tmp_path, capsys) -> None:
    files, of = queries(sparks_test_jar()), random.Random(int(os.environ.get("SEED") or time.time()))
    judged = [j for j in judged_changes(sweep_spark, str(tmp_path), files, of, 10, 12, "true") if not j.left_out]
    found, changed = verdict(judged), [j for j in judged if j.expression.change != "seed"]
    with capsys.disabled():
        print(
            f"\n{len(files)} files of Spark's SQL tests: {len(judged)} expressions, {len(changed)} mutants, "
            f"{found.pairs} pairs ({found.different} with different results), silently wrong {len(found.wrong)}, "
            f"identity failures {len(found.unequal)}, told apart needlessly {found.needless}"
        )
    assert len(changed) >= 3000
    _nothing_wrong(found)


# The same each time they are planned, though their results are not: salted keys, for example. Not the time of a batch:
# a dry run has no such key, and a running query has, so that it is refused when it is submitted (with_clocks).
STEADY = ("floor(rand() * 10)", "uuid()", "rand(5)", "substring(uuid(), 1, 2)")
TWICE = ("sum(CASE WHEN c_bin = X'10' THEN 1 END)", "collect_list(transform(c_ints, x -> x + 1))")


@pytest.mark.sweep
@pytest.mark.parametrize(("by", "aggregate"), [*((e, "count(*)") for e in STEADY), *(("g", e) for e in TWICE)])
def test_an_app_updated_to_itself_is_carried(sweep_spark, tmp_path, by: str, aggregate: str) -> None:
    """In other places, and with pairs that have other results, real updates show it (tests/fuzz/drawn)."""
    own = session(sweep_spark)
    rows = stream(own, str(tmp_path))

    def planned() -> AppPlan:
        counted = stage("s", rows.groupBy(F.expr(by).alias("k")).agg(F.expr(aggregate).alias("n")))
        writer = counted.writeStream.format("noop").outputMode("update")
        return plan_app(own, Declarations("sweep"), {"q": writer})

    assert not compare(planned(), planned(), "the sweep").problems
