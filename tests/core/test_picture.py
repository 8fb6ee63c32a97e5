"""The picture of an app's queries: verdicts and figures on its graph, places for its nodes, and its drawing as text."""

from __future__ import annotations

import itertools
import re

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.picture.drawing import SIGNS, WIDTH, drawn
from airflow_provider_streamupdate.core.compatibility.picture.picture import Change, Picture, PicturedNode, pictured
from airflow_provider_streamupdate.core.compatibility.picture.places import placed
from airflow_provider_streamupdate.core.compatibility.report import (
    CARRIED,
    LOSS,
    REFUSED,
    CompatibilityReport,
    ReportItem,
    Verdict,
)
from airflow_provider_streamupdate.core.plan.expressions import Literal
from airflow_provider_streamupdate.core.plan.graph import QueryGraph, graph
from airflow_provider_streamupdate.core.plan.plan import QueryPlan
from airflow_provider_streamupdate.core.serde import from_json, to_json

from .builders import app_plan, query_plan, stage_plan
from .test_graph import CHAIN, HOSTILE, query, source, stage


def item(thing: str, name: str, verdict: Verdict = CARRIED, **changes: object) -> ReportItem:
    return ReportItem(**{"thing": thing, "name": name, "verdict": verdict, "reason": "why", **changes})  # type: ignore[arg-type]


def node(picture: Picture, name: str, of: str = "windows") -> PicturedNode:
    return next(n for q in picture.queries if q.name == of for n in q.nodes if n.id == name)


PASSED_BY = query(
    stage("distinct", 0, ("from a.",)), stage("pairs", 1, ("from a.", "f(a.x)"), ("from b.",), kind="join"),
    sources="a b", paths=(("after distinct.", "from a."), ("after pairs.", "from a."), ("from b.",)),
)  # fmt: skip


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(("thing", "name"), [("stage", "daily"), ("source", "a"), ("sink", "noop")])
def test_each_verdict_is_on_its_node(verdict: Verdict, thing: str, name: str) -> None:
    told = item(thing, f"windows/{name}", verdict, needs_agreement=verdict == LOSS)
    made = pictured(graph(app_plan(CHAIN), app_plan(CHAIN)), [told])
    found = node(made, "sink" if thing == "sink" else f"{thing} {name}")
    assert (found.mark, found.reason) == (verdict, "why")
    assert found.blocks == told.blocks and found.agreement == ("needed" if verdict == LOSS else None)
    [line] = [line for line in drawn(made) if f"{thing} {name}" in line]
    assert f"  {SIGNS[verdict]} {verdict}" in line
    assert ("needs agreement" in line) == (verdict == LOSS)


def test_a_loss_that_was_agreed_to_says_so() -> None:
    told = item("stage", "windows/daily", LOSS, needs_agreement=True, agreed=True)
    made = pictured(graph(app_plan(CHAIN), app_plan(CHAIN)), [told])
    assert node(made, "stage daily").agreement == "agreed" and not node(made, "stage daily").blocks
    assert any(line.endswith("! carried with loss, agreed") for line in drawn(made))


def test_every_item_of_a_report_is_somewhere() -> None:
    """On a node, else with its query, else with the app."""
    items = [
        item("app", "flights"), item("query", "windows"), item("query", "windows:fork"), item("query", "gone"),
        item("watermark", "windows:watermark"), item("setting", "windows:spark.sql.ansi.enabled"),
        item("stage", "windows/operator-3"), item("stage", "windows/daily"), item("source", "elsewhere/x"),
    ]  # fmt: skip
    made = pictured(graph(app_plan(CHAIN), app_plan(CHAIN)), items)
    assert node(made, "stage daily").mark == CARRIED
    [shown] = made.queries
    assert [note.name for note in shown.notes] == [
        *("windows", "windows:fork", "windows:watermark", "windows:spark.sql.ansi.enabled", "windows/operator-3")
    ]
    assert [note.name for note in made.notes] == ["flights", "gone", "elsewhere/x"]
    assert sum(f" {each.thing} {each.name}: carried" in "\n".join(drawn(made)) for each in items) == len(items) - 1


