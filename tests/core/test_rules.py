"""The table as a whole: what every entry has to have."""

from __future__ import annotations

import ast
import itertools
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.rules import NEEDS_AGREEMENT, ORDER, TABLE, Rule, judge, worst
from airflow_provider_streamupdate.core.compatibility.rules.rule import MOST_OF_ONE, Finding
from airflow_provider_streamupdate.core.plan.plan import (
    JVM_ZONE,
    PYTHON_IMPORTS,
    TIME_ZONE,
    AppPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
)
from airflow_provider_streamupdate.core.plan.rename import rename_query
from airflow_provider_streamupdate.core.plan.state_stores import DEFAULT_STORE, PARTITIONS, PROVIDER, ROCKSDB
from airflow_provider_streamupdate.core.snapshots.fresh_start import compare_fresh
from airflow_provider_streamupdate.core.snapshots.repeated_batches import add_replayed_batches

from .builders import KEY, VALUE, aggregation, app_plan, query_plan, stage_plan

REPOSITORY = Path(__file__).parents[2]
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
RULES = [rule for rules in TABLE.values() for rule in rules]


def test_every_rule_names_tests_that_there_are() -> None:
    """The functions are looked up, not run: those under tests/spark need the other environment."""
    for rule in RULES:
        assert rule.tests or rule.id in EXAMPLES, rule.id
        for file, _, name in (test.partition("::") for test in rule.tests):
            tree = ast.parse((REPOSITORY / "tests" / file).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (rule.id, file, name)


def test_the_page_is_what_the_rules_say() -> None:
    """scripts/compatibility_docs.py writes it."""
    made = runpy.run_path(str(REPOSITORY / "scripts" / "compatibility_docs.py"))["page"]()
    assert (REPOSITORY / "docs" / "compatibility.md").read_text() == made


def rule(id: str, verdict: str, applies: object) -> Rule[int]:
    return Rule[int](id=id, verdict=verdict, change="x", reason="it was {old} and {new}", source="x", applies=applies)


def test_all_rules_that_apply_are_found_and_the_worst_counts() -> None:
    table = (
        rule("a", "carried", lambda c: {"old": None, "new": ["p", "q"]}),
        rule("b", "refused", lambda c: {"old": c, "new": ()} if c > 1 else None),
        rule("c", "carried with loss", lambda c: {"old": 1, "new": 2}),
    )
    found = judge(table, 2)
    assert [f.reason for f in found] == ["it was none and [p, q]", "it was 2 and none", "it was 1 and 2"]
    assert worst(found) == "refused" and worst(judge(table, 1)) == "carried with loss"


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise(ORDER)))
def test_the_order_of_verdicts(one: str, other: str) -> None:
    found = [Finding(id="", verdict=v, reason="") for v in (other, one)]
    assert worst(found) == other


# Examples of each rule: two plans whose comparison names it (the first word of the key)

NAMED = {"named": True, "format": "json"}
A, B = (SourcePlan(name=n, location=f"/{n}", **NAMED) for n in "ab")
KAFKA = attrs.evolve(A, format="kafka", location="t", options={"subscribe": "t", "kafka.bootstrap.servers": "x"})
SOCKET = attrs.evolve(A, format="socket", location="h:1", options={"host": "h", "port": "1"})
CSV = attrs.evolve(A, format="csv", order=("k", "l"))
TWO_RATES = tuple(SourcePlan(name=f"source-{n}", named=False, format="rate") for n in (1, 2))
STRICT = {"mode": "DROPMALFORMED"}
AGGREGATE = {"keys": ["a.k", "a.l"], "aggregates": ["sum(a.x)", "count(1)"]}
JOIN = {"join type": "Inner", "keys": ["a.k = b.k"], "condition": [], "left columns": [], "right columns": []}
FUNCTION = {"keys": ["a.k"], "code": "#1", "input": ["x = a.x", "y = a.y"], "timeout": "NoTimeout"}
PROCESSOR = {
    "keys": ["a.k"],
    "code": "#1",
    "input": ["x = a.x"],
    "time mode": "None",
    "state variables": ["n: ValueState"],
}
OPERATORS = {
    "aggregate": ("stateStoreSave", AGGREGATE),
    "deduplicate": ("dedupe", {"keys": ["a.k"]}),
    "join": ("symmetricHashJoin", JOIN),
    "limit": ("globalLimit", {"rows": "5"}),
    "apply-in-pandas-with-state": ("applyInPandasWithState", FUNCTION),
    "transform-with-state": ("transformWithStateInPySparkExec", PROCESSOR),
    "flatMapGroupsWithState": ("flatMapGroupsWithState", {}),
}


