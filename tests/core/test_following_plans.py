"""Which plans strategy follow accepts, and why it refuses the others."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.coordination.following import COMPACTION, unfollowable
from airflow_provider_streamupdate.core.plan.plan import AppPlan, SinkPlan, SourcePlan, StagePlan, WindowKey

from .builders import aggregation, app_plan, query_plan, stage_plan

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


@pytest.mark.parametrize(
    "format", ["json", "csv", "text", "parquet", "orc", "rate", "rate-micro-batch", "kafka", "delta"]
)
def test_sources_that_give_a_batch_again_are_followed(format: str) -> None:
    plan = app(sources=(source(format),))
    assert unfollowable(plan) == [] and unfollowable(plan, plan) == []


@pytest.mark.parametrize("format", ["socket", "iceberg", "hudi", "my_python_source", "org.some.Provider"])
def test_other_sources_are_not(format: str) -> None:
    plan = app(sources=(source(format),))
    [problem] = unfollowable(plan)
    assert "is of format" in problem and "not tried" in problem


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingversion": "latest"}, "startingVersion=latest"),
        ({"startingtimestamp": "2026-01-01"}, "startingtimestamp"),
        ({"schematrackinglocation": "/schemas"}, "both versions would write"),
        ({"schemalocation": "/schemas"}, "both versions would write"),
    ],
)
def test_a_table_whose_first_batch_or_schemas_would_be_others_is_not_followed(options: dict, problem: str) -> None:
    table = source("delta")
    [found] = unfollowable(app(sources=(attrs.evolve(table, options={**table.options, **options}),)))
    assert problem in found
    fixed = attrs.evolve(table, options={**table.options, "startingversion": "3", "ignorechanges": "true"})
    assert unfollowable(app(sources=(fixed,))) == []


def test_a_source_that_is_not_followed_is_found_in_the_running_version_alone() -> None:
    old = app(sources=(source(), source("socket", "other")))
    assert any("socket" in p for p in unfollowable(app(), old))


@pytest.mark.parametrize("format", ["memory", "iceberg", "my_sink"])
def test_sinks_that_were_not_tried_are_refused(format: str) -> None:
    [problem] = unfollowable(app(sink=SinkPlan(format=format)))
    assert f"is of format {format}" in problem


# Options of a source in either version, and a word of the reason
OPTIONS = [
    ({"cleansource": "archive"}, "cleanSource"),
    ({"cleansource": "DELETE"}, "cleanSource"),
    ({"ignoremissingfiles": "true"}, "ignoremissingfiles"),
    ({"ignorecorruptfiles": "true"}, "ignorecorruptfiles"),
    ({"failondataloss": "false"}, "failOnDataLoss"),
    ({"kafka.group.id": "flights"}, "kafka.group.id"),
]


@pytest.mark.parametrize(("options", "reason"), OPTIONS)
@pytest.mark.parametrize("which", ["old", "new", "both"])
def test_options_with_which_rows_may_be_missing(options: dict[str, str], reason: str, which: str) -> None:
    plain, with_it = app(), app(sources=(source(**options),))
    old, new = {"old": (with_it, plain), "new": (plain, with_it), "both": (with_it, with_it)}[which]
    assert any(reason in problem for problem in unfollowable(new, old))


def test_the_same_options_that_are_off_are_no_problem() -> None:
    plan = app(sources=(source(cleansource="OFF", ignoremissingfiles="false", failondataloss="TRUE"),))
    assert unfollowable(plan, plan) == []


@pytest.mark.parametrize("key", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"])
@pytest.mark.parametrize("where", ["given", "conf"])
def test_settings_with_which_rows_may_be_missing(key: str, where: str) -> None:
    plan = app(**{where: {key: "true"}})
    assert any(key in problem for problem in unfollowable(plan, plan))
    off = app(**{where: {key: "false"}})
    assert unfollowable(off, off) == []


@pytest.mark.parametrize("which", ["old", "new"])
def test_asynchronous_progress_is_refused(which: str) -> None:
    plain, with_it = app(), app(sink=SinkPlan(format="noop", options={"asyncProgressTrackingEnabled": "true"}))
    old, new = (with_it, plain) if which == "old" else (plain, with_it)
    assert any("asynchronously" in problem for problem in unfollowable(new, old))


@pytest.mark.parametrize(
    "options",
    [{"maxfilespertrigger": "3"}, {"maxbytespertrigger": "5m"}, {"maxoffsetspertrigger": "7"}, {"minpartitions": "2"},
     {"maxtriggerdelay": "1s"}, {"minoffsetspertrigger": "8"}],
)  # fmt: skip
def test_how_much_comes_at_once_may_change(options: dict[str, str]) -> None:
    kind = "json" if "file" in next(iter(options)) or "bytes" in next(iter(options)) else "kafka"
    assert unfollowable(app(sources=(source(kind, **options),)), app(sources=(source(kind),))) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (source(), source("csv"), "format"),
        (source(), source(location="file:/other"), "place"),
        (source("kafka", subscribe="a"), source("kafka", subscribe="a,b"), "place"),
        (source("rate", rowspersecond="1"), source("rate", rowspersecond="2"), "rowspersecond"),
        (source(latestfirst="false"), source(latestfirst="true"), "latestfirst"),
        (source(pathglobfilter="*.json"), source(), "pathglobfilter"),
        (
            source("kafka", **{"kafka.bootstrap.servers": "a:1"}),
            source("kafka", **{"kafka.bootstrap.servers": "b:1"}),
            "servers",
        ),
    ],
)
@pytest.mark.parametrize("state", [True, False])
def test_a_source_of_which_offsets_may_mean_other_rows(
    old: SourcePlan, new: SourcePlan, reason: str, state: bool
) -> None:
    before, now = app(sources=(old,)), app(sources=(new,))
    if not state:
        before, now = stateless(before), stateless(now)
    assert any("source-1 of query windows" in p and reason in p for p in unfollowable(now, before))


def test_another_number_of_entries_between_compactions() -> None:
    old, new = app(given={COMPACTION: "5"}), app(given={})
    assert any(COMPACTION in problem for problem in unfollowable(new, old))
    assert unfollowable(old, old) == []


def test_a_source_that_comes_and_one_that_goes() -> None:
    """A new one gives nothing before the takeover. What one that goes gives is in the running version's state."""
    both = (("from source-1.",), ("from b.",))
    one, two = app(), app(stage(paths=both), sources=(source(), source(name="b", location="file:/b")))
    assert unfollowable(two, one) == []
    assert any("other rows" in problem for problem in unfollowable(one, two))
    assert unfollowable(stateless(one), stateless(two)) == []