def test_a_query_whose_name_has_a_colon_keeps_its_notes() -> None:
    plan = app_plan(query(name="a"), query(name="a:b"))
    made = pictured(
        graph(plan, plan), [item("query", "a:b"), item("watermark", "a:b:watermark"), item("query", "a:fork")]
    )
    assert [[n.name for n in q.notes] for q in made.queries] == [["a:fork"], ["a:b", "a:b:watermark"]]


def test_the_worst_of_several_verdicts_counts_and_all_reasons_are_told() -> None:
    items = [item("stage", "windows/daily"), item("stage", "windows/daily", REFUSED, reason="no")]
    found = node(pictured(graph(app_plan(CHAIN), app_plan(CHAIN)), items), "stage daily")
    assert (found.mark, found.reason, found.blocks) == (REFUSED, "why; no", True)


def test_what_has_no_verdict_is_told_by_what_changes() -> None:
    def filtered(*texts: str) -> QueryPlan:
        return query(paths=tuple((text, "from a.") for text in texts), filters=texts, sources="a b")

    made = pictured(graph(app_plan(filtered("f(a.x)", "g(a.x)")), app_plan(filtered("f(a.x)", "h(a.x)", "i(a.x)"))))
    assert [n.mark for n in made.queries[0].nodes if n.kind == "steps"] == [Change.SAME, Change.CHANGED, Change.GONE]
    lines = drawn(made)
    assert "  + filter g(a.x)" not in lines
    [changed] = [n for n, line in enumerate(lines) if line.endswith("~ changed")]
    assert "+ filter g(a.x)" in lines[changed] and "- filter h(a.x)" in lines[changed + 1]


def test_steps_are_not_called_new_where_the_old_plan_does_not_tell_them() -> None:
    new = query(paths=(("f(a.x)", "from a."),), filters=("f(a.x)",))
    made = pictured(graph(app_plan(new), app_plan(attrs.evolve(new, paths=None, filters=()))))
    assert [n.mark for n in made.queries[0].nodes if n.kind == "steps"] == [Change.UNKNOWN]
    assert drawn(made)[-1] == "? the old version's plan does not tell the steps before the sink"
    assert not any("here" in line for line in drawn(made))


def test_without_a_second_version_nothing_is_marked() -> None:
    made = pictured(
        graph(app_plan(CHAIN)), figures={"windows": {"": {"lag": 3.0}, "stage daily": {"state_rows": 42.0}}}
    )
    assert not made.compared and {n.mark for n in made.queries[0].nodes} == {None}
    assert made.queries[0].figures == {"lag": 3.0} and node(made, "stage daily").figures == {"state_rows": 42.0}
    assert {n.old_at for n in made.queries[0].nodes} == {None}


def test_a_report_keeps_the_graph_of_both_plans() -> None:
    report = compare(app_plan(CHAIN), app_plan(query(stage("daily", 0, ("from a.",)))), "snapshot s1")
    assert from_json(to_json(report), CompatibilityReport, "x") == report
    assert report.picture is not None and node(report.picture, "stage distinct").mark == "ignored"
    older = attrs.evolve(report, graph=None)
    assert older.picture is None and "```" not in older.to_markdown() and "```" in report.to_markdown()


def test_renamed_stages_are_one_node() -> None:
    new = query(stage("monthly", 0, ("from a.",)), paths=(("after monthly.", "from a."),))
    old = query(stage("daily", 0, ("from a.",)), paths=(("after daily.", "from a."),))
    report = compare(app_plan(old), app_plan(new), "s", renames={"daily": "monthly"})
    assert report.picture is not None
    assert [n.id for n in report.picture.queries[0].nodes] == ["source a", "stage monthly", "sink"]


# Places


def backwards(found: QueryGraph) -> list[str]:
    """Edges that do not go to the right, and nodes in one place."""
    places, wrong = placed(found), []
    for side, at in (("old", places.old), ("new", places.new)):
        here = [n.id for n in found.nodes if getattr(n, side) is not None]
        taken = [(at[name].column, at[name].row) for name in here]
        wrong += [f"{side} {one}" for one, place in zip(here, taken, strict=True) if taken.count(place) > 1]
        edges = [e for e in found.edges if getattr(e, side)]
        wrong += [f"{side} {e.start} > {e.end}" for e in edges if at[e.start].column >= at[e.end].column]
    return wrong


