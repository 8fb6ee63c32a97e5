"""Expressions: how they are renamed, what is left of unions, how they are written and kept."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.rules.rule import Rule, judge
from airflow_provider_streamupdate.core.compatibility.verdict import Verdict
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.plan.expressions import (
    Branch,
    Call,
    Column,
    Expression,
    Lambda,
    Literal,
    Output,
    Python,
    Unknown,
    from_rows,
    to_rows,
)
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SourcePlan
from airflow_provider_streamupdate.core.plan.rendering import words
from airflow_provider_streamupdate.core.plan.visitors import (
    has_opaque_code,
    is_unknown,
    renamed,
    union,
    without_branches,
)
from airflow_provider_streamupdate.core.serde import from_dict, to_dict

from .builders import app_plan, expression, query_plan, stage_plan

K = Column("s", "k", "string")


@pytest.mark.parametrize("sign", ["?", " ?x", "python:", "'", "`", "⟨", " ∪ "])
def test_what_an_author_wrote_is_no_sign(sign: str) -> None:
    for text in (Literal(repr(sign)), Column("s", f"`{sign}`")):
        assert not is_unknown(Call("f", (text,))) and not has_opaque_code(Call("f", (text,)))
        assert is_unknown(Call("f", (text, Unknown("z")))) and has_opaque_code(Call("f", (text, Python("", "g"))))


def test_what_is_unknown_is_so_wherever_it_is() -> None:
    for around in (
        Output("daily", Unknown("x")),
        union([Branch(Unknown("x")), Branch(K)]),
        Lambda(("λ1",), Unknown("x")),
        Call("cast", (K,), (("dataType", Unknown("a type")),)),
    ):
        assert is_unknown(around), around


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s.k", "t.k"),
        ("max(s.k, u.k)", "max(t.k, u.k)"),
        ("s.s.x", "t.s.x"),  # a struct column that is called as its source is
        ("daily>s.k", "monthly>t.k"),  # what a stage emits of its source
        ("u.daily.s", "u.daily.s"),
        ("⟨s: '1' ∪ u: '2'⟩", "⟨t: '1' ∪ u: '2'⟩"),
        ("concat('s.k', s.k)", "concat('s.k', t.k)"),
        ("add(xs.k, s-1.k)", "add(xs.k, s-1.k)"),
        ("⟨s.k after daily. ∪ u.k⟩", "⟨t.k after monthly. ∪ u.k⟩"),
    ],
)
def test_an_expression_with_other_names(before: str, after: str) -> None:
    assert renamed(expression(before), {"s": "t", "daily": "monthly"}) == expression(after)


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ("⟨a.k ∪ c.k⟩", "a.k"),
        ("⟨a.k ∪ b.k ∪ c.k⟩", "⟨a.k ∪ b.k⟩"),
        ("sum(⟨a.x ∪ plus(c.x, 1)⟩)", "sum(a.x)"),
        ("⟨⟨a.k ∪ c.k⟩ ∪ b.k⟩", "⟨a.k ∪ b.k⟩"),
        ("⟨a.k ∪ g(⟨b.k ∪ c.k⟩)⟩", "⟨a.k ∪ g(b.k)⟩"),
        ("⟨'A' ∪ c: 'C'⟩", "'A'"),
        ("⟨a.k ∪ plus(c.k, b.k)⟩", "⟨a.k ∪ plus(c.k, b.k)⟩"),  # a branch with a source that stays, stays
        ("⟨c.k ∪ c.l⟩", "⟨c.k ∪ c.l⟩"),  # nothing else is left to compare
        ("⟨a.k ∪ ac.k⟩", "⟨a.k ∪ ac.k⟩"),
        ("c.k", "c.k"),
    ],
)
def test_branches_of_what_is_gone_are_left_out(before: str, left: str) -> None:
    assert without_branches(expression(before), ["c"], ["a", "b"]) == expression(left)


def test_the_order_of_branches_does_not_count() -> None:
    assert expression("f(⟨c.k ∪ g(⟨b.k ∪ a.k⟩)⟩)") == expression("f(⟨g(⟨a.k ∪ b.k⟩) ∪ c.k⟩)")


def reading(*names: str, **definition: Any) -> QueryPlan:
    sources = tuple(SourcePlan(name=n, named=True, format="json", location=f"/{n}") for n in names)
    branches = " ∪ ".join(f"{n}.k" for n in names)
    made = {"keys": [f"⟨{branches}⟩"], "aggregates": ["count(1)"], **definition}
    return query_plan(stage_plan(definition=made), sources=sources, source_order=names)


def verdict(old: QueryPlan, new: QueryPlan) -> str:
    [item] = [i for i in compare(app_plan(old), app_plan(new), "s").items if i.thing == "stage"]
    return item.verdict


def test_branches_of_sources_come_and_go_and_one_that_changed_is_another_key() -> None:
    assert verdict(reading("a"), reading("b", "a")) == "carried"
    assert verdict(reading("a", "b"), reading("c", "b")) == "carried"
    assert verdict(reading("a", "b"), reading("a", "b", keys=["⟨a.k ∪ b.l⟩"])) == "refused"
    assert verdict(reading("a", "b"), reading("a", "c", keys=["⟨a.l ∪ c.k⟩"])) == "refused"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("window(source-1.ts, 10 minutes, #167951f9)", "window(ts, 10 minutes)"),
        (
            "python#940f542323af(source-1.a, dataType=long, evalType=101, udfDeterministic=True)",
            "a Python function(a)",
        ),
        ("python:f(s.a)", "Python function f(s.a)"),
        ("lessthanorequal(l.ts, r.ts)", "l.ts <= r.ts"),
        (
            "lessthanorequal(r.ts, timestampaddinterval(l.ts, 300000000:interval, timeZoneId=UTC))",
            "r.ts <= (l.ts + 5 minutes)",
        ),
        (
            "sum(if(and(isnotnull(s.a), not(equalto(s.b, 3:long))), s.a, 0))",
            "sum(CASE WHEN (s.a IS NOT NULL) AND (NOT (s.b = 3)) THEN s.a ELSE 0 END)",
        ),
        ("cast(s.a, dataType=date)", "CAST(s.a AS date)"),
        ("sum(add(multiply(s.a, 2), s.b))", "sum((s.a * 2) + s.b)"),
        ("in(s.k, 'a', 'it, s')", "s.k IN ('a', 'it, s')"),
        ("average(s.a)", "avg(s.a)"),
        ("lookup by equalto(x.y, s.k), #00a6a497", "lookup by x.y = s.k"),
        ("?lambda(s.a)", "?lambda(s.a)"),
        ("f()", "f()"),
    ],
)
def test_an_expression_in_words(text: str, said: str) -> None:
    assert words(expression(text)) == said


def test_a_list_of_in_in_words() -> None:
    held = Call("inset", (Column("s", "k2"),), (("hset", Literal("{'a', 'b)', 'c,'}")),))
    assert words(held) == "s.k2 IN ('a', 'b)', 'c,')"


def test_reasons_are_exact() -> None:
    def reason(old: Expression, new: Expression) -> str:
        facts = {"old": old, "new": new}
        rule = Rule[None](
            id="r", verdict=Verdict.REFUSED, change="", reason="{old} {new}", source="", applies=lambda _: facts
        )
        return judge([rule], None)[0].reason

    one, other = (expression(f"window(s.a, 5 minutes, #{n})") for n in (1, 2))
    assert reason(one, other) == "window(s.a, 5 minutes, #1) window(s.a, 5 minutes, #2)"
    assert reason(one, expression("window(s.b, 5 minutes, #2)")) == "window(s.a, 5 minutes) window(s.b, 5 minutes)"


def test_what_is_kept_is_read_again_types_included() -> None:
    tree = Call(
        "f",
        (union([Branch(K, where=(expression("isnotnull(s.k)"),), number=2), Branch(Literal("1"), sources=("u",))]),),
        (("a", Unknown("why", (K,))), ("b", expression("session_window(s.t, gap '5 minutes', #a)"))),
    )
    for each in (tree, Lambda(("λ1", "λ2"), Output("daily", Python("#1", "", (tree,))))):
        again = from_dict(to_dict(each), Expression)
        assert again == each and to_rows(again) == to_rows(each)


@pytest.mark.parametrize(
    "rows", [[], [["column", "s"]], [["nothing"]], [["call", "f", 1, []]], [["literal", 1, ""]] * 2]
)
def test_what_is_no_tree_is_refused(rows: Any) -> None:
    with pytest.raises(CorruptError):
        from_dict(rows, Expression)


def test_one_that_is_nested_deep_is_written_and_read() -> None:
    tree: Expression = K
    for _ in range(1500):
        tree = Call("add", (tree, Literal("1")))
    assert from_rows(to_rows(tree)).text == tree.text and words(tree).count("+") == 1500
