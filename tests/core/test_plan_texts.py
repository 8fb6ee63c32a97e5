"""The texts of a plan: what of them is the author's own, how they are renamed, put in order and told in his words."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.rules.stages.change import RESTART
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SourcePlan, unknown, untold
from airflow_provider_streamupdate.core.plan.rename import rename
from airflow_provider_streamupdate.core.plan.wording import once, worded, words
from airflow_provider_streamupdate.core.union_branches import ordered, union, without

from .builders import app_plan, query_plan, stage_plan


@pytest.mark.parametrize("sign", ["'", '"', "``", "a'b", "?", "(?", "python:"])
def test_a_name_in_backticks_hides_nothing_and_says_nothing(sign: str) -> None:
    one, other = f"in.`{sign}x`", f"in.`{sign}y`"
    assert unknown(f"concat({one}, ?z, {other})") and not unknown(f"concat({one}, z, {other})")
    assert untold(f"concat({one}, python:f(z), {other})") and not untold(f"concat({one}, z, {other})")


@pytest.mark.parametrize("literal", ["'`'", '"`\'"', "'?'", "' ?x'", "'python:'"])
def test_neither_does_a_literal(literal: str) -> None:
    assert unknown(f"concat({literal}, ?z, {literal})") and not unknown(f"concat({literal}, z, {literal})")
    assert untold(f"concat({literal}, python:f(z), {literal})") and not untold(f"concat({literal}, z, {literal})")


# Renames


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
def test_a_text_with_other_names(text: str, renamed: str) -> None:
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


# Branches of a union


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


# In the words of who wrote the app


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[window(source-1.ts, 10 minutes, #167951f9)]", "[window(source-1.ts, 10 minutes)]"),
        ("[15 minutes:interval]", "[15 minutes]"),
        (
            "[python#940f542323af(source-1.a, dataType=long, evalType=101, udfDeterministic=True, uses=Python 3.11)]",
            "[Python function #940f54(source-1.a)]",
        ),
        (
            "[lessthanorequal(l.ts, r.ts), lessthanorequal(r.ts, timestampaddinterval(l.ts, 300000000:interval, "
            "timeZoneId=UTC))]",
            "[l.ts <= r.ts, r.ts <= (l.ts + 5 minutes)]",
        ),
        (
            "[sum(casewhen(inset(s.k2, hset={'a', 'b)', 'c,'}), s.a))]",
            "[sum(CASE WHEN s.k2 IN ('a', 'b)', 'c,') THEN s.a END)]",
        ),
        ("[sum(if(and(isnotnull(s.a), not(equalto(s.b, 3))), s.a, 0))]",
         "[sum(CASE WHEN (s.a IS NOT NULL) AND (NOT (s.b = 3)) THEN s.a ELSE 0 END)]"),
        ("[cast(s.a, dataType=date)]", "[CAST(s.a AS date)]"),
        ("[sum(add(multiply(s.a, 2), s.b))]", "[sum((s.a * 2) + s.b)]"),
        ("[in(s.k, 'a', 'it''s')]", "[s.k IN ('a', 'it''s')]"),
        ("[python#70cac484de52(s.k, dataType=struct<k string, a bigint>, uses=Python 3.11).k]",
         "[Python function #70cac4(s.k).k]"),
        ("decimal(20,2)", "decimal(20,2)"),
        ("s decimal(22,2)", "s decimal(22,2)"),
        ("[lookup(x.y, #00a6a497, kind=left)]", "[lookup(x.y, kind=left)]"),
        ("none", "none"),
        ("", ""),
        ("f(a", "f(a"),
        ("f(a) of g(b)", "f(a) of g(b)"),
    ],
)  # fmt: skip
def test_a_text_in_words(text: str, said: str) -> None:
    assert words(text) == said


def test_what_words_do_not_tell_apart_stays_exact() -> None:
    one, other = "f(s.a, #11111111)", "f(s.a, #22222222)"
    assert worded(one, other) == (one, other)
    assert worded(one, "f(s.b, #22222222)") == ("f(s.a)", "f(s.b)")


def test_reasons_and_advice_are_said_once() -> None:
    first = "keys changed: window from [10 minutes] to [15 minutes]" + RESTART
    none = "no migration: keys changed: windows of 10 minutes cannot be merged to windows of 15 minutes" + RESTART
    assert once([first, none, first], RESTART) == (
        "keys changed: window from [10 minutes] to [15 minutes]; no migration: windows of 10 minutes cannot be merged "
        "to windows of 15 minutes" + RESTART
    )
    assert once(["a", "b"], RESTART) == "a; b"
