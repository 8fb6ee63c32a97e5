"""The verdicts: pure functions of two plans."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility import compatibility
from airflow_provider_streamupdate.core.compatibility.compatibility import compare, migrations
from airflow_provider_streamupdate.core.compatibility.migration import Migration
from airflow_provider_streamupdate.core.compatibility.report import (
    CARRIED,
    EMPTY,
    IGNORED,
    LOSS,
    MIGRATED,
    REFUSED,
    CompatibilityReport,
)
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import (
    AppPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
)

from .builders import KEY, VALUE, app_plan, query_plan, stage_plan


def report(old: QueryPlan | AppPlan, new: QueryPlan | AppPlan, agree: tuple[str, ...] = ()) -> CompatibilityReport:
    plans = (p if isinstance(p, AppPlan) else app_plan(p) for p in (old, new))
    return compare(*plans, "snapshot s1", agree)


def verdicts(found: CompatibilityReport, thing: str = "stage") -> dict[str, str]:
    return {i.name: i.verdict for i in found.items if i.thing == thing}


def refusal(found: CompatibilityReport) -> str:
    assert not found.compatible
    [item] = [i for i in found.items if i.verdict == REFUSED]
    return f"{item.thing} {item.name}: {item.reason}"


def of(name: str, kind: str = "string") -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}]}


# What is compatible


def test_an_unchanged_plan_is_carried_as_a_whole() -> None:
    found = report(query_plan(), query_plan())
    assert found.compatible and found.problems == [] and found.outcome == "compatible"
    assert [(i.thing, i.name, i.verdict) for i in found.items] == [
        ("source", "windows/source-1", CARRIED),
        ("sink", "windows/noop", CARRIED),
        ("stage", "windows/daily", CARRIED),
    ]


def test_an_added_stage_starts_empty_and_the_others_move() -> None:
    old = query_plan(stage_plan("daily", 0))
    new = query_plan(stage_plan("hourly", 0, definition={"keys": ["x"]}), stage_plan("daily", 1))
    found = report(old, new)
    assert found.compatible and verdicts(found) == {"windows/hourly": EMPTY, "windows/daily": CARRIED}
    assert "moved from 0 to 1" in next(i.reason for i in found.items if i.name == "windows/daily")


def test_stages_are_matched_by_name_whatever_their_order() -> None:
    a, b = (stage_plan(n, i, definition={"keys": [n]}) for i, n in enumerate("ab"))
    swapped = query_plan(attrs.evolve(b, operator_id=0), attrs.evolve(a, operator_id=1))
    assert verdicts(report(query_plan(a, b), swapped)) == {"windows/a": CARRIED, "windows/b": CARRIED}


def test_names_of_columns_and_nullability_do_not_count_for_an_aggregate() -> None:
    renamed = StateSchema(name="default", key=of("departure"), value=VALUE)
    assert report(query_plan(stage_plan()), query_plan(stage_plan(schemas=(renamed,)))).compatible


def test_a_new_query_starts_from_its_source() -> None:
    found = report(app_plan(query_plan()), app_plan(query_plan(), query_plan(name="more")))
    assert found.compatible and verdicts(found, "query") == {"more": EMPTY}


# What needs agreement


def test_a_removed_stage_needs_agreement_and_says_how_to_give_it() -> None:
    old, new = query_plan(stage_plan("daily"), stage_plan("seen", 1)), query_plan(stage_plan("daily"))
    found = report(old, new)
    assert not found.compatible and verdicts(found)["windows/seen"] == IGNORED
    assert found.problems == [
        "stage windows/seen: the new version has no stage with this name; agree to it with --agree windows/seen"
    ]
    assert report(old, new, agree=("windows/seen",)).compatible


def test_a_stage_under_another_name_is_a_loss_and_a_new_one() -> None:
    found = report(query_plan(stage_plan("daily")), query_plan(stage_plan("per_day")))
    assert not found.compatible
    assert verdicts(found) == {"windows/per_day": EMPTY, "windows/daily": IGNORED}


def test_an_unnamed_loss_says_that_it_could_be_named() -> None:
    other = stage_plan("daily", definition={"keys": ["source-1.x"], "aggregates": ["count(1)"]})
    found = report(query_plan(stage_plan("aggregate-1", named=False)), query_plan(other))
    assert "name it with stage()" in found.problems[0]


def test_a_removed_query_needs_agreement() -> None:
    old, new = app_plan(query_plan(), query_plan(name="more")), app_plan(query_plan())
    assert not report(old, new).compatible
    assert report(old, new, agree=("more",)).compatible


def test_agreeing_to_what_is_no_loss_is_a_mistake() -> None:
    with pytest.raises(InvalidInputError, match=r"agreed losses windows/nope are not losses .*\(losses: none\)"):
        report(query_plan(), query_plan(), agree=("windows/nope",))


def test_a_refusal_cannot_be_agreed_to() -> None:
    changed = query_plan(stage_plan(definition={"keys": ["other"]}))
    with pytest.raises(InvalidInputError, match="windows/daily are not losses"):
        report(query_plan(), changed, agree=("windows/daily",))


# What is refused. Spark accepts the first group silently and computes wrong results.

AGGREGATE = {"keys": ["s.a", "s.b"], "aggregates": ["sum(s.d)", "count(1)"]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keys": ["s.b", "s.a"]}, "the order of keys changed from [s.a, s.b] to [s.b, s.a]"),
        ({"keys": ["s.a", "s.c"]}, "keys changed"),
        ({"aggregates": ["count(1)", "sum(s.d)"]}, "the order of aggregates changed"),
        (
            {"aggregates": ["max(s.d)", "count(1)"]},
            "aggregates changed from [sum(s.d), count(1)] to [max(s.d), count(1)]",
        ),
        ({"aggregates": ["sum(s.d)"]}, "aggregates changed"),
        ({"window": "10 minutes"}, "window changed from none to 10 minutes"),
    ],
)
def test_a_changed_meaning_is_refused(changes: dict[str, Any], words: str) -> None:
    old = query_plan(stage_plan(definition=AGGREGATE))
    new = query_plan(stage_plan(definition={**AGGREGATE, **changes}))
    said = refusal(report(old, new))
    assert words in said and "give the changed stage another name to start it empty" in said


def test_another_key_of_a_deduplication_is_refused() -> None:
    dedup = {"kind": "deduplicate", "operator": "dedupe"}
    old, new = (query_plan(stage_plan("d", definition={"keys": [f"s.{k}"]}, **dedup)) for k in "ab")
    assert "keys changed from [s.a] to [s.b]" in refusal(report(old, new))


def test_another_watermark_column_is_refused() -> None:
    old, new = (query_plan(watermarks=(f"source-1.{c} delayed by 1000 ms",)) for c in "tu")
    assert "watermark changed" in refusal(report(old, new))


@pytest.mark.parametrize("delay", [500, 2000])
def test_another_watermark_delay_is_a_loss(delay: int) -> None:
    old, new = (query_plan(watermarks=(f"source-1.t delayed by {ms} ms",)) for ms in (1000, delay))
    found = report(old, new)
    assert not found.compatible and "watermark delay changed from [source-1.t 1 s]" in found.problems[0]
    assert report(old, new, agree=("windows:watermark",)).compatible


def test_the_watermark_of_a_new_source_is_no_change() -> None:
    more = SourcePlan(name="more", named=True, format="json")
    old = query_plan(watermarks=("source-1.t delayed by 1000 ms",))
    new = query_plan(
        sources=(*old.sources, more), watermarks=("more.t delayed by 9 ms", "source-1.t delayed by 1000 ms")
    )
    assert verdicts(report(old, new), "watermark") == {}


def test_another_kind_of_stage_is_refused() -> None:
    new = query_plan(stage_plan(kind="deduplicate", operator="dedupe"))
    assert "kind of stage changed from aggregate to deduplicate" in refusal(report(query_plan(), new))


def test_another_type_at_the_same_place_is_refused() -> None:
    new = query_plan(stage_plan(schemas=(StateSchema(name="default", key=of("origin", "long"), value=VALUE),)))
    assert "key type of the state changed from origin string to origin long" in refusal(report(query_plan(), new))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("room", of("armed", "long"), "value type of the state room changed"),
        ("room", of("other"), "value type of the state room changed"),
    ],
)
def test_changed_state_variables_are_refused(name: str, value: Any, words: str) -> None:
    kind = {"kind": "transform-with-state", "operator": "transformWithStateExec"}
    old = query_plan(stage_plan(**kind, schemas=(StateSchema(name="room", key=KEY, value=VALUE),)))
    new = query_plan(stage_plan(**kind, schemas=(StateSchema(name=name, key=KEY, value=value),)))
    assert words in refusal(report(old, new))


@pytest.mark.parametrize("where", ["both", "new"])
def test_a_stage_that_is_not_understood_is_refused(where: str) -> None:
    kind = "flatMapGroupsWithState"
    strange = stage_plan("pairs", 1, kind=kind, operator=kind, definition={}, schemas=())
    old = query_plan(stage_plan(), *([strange] if where == "both" else []))
    assert "windows/pairs" in refusal(report(old, query_plan(stage_plan(), strange)))


# Sources


def source_plan(name: str, named: bool = True, **changes: Any) -> SourcePlan:
    return SourcePlan(**{"name": name, "named": named, "format": "json", "location": f"/{name}", **changes})


def between(old: tuple[SourcePlan, ...], new: tuple[SourcePlan, ...], **more: Any) -> CompatibilityReport:
    return report(query_plan(sources=old), query_plan(sources=new), **more)


@pytest.mark.parametrize("renames", [{"a": "orders", "b": "clicks"}, {"a": "z"}, {"a": "b", "b": "a"}])
def test_sources_of_a_union_may_be_renamed(renames: dict[str, str]) -> None:
    """The order of the branches' texts is another one then."""

    def plan(one: str, other: str) -> AppPlan:
        texts = sorted([f"{one}.k", f"{other}.k"]), sorted([f"{one}: '1'", f"{other}: '2'"])
        keys = [f"⟨{' ∪ '.join(branches)}⟩" for branches in texts]
        stage = stage_plan(definition={"keys": keys, "aggregates": ["count(1)"]})
        return app_plan(query_plan(stage, sources=(source_plan(one), source_plan(other, location=f"/{one}-2"))))

    old, new = plan("a", "b"), plan(renames["a"], renames.get("b", "b"))
    places = {s.name: s.location for s in old.queries[0].sources}
    sources = tuple(
        attrs.evolve(s, location=places[next(k for k in ("a", "b") if renames.get(k, k) == s.name)])
        for s in new.queries[0].sources
    )
    new = attrs.evolve(new, queries=(attrs.evolve(new.queries[0], sources=sources),))
    assert verdicts(compare(old, new, "s1", renames=renames)) == {"windows/daily": CARRIED}
    swapped = attrs.evolve(
        new.queries[0].stages[0],
        definition={"keys": [k.replace("'1'", "'3'") for k in new.queries[0].stages[0].definition["keys"]],
                    "aggregates": ["count(1)"]},
    )  # fmt: skip
    other = attrs.evolve(new, queries=(attrs.evolve(new.queries[0], stages=(swapped,)),))
    assert verdicts(compare(old, other, "s1", renames=renames)) == {"windows/daily": REFUSED}


