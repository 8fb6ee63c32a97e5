from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SourcePlan
from airflow_provider_streamupdate.core.union_branches import ordered, union, without

from .builders import app_plan, query_plan, stage_plan


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("⟨a.k ∪ c.k⟩", "a.k"),
        ("⟨a.k ∪ b.k ∪ c.k⟩", "⟨a.k ∪ b.k⟩"),
        ("sum(⟨a.x ∪ plus(c.x, 1)⟩)", "sum(a.x)"),
        ("⟨⟨a.k ∪ c.k⟩ ∪ b.k⟩", "⟨a.k ∪ b.k⟩"),
        ("⟨'A' ∪ c: 'C'⟩", "'A'"),
        ("⟨a.k ∪ plus(c.k, b.k)⟩", "⟨a.k ∪ plus(c.k, b.k)⟩"),  # a branch with a source that stays, stays
        ("⟨c.k ∪ c.l⟩", "⟨c.k ∪ c.l⟩"),  # nothing else is left to compare
        ("⟨a.k ∪ ac.k⟩", "⟨a.k ∪ ac.k⟩"),
        ("c.k", "c.k"),
    ],
)
def test_branches_of_what_is_gone_are_left_out(text: str, left: str) -> None:
    assert without({"keys": [text], "n": 1}, ["c"], ["a", "b"]) == {"keys": [left], "n": 1}


def test_equal_branches_are_one() -> None:
    assert union(["'x'", "'x'"]) == "'x'" and union(["a.k", "b.k"]) == "⟨a.k ∪ b.k⟩"


def reading(*names: str, **definition: Any) -> QueryPlan:
    sources = tuple(SourcePlan(name=n, named=True, format="json", location=f"/{n}") for n in names)
    made = {"keys": [union([f"{n}.k" for n in sorted(names)])], "aggregates": ["count(1)"], **definition}
    return query_plan(stage_plan(definition=made), sources=sources, source_order=names)


def verdict(old: QueryPlan, new: QueryPlan) -> str:
    [item] = [i for i in compare(app_plan(old), app_plan(new), "s").items if i.thing == "stage"]
    return item.verdict


def test_a_source_more_or_fewer_in_a_union_leaves_the_stage_as_it_is() -> None:
    assert verdict(reading("a"), reading("b", "a")) == "carried"
    assert verdict(reading("a", "b"), reading("c", "b")) == "carried"


def test_a_branch_that_changed_is_another_key() -> None:
    assert verdict(reading("a", "b"), reading("a", "b", keys=["⟨a.k ∪ b.l⟩"])) == "refused"
    assert verdict(reading("a", "b"), reading("a", "c", keys=["⟨a.l ∪ c.k⟩"])) == "refused"


@pytest.mark.parametrize("text", ["split(room, \0)", "\0(a\0)", "'\0)' || ⟨a.k ∪ b.k⟩"])
def test_what_an_author_wrote_is_no_sign_of_a_union(text: str) -> None:
    assert ordered(text) == text


def test_a_union_within_a_union_is_one_branch() -> None:
    assert ordered("f(⟨c.k ∪ g(⟨b.k ∪ a.k⟩)⟩)") == "f(⟨c.k ∪ g(⟨a.k ∪ b.k⟩)⟩)"
    assert without("⟨a.k ∪ g(⟨b.k ∪ c.k⟩)⟩", ["c"], ["a", "b"]) == "⟨a.k ∪ g(b.k)⟩"


def test_a_text_that_was_cut_short_stays() -> None:
    assert ordered("⟨b.k ∪ a.k") == "⟨b.k ∪ a.k"
