"""The limits for how much a new version's figures may differ from the old one's."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import attrs

from ..errors import InvalidInputError

_NUMBER = re.compile(r"([0-9]{1,300}(\.[0-9]{1,300})?|\.[0-9]{1,300})(%?)", re.ASCII)
_RATIO = "write a number of 1 or more: 1.5 lets the new version take one and a half times as long as the old one"
_SHARE = "write a share of 0 or more: 5% or 0.05"
GivenLimit = str | float | None


@attrs.frozen(kw_only=True)
class Limits:
    """The allowed changes; None: any."""

    max_slower: float | None = None  # median time of a batch, new / old: 1 or more
    max_rows_changed: float | None = None  # a share of the old rows: 0 or more
    max_state_changed: float | None = None  # of each stage's state rows

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(value is not None for value in attrs.astuple(self))


def parse_ratio(name: str, given: GivenLimit) -> float | None:
    """Parse ``"1.5"`` or 1.5. A number below 1 is refused: 0.5 may be meant as half again as long."""
    if given is None:
        return None
    ratio, is_percentage = _number(name, given, _RATIO)
    if is_percentage or ratio < 1:
        raise _error(name, given, "is a percentage" if is_percentage else "is less than 1", _RATIO)
    return float(ratio)


def parse_share(name: str, given: GivenLimit) -> float | None:
    """Parse ``"5%"``, ``"0.05"`` or 0.05. A plain number from 1 on is refused: 5 may be meant as 5%."""
    if given is None:
        return None
    share, is_percentage = _number(name, given, _SHARE)
    if is_percentage:
        return float(share / 100)
    if share >= 1:
        wanted = f"write {_three_digits(share)}% or {_three_digits(share * 100)}%"
        raise _error(name, given, f"would be {percent(float(share))}", wanted)
    return float(share)


def percent(share: float) -> str:
    """Return ``12.5%`` for 0.125, ``infinitely much`` for infinity."""
    return f"{_three_digits(Decimal(repr(share)) * 100)}%" if math.isfinite(share) else "infinitely much"


def _number(name: str, given: str | float, wanted: str) -> tuple[Decimal, bool]:
    """Return a number of 0 or more, and whether it is a percentage."""
    text = given
    if isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given):
        text = format(Decimal(repr(given)), "f")
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise _error(name, given, "is no number of 0 or more", wanted)
    return Decimal(match[1]), bool(match[3])


def _error(name: str, given: object, problem: str, wanted: str) -> InvalidInputError:
    shown = repr(given)
    return InvalidInputError(f"{name}={shown if len(shown) <= 60 else f'{shown[:57]}...'} {problem}; {wanted}")


def _three_digits(number: Decimal) -> str:
    """Return the number with at most three digits after the point, without zeros at the end."""
    rounded = f"{number:.3f}".rstrip("0").rstrip(".")
    return rounded if rounded != "0" or not number else f"{number:.1e}"
