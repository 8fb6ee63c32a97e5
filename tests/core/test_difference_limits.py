"""Limits as a user writes them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.difference.limits import (
    Limits,
    parse_ratio,
    parse_share,
    percent,
)
from airflow_provider_streamupdate.core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "share"),
    [("5%", 0.05), ("0.05", 0.05), (".05", 0.05), (0.05, 0.05), ("0", 0), (0, 0), ("0%", 0), ("100%", 1), ("250%", 2.5),
     ("0.1%", 0.001), ("29%", 0.29), ("00.5%", 0.005), (1e-07, 1e-07), (None, None)],
)  # fmt: skip
def test_shares(text: str | float | None, share: float | None) -> None:
    assert parse_share("x", text) == share


@pytest.mark.parametrize(
    ("text", "ratio"), [("1.5", 1.5), ("1", 1), (2, 2), (1.25, 1.25), ("10", 10), (1e22, 1e22), (None, None)]
)
def test_ratios(text: str | float | None, ratio: float | None) -> None:
    assert parse_ratio("x", text) == ratio


BAD_NUMBERS = ["", " ", "-1.5", -0.5, "nan", math.nan, "inf", "-Infinity", math.inf, "%5", "1,5", "1_0", "1e0", "0x1",
               "1.", "+1", "٣", " 1.5", "1.5\n", "9" * 400, True, [5], "%", "5 %", "5%%", "-5%", "nan%"]  # fmt: skip
SHARES = [
    *((given, "is no number of 0 or more; write a share of 0 or more: 5% or 0.05") for given in BAD_NUMBERS),
    ("5", "x='5' would be 500%; write 5% or 500%"),
    ("1", "x='1' would be 100%; write 1% or 100%"),
    (1.5, "x=1.5 would be 150%; write 1.5% or 150%"),
]
RATIOS = [
    *((given, "is no number of 0 or more; write a number of 1 or more") for given in BAD_NUMBERS),
    ("0.5", "x='0.5' is less than 1; write a number of 1 or more: 1.5 lets the new version take one and a half"),
    (0, "x=0 is less than 1; write a number"),
    ("150%", "x='150%' is a percentage; write a number"),
]


@pytest.mark.parametrize(("parse", "cases"), [(parse_share, SHARES), (parse_ratio, RATIOS)])
def test_what_is_no_limit(parse: Any, cases: list[tuple[Any, str]]) -> None:
    for given_, message in cases:
        with pytest.raises(InvalidInputError) as caught:
            parse("x", given_)
        assert message in str(caught.value) and len(str(caught.value)) < 200, given_


odd = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.%-+eE_ nai٣"),
    st.floats(),
    st.integers(),
    st.floats().map(str),
    st.floats(min_value=0).map(lambda f: f"{f}%"),
)


@given(odd)
def test_odd_input_is_a_finite_limit_or_an_error_of_ours(given_: str | float) -> None:
    for parse, least in ((parse_share, 0), (parse_ratio, 1)):
        try:
            value = parse("x", given_)
        except InvalidInputError:
            continue
        assert isinstance(value, float) and math.isfinite(value) and value >= least
        if not isinstance(given_, str):
            assert value == float(given_)
        elif given_.endswith("%"):
            assert value == pytest.approx(float(given_[:-1]) / 100)
        else:
            assert value == float(given_)


@given(st.integers(0, 10**6))
def test_a_percentage_reads_back(thousandths: int) -> None:
    text = percent(thousandths / 100000)
    assert parse_share("x", text) == thousandths / 100000


def test_limits_are_none_unless_given() -> None:
    assert not Limits().any
    assert Limits(max_state_changed=0.0).any