PLANS = {
    "chain": CHAIN,
    "past a stage": PASSED_BY,
    "stateless": query(paths=(("f(a.x)", "from a."), ("from b.",), ("from a.",)), sources="a b"),
    "nothing known": query(stage_plan("daily", 0), stage_plan("x", 1), sources="a b", paths=None),  # type: ignore[arg-type]
    "no source": query(sources=""),
    "the other way round": query(
        stage("distinct", 0, ("after daily.", "from a.")), stage("daily", 1, ("from a.",)),
        paths=(("after daily.", "after distinct.", "from a."),),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), list(itertools.product(PLANS, PLANS)))
def test_edges_go_to_the_right_and_no_two_nodes_lie_in_one_place(old: str, new: str) -> None:
    [found] = graph(app_plan(PLANS[new]), app_plan(PLANS[old])).queries
    assert backwards(found) == []
    made = pictured(graph(app_plan(PLANS[new]), app_plan(PLANS[old])))
    assert drawn(made) and {n.id for n in made.queries[0].nodes if n.old} == {n.id for n in found.nodes if n.old}


def test_a_node_has_one_place_in_both_versions() -> None:
    new = query(stage("daily", 0, ("from a.",)), paths=(("after daily.", "from a."),))
    [found] = graph(app_plan(new), app_plan(CHAIN)).queries
    at = placed(found)
    assert at.old == at.new
    assert (at.new["source a"].column, at.new["stage daily"].column, at.new["sink"].column) == (0, 2, 3)


def test_stages_that_change_their_order_have_a_place_in_each() -> None:
    [found] = graph(app_plan(PLANS["the other way round"]), app_plan(CHAIN)).queries
    at = placed(found)
    assert (at.old["stage daily"].column, at.new["stage daily"].column) == (2, 1)


def test_what_feeds_a_join_lies_around_it() -> None:
    join = query(stage("pairs", 0, ("from a.",), ("from b.",)), sources="a b", paths=(("after pairs.", "from a."),))
    at = placed(graph(app_plan(join)).queries[0]).new
    assert [at[n].row for n in ("source a", "source b", "stage pairs", "sink")] == [0, 1, 0.5, 0.5]


def test_fifty_stages_in_a_row() -> None:
    names = [f"stage-number-{n}" for n in range(50)]
    stages = [stage(n, i, ("from a.", *(f"after {m}." for m in names[i + 1 :]))) for i, n in enumerate(names)]
    plan = app_plan(query(*stages, paths=(("from a.", *(f"after {name}." for name in names)),)))
    made = pictured(graph(plan, plan))
    assert sorted(n.new_at.column for n in made.queries[0].nodes if n.new_at) == list(range(52))
    lines = drawn(made)
    assert len(lines) == 53 and max(map(len, lines)) < WIDTH + 30 and all("stage-number-" in x for x in lines[2:-1])


def test_fifty_sources_of_one_stage() -> None:
    names = [f"s{n}" for n in range(50)]
    union = query(stage("daily", 0, *((f"from {n}.",) for n in names)), sources=" ".join(names),
                  paths=(("after daily.", "from s1."),))  # fmt: skip
    [found] = graph(app_plan(union), app_plan(union)).queries
    assert backwards(found) == []
    assert len({placed(found).new[f"source {n}"].row for n in names}) == 50


# The drawing


def test_the_drawing_of_a_refused_update() -> None:
    old = query(
        stage("daily", 0, ("after distinct.", "from a."), ("after distinct.", "from b.")),
        stage("distinct", 1, ("from a.",), ("from b.",), kind="deduplicate"),
        sources="a b", paths=(("after daily.", "after distinct.", "from a."),),
    )  # fmt: skip
    new = query(
        stage("daily", 0, ("from a.", "greaterthan(a.x, 3)"), ("from c.",), filters=("greaterthan(a.x, 3)",)),
        sources="a c", paths=(("after daily.", "from a."),),
    )  # fmt: skip
    report = compare(app_plan(old), app_plan(new), "snapshot s1")
    assert report.picture is not None
    told = "\n".join(drawn(report.picture))
    assert told.splitlines() == [
        "query windows",
        "sink noop                       = carried",
        "↑ stage daily, aggregate        = carried",
        "├─ filter a.x > 3               + new",
        "│  ↑ source a, json             = carried, goes here now",
        "├─ source c, json               + empty",
        "└─ stage distinct, deduplicate  - ignored, needs agreement",
        "   ├─ source a, json            (above), went here before",
        "   └─ source b, json            - ignored, needs agreement",
    ]


