"""Names in the texts of a plan, renamed."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.plan.plan import SourcePlan
from airflow_provider_streamupdate.core.plan.rename import rename

from .builders import app_plan, query_plan, stage_plan


def source_plan(name: str) -> SourcePlan:
    return SourcePlan(name=name, named=True, format="json", location="/in", columns={"k": "string"})


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("s.k", "t.k"),
        ("max(s.k, u.k)", "max(t.k, u.k)"),
        ("s.s.x", "t.s.x"),  # a struct column that is called as its source is
        ("daily.s.k", "monthly.t.k"),  # what a stage emits of its source
        ("daily.daily.s.s", "monthly.monthly.t.s"),
        ("u.daily.s", "u.daily.s"),
        ("⟨s: '1' ∪ u: '2'⟩", "⟨t: '1' ∪ u: '2'⟩"),
        ("concat('s.k', s.k)", "concat('s.k', t.k)"),
        ("xs.k + s-1.k + s1.k", "xs.k + s-1.k + s1.k"),
        ("s.k after daily.", "t.k after monthly."),
        ("f(column=s.k, kind=left)", "f(column=t.k, kind=left)"),
        ("s.`s.k`", "t.`s.k`"),  # a column whose name begins like the source's
        ("concat(s.`a'b`, s.k, s.`c'd`)", "concat(t.`a'b`, t.k, t.`c'd`)"),
    ],
)
def test_a_text(text: str, renamed: str) -> None:
    stage = stage_plan("daily", definition={"keys": [text], "aggregates": []})
    query = query_plan(stage, sources=(source_plan("s"), source_plan("u")))
    found = rename(app_plan(query), {"s": "t", "daily": "monthly"}).queries[0].stages[0]
    assert (found.name, found.definition["keys"]) == ("monthly", [renamed])


def test_two_that_swap() -> None:
    texts = ["⟨a: '1' ∪ b: '2'⟩", "a.b.a", "b.a"]
    stage = stage_plan("daily", definition={"keys": texts, "aggregates": []})
    query = query_plan(stage, sources=(source_plan("a"), source_plan("b")))
    found = rename(app_plan(query), {"a": "b", "b": "a"}).queries[0]
    assert found.stages[0].definition["keys"] == ["⟨b: '1' ∪ a: '2'⟩", "b.b.a", "a.a"]