@pytest.mark.parametrize(
    "paths",
    [
        (("from source-1.", "greaterthan(source-1.a, 5:long)"),),
        (("after once.", "from source-1."),),
        (("explode(source-1.items)", "from source-1."),),
        (("from source-1.",), ("from source-1.",)),
        None,
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_stage_that_is_given_other_rows(paths: Any, turned: bool) -> None:
    plans = [app(), app(stage(paths=paths))]
    assert any(
        "stage daily of query windows" in problem for problem in unfollowable(*(plans[::-1] if turned else plans))
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lessthan(rand(), 0.5:double)", "chance (rand)"),
        ("equalto(uuid(), source-1.k)", "chance (uuid)"),
        ("python#58cb(source-1.k, evalType=101, udfDeterministic=False)", "chance"),
        ("callmethodviareflection('java.lang.System', 'nanoTime')", "chance"),
        ("sparkpartitionid()", "chance"),
        ("staticinvoke(source-1.k, functionName=aesEncrypt)", "chance"),
        ("lookup by equalto(source-1.k, static:file:/t#8c.k), #83", "a table"),
        ("lessthan(source-1.a, scalarsubquery(count(1), #2f))", "a table"),
        ("?lambda(source-1.a)", "cannot be read"),
        ("python:some.function(source-1.a)", "cannot be read"),
    ],
)
@pytest.mark.parametrize("where", ["paths", "keys"])
def test_what_is_not_in_the_batch_is_not_depended_on(text: str, reason: str, where: str) -> None:
    changed = {"paths": ((text, "from source-1."),)} if where == "paths" else {"definition": {"keys": [text]}}
    plan = app(stage(**changed))
    assert any(reason in problem for problem in unfollowable(plan, plan))


@pytest.mark.parametrize(
    "text",
    [
        "python#58cb(source-1.k, evalType=101, udfDeterministic=True)",
        "lessthan(source-1.ts, 7980470055161718:timestamp)",
        "equalto(source-1.k, 'rand() and lookup by uuid()')",
        "greaterthan(source-1.operand(0), 1)",
        "isnotnull(source-1.lookupkey)",
    ],
)
def test_what_is_in_it_may_be_depended_on(text: str) -> None:
    plan = app(stage(paths=(("from source-1.", text),)))
    assert unfollowable(plan, plan) == []


def test_an_aggregate_more_is_kept_in_the_same_groups() -> None:
    more = {"keys": ["source-1.origin"], "aggregates": ["count(1)", "max(source-1.a)"]}
    problems = unfollowable(app(stage(definition=more)), app())
    assert not any("definition" in problem for problem in problems)


def test_an_added_aggregate_is_followed_but_nothing_that_is_lost_besides() -> None:
    """It covers the rows from where the following began; what else is lost would depend on when that was."""
    given = {"paths": WAY, "filters": (), "hidden": (), "arrivals": ()}
    old, new = (app(aggregation(*functions, **given)) for functions in (("Sum",), ("Sum", "Count")))
    assert unfollowable(new, old) == []
    [problem] = unfollowable(old, new)
    assert "the values of count(source-1.x) are lost" in problem
    other = attrs.evolve(new.queries[0].stages[0], late_rows=("by source-1.ts",))
    before = attrs.evolve(old.queries[0].stages[0], late_rows=())
    assert any("now drops late rows" in problem for problem in unfollowable(app(other), app(before)))


def test_other_groups_and_other_code_are_refused() -> None:
    keys = stage(definition={"keys": ["source-1.origin", "source-1.b"], "aggregates": ["count(1)"]})
    assert any("another definition" in problem for problem in unfollowable(app(keys), app()))
    window = WindowKey(position=0, column="source-1.ts", size=120, slide=120, start=0)
    one, two = app(stage(windows=(window,))), app(stage(windows=(attrs.evolve(window, size=240, slide=240),)))
    assert any("other windows" in problem for problem in unfollowable(two, one))
    code = [
        app(
            stage(
                kind="transform-with-state",
                definition={"keys": ["source-1.k"], "function": "count_up", "code": f"#{n}"},
            )
        )
        for n in "ab"
    ]
    assert any("other code" in problem for problem in unfollowable(code[1], code[0]))
    assert unfollowable(code[0], code[0]) == []


ONCE = {"keys": ["source-1.k", "source-1.ts"]}
KEY_TYPES = {"source-1.k": "string", "source-1.ts": "timestamp"}


def above_a_deduplication(once: dict[str, Any], **daily: Any) -> list[str]:
    """What is said of an aggregation above a deduplication by k and ts, in a version that changes nothing."""
    first = stage("once", **{"kind": "deduplicate", "definition": ONCE, "types": KEY_TYPES, "arrivals": (), **once})
    daily = {"definition": {"keys": ["source-1.k"], "aggregates": ["count(1)"]}, "arguments": ("1",), **daily}
    way = (("after once.", "after the watermark: isnotnull(source-1.ts)", "from source-1."),)
    plan = app(stage(**{"paths": way, "types": KEY_TYPES, **daily}), first)
    return [problem for problem in unfollowable(plan, plan) if "lets the first" in problem]


def test_what_reads_the_keys_of_a_deduplication_alone_is_followed() -> None:
    assert above_a_deduplication({}) == []
    assert above_a_deduplication({}, types={}) == [], "it counts rows"
    assert above_a_deduplication({}, kind="deduplicate") == []


@pytest.mark.parametrize(
    ("once", "daily"),
    [
        pytest.param({}, {"types": {**KEY_TYPES, "source-1.a": "bigint"}}, id="another column"),
        pytest.param({}, {"arguments": ("inputfilename()",)}, id="the file it is in"),
        pytest.param({}, {"arguments": ("concat(source-1.k, inputfilename())",)}, id="a key and the file"),
        pytest.param({}, {"arguments": ("explode(ARRAY(1, 2)).1",)}, id="a constant"),
        pytest.param({"arrivals": ("explode(ARRAY(1, source-1.k))",)}, {}, id="rows that were made"),
        pytest.param({"arrivals": ("source-1. 2 times",)}, {}, id="a union with itself"),
        pytest.param({}, {"arguments": ("⟨source-1: 1 ∪ source-2: 2⟩",)}, id="by branch"),
        pytest.param({}, {"types": None}, id="it is not known what it reads"),
        pytest.param({}, {"kind": "join"}, id="a stage that keeps whole rows"),
        pytest.param({}, {"paths": (("after once.", "from source-1.", "gt(source-1.a, 1)"),)}, id="a filter between"),
        pytest.param({}, {"paths": (("after once.", "after the watermark: x", "from source-1."),)}, id="a late filter"),
        pytest.param({"kind": "deduplicate-within-watermark"}, {}, id="it keeps the first one's time"),
        pytest.param({"kind": "limit"}, {}, id="a limit"),
        pytest.param({"definition": {"keys": ["upper(source-1.k)", "source-1.ts"]}}, {}, id="a key that is computed"),
        pytest.param({"types": {**KEY_TYPES, "source-1.k": "double"}}, {}, id="0.0 and -0.0"),
        pytest.param({"types": {**KEY_TYPES, "source-1.k": "string collate UTF8_LCASE"}}, {}, id="a and A"),
    ],
)
def test_a_deduplication_below_is_refused_where_the_first_one_may_matter(once: dict, daily: dict) -> None:
    assert above_a_deduplication(once, **daily)


def test_types_of_what_it_reads() -> None:
    one, two = (app(stage(types={"source-1.origin": kind})) for kind in ("string", "bigint"))
    assert any("source-1.origin" in problem for problem in unfollowable(two, one))


def test_modes_watermarks_settings_and_sparks_of_another_kind() -> None:
    for changes in (
        {"output_mode": "complete"},
        {"watermarks": ("source-1.ts: 10 minutes",)},
        {"conf": {"spark.sql.session.timeZone": "Asia/Tokyo"}},
        {"version": "4.2.0"},
    ):
        assert unfollowable(app(**changes), app(conf={"spark.sql.session.timeZone": "UTC"})) != [], changes
    assert unfollowable(stateless(app(output_mode="append")), stateless(app())) == []


def test_a_stage_that_comes_or_goes_above_the_others_is_no_problem() -> None:
    above = stage("once", kind="deduplicate", paths=(("after daily.", "from source-1."),), definition={"keys": ["x"]})
    assert unfollowable(app(stage(), above), app()) == []
    assert unfollowable(app(), app(stage(), above)) == []


def test_a_new_query_is_not_compared() -> None:
    one = app()
    other = attrs.evolve(one.queries[0], name="other")
    assert unfollowable(attrs.evolve(one, queries=(*one.queries, other)), one) == []


def test_branches_of_a_new_source_bring_nothing_before_the_takeover() -> None:
    other = source(name="b", location="file:/b")
    keys = {"keys": ["⟨source-1.origin ∪ b.origin⟩"], "aggregates": ["count(1)"]}
    two = app(
        stage(paths=(("from b.",), ("from source-1.",)), definition=keys), sources=(source(), other),
        watermarks=("source-1.ts 1 minute", "b.ts 1 minute"),
    )  # fmt: skip
    assert unfollowable(two, app(watermarks=("source-1.ts 1 minute",))) == []


def test_a_new_stage_has_to_have_a_name() -> None:
    above = stage("deduplicate-1", named=False, kind="deduplicate", definition={"keys": ["x"]})
    assert any("has no name" in problem for problem in unfollowable(app(stage(), above), app()))


@pytest.mark.parametrize(
    "text",
    ["source-1._metadata.file_block_start", "MapInPandas(abc)", "first(source-1.a)", "collectlist(source-1.a)"],
)
def test_what_depends_on_how_a_batch_is_shared_out_is_refused(text: str) -> None:
    """Found by an outside review: a follower has other cores, and gets shuffled blocks in another order."""
    for changes in (
        {"definition": {"keys": ["source-1.k"], "aggregates": [text]}},
        {"paths": (("from source-1.", text),)},
    ):
        plan = app(stage(**changes))
        assert any("depends on chance" in problem for problem in unfollowable(plan, plan)), changes


def test_a_migration_function_of_the_app_is_not_followed() -> None:
    new = app(stage(migrates=("k string -> n bigint",)))
    assert any("is migrated by a function of the app" in problem for problem in unfollowable(new, app()))
    assert unfollowable(new, new) == [], "the running version has it already"


def in_mode(plan: AppPlan, mode: str) -> AppPlan:
    return attrs.evolve(plan, queries=tuple(attrs.evolve(q, output_mode=mode) for q in plan.queries))


@pytest.mark.parametrize("kind", ["deduplicate", "deduplicate-within-watermark", "limit"])
def test_what_is_above_a_stage_that_lets_the_first_rows_pass_is_a_matter_of_chance(kind: str) -> None:
    """Found from outside: which of a batch's rows come first, shuffled blocks decide."""
    first = stage("first", kind=kind)
    above = stage("above", kind="deduplicate", paths=(("after first.", "from source-1."),))
    assert any("the first of several rows" in p for p in unfollowable(app(first, above), app(first, above)))
    assert unfollowable(app(first, above), app(first)) == [], "it is new, and gets no rows before the takeover"
    assert unfollowable(app(first), app(first)) == []


def test_another_filter_is_followed_below_aggregations_alone() -> None:
    def filtered(text: str, **changes: Any) -> StagePlan:
        return stage(filters=(text,), paths=(("from source-1.", text),), **changes)

    old, new = (app(filtered(f"(source-1.a > {n})")) for n in range(2))
    assert any("is given other rows" in p for p in unfollowable(new, old)), "nobody writes what it made meanwhile"
    for mode in ("complete", "append"):
        assert unfollowable(in_mode(new, mode), in_mode(old, mode)) == []
    for kind in ("deduplicate", "session-window", "join"):
        old, new = (in_mode(app(filtered(f"(source-1.a > {n})", kind=kind)), "append") for n in range(2))
        assert any("is given other rows" in problem for problem in unfollowable(new, old)), kind
    above = stage("above", paths=(("after daily.", "from source-1."),))
    old, new = (in_mode(app(filtered(f"(source-1.a > {n})"), above), "append") for n in range(2))
    assert any("is given other rows" in problem for problem in unfollowable(new, old)), (
        "its results go to another stage"
    )
    lookup = app(stage(paths=(("from source-1.", "lookup by source-1.k"),)))
    assert any("is given other rows" in problem for problem in unfollowable(lookup, app()))
