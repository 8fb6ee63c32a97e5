"""What a new version's author expects to differ: stated on the app, and of no influence on anything else."""

from __future__ import annotations

import pytest
from bench import Bench
from pyspark import cloudpickle

from airflow_provider_streamupdate.core.difference.request import ExpectedDifference
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming import StreamingApp, stage
from airflow_provider_streamupdate.streaming.code import describe
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


def test_expected_differences_are_kept_in_their_order() -> None:
    app = StreamingApp("a")
    assert app.expected_differences == ()
    app.expect_difference("counts", where="carrier = 'XX'")
    app.expect_difference(query="sums", where="true")
    assert app.expected_differences == (
        ExpectedDifference(query="counts", where="carrier = 'XX'"),
        ExpectedDifference(query="sums", where="true"),
    )


@pytest.mark.parametrize(
    ("query", "where", "message"),
    [
        ("a/b", "true", "query name 'a/b' is not allowed"),
        (None, "true", "query name is empty"),
        ("counts", "  ", "is no condition; write one in SQL"),
        ("counts", True, "where=True is no condition"),
    ],
)
def test_what_cannot_be_expected_is_refused_and_leaves_nothing(query: str, where: str, message: str) -> None:
    app = StreamingApp("a")
    with pytest.raises(InvalidInputError, match=message):
        app.expect_difference(query, where)
    assert app.expected_differences == ()


def test_the_plan_and_its_digests_are_the_same(spark, tmp_path) -> None:
    bench = Bench(spark, tmp_path)
    plans = []
    for expects in (False, True):
        app = StreamingApp("bench")

        @app.query("q")
        def query(spark, params, app=app):
            named = bench.source().where(f"'{app.name}' = 'bench'")
            return stage("totals", named.groupBy("k").count()).writeStream.outputMode("update").format("noop")

        if expects:
            app.expect_difference("q", where="k = 'a'")
        plans.append(to_json(plan_app(spark, Declarations("bench", migrations=app.migrations), app.build(spark, {}))))
    assert plans[0] == plans[1] and b"totals" in plans[0]


def test_the_digest_of_a_function_that_uses_the_app_is_the_same() -> None:
    def digest(name: str, expects: bool):
        app = StreamingApp(name)
        if expects:
            app.expect_difference("q", where="k = 'a'")
        return describe(cloudpickle.dumps(lambda k: k + app.name))

    assert digest("a", True) == digest("a", False) != digest("b", False)
    assert digest("a", True).digest is not None
    taken = cloudpickle.loads(cloudpickle.dumps(StreamingApp("a")))
    assert taken.name == "a" and taken.expected_differences == ()