def test_named_sources_are_matched_whatever_their_order() -> None:
    a, b = source_plan("a"), source_plan("b")
    assert verdicts(between((a, b), (b, a)), "source") == {"windows/a": CARRIED, "windows/b": CARRIED}


def test_added_and_removed_sources() -> None:
    a, b, c = map(source_plan, "abc")
    found = between((a, b), (a, c))
    assert verdicts(found, "source") == {"windows/a": CARRIED, "windows/c": EMPTY, "windows/b": IGNORED}
    assert not found.compatible and between((a, b), (a, c), agree=("windows/b",)).compatible


@pytest.mark.parametrize("change", [{"location": "/source-2"}, {"format": "csv"}])
def test_unnamed_sources_that_may_have_swapped_are_refused(change: dict[str, Any]) -> None:
    old = (source_plan("source-1", False), source_plan("source-2", False))
    new = (source_plan("source-1", False, **change), source_plan("source-2", False, location="/source-1"))
    assert verdicts(between(old, new), "source") == {"windows/source-1": REFUSED, "windows/source-2": REFUSED}


def test_unnamed_sources_that_cannot_be_told_apart_are_refused() -> None:
    """Two of a kind without a location (rate, sockets): nothing says that they kept their places."""
    pair = tuple(source_plan(f"source-{n}", False, format="rate", location=None) for n in (1, 2))
    assert set(verdicts(between(pair, pair), "source").values()) == {REFUSED}


