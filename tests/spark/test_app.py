"""The app author's API: what a query function may return, what stage() accepts, how queries may run, and what is said
of errors in the author's code: its file and line come first."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from bench import Bench, by, planned, row
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.core.difference.request import ExpectedDifference
from airflow_provider_streamupdate.core.errors import ApplicationError, CorruptError, InvalidInputError
from airflow_provider_streamupdate.core.errors import describe as describe_error
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
from airflow_provider_streamupdate.streaming.code import describe
from airflow_provider_streamupdate.streaming.parameters import Parameters
from airflow_provider_streamupdate.streaming.planning.author import Declarations, describe_failure
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
    return plan_app(bench.spark, Declarations("bench", require_names=require_names), {"q": writer(df, mode)})


def test_stage_names_the_nearest_stateful_operator(bench: Bench) -> None:
    once = stage("once", bench.source().dropDuplicates(["k", "a"]))
    totals = stage("totals", once.where("a > 0").groupBy("k").count().where("count > 1"))
    stages = plan(bench, totals).query("q").stages
    assert [(s.name, s.kind, s.operator_id, s.named) for s in stages] == [
        ("totals", "aggregate", 0, True),
        ("once", "deduplicate", 1, True),
    ]
    assert (str(stages[0].keys), str(stages[0].aggregates)) == ("(source-1.k,)", "(count(1),)")


def windows(bench: Bench, *minutes: int):
    stream = bench.source().withWatermark("ts", "1 minute")
    return [stream.groupBy(F.window("ts", f"{n} minutes"), "k").count() for n in minutes]


def union_of(rows: list):
    return rows[0].select("k", "count").union(rows[1].select("k", "count"))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (lambda b: stage("none", b.source().where("a > 0")), "no stateful operator"),
        (lambda b: stage("again", stage("n", counted(b)).where("count > 1")), "above the previously named stage"),
        (lambda b: stage("batch", b.spark.range(3).groupBy("id").count()), "not a streaming DataFrame"),
        (lambda b: stage("both", union_of(windows(b, 1, 2))), "2 stateful operators side by side"),
        (lambda b: plan(b, union_of([stage("w", windows(b, 1)[0])] * 2), mode="append"), "two stages are named 'w'"),
    ],
)
def test_what_cannot_be_named_as_a_stage(bench: Bench, named, message: str) -> None:
    with pytest.raises(ApplicationError, match=message):
        named(bench)


def test_what_spark_cannot_plan_is_told_of_the_query(bench: Bench) -> None:
    rows = bench.source("k string, user struct<town: string collate UTF8_LCASE>")
    with pytest.raises(ApplicationError, match=r"query q: Spark cannot plan it.*BINARY_INEQUALITY.*correct the query"):
        plan(bench, stage("totals", rows.groupBy("user").count()))


def test_unnamed_operators_get_a_warning_or_are_refused(bench: Bench) -> None:
    made = plan(bench, counted(bench))
    assert [s.name for s in made.query("q").stages] == ["aggregate-1"]
    assert "aggregate-1 has no name" in made.warnings[0]
    with pytest.raises(ApplicationError, match="requires names"):
        plan(bench, counted(bench), require_names=True)


def test_a_source_used_twice_is_one_source_of_two_lines(bench: Bench) -> None:
    parts = [stage(f"w{n}", rows) for n, rows in enumerate(windows(bench, 1, 2))]
    made = plan(bench, union_of(parts), mode="append").query("q")
    assert [s.name for s in made.sources] == ["source-1"]
    assert made.source_order == ("source-1", "source-1")
    assert [str(w) for w in made.watermarks] == ["source-1.ts delayed by 60000 ms"]


def test_plan_mode_writes_the_plan_and_starts_nothing(bench: Bench, tmp_path) -> None:
    app = StreamingApp("bench")
    app.query("q")(lambda spark, params: writer(counted(bench)))
    out = tmp_path / "plan.json"
    with pytest.raises(SystemExit, match=r"^0$"):
        app.main(["plan", "--out", str(out), "--set", "p=1"])
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
        lambda p: p.items(),
        lambda p: list(p.values()),
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
        given(bench, _handled)


def _reading(held):
    return lambda: held["a"]


def _handled(params) -> None:
    with contextlib.suppress(KeyError):
        params["orders"]


def test_what_spark_says_is_cut_to_what_is_wrong(bench: Bench) -> None:
    with pytest.raises(ApplicationError) as raised:
        given(bench, lambda p: bench.source().select("nowhere"))
    told = str(raised.value)
    assert re.search(r"test_app\.py:\d+ raised AnalysisException: .*`nowhere` cannot be resolved", told), told
    assert "Relation" not in told and "\n" not in told


# Queries whose batches are not logged before and committed after are refused, before anything is started.


def triggered(bench: Bench, trigger: dict | None, mode: str = "append", **options: str):
    df_writer = bench.source().select("k").writeStream.format("noop").outputMode(mode).options(**options)
    return planned(bench.spark, q=df_writer.trigger(**trigger) if trigger else df_writer).query("q")


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
    if "realTime" in (trigger or ()) and bench.spark.version < "4.2":
        pytest.skip("Spark before 4.2 has no real-time mode in Python")
    with pytest.raises(ApplicationError, match=f"query q.*{words}.*nothing was started"):
        triggered(bench, trigger, **options)


@pytest.mark.parametrize("trigger", [None, {"processingTime": "1 second"}, {"availableNow": True}, {"once": True}])
def test_micro_batches_are_planned(trigger: dict | None, bench: Bench) -> None:
    assert triggered(bench, trigger, asyncProgressTrackingEnabled="false")


def test_what_spark_would_refuse_at_the_start_is_refused_by_the_plan(bench: Bench) -> None:
    bench.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "true")
    with pytest.raises(ApplicationError, match=r"query q: Spark will refuse to start it: .*omplete"):
        triggered(bench, None, mode="complete")


def test_a_source_and_a_stage_have_different_names(bench: Bench) -> None:
    named = stage("orders", source("orders", bench.source()).dropDuplicates(["k"]))
    with pytest.raises(ApplicationError, match=r"query q: a source and a stage are both named 'orders'.*another name"):
        planned(bench.spark, q=named.writeStream.format("noop"))


# What a new version's author expects to differ: stated on the app, and of no influence on anything else


def test_expected_differences_are_kept_in_their_order_and_what_cannot_be_expected_leaves_nothing() -> None:
    app = StreamingApp("a")
    for query, where, message in (
        ("a/b", "true", "query name 'a/b' is not allowed"),
        (None, "true", "query name is empty"),
        ("counts", "  ", "is no condition; write one in SQL"),
        ("counts", True, "where=True is no condition"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            app.expect_difference(query, where)  # type: ignore[arg-type]
    assert app.expected_differences == ()
    app.expect_difference("counts", where="carrier = 'XX'")
    app.expect_difference(query="sums", where="true")
    kept = [ExpectedDifference(query=q, where=w) for q, w in (("counts", "carrier = 'XX'"), ("sums", "true"))]
    assert app.expected_differences == tuple(kept)


def test_the_plan_and_the_digest_of_a_function_that_uses_the_app_are_the_same(bench: Bench) -> None:
    def digest(name: str, expects: bool):
        app = StreamingApp(name)
        if expects:
            app.expect_difference("q", where="k = 'a'")
        plan = planned(bench.spark, q=by("k")(bench).where(f"'{app.name}' <> 'x'").writeStream.outputMode("update"))
        return to_json(plan), describe(cloudpickle.dumps(lambda k: k + app.name))

    (plan, same), (again, other) = digest("a", True), digest("a", False)
    assert plan == again and b"totals" in plan
    assert same == other != digest("b", False)[1] and same.digest is not None
    taken = cloudpickle.loads(cloudpickle.dumps(StreamingApp("a")))
    assert taken.name == "a" and taken.expected_differences == ()


def place_of(words: str) -> int:
    found = re.match(r"^test_app\.py:(\d+) raised an error: StreamingQueryException: ", words)
    return int(found[1]) if found else 0


def ended(bench: Bench, start: Callable) -> StreamingQueryException:
    """The error that a query ends with."""
    bench.write([{"k": "a", "a": 1}])
    query = start(bench.source()).trigger(availableNow=True).start(checkpointLocation=str(bench.folder / "own"))
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    return raised.value


def line_of(text: str) -> int:
    with open(__file__) as file:
        [number] = [n for n, line in enumerate(file, 1) if text in line and "line_of" not in line]
    return number


def test_in_the_function_of_a_sink(bench: Bench) -> None:
    def write(rows, batch_id):
        raise OSError("no room")  # the sink's place

    words = describe_failure(ended(bench, lambda rows: rows.writeStream.foreachBatch(write)))
    assert place_of(words) == line_of("# the sink's place"), words
    assert "no room" in words and "JVM stacktrace" not in words


def test_in_a_function_that_workers_run(bench: Bench) -> None:
    @F.udf("int")
    def half(a):
        return a // 0  # the function's place

    words = describe_failure(ended(bench, lambda rows: rows.select(half("a")).writeStream.format("noop")))
    assert place_of(words) == line_of("# the function's place"), words
    assert "ZeroDivisionError" in words


class NoLimit(StatefulProcessor):
    def init(self, handle):
        raise LookupError("the limit is missing")  # the processor's place

    def handleInputRows(self, key, rows, timer):
        yield pd.DataFrame({"k": [key[0]]})

    def close(self):
        pass


def limited(rows):
    grouped = rows.groupBy("k").transformWithStateInPandas(NoLimit(), "k string", "append", "none")
    return grouped.writeStream.outputMode("append").format("noop")


@pytest.mark.slow  # each plan of one starts a Python of its own
def test_in_the_init_of_a_stateful_processor(bench: Bench) -> None:
    """Spark says "driver worker exited unexpectedly", and has the error as the cause of its own one only."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        words = describe_failure(ended(bench, limited))
        assert place_of(words) == line_of("# the processor's place"), words
        assert words.endswith("init() failed: LookupError: the limit is missing"), words
        with pytest.raises(ApplicationError) as refused:
            planned(bench.spark, q=limited(bench.source()))
        assert "init() failed: LookupError: the limit is missing" in str(refused.value)
        assert "unexpectedly" not in words + str(refused.value)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_what_is_none_of_the_author_s_names_no_place() -> None:
    assert describe_failure(ValueError('x\n  File "/lib/python3.11/site-packages/pyspark/a.py", line 3')).startswith(
        "ValueError: x"
    )
    ours = CorruptError('read File "/app.py", line 3')
    assert describe_failure(ours) == str(ours)