def of(kind: str, **changes: Any) -> StagePlan:
    """A stage of a kind; `changes` to its definition, or to the stage itself."""
    operator, definition = OPERATORS[kind]
    own = {k: changes.pop(k) for k in list(changes) if k in {*attrs.fields_dict(StagePlan), "types"}}
    parts = {k.replace("_", " "): v for k, v in changes.items()}
    values = {"kind": kind, "operator": operator, "definition": {**definition, **parts}, **own}
    return stage_plan("it", **values)


def with_schema(key: Any) -> StagePlan:
    return of("aggregate", schemas=(StateSchema(name="default", key=key, value=VALUE),))


def with_variable(value: Any) -> StagePlan:
    return of("transform-with-state", schemas=(StateSchema(name="n", key={"encoder": {}, "row": KEY}, value=value),))


def q(*stages: StagePlan, **changes: Any) -> QueryPlan:
    return query_plan(*(stages or (of("aggregate"),)), **{"sources": (A,), "source_order": ("a",), **changes})


def sink(format: str, mode: str = "append", **options: str) -> QueryPlan:
    return q(sink=SinkPlan(format=format, options=options), output_mode=mode)


def mode(name: str, watermark: bool = True) -> QueryPlan:
    return q(output_mode=name, watermarks=("a.t delayed by 10 ms",) if watermark else ())


def changed(kind: str, **changes: Any) -> tuple[QueryPlan, QueryPlan]:
    return q(of(kind)), q(of(kind, **changes))


def differ(kind: str, **both: tuple[Any, Any]) -> tuple[QueryPlan, QueryPlan]:
    """Two stages; of each change that of the old one and that of the new one."""
    old, new = ({name: values[n] for name, values in both.items()} for n in (0, 1))
    return q(of(kind, **old)), q(of(kind, **new))


def kept_by_time(place: int) -> tuple[StateSchema, ...]:
    """The column families of a join of state format 4, whose rows have two times, of which one has the watermark."""
    times = [{"name": name, "type": "timestamp", "nullable": True, "metadata": {}} for name in ("ts", "ts2")]
    times[place]["metadata"] = {"spark.watermarkDelayMs": 1000}
    key, value = {"encoder": {}, "row": KEY}, {"type": "struct", "fields": times}
    names = (f"{side}-{part}" for side in ("left", "right") for part in ("tsWithKey", "keyWithTsToValues"))
    return tuple(StateSchema(name=name, key=key, value=value) for name in names)


def added(stage: StagePlan, **changes: Any) -> tuple[QueryPlan, QueryPlan]:
    return q(**changes), q(of("aggregate"), attrs.evolve(stage, name="more"), **changes)


def sources(old: tuple[SourcePlan, ...], *new: SourcePlan) -> tuple[QueryPlan, QueryPlan]:
    return q(sources=old), q(sources=new)


def source(old: SourcePlan, **changes: Any) -> tuple[QueryPlan, QueryPlan]:
    return sources((old,), attrs.evolve(old, **changes))


def sinks(*both: SinkPlan, **changes: Any) -> tuple[QueryPlan, ...]:
    return tuple(attrs.evolve(q(), sink=each, **changes) for each in both)