def test_an_unnamed_source_more_is_refused_and_says_what_to_do() -> None:
    one, two = source_plan("source-1", False), source_plan("source-2", False)
    assert "name the sources with source()" in refusal(between((one,), (one, two)))


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ({}, {"format": "csv"}, REFUSED, "format changed from json to csv"),
        ({}, {"location": "/elsewhere"}, REFUSED, "location changed from /a to /elsewhere"),
        (
            {"format": "kafka", "location": "t", "options": {"subscribe": "t"}},
            {"format": "kafka", "location": "u", "options": {"subscribe": "u"}},
            REFUSED,
            "location changed",
        ),
        (
            {"format": "kafka", "location": "t", "options": {"subscribe": "t", "kafka.bootstrap.servers": "x"}},
            {"format": "kafka", "location": "t", "options": {"subscribe": "t", "kafka.bootstrap.servers": "y"}},
            LOSS,
            "servers changed",
        ),
        ({}, {"options": {"multiline": "true"}}, LOSS, "options changed: [multiline from its default to 'true']"),
        ({}, {"options": {"maxfilespertrigger": "7"}}, CARRIED, "offsets continue"),
        (
            {"format": "kafka", "location": "t", "options": {"subscribe": "t"}},
            {"format": "kafka", "location": "t", "options": {"subscribe": "t", "startingoffsets": "latest"}},
            CARRIED,
            "only a new source uses it",
        ),
    ],
)
def test_a_named_source_that_changed(old: dict[str, Any], new: dict[str, Any], verdict: str, words: str) -> None:
    [item] = [i for i in between((source_plan("a", **old),), (source_plan("a", **new),)).items if i.thing == "source"]
    assert item.verdict == verdict and words in item.reason


