"""Stages, sources and queries with other names: which are matched without a question, and what the report offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.verification.health import assess
from airflow_provider_streamupdate.control.operations.verification.verify import under_new_names
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.successors import new_names
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, EMPTY, IGNORED, REFUSED
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SourcePlan, StagePlan
from airflow_provider_streamupdate.core.plan.rename import rename
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.snapshots.export import export

from .builders import app_plan, app_with_snapshots, deploy, query_plan, set_status, stage_plan, status, write_json


def source_plan(name: str, place: str | None = "/in", **changes: Any) -> SourcePlan:
    named = not name.startswith("source-")
    return SourcePlan(**{"name": name, "named": named, "format": "json", "location": place, **changes})


def of(*sources: SourcePlan, stages: tuple[StagePlan, ...] | None = None, name: str = "windows") -> QueryPlan:
    keys = {"keys": [f"{source.name}.k" for source in sources], "aggregates": ["count(1)"]}
    late = tuple(f"by {source.name}.k" for source in sources)
    stages = (stage_plan(definition=keys, late_rows=late),) if stages is None else stages
    return query_plan(*stages, sources=sources, source_order=tuple(s.name for s in sources), name=name)


def found(old: QueryPlan, new: QueryPlan, **options: Any) -> dict[str, str]:
    report = compare(rename(app_plan(old), options.get("renames", {})), app_plan(new), "s1", **options)
    return {item.name: item.verdict for item in report.items if item.thing in ("source", "stage")}


def test_unnamed_sources_are_told_apart_by_their_places() -> None:
    old = of(source_plan("source-1", "/eu"), source_plan("source-2", "/us"))
    new = of(source_plan("us", "/us"), source_plan("eu", "/eu"), stages=())
    assert new_names(app_plan(old), app_plan(new)) == {"windows": {"source-1": "eu", "source-2": "us"}}
    # It continued the one that the other position had.
    old = of(source_plan("source-1"), source_plan("source-2"))
    new = of(source_plan("b"), source_plan("source-2"))
    assert new_names(app_plan(old), app_plan(new)) == {}


def test_what_loses_its_name_is_known_by_what_it_reads_or_means() -> None:
    old, new = of(source_plan("eu"), source_plan("us", "/us")), of(source_plan("source-1", "/us"), source_plan("eu"))
    assert new_names(app_plan(old), app_plan(new)) == {"windows": {"us": "source-1"}}
    keys = {"keys": ["a.k"], "aggregates": ["count(1)"]}
    one, other = stage_plan("daily", definition=keys), stage_plan("aggregate-1", named=False, definition=keys)
    names = new_names(*(app_plan(of(source_plan("a"), stages=(stage,))) for stage in (one, other)))
    assert names == {"windows": {"daily": "aggregate-1"}}
    # another stage, and two that may be it
    more = stage_plan("aggregate-1", named=False, definition={**keys, "aggregates": ["sum(a.n)"]})
    assert new_names(*(app_plan(of(source_plan("a"), stages=(stage,))) for stage in (one, more))) == {}
    two = (one, attrs.evolve(one, name="weekly", operator_id=1))
    assert new_names(*(app_plan(of(source_plan("a"), stages=stages)) for stages in (two, (other,)))) == {}


def test_what_has_no_name_is_matched_by_its_meaning_before_its_position() -> None:
    def stages(*aggregates: str, **named: str) -> QueryPlan:
        definitions = [(f"aggregate-{n + 1}", False, of) for n, of in enumerate(aggregates)]
        definitions += [(name, True, of) for name, of in named.items()]
        made = (
            stage_plan(name, named=named, operator_id=n, definition={"keys": ["a.k"], "aggregates": [of]})
            for n, (name, named, of) in enumerate(definitions)
        )
        return of(source_plan("a"), stages=tuple(made))

    def matched(old: QueryPlan, new: QueryPlan) -> tuple[dict[str, str], dict[str, str]]:
        return new_names(app_plan(old), app_plan(new)).get("windows", {}), found(old, new)

    first, second, third = "aggregate-1", "aggregate-2", "aggregate-3"
    one, two, three = "count(1)", "sum(a.n)", "min(a.n)"
    exchanged = {first: second, second: first}
    carried = {"windows/aggregate-1": CARRIED, "windows/aggregate-2": CARRIED}
    assert matched(stages(one, two), stages(two, one)) == (exchanged, {"windows/a": CARRIED, **carried})
    # removed before another one: what is left of it has the free name
    names, verdicts = matched(stages(one, two), stages(two))
    assert names == exchanged and verdicts["windows/aggregate-1"] == CARRIED
    assert verdicts["windows/aggregate-2"] == IGNORED
    # added before others, with a name and without one
    assert matched(stages(one, two), stages(three, one, two)) == (
        {first: second, second: third},
        {
            "windows/a": CARRIED,
            "windows/aggregate-1": EMPTY,
            "windows/aggregate-2": CARRIED,
            "windows/aggregate-3": CARRIED,
        },
    )
    names, verdicts = matched(stages(one, two), stages(two, one, daily=three))
    assert names == exchanged and verdicts == {"windows/a": CARRIED, **carried, "windows/daily": EMPTY}
    rotated, verdicts = matched(stages(one, two, three), stages(two, three, one))
    assert rotated == {first: third, second: first, third: second} and {*verdicts.values()} == {CARRIED}
    # two of one meaning have their positions only
    assert matched(stages(one, one), stages(one, one))[0] == {}
    # a changed one keeps its position
    assert matched(stages(one, two), stages(three, two))[0] == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([source_plan("source-1")], [source_plan("a"), source_plan("b")]),  # either may be it
        ([source_plan("a", native=True)], [source_plan("source-1")]),
        ([source_plan("a")], [source_plan("source-1", "/other")]),
        ([source_plan("source-1"), source_plan("source-2")], [source_plan("a")]),
        ([source_plan("source-1")], [source_plan("a", "/other")]),
        ([source_plan("source-1")], [source_plan("a", format="csv")]),
        ([source_plan("source-1")], [source_plan("a", native=True)]),
        ([source_plan("a")], [source_plan("b")]),  # another name may be meant to read it again
        (
            [source_plan("source-1", None, format="rate", options={"rowspersecond": "2"})],
            [source_plan("a", None, format="rate", options={"rowspersecond": "3"})],
        ),
    ],
)
def test_what_is_not_certain_is_not_matched(old: list[SourcePlan], new: list[SourcePlan]) -> None:
    assert new_names(app_plan(of(*old)), app_plan(of(*new))) == {}


def test_a_source_with_another_name() -> None:
    """Old behaviour: only the agreement was offered, and following it read every file again."""
    old, new = of(source_plan("orders")), of(source_plan("eu"), stages=(stage_plan(definition={"keys": ["eu.k"]}),))
    [problem] = [p for p in compare(app_plan(old), app_plan(new), "s1").problems if p.startswith("source")]
    assert problem.index("--rename windows/orders=eu") < problem.index("--agree windows/orders")
    assert "begins at its start again: rows are counted twice" in problem
    given = dict(re.findall(r"--rename (\S+)=(\S+)", problem))
    assert found(old, of(source_plan("eu")), renames=given) == {"windows/eu": CARRIED, "windows/daily": CARRIED}


def test_a_source_that_is_gone_has_no_successor_but_where_it_may_read_the_same_rows() -> None:
    old, new = of(source_plan("a", "/a"), source_plan("b", "/b")), of(source_plan("a", "/a"))
    [problem] = [p for p in compare(app_plan(old), app_plan(new), "s1").problems if p.startswith("source")]
    assert "--rename" not in problem and problem.endswith("agree to it with --agree windows/b")
    old, new = of(source_plan("source-1")), of(source_plan("eu", "/in/*.json"))
    [problem] = [p for p in compare(app_plan(old), app_plan(new), "s1").problems if p.startswith("source")]
    assert "the new source eu, which may read the same rows" in problem
    assert problem.index("--rename windows/source-1=eu") < problem.index("--agree windows/source-1")


def unnamed(name: str, *keys: str, **changes: Any) -> StagePlan:
    definition = {"keys": list(keys), "aggregates": ["count(1)"]}
    return stage_plan(name, named=not name.startswith("aggregate-"), definition=definition, **changes)


def test_unnamed_stages_are_carried_under_their_first_names() -> None:
    old = of(
        source_plan("source-1"),
        stages=(unnamed("aggregate-1", "aggregate-2>source-1.k"), unnamed("aggregate-2", "source-1.k", operator_id=1)),
    )
    new = of(source_plan("eu"), stages=(unnamed("top", "below>eu.k"), unnamed("below", "eu.k", operator_id=1)))
    assert found(old, new) == {"windows/eu": CARRIED, "windows/top": CARRIED, "windows/below": CARRIED}
    # a new stage that takes the place of an unnamed one does not take its state
    old = of(source_plan("a"), stages=(unnamed("aggregate-1", "a.k"),))
    new = of(source_plan("a"), stages=(unnamed("visits", "a.k"), unnamed("aggregate-1", "a.z", operator_id=1)))
    assert found(old, new) == {"windows/a": CARRIED, "windows/visits": CARRIED, "windows/aggregate-1": EMPTY}


def test_two_stages_that_differ_in_the_rows_that_reach_them_are_told_apart() -> None:
    """Both were said to mean the same as either new one; who followed the first hint exchanged their states."""
    kept = [{"filters": (f"gt(a.x, {n})",), "paths": (("from a.", f"gt(a.x, {n})"),)} for n in (0, 1)]
    one, two = (unnamed(f"aggregate-{n}", "a.k", **changes) for n, changes in enumerate(kept, 1))
    new = (unnamed("second", "a.k", **kept[1]), unnamed("first", "a.k", **kept[0], operator_id=1))
    plans = app_plan(of(source_plan("a"), stages=(one, two))), app_plan(of(source_plan("a"), stages=new))
    assert new_names(*plans) == {"windows": {"aggregate-1": "first", "aggregate-2": "second"}}
    old = of(
        source_plan("a"), stages=(attrs.evolve(one, name="x", named=True), attrs.evolve(two, name="y", named=True))
    )
    hints = [p for p in compare(app_plan(old), plans[1], "s1").problems if "means the same" in p]
    assert [re.findall(r"--rename windows/(\w=\w+)", hint) for hint in hints] == [["x=first"], ["y=second"]]


def test_a_stage_with_another_name_and_meaning_is_offered_with_its_query() -> None:
    old, new = of(source_plan("a"), stages=(unnamed("aggregate-1", "a.k"),)), of(source_plan("a"))
    new = attrs.evolve(new, stages=(unnamed("by_vendor", "a.v"),))
    assert found(old, new)["windows/aggregate-1"] == IGNORED
    [problem] = compare(app_plan(old), app_plan(new), "s1").problems
    assert "carry it: --rename windows/aggregate-1=by_vendor compares the two, if it became this stage" in problem
    assert found(old, new, renames={"windows/aggregate-1": "by_vendor"})["windows/by_vendor"] == REFUSED


def test_a_name_that_two_queries_have_is_renamed_in_one_of_them_only() -> None:
    """Old behaviour: a bare name was renamed in both."""
    queries = [of(source_plan("a"), name=name, stages=(unnamed("aggregate-1", "a.k"),)) for name in ("clicks", "views")]
    old = app_plan(*queries)
    with pytest.raises(
        InvalidInputError,
        match=r"rename of aggregate-1: queries clicks, views have .* clicks/aggregate-1=v or views/aggregate-1=v",
    ):
        rename(old, {"aggregate-1": "v"})
    named = attrs.evolve(queries[0], stages=(unnamed("v", "a.k"),))
    report = compare(rename(old, {"clicks/aggregate-1": "v"}), app_plan(named, queries[1]), "s1")
    assert [(i.name, i.verdict) for i in report.items if i.thing == "stage"] == [
        ("clicks/v", CARRIED), ("views/aggregate-1", CARRIED)
    ]  # fmt: skip


def test_a_query_with_another_name() -> None:
    old, new = of(source_plan("a"), name="clicks"), of(source_plan("a"), name="visits")
    [problem] = compare(app_plan(old), app_plan(new), "s1").problems
    assert 'keep the name (@app.query("clicks"), or queryName)' in problem and "reads everything again" in problem
    assert problem.index("keep the name") < problem.index("--agree clicks")
    [problem] = compare(app_plan(old), app_plan(of(source_plan("b", "/b"), name="visits")), "s1").problems
    assert "keep the name" not in problem


def test_a_stage_with_a_new_name_is_compared_with_what_it_held(tmp_path: Path) -> None:
    """Old behaviour: "stage windows/daily was not compared: the new version has none of this name"."""
    app = app_with_snapshots(tmp_path)
    old = QueryStatus(batch=0, state_rows={"daily": 100}, source_lag={"source-1": 4.0})
    export(app, "v1", "counted", app_plan(), False, {"windows": old})
    new = of(source_plan("eu"), stages=(stage_plan("per_day", definition={"keys": ["eu.origin"]}),))
    deploy(app, "v2", 2, renames={"windows/daily": "per_day"})
    write_json(app, "deployments/v2/plan.json", app_plan(new))
    now = QueryStatus(batch=9, first_batch=1, state_rows={"per_day": 3}, last_commit_at=clock.now())
    set_status(app, "v2", status(epoch=2, queries={"windows": attrs.evolve(now, source_lag={"eu": 40.0})}))
    health = assess("v2", "running", app.status("v2"), under_new_names(app, "v2", "counted"))
    assert health.reasons == (
        "query windows is 40 rows behind; it was 4",
        "stage windows/per_day holds 3 rows; it held about 100",
    )
