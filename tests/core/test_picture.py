"""The picture of an app's queries: verdicts and figures on its graph, its lines of text, and what an app's document has
of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.graph import Change, Graph, Node, graph
from airflow_provider_streamupdate.core.compatibility.picture import SIGNS, WIDTH, picture_lines, picture_of
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, LOSS, REFUSED, ReportItem, Verdict
from airflow_provider_streamupdate.core.plan.expressions import Literal
from airflow_provider_streamupdate.core.plan.plan import QueryPlan
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import from_json, to_json

from .builders import app_plan, deploy, query_plan, spec, write_json
from .test_graph import CHAIN, HOSTILE, query, stage


def item(thing: str, name: str, verdict: Verdict = CARRIED, **changes: object) -> ReportItem:
    return ReportItem(**{"thing": thing, "name": name, "verdict": verdict, "reason": "why", **changes})


def node(picture: Graph, name: str, of: str = "windows") -> Node:
    return next(n for q in picture.queries if q.name == of for n in q.nodes if n.id == name)


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(("thing", "name"), [("stage", "daily"), ("source", "a"), ("sink", "noop")])
def test_each_verdict_is_on_its_node(verdict: Verdict, thing: str, name: str) -> None:
    told = item(thing, f"windows/{name}", verdict, needs_agreement=verdict == LOSS)
    made = picture_of(graph(app_plan(CHAIN), app_plan(CHAIN)), [told])
    found = node(made, "sink" if thing == "sink" else f"{thing} {name}")
    assert (found.mark, found.reason) == (verdict, "why")
    assert found.blocks == told.blocks and found.agreement == ("needed" if verdict == LOSS else None)
    [line] = [line for line in picture_lines(made) if line.strip().startswith(f"{thing} {name}")]
    assert f"  {SIGNS[verdict]} {verdict}" in line
    assert ("needs agreement" in line) == (verdict == LOSS)


def test_every_item_of_a_report_is_somewhere() -> None:
    # On a node, else with its query, else with the app.
    items = [
        item("app", "flights"), item("query", "windows"), item("query", "windows:fork"), item("query", "gone"),
        item("watermark", "windows:watermark"), item("setting", "windows:spark.sql.ansi.enabled"),
        item("stage", "windows/operator-3"), item("stage", "windows/daily"), item("source", "elsewhere/x"),
    ]  # fmt: skip
    made = picture_of(graph(app_plan(CHAIN), app_plan(CHAIN)), items)
    assert node(made, "stage daily").mark == CARRIED
    assert [note.name for note in made.queries[0].notes] == [
        *("windows", "windows:fork", "windows:watermark", "windows:spark.sql.ansi.enabled", "windows/operator-3")
    ]
    assert [note.name for note in made.notes] == ["flights", "gone", "elsewhere/x"]
    assert (
        sum(f" {each.thing} {each.name}: carried" in "\n".join(picture_lines(made)) for each in items) == len(items) - 1
    )
    # a query whose name has a colon keeps its notes
    plan = app_plan(query(name="a"), query(name="a:b"))
    made = picture_of(
        graph(plan, plan), [item("query", "a:b"), item("watermark", "a:b:watermark"), item("query", "a:fork")]
    )
    assert [[n.name for n in q.notes] for q in made.queries] == [["a:fork"], ["a:b", "a:b:watermark"]]


def test_the_worst_of_several_verdicts_counts_and_an_agreement_is_told() -> None:
    items = [item("stage", "windows/daily"), item("stage", "windows/daily", REFUSED, reason="no")]
    found = node(picture_of(graph(app_plan(CHAIN), app_plan(CHAIN)), items), "stage daily")
    assert (found.mark, found.reason, found.blocks) == (REFUSED, "why; no", True)
    # a loss that was agreed to says so
    told = item("stage", "windows/daily", LOSS, needs_agreement=True, agreed=True)
    made = picture_of(graph(app_plan(CHAIN), app_plan(CHAIN)), [told])
    assert node(made, "stage daily").agreement == "agreed" and not node(made, "stage daily").blocks
    assert any(line.endswith("! carried with loss, agreed") for line in picture_lines(made))


def test_steps_have_no_verdict_and_are_marked_by_what_changes() -> None:
    def filtered(*texts: str) -> QueryPlan:
        return query(paths=((*texts, "from a."), ("from b.",)), filters=texts, sources="a b")

    for old, new, mark, shown in (
        ("f(a.x)", "f(a.x)", Change.SAME, ["filter f(a.x)"]),
        ("f(a.x)", "g(a.x)", Change.CHANGED, ["+ filter g(a.x)", "- filter f(a.x)"]),
        ("f(a.x)", "", Change.GONE, ["filter f(a.x)"]),
        ("", "f(a.x)", Change.NEW, ["filter f(a.x)"]),
    ):
        made = picture_of(graph(app_plan(filtered(*new.split())), app_plan(filtered(*old.split()))))
        assert [n.mark for n in made.queries[0].nodes if n.kind == "steps"] == [mark]
        assert all(any(text in line for line in picture_lines(made)) for text in shown), picture_lines(made)


def test_nothing_is_called_new_where_the_old_version_is_not_known() -> None:
    new = query(paths=(("f(a.x)", "from a."),), filters=("f(a.x)",))
    made = picture_of(graph(app_plan(new), app_plan(attrs.evolve(new, paths=None, filters=()))))
    assert [n.mark for n in made.queries[0].nodes if n.kind == "steps"] == [Change.UNKNOWN]
    assert picture_lines(made)[-1] == "? the old version's plan does not say what feeds sink"
    # without a second version nothing is marked
    made = picture_of(graph(app_plan(CHAIN)))
    assert not made.compared and {n.mark for n in made.queries[0].nodes} == {None}


def test_a_report_keeps_the_graph_of_both_plans() -> None:
    report = compare(app_plan(CHAIN), app_plan(query(stage("daily", 0, ("from a.",)))), "snapshot s1")
    assert from_json(to_json(report), CompatibilityReport, "x") == report
    assert report.picture is not None and node(report.picture, "stage distinct").mark == "ignored"
    without = attrs.evolve(report, graph=None)
    assert without.picture is None and "```" not in without.to_markdown() and "```" in report.to_markdown()


def test_the_lines_of_a_refused_update() -> None:
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
    rows = [re.split(" {2,}", line.strip()) for line in picture_lines(report.picture)]
    assert rows == [
        ["query windows"],
        ["source a, json", "= carried"],
        ["source c, json", "+ empty"],
        ["source b, json", "- ignored, needs agreement"],
        ["source a > stage daily: filter a.x > 3", "+ new"],
        ["stage daily, aggregate, from source a and source c (was from stage distinct)", "= carried"],
        ["stage distinct, deduplicate, from source a and source b", "- ignored, needs agreement"],
        ["sink noop, from stage daily", "= carried"],
    ]


def test_what_only_one_version_has_is_told_of_queries_and_sinks() -> None:
    delta = attrs.evolve(query(paths=(("from a.",),)).sink, format="delta")
    made = picture_of(graph(
        app_plan(query(name="b", paths=(("from a.",),), sink=delta)),
        app_plan(query(name="b", paths=(("from a.",), ("from a.",))), query(name="a")),
    ))  # fmt: skip
    lines = picture_lines(made)
    assert lines[0] == "query b" and "query a (gone)" in lines
    assert re.fullmatch(r"  source a > sink: 2 paths +- gone", lines[2])
    assert re.fullmatch(r"  sink delta \(was noop\), from source a +~ changed", lines[3])


def test_hostile_texts_break_neither_a_line_nor_the_block_they_are_in() -> None:
    plan = app_plan(query(stage("a", 0, steps=(HOSTILE, Literal("````"))), sources="a"))
    made = picture_of(graph(plan, plan), [item("stage", "windows/x`\n\x1b[2J\u2028|")])
    for line in picture_lines(made):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e]", line), repr(line)
    text = CompatibilityReport(app="flights", source="s", items=(), graph=graph(plan)).to_markdown()
    assert "\n`````text\n" in text and text.count("`````") == 2


def test_long_texts_are_cut_in_the_middle_and_still_differ_at_their_end() -> None:
    plan = app_plan(query(stage("n" * 200, 0, ("from a.",)), paths=((f"after {'n' * 200}.", "from a."),)))
    lines = picture_lines(picture_of(graph(plan, plan), [item("stage", f"windows/{'n' * 200}", REFUSED)]))
    [line] = [line for line in lines if line.startswith("  stage nnn")]
    assert len(line) == 2 + WIDTH + len("  x refused") and "n…n" in line and line.endswith("from source a  x refused")
    texts = [f"f({'x' * 90}, {end})" for end in (1, 2)]
    plans = [app_plan(query(sources="a", paths=((text, "from a."),), filters=(text,))) for text in texts]
    lines = [line for line in picture_lines(picture_of(graph(*plans))) if "xxx" in line]
    assert len(lines) == 2 and lines[0][-20:] != lines[1][-20:]


def test_steps_that_are_there_more_than_once_are_counted() -> None:
    """After a stage, below one, and before the sink: one of two that is gone is shown."""
    two, one = ("explode(daily.x)",) * 2, ("explode(daily.x)",)
    old = query(stage("daily", 0, ("from a.", *two)), sources="a", paths=(("from a.", "after daily.", *two),))
    new = query(stage("daily", 0, ("from a.", *one)), sources="a", paths=(("from a.", "after daily.", *one),))
    lines = picture_lines(picture_of(graph(app_plan(new), app_plan(old))))
    assert sum("~ changed" in line and ": - explode" in line for line in lines) == 2, lines


def test_nothing_at_all() -> None:
    assert picture_lines(picture_of(graph(attrs.evolve(app_plan(), queries=())))) == []
    assert picture_lines(picture_of(graph(app_plan(query_plan(sources=(), stages=(), paths=()))))) == [
        "query windows",
        "  sink noop",
    ]


OLD = query(stage("daily", 0, ("from a.",)), paths=(("after daily.", "from a."),))
NEW = query(stage("daily", 0, ("f(a.x)", "from a.")), paths=(("after daily.", "from a."),))


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry)
    write_json(registry, "deployments/v1/plan.json", app_plan(OLD))
    return registry


def document(app: AppRegistry, root: Path) -> dict[str, Any]:
    found = StreamUpdateClient(str(root)).app_document(app.name)
    return json.loads(json.dumps(found, allow_nan=False))


def nodes(picture: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for query in picture["queries"] for node in query["nodes"]}


def test_what_runs_is_shown(app: AppRegistry, tmp_path: Path) -> None:
    picture = document(app, tmp_path)["picture"]
    assert picture["compared"] is False
    assert set(nodes(picture)) == {"source a", "stage daily", "sink"}
    edges = [(e["start"], e["end"], e["new"]) for e in picture["queries"][0]["edges"]]
    assert edges == [("source a", "stage daily", True), ("stage daily", "sink", True)]


def test_the_report_of_an_update_is_shown_on_both_versions(app: AppRegistry, tmp_path: Path) -> None:
    app.create_deployment(spec("v2", parent="v1"))
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at="2026-11-21T10:00:00+00:00"))
    report = compare(app_plan(OLD), app_plan(NEW), "deployment v1")
    app.folder.write("updates/v2.report.json", to_json(report))
    found = document(app, tmp_path)["report"]
    assert found["picture"]["compared"] and "graph" not in found and found["deployment"] == "v2"
    told = nodes(found["picture"])
    assert told["stage daily"]["mark"] == "carried"
    assert {name: node["mark"] for name, node in told.items() if node["kind"] == "steps"} == {
        "steps source a > stage daily": "new"
    }