def test_a_source_that_got_its_name_is_matched_with_a_rename_or_without() -> None:
    old = query_plan(
        stage_plan(definition={"keys": ["source-1.origin"], "aggregates": ["count('source-1.x')"]}),
        sources=(source_plan("source-1", False, location="/in"),),
    )
    new = query_plan(
        stage_plan(definition={"keys": ["flights.origin"], "aggregates": ["count('source-1.x')"]}),
        sources=(source_plan("flights", location="/in"),),
    )
    assert report(old, new).compatible
    renamed = compare(app_plan(old), app_plan(new), "s1", renames={"source-1": "flights"})
    assert renamed.compatible, renamed.problems


def test_spark_s_own_names_are_kept_to_and_kept() -> None:
    """Its offset log is of another version then, and holds them."""
    ours, sparks = source_plan("a"), source_plan("a", native=True)
    for old, new in ((ours, sparks), (sparks, ours)):
        assert "cannot switch" in refusal(between((old,), (new,)))
        assert "cannot switch" in refusal(between((old,), (old, attrs.evolve(new, name="b"))))
    assert between((sparks,), (sparks, source_plan("b", native=True))).compatible
    plan = app_plan(query_plan(sources=(sparks,)))
    with pytest.raises(InvalidInputError, match="keep the name"):
        compare(plan, plan, "s1", renames={"a": "b"})


# Sinks and output modes


def test_another_format_of_the_sink_is_a_loss_and_files_cannot_begin_in_the_middle() -> None:
    found = report(query_plan(), query_plan(sink=SinkPlan(format="console")))
    assert verdicts(found, "sink") == {"windows/console": LOSS}
    assert "cannot begin in the middle" in refusal(report(query_plan(), query_plan(sink=SinkPlan(format="json"))))
    moved = (query_plan(sink=SinkPlan(format="json", options={"path": p})) for p in ("/a", "/b"))
    assert "json /a to json /b" in refusal(report(*moved))


def test_options_of_the_sink_may_change() -> None:
    old, new = (query_plan(sink=SinkPlan(format="kafka", options={"topic": t})) for t in "tu")
    assert report(old, new).compatible


@pytest.mark.parametrize(
    ("old", "new", "watermark", "verdict"),
    [
        ("update", "complete", False, CARRIED),
        ("update", "complete", True, LOSS),
        ("complete", "update", True, CARRIED),
        ("update", "append", True, LOSS),
        ("append", "update", True, LOSS),
        ("append", "complete", True, LOSS),
        ("complete", "append", True, LOSS),
    ],
)
def test_output_modes(old: str, new: str, watermark: bool, verdict: str) -> None:
    marks = ("source-1.t delayed by 1000 ms",) if watermark else ()
    found = report(query_plan(output_mode=old, watermarks=marks), query_plan(output_mode=new, watermarks=marks))
    assert verdicts(found, "sink") == {"windows/noop": verdict}


def test_settings_that_change_what_rows_mean_are_losses_of_a_query_with_state() -> None:
    zones = [{"spark.sql.session.timeZone": z} for z in ("UTC", "Asia/Tokyo")]
    found = report(*(query_plan(conf=z) for z in zones))
    assert verdicts(found, "setting") == {"windows:spark.sql.session.timeZone": LOSS}
    stateless = [attrs.evolve(query_plan(conf=z), stages=()) for z in zones]
    assert report(*stateless).compatible


