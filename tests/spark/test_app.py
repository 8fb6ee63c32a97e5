"""The app author's API: what a query function may return, and what stage() accepts."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from bench import Bench
from pyspark import cloudpickle
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import ApplicationError, InvalidInputError
from airflow_provider_streamupdate.streaming import StreamingApp, stage
from airflow_provider_streamupdate.streaming.code import describe
from airflow_provider_streamupdate.streaming.parameters import Parameters
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app


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
        (lambda b: 1 / 0, r"test_app.py:\d+ raised ZeroDivisionError: division by zero; correct it"),
        (lambda b: None, "returned a NoneType"),
        (lambda b: b.spark.range(3), "returned a DataFrame"),
        (lambda b: counted(b), "returned a DataFrame"),
        (lambda b: writer(counted(b)).option("checkpointLocation", "/tmp/x"), "sets checkpointlocation"),
        (lambda b: writer(counted(b)).queryName("mine"), "sets queryname"),
        (lambda b: writer(counted(b)).option("checkpointLocation", f"{b.folder}/own").start(), "started its query"),
        (lambda b: writer(counted(b)).option("checkpointLocation", f"{b.folder}/own").start() and None, "started its"),
    ],
)
def test_what_a_query_function_must_not_return(bench: Bench, returned, message: str) -> None:
    with pytest.raises(ApplicationError, match=f"query q of app bench.*{message}"):
        build(bench, lambda spark, params: returned(bench))
    assert bench.spark.streams.active == []


def test_a_function_of_several_queries_shares_what_it_builds(bench: Bench) -> None:
    app, calls = StreamingApp("bench"), []

    @app.queries(seen_batch={"per key": "upserts"})
    def both(spark, params):
        calls.append(params["p"])
        totals = stage("totals", counted(bench))
        every = totals.writeStream.outputMode("update").foreachBatch(lambda batch, number: None)
        return {"per key": every, "many": writer(totals.where("count > 1"))}

    app.query("alone")(lambda spark, params: writer(stage("totals", counted(bench))))
    writers = app.build(bench.spark, {"p": "1"})
    assert (list(writers), calls) == (["per key", "many", "alone"], ["1"])
    assert app.written()["many"] == app.written()["per key"] == f"test_app.py:{both.__code__.co_firstlineno}"
    made = plan_app(bench.spark, app.declarations(), writers)
    assert [[s.name for s in query.stages] for query in made.queries] == [["totals"]] * 3
    assert made.queries[0].sink.seen_batch == "upserts"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda b: writer(counted(b)), "function <lambda> of app bench returned DataStreamWriter; return {'query': df"),
        (lambda b: {}, "function <lambda> of app bench returned nothing"),
        (lambda b: {"q": None}, "query q of app bench returned a NoneType"),
        (lambda b: {"one": writer(counted(b))}, "two queries named 'one'"),
        (lambda b: {"two": writer(counted(b))}, "declares seen_batch of q, which none of its functions returned"),
        (lambda b: 1 / 0, r"function <lambda> of app bench: test_app.py:\d+ raised ZeroDivisionError"),
        (
            lambda b: {"q": writer(counted(b)).option("checkpointLocation", f"{b.folder}/own").start()},
            "started its query, which was stopped again; remove .start()",
        ),
    ],
)
def test_what_a_function_of_several_queries_must_not_return(bench: Bench, returned, message: str) -> None:
    app = StreamingApp("bench")
    app.query("one")(lambda spark, params: writer(counted(bench)))
    app.queries(seen_batch={"q": "adds"})(lambda spark, params: returned(bench))
    with pytest.raises(ApplicationError, match=message):
        app.build(bench.spark, {})
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
    made = plan_app(bench.spark, Declarations("bench", migrations=app.migrations), app.build(bench.spark, {}))
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
    return plan_app(bench.spark, Declarations("bench", require_names=require_names), {"q": writer(df, mode)}).query("q")


def test_stage_names_the_nearest_stateful_operator(bench: Bench) -> None:
    once = stage("once", bench.source().dropDuplicates(["k", "a"]))
    totals = stage("totals", once.where("a > 0").groupBy("k").count().where("count > 1"))
    stages = plan(bench, totals).stages
    assert [(s.name, s.kind, s.operator_id, s.named) for s in stages] == [
        ("totals", "aggregate", 0, True),
        ("once", "deduplicate", 1, True),
    ]
    assert (str(stages[0].keys), str(stages[0].aggregates)) == ("(source-1.k,)", "(count(1),)")


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


def test_what_spark_cannot_plan_is_told_of_the_query(bench: Bench) -> None:
    rows = bench.source("k string, user struct<town: string collate UTF8_LCASE>")
    with pytest.raises(ApplicationError, match=r"query q: Spark cannot plan it.*BINARY_INEQUALITY.*correct the query"):
        plan(bench, stage("totals", rows.groupBy("user").count()))


def test_unnamed_operators_get_a_warning_or_are_refused(bench: Bench) -> None:
    made = plan_app(bench.spark, Declarations("bench"), {"q": writer(counted(bench))})
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
    assert [str(w) for w in made.watermarks] == ["source-1.ts delayed by 60000 ms"]


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


def given(bench: Bench, function, **params: str) -> StreamingApp:
    app = StreamingApp("bench")

    @app.query("q")
    def query(spark, params):
        function(params)
        return writer(counted(bench))

    app.build(bench.spark, params)
    return app


@pytest.mark.parametrize(
    "read",
    [
        lambda p: [p[name] for name in ("limit",) if name in p],
        lambda p: p.get("limit"),
        lambda p: p.get("limit", "3"),
        lambda p: "limit" in p,
        lambda p: p.pop("limit", None),
        lambda p: p.setdefault("limit", "3"),
    ],
)
def test_a_parameter_that_nothing_reads_is_told_with_the_one_that_may_be_meant(bench: Bench, read) -> None:
    warned = given(bench, read, limt="3").unread(["limt"])
    assert warned == ["parameter 'limt' was set, but no query function reads it; did you mean 'limit'?"]
    assert given(bench, read, limit="3").unread(["limit"]) == []
    [told] = given(bench, read, zone="3").unread(["zone"])
    assert told == "parameter 'zone' was set, but no query function reads it (they read limit)"


@pytest.mark.parametrize(
    "read",
    [
        dict,
        list,
        lambda p: {**p},
        lambda p: (lambda **named: named)(**p),
        lambda p: [name for name in p],  # noqa: C416
        lambda p: p.items(),
        lambda p: list(p.values()),
        lambda p: p.keys(),
        lambda p: p.copy(),
        lambda p: p | {},
        lambda p: {} | p,
        lambda p: list(reversed(p)),
        json.dumps,
    ],
)
def test_who_goes_through_all_parameters_reads_all(bench: Bench, read) -> None:
    assert given(bench, read, a="1", b="2").unread(["a", "b"]) == []


# What a dict can do that reads no parameter, or is done by what Parameters does itself.
NO_READS = {
    *("__class__", "__class_getitem__", "__delattr__", "__delitem__", "__dir__", "__format__", "__getattribute__"),
    *("__getstate__", "__hash__", "__init_subclass__", "__ior__", "__len__", "__new__", "__reduce_ex__", "__setattr__"),
    *("__setitem__", "__sizeof__", "__str__", "__repr__", "__subclasshook__", "__ne__", "__eq__", "__ge__", "__gt__"),
    *("__le__", "__lt__", "clear", "fromkeys", "update"),
}


def test_all_that_a_dict_can_do_is_known_to_read_or_not() -> None:
    assert set(dir(dict)) - set(vars(Parameters)) - {"__doc__"} <= NO_READS


def test_parameters_are_a_dict(bench: Bench) -> None:
    """Equal to one, and one when they are sent to the workers, and to the digest of code that holds them."""
    seen: list[dict] = []
    given(bench, seen.append, a="1", b="2")
    assert seen[0] == {"a": "1", "b": "2"} and len(seen[0]) == 2
    assert type(cloudpickle.loads(cloudpickle.dumps(seen[0]))) is dict
    values, plain = seen[0], {"a": "1", "b": "2"}
    digests = {describe(cloudpickle.dumps((_reading(held), None))).digest for held in (values, plain)}
    assert len(digests) == 1 and None not in digests


def test_a_missing_parameter_is_named_with_the_place_that_reads_it(bench: Bench) -> None:
    with pytest.raises(ApplicationError) as raised:
        given(bench, lambda p: p["orders"], order="1", out="2")
    told = str(raised.value)
    assert re.search(r"test_app\.py:\d+ reads parameter 'orders', which was not set \(given: order, out\)", told), told
    with contextlib.suppress(KeyError):  # an author may expect it
        given(bench, lambda p: _handled(p))


def _reading(held):
    return lambda: held["a"]


def _handled(params) -> str:
    try:
        return params["orders"]
    except KeyError:
        return "none"


def test_what_spark_says_is_cut_to_what_is_wrong(bench: Bench) -> None:
    with pytest.raises(ApplicationError) as raised:
        given(bench, lambda p: bench.source().select("nowhere"))
    told = str(raised.value)
    assert re.search(r"test_app\.py:\d+ raised AnalysisException: .*`nowhere` cannot be resolved", told), told
    assert "Relation" not in told and "\n" not in told
