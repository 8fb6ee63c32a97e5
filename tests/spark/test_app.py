"""The app author's API: what a query function may return, and what stage() accepts."""

from __future__ import annotations

import json

import pytest
from bench import Bench
from pyspark.sql import functions as F

from airflow_provider_streamupdate.state.errors import ApplicationError, InvalidInputError
from airflow_provider_streamupdate.streaming import StreamingApp, stage
from airflow_provider_streamupdate.streaming.planner import plan_app


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path)


def build(bench: Bench, function):
    app = StreamingApp("bench")
    app.query("q")(function)
    return app.build(bench.spark, {"p": "1"})


def counted(bench: Bench):
    return bench.source().groupBy("k").count()


def writer(df, mode: str = "update"):
    return df.writeStream.outputMode(mode).format("noop")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda b: 1 / 0, "its function raised ZeroDivisionError"),
        (lambda b: None, "returned a NoneType"),
        (lambda b: b.spark.range(3), "returned a DataFrame"),
        (lambda b: counted(b), "returned a DataFrame"),
        (lambda b: writer(counted(b)).option("checkpointLocation", "/tmp/x"), "sets its own checkpointlocation"),
        (lambda b: writer(counted(b)).queryName("mine"), "sets its own queryname"),
        (lambda b: writer(counted(b)).option("checkpointLocation", f"{b.folder}/own").start(), "started its query"),
        (lambda b: writer(counted(b)).option("checkpointLocation", f"{b.folder}/own").start() and None, "started its"),
    ],
)
def test_what_a_query_function_must_not_return(bench: Bench, returned, message: str) -> None:
    with pytest.raises(ApplicationError, match=f"query q of app bench.*{message}"):
        build(bench, lambda spark, params: returned(bench))
    assert bench.spark.streams.active == []


def test_an_app_without_a_query_and_two_queries_of_one_name() -> None:
    app = StreamingApp("bench")
    with pytest.raises(ApplicationError, match="has no query"):
        app.build(None, {})  # type: ignore[arg-type]
    app.query("q")(lambda spark, params: None)
    with pytest.raises(ApplicationError, match="two queries named 'q'"):
        app.query("q")(lambda spark, params: None)
    for name in ("", "a/b", "..", "x" * 201):
        with pytest.raises(InvalidInputError, match="app name"):
            StreamingApp(name)


def test_a_migration_function_is_planned_with_the_stage_it_is_for(bench: Bench) -> None:
    app = StreamingApp("bench")
    app.query("q")(lambda spark, params: writer(stage("totals", counted(bench))))
    for where, state in (("totals", "a"), ("q/totals", "b"), ("other/totals", "c"), ("elsewhere", "d")):
        app.migrate(where, from_=state)(lambda rows: rows)
    with pytest.raises(ApplicationError, match="migrates stage 'totals' from 'a' twice"):
        app.migrate("totals", from_="a")(lambda rows: rows)
    made = plan_app(bench.spark, "bench", app.build(bench.spark, {}), migrations=app.migrations)
    [totals] = made.queries[0].stages
    assert totals.migrates == ("a", "b")
    [buffer] = totals.buffers
    assert (buffer.function, buffer.columns, buffer.initial) == ("Count", 1, ("0L",))


def test_parameters_reach_the_query_function_as_a_copy(bench: Bench) -> None:
    seen = []

    def query(spark, params):
        seen.append(dict(params))
        params["p"] = "changed"
        return writer(counted(bench))

    app = StreamingApp("bench")
    app.query("one")(query)
    app.query("two")(query)
    app.build(bench.spark, {"p": "1"})
    assert seen == [{"p": "1"}, {"p": "1"}]


def plan(bench: Bench, df, require_names: bool = False, mode: str = "update"):
    return plan_app(bench.spark, "bench", {"q": writer(df, mode)}, require_names).query("q")


def test_stage_names_the_nearest_stateful_operator(bench: Bench) -> None:
    once = stage("once", bench.source().dropDuplicates(["k", "a"]))
    totals = stage("totals", once.where("a > 0").groupBy("k").count().where("count > 1"))
    stages = plan(bench, totals).stages
    assert [(s.name, s.kind, s.operator_id, s.named) for s in stages] == [
        ("totals", "aggregate", 0, True),
        ("once", "deduplicate", 1, True),
    ]
    assert stages[0].definition == {"keys": ["source-1.k"], "aggregates": ["count(1)"]}


def test_stage_without_a_stateful_operator_above_the_last_one(bench: Bench) -> None:
    with pytest.raises(ApplicationError, match="no stateful operator"):
        stage("none", bench.source().where("a > 0"))
    named = stage("totals", counted(bench))
    with pytest.raises(ApplicationError, match="above the previously named stage"):
        stage("again", named.where("count > 1"))
    with pytest.raises(ApplicationError, match="not a streaming DataFrame"):
        stage("batch", bench.spark.range(3).groupBy("id").count())


def test_stage_on_two_branches_at_once_is_ambiguous(bench: Bench) -> None:
    stream = bench.source().withWatermark("ts", "1 minute")
    branch = [stream.groupBy(F.window("ts", f"{n} minutes"), "k").count().select("k", "count") for n in (1, 2)]
    with pytest.raises(ApplicationError, match="2 stateful operators side by side"):
        stage("both", branch[0].union(branch[1]))


def test_one_name_for_two_stages(bench: Bench) -> None:
    stream = bench.source().withWatermark("ts", "1 minute")
    one = stage("w", stream.groupBy(F.window("ts", "1 minutes"), "k").count()).select("k", "count")
    with pytest.raises(ApplicationError, match="two stages are named 'w'"):
        plan(bench, one.union(one), mode="append")


def test_unnamed_operators_get_a_warning_or_are_refused(bench: Bench) -> None:
    made = plan_app(bench.spark, "bench", {"q": writer(counted(bench))})
    assert [s.name for s in made.query("q").stages] == ["aggregate-1"]
    assert "aggregate-1 has no name" in made.warnings[0]
    with pytest.raises(ApplicationError, match="requires names"):
        plan(bench, counted(bench), require_names=True)


def test_a_source_used_twice_is_one_source_of_two_lines(bench: Bench) -> None:
    stream = bench.source().withWatermark("ts", "1 minute")
    parts = [
        stage(f"w{n}", stream.groupBy(F.window("ts", f"{n} minutes"), "k").count()).select("k", "count") for n in (1, 2)
    ]
    made = plan(bench, parts[0].union(parts[1]), mode="append")
    assert [s.name for s in made.sources] == ["source-1"]
    assert made.source_order == ("source-1", "source-1")
    assert made.watermarks == ("source-1.ts delayed by 60000 ms",)


def test_plan_mode_writes_the_plan_and_starts_nothing(bench: Bench, tmp_path) -> None:
    app = StreamingApp("bench")
    app.query("q")(lambda spark, params: writer(counted(bench)))
    out = tmp_path / "plan.json"
    with pytest.raises(SystemExit) as ended:
        app.main(["plan", "--out", str(out), "--set", "p=1"])
    assert ended.value.code == 0
    written = json.loads(out.read_text())
    assert written["error"] is None
    assert written["plan"]["queries"][0]["stages"][0]["name"] == "aggregate-1"
    assert bench.spark.streams.active == []