# Stages: windows, functions, joins, limits


def pair_of(kind: str, operator: str, old: dict[str, Any], new: dict[str, Any], **more: Any) -> CompatibilityReport:
    one, two = (query_plan(stage_plan("it", kind=kind, operator=operator, definition=d)) for d in (old, new))
    return report(one, two, **more)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("window(s.t, 10 minutes, #a)", "window(s.t, 20 minutes, #b)", "stage.window"),
        (
            "window(s.t, 10 minutes, #a)",
            "(window(s.t, 10 minutes, every 5 minutes, #b) | window(s.t, 10 minutes, every 5 minutes, #c))",
            "stage.window",
        ),
        ("session_window(s.t, gap '5 minutes', #a)", "session_window(s.t, gap '9 minutes', #b)", "stage.session-gap"),
        ("session_window(s.t, gap '5 minutes', #a)", "session_window(s.u, gap '5 minutes', #b)", "stage.window"),
        ("window(s.t, 10 minutes, #a)", "s.k", "stage.keys"),
        (
            "⟨session_window(s.t, gap '5 minutes', #a) ∪ session_window(r.t, gap '5 minutes', #a)⟩",
            "⟨session_window(s.t, gap '9 minutes', #b) ∪ session_window(r.t, gap '9 minutes', #b)⟩",
            "stage.session-gap",
        ),
        (
            "⟨window(s.t, 10 minutes, #a) ∪ window(r.t, 10 minutes, #a)⟩",
            "⟨window(s.t, 20 minutes, #b) ∪ window(r.t, 20 minutes, #b)⟩",
            "stage.window",
        ),
    ],
)
def test_windows(old: str, new: str, rule: str) -> None:
    definitions = ({"keys": [key, "s.x"], "aggregates": ["count(1)"]} for key in (old, new))
    [item] = [i for i in pair_of("aggregate", "stateStoreSave", *definitions).items if i.thing == "stage"]
    assert (item.verdict, item.rules) == (REFUSED, (rule,)) and "keys changed" in item.reason


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (["sum(s.a)"], ["max(s.a)"], "stage.aggregate-function"),
        (["min_by(s.a, s.b)"], ["min_by(s.a, s.c)"], "stage.aggregate-arguments"),
        (["sum(s.a)"], ["sum(s.a)", "count(1)"], "stage.aggregates-number"),
        (["sum(s.a)", "sum(s.b)"], ["sum(s.b)", "sum(s.a)"], "stage.aggregates-order"),
    ],
)
def test_aggregates(old: list[str], new: list[str], rule: str) -> None:
    definitions = ({"keys": ["s.k"], "aggregates": a} for a in (old, new))
    [item] = [i for i in pair_of("aggregate", "stateStoreSave", *definitions).items if i.thing == "stage"]
    assert (item.verdict, item.rules) == (REFUSED, (rule,))


FUNCTION = {
    "keys": ["s.k"],
    "time mode": "None",
    "state variables": ["n: ValueState"],
    "code": "#1",
    "input": ["a = s.a", "b = s.b"],
}


@pytest.mark.parametrize(
    ("changes", "verdict", "rule"),
    [
        ({}, CARRIED, "stage.same"),
        ({"code": "#2"}, LOSS, "stage.code"),
        ({"code": "python:f"}, LOSS, "stage.code-unknown"),
        ({"input": ["a = s.b", "b = s.b"]}, LOSS, "stage.input"),
        ({"input": ["b = s.b", "a = s.a"]}, LOSS, "stage.input-order"),
        ({"keys": ["s.x"]}, REFUSED, "stage.function-keys"),
        ({"time mode": "EventTime"}, REFUSED, "stage.time-mode"),
        ({"state variables": ["n: MapState"]}, REFUSED, "stage.variable-changed"),
        ({"state variables": ["n: ValueState with TTL"]}, REFUSED, "stage.variable-changed"),
        ({"state variables": ["m: ValueState"]}, REFUSED, "stage.variable-gone"),
        ({"state variables": ["m: ListState", "n: ValueState"]}, CARRIED, "stage.same"),
        ({"something new": "x"}, REFUSED, "stage.definition"),
    ],
)
def test_state_functions(changes: dict[str, Any], verdict: str, rule: str) -> None:
    found = pair_of("transform-with-state", "transformWithStateInPySparkExec", FUNCTION, {**FUNCTION, **changes})
    [item] = [i for i in found.items if i.thing == "stage"]
    assert item.verdict == verdict and rule in item.rules