def stateless(*plans: QueryPlan) -> tuple[QueryPlan, ...]:
    return tuple(attrs.evolve(plan, stages=()) for plan in plans)


def stored(old: dict[str, str], new: dict[str, str], stage: StagePlan | None = None) -> tuple[QueryPlan, QueryPlan]:
    plans = (q(stage or of("aggregate"), stores={PROVIDER: ROCKSDB, PARTITIONS: "2", **s}) for s in (old, new))
    return next(plans), next(plans)


JOIN_OF_UNKNOWN_FORMAT = of(
    "join", schemas=(StateSchema(name="left-keyToSomething", key={"encoder": {}, "row": KEY}, value=VALUE),)
)
NOT_NULL = {"type": "struct", "fields": [{**KEY["fields"][0], "nullable": False}]}
INTERVAL = {"type": "struct", "fields": [{"name": "i", "type": "interval", "nullable": True, "metadata": {}}]}
OTHER_TYPE = {"type": "struct", "fields": [{**KEY["fields"][0], "type": "long"}]}
SESSION = "session_window(a.t, gap '{} minutes', #1)"
TWINS = [stage_plan(f"aggregate-{n}", n, named=False, below=f"{n}") for n in (0, 1)]
PLAN = app_plan(q())
GREATER = ("greaterthan(a.x, 3)",)
LATE = ("after the watermark: greaterthan(a.x, 3)", "from a.")
BEHIND_D = {"paths": (("after d.", "from a."),)}
TYPES = ({"a.x": "int"}, {"a.x": "bigint"})
HASHED = ["hash(a.x)", "count(1)"]
FAMILIES = {"encoder": {}, "row": KEY}
DEDUPLICATED = attrs.evolve(of("deduplicate"), name="d")
SHARED = "sparkpartitionid()"
ZONED = {zone: {JVM_ZONE: zone} for zone in ("UTC", "Asia/Tokyo")}
LENIENT = {"mode": "dropmalformed"}

