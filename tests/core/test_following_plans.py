"""Which plans strategy follow accepts, and why it refuses the others."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.coordination.following import COMPACTION, unfollowable
from airflow_provider_streamupdate.core.plan.expressions import Call, Column, Literal
from airflow_provider_streamupdate.core.plan.plan import AppPlan, SinkPlan, SourcePlan, StagePlan

from .builders import aggregation, app_plan, evolve, query_plan, stage_plan

WAY = (("from source-1.",),)


def stage(name: str = "daily", **changes: Any) -> StagePlan:
    return stage_plan(**{"name": name, "paths": WAY, "filters": (), "hidden": (), "arrivals": (), **changes})


def source(
    format: str = "json", name: str = "source-1", location: str | None = "file:/in", **options: str
) -> SourcePlan:
    return SourcePlan(name=name, named=True, format=format, location=location, options=options)


def app(*stages: StagePlan, sources: tuple[SourcePlan, ...] = (source(),), version: str = "4.3.0", **changes: Any):
    order = tuple(s.name for s in sources)
    query = query_plan(
        *stages or (stage(),), sources=sources, source_order=order, **{"output_mode": "update", **changes}
    )
    return app_plan(query, spark_version=version)


def stateless(plan: AppPlan) -> AppPlan:
    return attrs.evolve(plan, queries=tuple(attrs.evolve(q, stages=()) for q in plan.queries))


def renamed(plan: AppPlan) -> AppPlan:
    """With its query once more, under another name."""
    return attrs.evolve(plan, queries=(*plan.queries, attrs.evolve(plan.queries[0], name="other")))


def in_mode(plan: AppPlan, mode: str) -> AppPlan:
    return attrs.evolve(plan, queries=tuple(attrs.evolve(q, output_mode=mode) for q in plan.queries))


def filtered(n: int, **changes: Any) -> StagePlan:
    text = f"greaterthan(source-1.a, {n})"
    return stage(filters=(text,), paths=(("from source-1.", text),), **changes)


def both(**changes: Any) -> tuple[AppPlan, AppPlan]:
    """The same plan in both versions."""
    plan = app(**changes)
    return plan, plan


def given(text: str) -> AppPlan:
    """A stage that is given the rows for which this holds."""
    return app(stage(paths=((text, "from source-1."),)))


def by(*keys: str, **changes: Any) -> AppPlan:
    return app(stage(**{"definition": {"keys": [*keys], "aggregates": ["count(1)"]}, **changes}))


OFF = source(cleansource="OFF", ignoremissingfiles="false", failondataloss="TRUE")
B = source(name="b", location="file:/b")
TWO = app(stage(paths=(("from source-1.",), ("from b.",))), sources=(source(), B))
BRANCHES = app(
    stage(
        paths=(("from b.",), ("from source-1.",)),
        definition={"keys": ["⟨source-1.origin ∪ b.origin⟩"], "aggregates": ["count(1)"]},
    ),
    sources=(source(), B),
    watermarks=("source-1.ts delayed by 60000 ms", "b.ts delayed by 60000 ms"),
)
ABOVE = stage("once", kind="deduplicate", paths=(("after daily.", "from source-1."),), definition={"keys": ["x"]})
FIRST = stage("first", kind="deduplicate")
AFTER_FIRST = stage(
    "above", kind="deduplicate", paths=(("after first.", "from source-1."),), definition={"keys": ["source-1.k"]}
)
KNOWN = {"paths": WAY, "filters": (), "hidden": (), "arrivals": ()}
SUM, SUM_AND_COUNT = (app(aggregation(*functions, **KNOWN)) for functions in (("Sum",), ("Sum", "Count")))
FUNCTIONS = [
    app(stage(kind="transform-with-state", definition={"keys": ["source-1.k"], "code": f"#{n}"})) for n in "ab"
]
MIGRATES = app(stage(migrates=("k string -> n bigint",)))
RATES = [
    *(("json", option, value) for option, value in (("maxfilespertrigger", "3"), ("maxbytespertrigger", "5m"))),
    *(("kafka", option, "7") for option in ("maxoffsetspertrigger", "minpartitions", "minoffsetspertrigger")),
    ("kafka", "maxtriggerdelay", "1s"),
]
DELTA = {"startingversion": "3", "ignorechanges": "true"}
IGNORES = [f"spark.sql.files.ignore{what}Files" for what in ("Missing", "Corrupt")]

# Of the running version and the new one
FOLLOWED: list[tuple[AppPlan, AppPlan]] = [
    *(
        both(sources=(source(format),))
        for format in ("json", "csv", "text", "parquet", "orc", "rate", "rate-micro-batch", "kafka", "delta")
    ),
    both(sources=(source("delta", **DELTA),)),
    both(sources=(OFF,)),
    *(both(**{where: {key: "false"}}) for key in IGNORES for where in ("given", "conf")),
    both(given={COMPACTION: "5"}),
    *((app(sources=(source(kind),)), app(sources=(source(kind, **{o: v}),))) for kind, o, v in RATES),
    # a new source gives nothing before the takeover; what is gone is of no matter where there is no state
    (app(), TWO),
    (app(watermarks=("source-1.ts delayed by 60000 ms",)), BRANCHES),
    (stateless(TWO), stateless(app())),
    (stateless(app()), stateless(app(output_mode="append"))),
    (app(), renamed(app())),  # a new query is not compared
    # what is in the batch may be depended on
    *(
        (given(text), given(text))
        for text in (
            "python#58cb(source-1.k, evalType=101, udfDeterministic=True)",
            "lessthan(source-1.ts, 7980470055161718:timestamp)",
            "equalto(source-1.k, 'rand() and lookup by uuid()')",
            "isnotnull(source-1.lookupkey)",
        )
    ),
    (app(), app(stage(), ABOVE)),
    (app(stage(), ABOVE), app()),
    (app(FIRST), app(FIRST, AFTER_FIRST)),  # it is new, and gets no rows before the takeover
    (app(FIRST), app(FIRST)),
    (SUM, SUM_AND_COUNT),
    (SUM_AND_COUNT, SUM),
    (FUNCTIONS[0], FUNCTIONS[0]),
    (MIGRATES, MIGRATES),  # the running version has it already
    # another filter, below aggregations alone
    *((in_mode(app(filtered(0)), mode), in_mode(app(filtered(1)), mode)) for mode in ("complete", "append")),
]


@pytest.mark.parametrize(("old", "new"), FOLLOWED)
def test_what_is_followed(old: AppPlan, new: AppPlan) -> None:
    assert unfollowable(new, old) == unfollowable(new) == []


def other_sources(old: SourcePlan, new: SourcePlan) -> tuple[AppPlan, AppPlan]:
    return app(sources=(old,)), app(sources=(new,))


def kafka(**options: str) -> SourcePlan:
    return source("kafka", **{name.replace("_", "."): value for name, value in options.items()})


# Another place or reading of a source, with state or without, and a word of the reason
PLACES = [
    (source(), source("csv"), "format"),
    (source(), source(location="file:/other"), "place"),
    (kafka(subscribe="a"), kafka(subscribe="a,b"), "place"),
    (source("rate", rowspersecond="1"), source("rate", rowspersecond="2"), "rowspersecond"),
    (source(latestfirst="false"), source(latestfirst="true"), "latestfirst"),
    (source(pathglobfilter="*.json"), source(), "pathglobfilter"),
    (kafka(kafka_bootstrap_servers="a:1"), kafka(kafka_bootstrap_servers="b:1"), "servers"),
]
# Options of a source in either version
OPTIONS = [
    ({"cleansource": "archive"}, "cleanSource"),
    ({"cleansource": "DELETE"}, "cleanSource"),
    ({"ignoremissingfiles": "true"}, "ignoremissingfiles"),
    ({"ignorecorruptfiles": "true"}, "ignorecorruptfiles"),
    ({"failondataloss": "false"}, "failOnDataLoss"),
    ({"kafka.group.id": "flights"}, "kafka.group.id"),
]
TABLES = [
    ({"startingversion": "latest"}, "startingVersion=latest"),
    ({"startingtimestamp": "2026-01-01"}, "startingtimestamp"),
    ({"schematrackinglocation": "/schemas"}, "both versions would write"),
    ({"schemalocation": "/schemas"}, "both versions would write"),
]
# What is not in the batch, or depends on how a batch is shared out (found by an outside review: a follower has other
# cores, and gets shuffled blocks in another order)
CHANCE = [
    ("lessthan(rand(), 0.5:double)", r"chance \(rand\)"),
    ("equalto(uuid(), source-1.k)", r"chance \(uuid\)"),
    ("python#58cb(source-1.k, evalType=101, udfDeterministic=False)", "chance"),
    ("callmethodviareflection('java.lang.System', 'nanoTime')", "chance"),
    ("sparkpartitionid()", "chance"),
    ("staticinvoke(source-1.k, functionName=aesEncrypt)", "chance"),
    ("lookup by equalto(source-1.k, static:t.k), #83", "a table"),
    ("lessthan(source-1.a, scalarsubquery(count(1), #2f))", "a table"),
    ("?lambda(source-1.a)", "cannot be read"),
    ("python:some.function(source-1.a)", "cannot be read"),
    *(
        (text, "depends on chance")
        for text in ("source-1._metadata.file_block_start", "MapInPandas(abc)", "first(source-1.a)")
    ),
    ("collectlist(source-1.a)", "depends on chance"),
]
OTHER_ROWS = [
    (("from source-1.", "greaterthan(source-1.a, 5:long)"),),
    (("after once.", "from source-1."),),
    (("explode(source-1.items)", "from source-1."),),
    (("from source-1.",), ("from source-1.",)),
]
ASYNCHRONOUS = app(sink=SinkPlan(format="noop", options={"asyncProgressTrackingEnabled": "true"}))
IN_UTC = app(conf={"spark.sql.session.timeZone": "UTC"})
OF_ANOTHER_KIND: list[dict[str, Any]] = [
    {"output_mode": "complete"},
    {"watermarks": ("source-1.ts delayed by 600000 ms",)},
    {"conf": {"spark.sql.session.timeZone": "Asia/Tokyo"}},
    {"version": "4.2.0"},
]
UPON = stage("above", paths=(("after daily.", "from source-1."),))

# Of the running version and the new one, and a word of the reason
REFUSED: list[tuple[AppPlan, AppPlan, str]] = [
    *(
        (*both(sources=(source(format),)), "is of format")
        for format in ("socket", "iceberg", "hudi", "my_python_source", "org.some.Provider")
    ),
    (app(sources=(source(), source("socket", "other"))), app(), "socket"),
    *((*both(sink=SinkPlan(format=format)), f"is of format {format}") for format in ("memory", "iceberg", "my_sink")),
    *((*both(sources=(source("delta", **options),)), reason) for options, reason in TABLES),
    *(
        (*plans, reason)
        for options, reason in OPTIONS
        for plans in (
            (app(), app(sources=(source(**options),))),
            (app(sources=(source(**options),)), app()),
            both(sources=(source(**options),)),
        )
    ),
    *((*both(**{where: {key: "true"}}), key) for key in IGNORES for where in ("given", "conf")),
    (app(), ASYNCHRONOUS, "asynchronously"),
    (ASYNCHRONOUS, app(), "asynchronously"),
    *((*other_sources(old, new), f"source-1 of query windows.*{reason}") for old, new, reason in PLACES),
    *(
        (*map(stateless, other_sources(old, new)), f"source-1 of query windows.*{reason}")
        for old, new, reason in PLACES
    ),
    (app(given={COMPACTION: "5"}), app(given={}), COMPACTION),
    (TWO, app(), "other rows"),  # what one that goes gives is in the running version's state
    *((app(), app(stage(paths=paths)), "stage daily of query windows") for paths in OTHER_ROWS),
    *((app(stage(paths=paths)), app(), "stage daily of query windows") for paths in OTHER_ROWS),
    *((plan, plan, reason) for text, reason in CHANCE for plan in (given(text), by(text))),
    (
        app(evolve(SUM.queries[0].stages[0], late_rows=())),
        app(evolve(SUM_AND_COUNT.queries[0].stages[0], late_rows=("by source-1.ts",))),
        "now drops late rows",
    ),
    (app(), by("source-1.origin", "source-1.b"), "another definition"),
    (by("window(source-1.ts, 2 minutes, #w)"), by("window(source-1.ts, 4 minutes, #w)"), "other windows"),
    (*FUNCTIONS, "other code"),
    (*(app(stage(types={"source-1.origin": kind})) for kind in ("string", "bigint")), "source-1.origin"),
    *((IN_UTC, app(**changes), "") for changes in OF_ANOTHER_KIND),
    (app(), app(stage(), attrs.evolve(ABOVE, name="deduplicate-1", named=False)), "has no name"),
    (app(), MIGRATES, "is migrated by a function of the app"),
    # found from outside: which of a batch's rows come first, shuffled blocks decide
    *(
        (*both_of, "the first of several rows")
        for kind in ("deduplicate", "deduplicate-within-watermark", "limit")
        for both_of in [(app(stage("first", kind=kind), AFTER_FIRST),) * 2]
    ),
    (app(filtered(0)), app(filtered(1)), "is given other rows"),  # nobody writes what it made meanwhile
    *(
        (*(in_mode(app(filtered(n, kind=kind)), "append") for n in range(2)), "is given other rows")
        for kind in ("deduplicate", "session-window", "join")
    ),
    (*(in_mode(app(filtered(n), UPON), "append") for n in range(2)), "is given other rows"),
    (app(), app(stage(paths=(("from source-1.", "lookup by source-1.k"),))), "is given other rows"),
]


@pytest.mark.parametrize(("old", "new", "reason"), REFUSED)
def test_what_is_not_followed(old: AppPlan, new: AppPlan, reason: str) -> None:
    assert any(re.search(reason, problem) for problem in unfollowable(new, old)), unfollowable(new, old)


COUNT_OF_ALL = Call("", (Literal("1"),))  # what count(*) is computed from
ONCE = {"keys": ["source-1.k", "source-1.ts"]}
KEY_TYPES = {"source-1.k": "string", "source-1.ts": "timestamp"}


def above_a_deduplication(once: dict[str, Any], **daily: Any) -> list[str]:
    """What is said of an aggregation above a deduplication by k and ts, in a version that changes nothing."""
    first = stage("once", **{"kind": "deduplicate", "definition": ONCE, "types": KEY_TYPES, "arrivals": (), **once})
    daily = {"definition": {"keys": ["source-1.k"], "aggregates": ["count(1)"]}, "aggregated": (COUNT_OF_ALL,), **daily}
    way = (("after once.", "after the watermark: isnotnull(source-1.ts)", "from source-1."),)
    plan = app(stage(**{"paths": way, "types": KEY_TYPES, **daily}), first)
    return [problem for problem in unfollowable(plan, plan) if "lets the first" in problem]


def test_what_reads_the_keys_of_a_deduplication_alone_is_followed() -> None:
    assert above_a_deduplication({}) == []
    rows = {"keys": ["source-1.k"], "aggregates": ["count(1)"]}
    assert above_a_deduplication({}, definition=rows) == [], "it counts rows"
    assert above_a_deduplication({}, kind="deduplicate") == []


@pytest.mark.parametrize(
    ("once", "daily"),
    [
        pytest.param(
            {}, {"definition": {"keys": ["source-1.k"], "aggregates": ["sum(source-1.a)"]}}, id="another column"
        ),
        pytest.param({}, {"aggregated": ("sum(inputfilename())",)}, id="the file it is in"),
        pytest.param({}, {"aggregated": ("sum(concat(source-1.k, inputfilename()))",)}, id="a key and the file"),
        pytest.param({}, {"aggregated": ("sum(explode(ARRAY(1, 2)).1)",)}, id="a constant"),
        pytest.param({"arrivals": ("explode(ARRAY(1, source-1.k))",)}, {}, id="rows that were made"),
        pytest.param(
            {"arrivals": (Call("times", (Column("source-1", ""), Literal("2"))),)}, {}, id="a union with itself"
        ),
        pytest.param({}, {"aggregated": ("sum(⟨source-1: 1 ∪ source-2: 2⟩)",)}, id="by branch"),
        pytest.param({}, {"kind": "join"}, id="a stage that keeps whole rows"),
        pytest.param({}, {"paths": (("after once.", "from source-1.", "gt(source-1.a, 1)"),)}, id="a filter between"),
        pytest.param({}, {"paths": (("after once.", "after the watermark: x", "from source-1."),)}, id="a late filter"),
        pytest.param({"kind": "deduplicate-within-watermark"}, {}, id="it keeps the first one's time"),
        pytest.param({"kind": "limit"}, {}, id="a limit"),
        pytest.param({"definition": {"keys": ["upper(source-1.k)", "source-1.ts"]}}, {}, id="a key that is computed"),
        pytest.param({"types": {**KEY_TYPES, "source-1.k": "double"}}, {}, id="0.0 and -0.0"),
        pytest.param({"types": {**KEY_TYPES, "source-1.k": "string collate UTF8_LCASE"}}, {}, id="a and A"),
        pytest.param({"types": {}}, {}, id="a type that is unknown"),
    ],
)
def test_a_deduplication_below_is_refused_where_the_first_one_may_matter(once: dict, daily: dict) -> None:
    assert above_a_deduplication(once, **daily)