def test_fields_of_a_state_variable_that_become_nullable_are_refused() -> None:
    def variable(nullable: bool) -> StagePlan:
        field = {"name": "n", "type": "long", "nullable": nullable, "metadata": {}}
        schema = StateSchema(
            name="n",
            key={"encoder": {}, "row": {"type": "struct", "fields": []}, "user_key": ""},
            value={"type": "struct", "fields": [field]},
        )
        return stage_plan("it", kind="transform-with-state", operator="x", definition=FUNCTION, schemas=(schema,))

    old, new = (app_plan(query_plan(variable(nullable))) for nullable in (False, True))
    [item] = [i for i in compare(old, new, "snapshot s1").items if i.thing == "stage"]
    assert (item.verdict, item.rules) == (REFUSED, ("stage.variable-nullability",))


def test_code_that_cannot_be_compared_is_a_loss_even_when_nothing_seems_changed() -> None:
    vague = {**FUNCTION, "code": "python:f"}
    found = pair_of("transform-with-state", "transformWithStateInPySparkExec", vague, vague)
    assert verdicts(found) == {"windows/it": LOSS}


def test_losses_are_told_together_and_agreed_to_by_one_name() -> None:
    new = {**FUNCTION, "code": "#2", "input": ["a = s.c", "b = s.b"]}
    found = pair_of("transform-with-state", "transformWithStateInPySparkExec", FUNCTION, new)
    [item] = [i for i in found.items if i.thing == "stage"]
    assert item.rules == ("stage.code", "stage.input") and "[a = s.a] became [a = s.c]" in item.reason
    name = ("windows/it",)
    assert pair_of("transform-with-state", "transformWithStateInPySparkExec", FUNCTION, new, agree=name).compatible


JOIN = {
    "join type": "Inner",
    "keys": ["s.k = t.k", "s.l = t.l"],
    "condition": ["greaterthan(s.a, t.a)"],
    "left columns": ["s.k", "s.l", "s.a"],
    "right columns": ["t.k", "t.l", "t.a"],
}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"join type": "LeftOuter"}, "stage.join-type"),
        ({"keys": ["s.l = t.l", "s.k = t.k"]}, "stage.join-keys"),
        ({"condition": []}, "stage.join-condition"),
        ({"left columns": ["s.k", "s.a", "s.l"]}, "stage.join-left"),
        ({"right columns": ["t.k", "t.l"]}, "stage.join-right"),
    ],
)
def test_joins(changes: dict[str, Any], rule: str) -> None:
    found = pair_of("join", "symmetricHashJoin", JOIN, {**JOIN, **changes})
    [item] = [i for i in found.items if i.thing == "stage"]
    assert (item.verdict, item.rules) == (REFUSED, (rule,))


def test_another_limit_is_a_loss() -> None:
    found = pair_of("limit", "globalLimit", {"rows": "5"}, {"rows": "9"})
    assert verdicts(found) == {"windows/it": LOSS} and "limit changed from 5 to 9" in found.problems[0]


def test_a_column_that_could_be_null_and_now_cannot_is_refused() -> None:
    strict = {"type": "struct", "fields": [{**KEY["fields"][0], "nullable": False}]}
    loose, tight = (
        query_plan(stage_plan(schemas=(StateSchema(name="default", key=k, value=VALUE),))) for k in (KEY, strict)
    )
    assert "were nullable and are not any more" in refusal(report(loose, tight))
    assert report(tight, loose).compatible


def test_another_decimal_is_another_type() -> None:
    old, new = (
        query_plan(stage_plan(schemas=(StateSchema(name="default", key=KEY, value=of("s", d)),)))
        for d in ("decimal(20,2)", "decimal(22,2)")
    )
    assert "value type of the state changed from s decimal(20,2) to s decimal(22,2)" in refusal(report(old, new))


@pytest.mark.parametrize("text", ["?x", "max(?x)", "sum(s.a, ?y)"])
def test_what_could_not_be_traced_is_refused(text: str) -> None:
    plan = query_plan(stage_plan(definition={"keys": ["s.k"], "aggregates": [text]}))
    assert "could not be traced" in refusal(report(plan, plan))


def test_unnamed_stages_that_mean_the_same_are_not_told_apart_by_position() -> None:
    """Two counts of the same key over different filters, which may have swapped."""
    one, two = (stage_plan(f"aggregate-{n + 1}", n, named=False, below=f"filter {n}") for n in (0, 1))
    swapped = query_plan(attrs.evolve(one, below="filter 1"), attrs.evolve(two, below="filter 0"))
    assert report(query_plan(one, two), query_plan(one, two)).compatible
    assert set(verdicts(report(query_plan(one, two), swapped)).values()) == {REFUSED}