def test_what_only_one_version_has_is_told_of_queries_and_sinks() -> None:
    delta = attrs.evolve(query(paths=(("from a.",),)).sink, format="delta")
    made = pictured(graph(
        app_plan(query(name="b", paths=(("from a.",),), sink=delta)),
        app_plan(query(name="b", paths=(("from a.",), ("from a.",))), query(name="a")),
    ))  # fmt: skip
    lines = drawn(made)
    assert lines[0] == "query b" and re.fullmatch(r"sink delta \(was noop\) +~ changed", lines[1])
    assert any(re.match(r"↑ source a, json \(1 time, was 2\)", line) for line in lines)
    assert "query a (gone)" in lines


def test_hostile_texts_break_neither_a_line_nor_the_block_they_are_in() -> None:
    plan = app_plan(query(stage("a", 0, steps=(HOSTILE, Literal("````"))), sources="a"))
    made = pictured(graph(plan, plan), [item("stage", "windows/x`\n\x1b[2J\u2028|")])
    for line in drawn(made):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line), repr(line)
    text = CompatibilityReport(app="flights", source="s", items=(), graph=graph(plan)).to_markdown()
    assert "\n`````text\n" in text and text.count("`````") == 2


def test_a_long_line_is_cut_before_the_verdict() -> None:
    plan = app_plan(query(stage("n" * 200, 0, ("from a.",)), paths=((f"after {'n' * 200}.", "from a."),)))
    lines = drawn(pictured(graph(plan, plan), [item("stage", f"windows/{'n' * 200}", REFUSED)]))
    [line] = [line for line in lines if "nnn" in line]
    assert len(line) == WIDTH + len("  x refused") and "n…n" in line and line.endswith("n, aggregate  x refused")


def test_steps_that_are_there_more_than_once_are_counted() -> None:
    """After a stage, below one, and before the sink: one of two that is gone is told."""
    two, one = ("explode(daily.x)",) * 2, ("explode(daily.x)",)
    old = query(stage("daily", 0, ("from a.", *two)), sources="a", paths=(("from a.", "after daily.", *two),))
    new = query(stage("daily", 0, ("from a.", *one)), sources="a", paths=(("from a.", "after daily.", *one),))
    lines = drawn(pictured(graph(app_plan(new), app_plan(old))))
    assert sum("~ changed" in line for line in lines) == 2, lines
    assert sum(line.strip().startswith("- ") for line in lines) == 2, lines


@pytest.mark.parametrize(("old", "new", "told"), [(2, 1, "(1 time, was 2)"), (1, 2, "(2 times, was 1)"),
                                                  (2, 2, "(2 times)")])  # fmt: skip
def test_how_often_rows_are_read_is_told(old: int, new: int, told: str) -> None:
    plans = [app_plan(query(sources="a", paths=(("from a.",),) * ways)) for ways in (new, old)]
    assert any(told in line for line in drawn(pictured(graph(*plans))))


def test_long_steps_that_differ_at_their_end_look_different() -> None:
    plans = [
        app_plan(
            query(sources="a", paths=((f"f('{'x' * 90}', {end})", "from a."),), filters=(f"f('{'x' * 90}', {end})",))
        )
        for end in (1, 2)
    ]
    lines = [line for line in drawn(pictured(graph(*plans))) if "xxx" in line]
    assert len({line.strip(" +-") for line in lines}) == 2, lines


def test_nothing_at_all() -> None:
    assert drawn(pictured(graph(attrs.evolve(app_plan(), queries=())))) == []
    assert drawn(pictured(graph(app_plan(query_plan(sources=(), stages=(), paths=()))))) == [
        "query windows",
        "sink noop",
    ]
    assert source("a").name == "a"
