"""Reasons in the words of who wrote the app."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.compatibility.rules.stages.change import RESTART
from airflow_provider_streamupdate.core.plan.wording import once, worded, words


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