EXAMPLES: dict[str, tuple[Any, ...]] = {
    "stage.same": (q(), q()),
    "stage.filters": differ("aggregate", filters=((), GREATER)),
    "stage.rows": differ("aggregate", arrivals=((), ("explode(a.x)",))),
    "stage.late-rows": differ("deduplicate", late_rows=(("by source-1.ts",), ())),
    "stage.ways": differ("aggregate", paths=((LATE,), (("from a.", *GREATER),))),
    "stage.upstream": (
        q(DEDUPLICATED, of("aggregate", **BEHIND_D)),
        q(attrs.evolve(of("deduplicate", keys=["a.l"]), name="d"), of("aggregate", **BEHIND_D)),
    ),
    "stage.hidden-filter": differ("aggregate", filters=(GREATER, ()), hidden=(GREATER, ())),
    "stage.hidden-filter added": differ("join", filters=((), GREATER), hidden=((), GREATER)),
    "stage.unknown-kind": (q(of("flatMapGroupsWithState")), q(of("flatMapGroupsWithState"))),
    "stage.kind": (q(of("aggregate")), q(of("deduplicate"))),
    "stage.window": differ("aggregate", keys=(["window(a.t, 10 minutes, #1)"], ["window(a.t, 20 minutes, #1)"])),
    "stage.window of sessions": differ("aggregate", keys=([SESSION.format(5)], [SESSION.format(9)])),
    "stage.keys-order": changed("aggregate", keys=["a.l", "a.k"]),
    "stage.keys": changed("aggregate", keys=["a.k"]),
    "stage.keys of a deduplication": changed("deduplicate", keys=["a.l"]),
    "stage.aggregates in another order": changed("aggregate", aggregates=["count(1)", "sum(a.x)"]),
    "stage.aggregates dropped": changed("aggregate", aggregates=["count(1)"]),
    "stage.aggregates-added": (q(aggregation("Sum")), q(aggregation("Sum", "Count"))),
    "stage.aggregate-arguments": changed("aggregate", aggregates=["sum(a.y)", "count(1)"]),
    "stage.aggregates": changed("aggregate", aggregates=["max(a.x)", "count(1)"]),
    "stage.join-type": changed("join", join_type="LeftOuter"),
    "stage.join-rows": changed("join", keys=["a.l = b.l"]),
    "stage.join-time": differ("join", schemas=(kept_by_time(0), kept_by_time(1))),
    "stage.join-condition": changed("join", condition=["greaterthan(a.x, b.x)"]),
    "stage.join-rows of the left side": changed("join", left_columns=["a.x"]),
    "stage.join-rows of the right side": changed("join", right_columns=["b.x"]),
    "stage.limit": changed("limit", rows="9"),
    "stage.function keys": changed("transform-with-state", keys=["a.l"]),
    "stage.function": changed("apply-in-pandas-with-state", timeout="EventTimeTimeout"),
    "stage.function of timers": changed("transform-with-state", time_mode="EventTime"),
    "stage.variable-changed": changed("transform-with-state", state_variables=["n: ListState"]),
    "stage.variable-gone": changed("transform-with-state", state_variables=[]),
    "stage.variable-new": changed("transform-with-state", state_variables=["n: ValueState", "m: MapState"]),
    "stage.code": changed("apply-in-pandas-with-state", code="#2"),
    "stage.code unknown": changed("apply-in-pandas-with-state", code="python:f"),
    "stage.input": changed("apply-in-pandas-with-state", input=["x = a.z", "y = a.y"]),
    "stage.input in another order": changed("apply-in-pandas-with-state", input=["y = a.y", "x = a.x"]),
    "stage.untraced": changed("aggregate", keys=["?x"]),
    "stage.read-otherwise": differ("aggregate", types=TYPES),
    "stage.column-type": differ("aggregate", aggregates=(HASHED, HASHED), types=TYPES),
    "stage.input-type": differ("apply-in-pandas-with-state", types=({"a.x": "int"}, {"a.x": "double"})),
    "stage.untraced code": changed("aggregate", keys=["python:f(a.k)"]),
    "stage.ambiguous": (q(*TWINS), q(*(attrs.evolve(t, below=f"{1 - i}") for i, t in enumerate(TWINS)))),
    "stage.exchanged": (
        q(*(stage_plan(name, n, filters=(f"greaterthan(a.x, {n})",)) for n, name in enumerate("xy"))),
        q(*(stage_plan(name, n, filters=(f"greaterthan(a.x, {n})",)) for n, name in enumerate("yx"))),
    ),
    "stage.families": changed("join", stores=("left-keyToNumValues", "right-keyToNumValues")),
    "stage.type": (q(with_schema(KEY)), q(with_schema(OTHER_TYPE))),
    "stage.nullability": (q(with_schema(KEY)), q(with_schema(NOT_NULL))),
    "stage.interval": (q(with_schema(INTERVAL)), q(with_schema({"encoder": {}, "row": INTERVAL}))),
    "stage.variable-nullability": (q(with_variable(NOT_NULL)), q(with_variable(KEY))),
    "stage.new": added(stage_plan("more", 1)),
    "stage.new-not-understood kind": added(of("flatMapGroupsWithState")),
    "stage.new-not-understood": added(of("aggregate", keys=["?x"])),
    "stage.new-families": added(with_schema(FAMILIES), stores={PROVIDER: DEFAULT_STORE}),
    "stage.new-initial-state": added(of("transform-with-state", initial_state=True)),
    "stage.gone": (q(of("aggregate"), stage_plan("more", 1)), q()),
    "store.provider": stored({PROVIDER: ROCKSDB}, {PROVIDER: DEFAULT_STORE}),
    "store.provider-refused": stored({PROVIDER: ROCKSDB}, {PROVIDER: "com.acme.Store"}),
    "store.provider-refused families": stored({PROVIDER: ROCKSDB}, {PROVIDER: DEFAULT_STORE}, with_schema(FAMILIES)),
    "store.partitions-seen": stored({PARTITIONS: "200"}, {PARTITIONS: "10"}, of("aggregate", keys=[SHARED])),
    "store.partitions": stored({PARTITIONS: "200"}, {PARTITIONS: "10"}),
    "store.partitions-refused join": stored({PARTITIONS: "200"}, {PARTITIONS: "10"}, JOIN_OF_UNKNOWN_FORMAT),
    "store.partitions-refused": stored({PARTITIONS: "200"}, {PARTITIONS: "many"}),
    "watermark.column": (q(watermarks=("a.t delayed by 10 ms",)), q(watermarks=("a.u delayed by 10 ms",))),
    "watermark.added": (q(), q(watermarks=("a.t delayed by 10 ms",))),
    "watermark.removed": (q(watermarks=("a.t delayed by 10 ms",)), q()),
    "watermark.new-source": (
        q(watermarks=("a.t delayed by 10 ms",)),
        q(watermarks=("⟨a.t ∪ b.t⟩ delayed by 10 ms",), sources=(A, B), source_order=("a", "b")),
    ),
    "watermark.shorter-delay": (
        q(watermarks=("a.t delayed by 20 ms",)),
        q(watermarks=("a.t delayed by 10 ms",)),
    ),
    "watermark.delay": (q(watermarks=("a.t delayed by 10 ms",)), q(watermarks=("a.t delayed by 20 ms",))),
    "setting.changed": (q(conf={TIME_ZONE: "UTC"}), q(conf={TIME_ZONE: "Asia/Tokyo"})),
    "setting.changed and recorded": (q(conf={WATERMARK_POLICY: "min"}), q(conf={WATERMARK_POLICY: "max"})),
    "setting.unknown": (q(given={}), q(given={"spark.sql.extensions": "com.acme.Rules"})),
    "setting.imports-unknown": (q(conf={PYTHON_IMPORTS: "?fmt#1 (why)"}), q(conf={PYTHON_IMPORTS: "?fmt#1 (why)"})),
    "source.same": (q(), q()),
    "source.position": sources(
        tuple(attrs.evolve(s, named=False) for s in (A, B)),
        attrs.evolve(A, named=False, location="/elsewhere"),
        attrs.evolve(B, named=False),
    ),
    "source.twins": sources(TWO_RATES, *TWO_RATES),
    "source.naming": source(A, native=True),
    "source.format": source(A, format="csv"),
    "source.place of files": source(A, location="/elsewhere"),
    "source.place in Kafka": source(KAFKA, options={**KAFKA.options, "subscribe": "u"}),
    "source.cluster": source(KAFKA, options={**KAFKA.options, "kafka.bootstrap.servers": "y"}),
    "source.start": source(KAFKA, options={**KAFKA.options, "startingoffsets": "latest"}),
    "source.place": source(SOCKET, options={"host": "h", "port": "2"}),
    "source.options": source(A, options={"multiline": "true"}),
    "source.options without state": stateless(*source(A, options={"multiline": "true"})),
    "source.columns": source(CSV, order=("l", "k")),
    "source.columns-unknown": source(attrs.evolve(CSV, format="ours"), order=("l", "k")),
    "source.malformed with another number": source(
        attrs.evolve(CSV, options=STRICT, columns={"k": "string"}), columns={"k": "string", "m": "string"}
    ),
    "source.malformed": source(attrs.evolve(A, options=LENIENT, columns={"k": "integer"}), columns={"k": "string"}),
    "source.read": source(attrs.evolve(A, options=STRICT, read=(("k",),)), read=(("b", "k"),)),
    "source.code": source(attrs.evolve(A, code="1"), code="2"),
    "source.new": sources((A,), A, B),
    "source.new-unnamed": sources((A,), A, attrs.evolve(B, named=False)),
    "source.new-naming": sources((A,), A, attrs.evolve(B, native=True)),
    "source.gone": sources((A, B), A),
    "sink.same": (q(), q()),
    "sink.format": (sink("noop"), sink("kafka")),
    "sink.files": (sink("json", path="/x"), sink("json", path="/y")),
    "sink.options": (sink("kafka", topic="x"), sink("kafka", topic="y")),
    "sink.file-options": (sink("csv", header="true"), sink("csv", header="false")),
    "sink.columns": sinks(*(SinkPlan(format="csv", columns=tuple((n, "string") for n in ns)) for ns in ("ab", "ba"))),
    "sink.zone": tuple(
        attrs.evolve(q(), sink=SinkPlan(format="orc", columns=(("ts", "timestamp"),)), conf=conf)
        for conf in ZONED.values()
    ),
    "sink.layout": sinks(*(SinkPlan(format="json", partitioned_by=columns) for columns in ((), ("k",)))),
    "sink.batch-again": (sink("foreachBatch"), sink("foreachBatch")),
    "sink.mode-harmless without state": stateless(sink("noop", "append"), sink("noop", "update")),
    "sink.mode-harmless": (mode("update", False), mode("complete", False)),
    "sink.mode with a watermark": (mode("update"), mode("complete")),
    "sink.mode-harmless of all": (mode("complete"), mode("update")),
    "sink.mode": (mode("update"), mode("append")),
    "sink.mode to early results": (mode("append"), mode("update")),
    "sink.mode to all": (mode("append"), mode("complete")),
    "sink.mode from all": (mode("complete"), mode("append")),
    "fork.identity": (sink("noop"), sink("noop")),
    "fork.files": (sink("json", path="/x"), sink("json", path="/x")),
    "fork.place": (sink("kafka", topic="x"), sink("kafka", topic="x")),
    "fork.function": (sink("foreachBatch"), sink("foreachBatch")),
    "fork.cleaned": source(A, options={"cleansource": "delete"}),
    "again.skipped": (sink("json", path="/x"), sink("json", path="/x")),
    "again.function": (sink("foreachBatch"), sink("foreachBatch")),
    "again.place": (sink("kafka", topic="x"), sink("kafka", topic="x")),
    "again.elsewhere": (sink("kafka", topic="x"), sink("kafka", topic="y")),
    "fresh.start": (sink("kafka", topic="x"), sink("kafka", topic="y")),
    "fresh.files": (sink("json", path="/x"), sink("json", path="/x")),
    "fresh.skipped": (sink("hudi", path="/x"), sink("hudi", path="/x")),
    "fresh.function": (sink("noop"), sink("foreachBatch")),
    "fresh.place": (sink("kafka", topic="x"), sink("kafka", topic="x")),
    "app.other": (attrs.evolve(PLAN, app="another"), PLAN),
    "app.texts": (attrs.evolve(PLAN, version=0), PLAN),
    "app.engine-later": (attrs.evolve(PLAN, spark_version="4.2.1"), PLAN),
    "app.engine": (PLAN, attrs.evolve(PLAN, spark_version="4.2.1")),
    "query.new": (PLAN, app_plan(*PLAN.queries, q(name="more"))),
    "query.new-not-understood": (PLAN, app_plan(*PLAN.queries, q(of("aggregate", keys=["?x"]), name="more"))),
    "query.checkpoint": (q(of("aggregate"), checkpoint="/ckpt/v1"), q(of("aggregate"), checkpoint="/ckpt/v2")),
    "query.names": (q(of("aggregate")), q(attrs.evolve(of("aggregate"), name="a"))),
    "query.gone": (app_plan(*PLAN.queries, q(name="more")), PLAN),
}