def test_a_new_stage_with_an_initial_state_is_refused() -> None:
    first = stage_plan(
        "it", 1, kind="transform-with-state", operator="transformWithStateInPySparkExec",
        definition={**FUNCTION, "initial state": True},
    )  # fmt: skip
    assert "in batch 0 only" in refusal(report(query_plan(stage_plan()), query_plan(stage_plan(), first)))


# Renames


def test_a_stage_under_another_name_is_carried_by_a_rename_and_refused_without() -> None:
    above = {"keys": ["daily.source-1.x", "concat(daily.count, 'daily.x')"], "aggregates": ["count(1)"]}
    renamed = {**above, "keys": ["per_day.flights.x", "concat(per_day.count, 'daily.x')"]}
    below = {"keys": ["source-1.x"], "aggregates": ["count(1)"]}
    old = app_plan(query_plan(stage_plan("top", 0, definition=above), stage_plan("daily", 1, definition=below)))
    new = app_plan(
        query_plan(
            stage_plan("top", 0, definition=renamed),
            stage_plan("per_day", 1, definition={**below, "keys": ["flights.x"]}),
            sources=(attrs.evolve(old.queries[0].sources[0], name="flights", named=True),),
        )
    )
    assert not report(old, new).compatible
    for key in ("daily", "windows/daily"):
        found = compare(old, new, "s1", renames={key: "per_day", "source-1": "flights"})
        assert found.compatible and verdicts(found) == {"windows/top": CARRIED, "windows/per_day": CARRIED}


def test_a_rename_is_hinted_at() -> None:
    old, new = (query_plan(stage_plan(name)) for name in ("daily", "per_day"))
    assert "--rename windows/daily=per_day carries its state" in report(old, new).problems[0]


def test_two_stages_may_swap_their_names() -> None:
    a, b = (stage_plan(n, i, definition={"keys": [n], "aggregates": []}) for i, n in enumerate("ab"))
    swapped = query_plan(attrs.evolve(a, name="b"), attrs.evolve(b, name="a"))
    found = compare(app_plan(query_plan(a, b)), app_plan(swapped), "s1", renames={"a": "b", "b": "a"})
    assert set(verdicts(found).values()) == {CARRIED}


def test_a_rename_of_nothing_and_one_onto_another_are_mistakes() -> None:
    plan = app_plan(query_plan(stage_plan("a"), stage_plan("b", 1)))
    with pytest.raises(InvalidInputError, match=r"rename of c: .*known: windows/a, windows/b, windows/source-1"):
        compare(plan, plan, "s1", renames={"c": "d"})
    with pytest.raises(InvalidInputError, match="two stages named b"):
        compare(plan, plan, "s1", renames={"a": "b"})


# Where migrations come in


@pytest.fixture
def migration(monkeypatch: pytest.MonkeyPatch):
    """Sets what the rules of migration find."""
    return lambda found: monkeypatch.setattr(compatibility, "plan_migration", lambda old, new, watermarks: found)


def test_a_migration_takes_the_place_of_a_refusal_and_its_losses_need_agreement(migration) -> None:
    old, new = (query_plan(stage_plan(definition={**AGGREGATE, "aggregates": a})) for a in (["sum(s.d)"], ["max(s.d)"]))
    plans = app_plan(old), app_plan(new)
    migration(Migration(steps=("max begins empty",)))
    made = compare(*plans, "s1")
    assert made.compatible and verdicts(made) == {"windows/daily": MIGRATED}
    assert list(migrations(old, new)) == ["daily"]
    migration(Migration(steps=("max begins empty",), losses=("the maximum before the update is not known",)))
    found = compare(*plans, "s1")
    assert not found.compatible and verdicts(found) == {"windows/daily": LOSS}
    assert "maximum before the update" in found.problems[0]
    migration("max cannot be had from a sum")
    assert "no migration: max cannot be had from a sum" in refusal(compare(*plans, "s1"))
    assert migrations(old, new) == {}


def test_a_migration_is_not_asked_where_another_refusal_stands_or_none(migration) -> None:
    migration(Migration(steps=("anything",)))
    unknown = {**AGGREGATE, "aggregates": ["max(?x)"]}
    old, new = (query_plan(stage_plan(definition=d)) for d in (AGGREGATE, unknown))
    assert verdicts(compare(app_plan(old), app_plan(new), "s1")) == {"windows/daily": REFUSED}
    assert verdicts(compare(app_plan(old), app_plan(old), "s1")) == {"windows/daily": CARRIED}
    assert migrations(old, new) == migrations(old, old) == {}