MODULE = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

class Counted(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n int")

    def handleInputRows(self, key, rows, timers):
        n = (self.count.get()[0] if self.count.exists() else 0) + len(list(rows))
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self):
        pass
"""


def processor(spark, folder: Path, name: str, packed: str):
    """The class, of a module that was given as `packed`."""
    path = folder / f"{name}.py"
    path.write_text(MODULE)
    if packed == "zip":
        path = folder / f"{name}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", MODULE)
    spark.sparkContext.addPyFile(str(path))
    importlib.invalidate_caches()
    return importlib.import_module(name).Counted


@pytest.mark.slow  # what Python workers import changes, so that all of them are started again
@pytest.mark.parametrize("packed", ["zip", "py"])
def test_a_processor_of_a_module_is_planned_and_runs(spark, bench: Bench, tmp_path, packed) -> None:
    """Spark asks it for its state variables in a process of the driver, which has to find its module."""
    counted = processor(spark, tmp_path, f"counted_in_a_{packed}", packed)
    app = StreamingApp("counts")

    @app.query("q")  # the app's functions are what finds the module, not what is made before it is built
    def build(spark, params):
        made = bench.source().groupBy("k").transformWithState(counted(), "k string, n int", "Update", "None")
        return stage("counted", made).writeStream.outputMode("update").format("memory")

    query = app.build(spark, {})["q"]
    assert [s.name for s in planned(spark, q=query).query("q").stages] == ["counted"]
    bench.write([row(k, n) for n, k in enumerate("abaab")])
    started = query.queryName("counts").option("checkpointLocation", str(tmp_path / "c"))
    running = started.trigger(availableNow=True).start()
    assert running.awaitTermination(120) and running.exception() is None
    assert dict(spark.table("counts").collect()) == Counter("abaab")


def test_an_error_of_a_running_query_is_told_by_its_last_line(bench: Bench, tmp_path) -> None:
    def each(batch, number: int) -> None:
        try:
            {}["EUR"]
        except KeyError as error:
            raise ValueError("no rate") from error

    bench.write([row("a", 1)])
    writer = bench.source().writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException) as caught:
        writer.trigger(availableNow=True).start().awaitTermination(120)
    message = describe_error(caught.value)
    assert "ValueError: no rate" in message and "Traceback" not in message and "KeyError" not in message
    assert len(message) < 300, message