# What the reason tells in that example
TOLD = {
    "stage.kind": "kind of stage changed from aggregate to deduplicate",
    "stage.keys-order": "keys changed their order: a.k, a.l -> a.l, a.k",
    "stage.keys": "keys changed: a.l is gone",
    "stage.keys of a deduplication": "keys changed: a.k -> a.l",
    "stage.aggregates in another order": "aggregates changed: their order: sum(a.x), count(1) -> count(1), sum(a.x)",
    "stage.aggregates dropped": "aggregates changed",
    "stage.aggregates": "aggregates changed: sum(a.x) -> max(a.x)",
    "stage.limit": "limit changed from 5 to 9",
    "stage.type": "key type of the state changed from origin string to origin long",
    "stage.new-initial-state": "in batch 0 only",
    "watermark.column": "watermark changed",
    "source.format": "format changed from json to csv",
    "source.place of files": "location changed from /a to /elsewhere",
    "source.cluster": "servers changed",
    "source.options": "options changed: [multiline from its default to 'true']",
    "source.start": "only a new source uses it",
    "source.new-unnamed": "name the sources with source()",
    "sink.files": "json /x to json /y: the log of a file sink cannot begin in the middle",
    "source.columns-unknown": "column 1 was k and is l",
    "setting.changed and recorded": "has no effect: Spark keeps the value in the offset log",
    "stage.read-otherwise": "a.x from int to bigint",
    "app.other": "the saved state belongs to app another",
}


