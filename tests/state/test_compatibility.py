"""The verdicts: pure functions of two plans."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.state.compatibility import compare
from airflow_provider_streamupdate.state.errors import InvalidInputError
from airflow_provider_streamupdate.state.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan, StateSchema
from airflow_provider_streamupdate.state.report import CARRIED, EMPTY, IGNORED, REFUSED, CompatibilityReport

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
        "stage windows/seen: the new version has no such stage; agree to it with --agree windows/seen"
    ]
    assert report(old, new, agree=("windows/seen",)).compatible


def test_a_stage_under_another_name_is_a_loss_and_a_new_one() -> None:
    found = report(query_plan(stage_plan("daily")), query_plan(stage_plan("per_day")))
    assert not found.compatible
    assert verdicts(found) == {"windows/per_day": EMPTY, "windows/daily": IGNORED}


def test_an_unnamed_loss_says_that_it_could_be_named() -> None:
    found = report(query_plan(stage_plan("aggregate-1", named=False)), query_plan(stage_plan("daily")))
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
        ({"keys": ["s.b", "s.a"]}, "keys changed from [s.a, s.b] to [s.b, s.a]"),
        ({"keys": ["s.a", "s.c"]}, "keys changed"),
        ({"aggregates": ["count(1)", "sum(s.d)"]}, "aggregates changed"),
        (
            {"aggregates": ["max(s.d)", "count(1)"]},
            "aggregates changed from [sum(s.d), count(1)] to [max(s.d), count(1)]",
        ),
        ({"aggregates": ["sum(s.d)"]}, "aggregates changed"),
        ({"keys": ["window(s.t, 20 minutes)", "s.b"]}, "keys changed"),
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


def test_another_watermark_is_refused() -> None:
    old, new = (query_plan(watermarks=(f"s.t delayed by {ms} ms",)) for ms in (1000, 2000))
    assert "watermark changed" in refusal(report(old, new))


def test_another_kind_of_stage_is_refused() -> None:
    new = query_plan(stage_plan(kind="deduplicate", operator="dedupe"))
    assert "kind of stage changed from stateStoreSave to dedupe" in refusal(report(query_plan(), new))


def test_another_type_at_the_same_place_is_refused() -> None:
    new = query_plan(stage_plan(schemas=(StateSchema(name="default", key=of("origin", "long"), value=VALUE),)))
    assert "key type of the state changed from origin string to origin long" in refusal(report(query_plan(), new))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("other", VALUE, "state variables changed"),
        ("room", of("armed", "long"), "value type of the state room changed"),
    ],
)
def test_changed_state_variables_are_refused(name: str, value: Any, words: str) -> None:
    kind = {"kind": "transform-with-state", "operator": "transformWithStateExec"}
    old = query_plan(stage_plan(**kind, schemas=(StateSchema(name="room", key=KEY, value=VALUE),)))
    new = query_plan(stage_plan(**kind, schemas=(StateSchema(name=name, key=KEY, value=value),)))
    assert words in refusal(report(old, new))


@pytest.mark.parametrize("where", ["both", "new"])
def test_a_stage_that_is_not_understood_is_refused(where: str) -> None:
    join = stage_plan("pairs", 1, kind="symmetricHashJoin", operator="symmetricHashJoin", definition={}, schemas=())
    old = query_plan(stage_plan(), *([join] if where == "both" else []))
    assert "windows/pairs" in refusal(report(old, query_plan(stage_plan(), join)))


@pytest.mark.parametrize(("part", "value"), [("format", "kafka"), ("location", "/elsewhere"), ("name", "flights")])
def test_a_changed_source_is_refused(part: str, value: str) -> None:
    old = query_plan().sources[0]
    new = query_plan(sources=(attrs.evolve(old, **{part: value}),))
    assert f"{part} changed from {getattr(old, part)} to {value}" in refusal(report(query_plan(), new))


def test_another_number_of_sources_is_refused() -> None:
    more = (*query_plan().sources, SourcePlan(name="source-2", named=False, format="rate"))
    assert "sources changed" in refusal(report(query_plan(), query_plan(sources=more)))


def test_another_sink_or_output_mode_is_refused() -> None:
    assert "format changed from noop to console" in refusal(
        report(query_plan(), query_plan(sink=SinkPlan(format="console")))
    )
    assert "output mode changed from append to update" in refusal(
        report(query_plan(), query_plan(output_mode="update"))
    )


def test_another_app_is_refused() -> None:
    assert "the saved state belongs to app other" in refusal(report(app_plan(app="other"), app_plan()))


def test_another_minor_version_of_spark_is_refused_a_patch_is_not() -> None:
    assert "Spark 4.2.1" in refusal(report(app_plan(spark_version="4.2.1"), app_plan()))
    assert report(app_plan(spark_version="4.3.1"), app_plan()).compatible


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
    rows = [line.replace("\\|", "") for line in lines[4:]]
    assert len(rows) == 4 and all(row.count("|") == 6 for row in rows)
    assert rows[2].startswith("| stage | windows/a | refused | keys changed") and rows[3].endswith("| agreed |")