def test_a_plan_of_another_version_of_this_package_is_agreed_to() -> None:
    old = attrs.evolve(app_plan(), version=1)
    report = compare(old, app_plan(), "test")
    assert not report.compatible and "streamupdate restart" in report.problems[0]
    assert compare(old, app_plan(), "test", ["flights"]).compatible


def test_another_app_is_refused() -> None:
    assert "the saved state belongs to app other" in refusal(report(app_plan(app="other"), app_plan()))


@pytest.mark.parametrize("pair", [("4.3.0", "4.2.1"), ("4.1.1", "4.3.0"), ("4.3.0", "4.4.0"), ("3.5.6", "4.2.1")])
def test_a_spark_that_is_not_known_to_read_the_state_is_refused(pair: tuple[str, str]) -> None:
    old, new = (app_plan(spark_version=version) for version in pair)
    assert f"written by Spark {pair[0]}, and the new version's Spark {pair[1]} is not known to read it" in refusal(
        report(old, new)
    )


def test_a_later_spark_that_is_known_to_read_the_state_goes_on_with_it() -> None:
    found = report(app_plan(spark_version="4.2.1"), app_plan())
    assert found.compatible and found.items[0].rules == ("app.engine-later",)
    assert found.items[0].verdict == CARRIED
    assert report(app_plan(spark_version="4.3.1"), app_plan()).compatible  # a patch is no change
    assert "app" not in {i.thing for i in report(app_plan(spark_version="4.3.1"), app_plan()).items}


def test_one_refusal_does_not_hide_the_other_verdicts() -> None:
    old = query_plan(stage_plan("a"), stage_plan("b", 1))
    new = query_plan(stage_plan("a", definition={"keys": ["x"]}), stage_plan("b", 1))
    assert verdicts(report(old, new)) == {"windows/a": REFUSED, "windows/b": CARRIED}


# The report


def test_the_markdown_names_everything_and_survives_pipes_and_line_ends() -> None:
    old = query_plan(stage_plan("a", definition={"keys": ["x | y"]}), stage_plan("b", 1))
    new = query_plan(stage_plan("a", definition={"keys": ["x\ny"]}))
    lines = report(old, new, agree=("windows/b",)).to_markdown().splitlines()
    assert lines[0] == "Compatibility of the new version of **flights** with snapshot s1: **not compatible**"
    assert lines[2] == "```text" and "stage a, aggregate" in "\n".join(lines[3 : lines.index("```")])
    rows = [line.replace("\\|", "") for line in lines[lines.index("|---|---|---|---|---|") + 1 :]]
    assert len(rows) == 4 and all(row.count("|") == 6 for row in rows)
    assert rows[2].startswith("| stage | windows/a | refused | keys changed") and rows[3].endswith("| agreed |")


# What a reason tells


def reading(location: str | None = None, **options: str) -> QueryPlan:
    source = SourcePlan(name="s", named=True, format="json" if location else "own", location=location, options=options)
    return query_plan(sources=(source,))


def writing(location: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format="parquet", location=location, options={"path": location}))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            reading("s3a://AK:hunter2@b/in"),
            reading("s3a://AK:hun/ter2@b/in"),
            "location changed from s3a://***@b/in to s3a://***@b/in (what is hidden differs)",
        ),
        (reading("abfss://a@acc/in"), reading("abfss://b@acc/in"), "changed from abfss://a@acc/in to abfss://b@acc/in"),
        (
            writing("s3a://AK:hunter2@b/out"),
            writing("s3a://AK:hunter3@c/out"),
            "sink changed from parquet s3a://***@b/out to parquet s3a://***@c/out",
        ),
        (reading(api_key="hunter2"), reading(api_key="hunter3"), "(hidden)"),
        (
            query_plan(given={"my.api.key": "hunter2"}),
            query_plan(given={"my.api.key": "hunter3"}),
            "my.api.key changed from (hidden) to (hidden)",
        ),
    ],
)
def test_a_reason_holds_no_secret(old: QueryPlan, new: QueryPlan, told: str) -> None:
    found = report(old, new)
    assert any(told in item.reason for item in found.items), [item.reason for item in found.items]
    assert "hunter" not in found.to_markdown() and not any("hunter" in item.reason for item in found.items)