def test_every_rule_has_its_own_id_a_source_and_an_example() -> None:
    # Those for what a table answers compare no plans: tests/core/test_next_input.py.
    assert {name.split()[0] for name in EXAMPLES} == {rule.id for rule in RULES if not rule.id.startswith("input.")}
    assert len({rule.id for rule in RULES}) == len(RULES) > 50
    for rule in RULES:
        assert rule.verdict in ORDER and rule.change and rule.reason and rule.source, rule.id
        assert len(re.sub(r"\{\w+\}", "", rule.reason)) <= MOST_OF_ONE - 25, rule.id  # it leaves room for values


def judged(name: str, renames: Mapping[str, str] = MappingProxyType({})) -> CompatibilityReport:
    """Compare the two versions of an example. renames: of its sources"""
    id = name.split()[0]
    plans = (p if isinstance(p, AppPlan) else app_plan(p) for p in EXAMPLES[name])
    old, new = (attrs.evolve(p, queries=tuple(rename_query(each, renames) for each in p.queries)) for p in plans)
    report = compare(old, new, "s1", beside=() if id.startswith("fork.") else None)
    if id.startswith("again."):
        report = add_replayed_batches(report, old, new, {"windows": "batches 2 to 3"}, ())
    return compare_fresh([old], new, {"windows": 3}) if id.startswith("fresh.") else report


# A digest, a source without a name, one of Spark's classes.
UNREADABLE = re.compile(r"#\w|\b[0-9a-f]{8,}\b|source-\d+\.|jsontostructs|Expand\(")


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_said_of_it_is_short_and_readable(name: str) -> None:
    """Also where the source has no name."""
    native = any(s.native for p in EXAMPLES[name] if isinstance(p, QueryPlan) for s in p.sources)
    for renames in ({}, {} if native else {"a": "source-1"}):
        for item in judged(name, renames).items:
            for text in (item.reason, *item.next_steps):
                assert len(text) <= 300 and not UNREADABLE.search(text), text


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_rule(name: str) -> None:
    """The rule applies to it, with its verdict, and its reason has no gaps."""
    id, report = name.split()[0], judged(name)
    items = report.items
    named = [item for item in items if id in item.rules]
    [rule] = [r for r in RULES if r.id == id]
    assert named, [(i.name, i.rules) for i in items]
    assert ORDER.index(named[0].verdict) >= ORDER.index(rule.verdict)
    assert named[0].needs_agreement == (named[0].verdict in NEEDS_AGREEMENT)
    assert "{" not in named[0].reason and TOLD.get(name, "") in named[0].reason
