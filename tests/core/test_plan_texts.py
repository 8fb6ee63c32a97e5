"""What of a plan's texts is the author's own: names in backticks, and literals. Found from outside: the text between
two names with an apostrophe was taken for a literal, and a function that cannot be compared was carried."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.plan.plan import unknown, untold


@pytest.mark.parametrize("sign", ["'", '"', "``", "a'b", "?", "(?", "python:"])
def test_a_name_in_backticks_hides_nothing_and_says_nothing(sign: str) -> None:
    one, other = f"in.`{sign}x`", f"in.`{sign}y`"
    assert unknown(f"concat({one}, ?z, {other})") and not unknown(f"concat({one}, z, {other})")
    assert untold(f"concat({one}, python:f(z), {other})") and not untold(f"concat({one}, z, {other})")


@pytest.mark.parametrize("literal", ["'`'", '"`\'"', "'?'", "' ?x'", "'python:'"])
def test_neither_does_a_literal(literal: str) -> None:
    assert unknown(f"concat({literal}, ?z, {literal})") and not unknown(f"concat({literal}, z, {literal})")
    assert untold(f"concat({literal}, python:f(z), {literal})") and not untold(f"concat({literal}, z, {literal})")
