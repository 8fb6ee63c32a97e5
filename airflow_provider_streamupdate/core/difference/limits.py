"""How much a new version's figures may differ from the old one's, and whose rows are compared."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import attrs

from ..errors import InvalidInputError

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", re.ASCII)
_RATIO = "write a number of 1 or more: 1.5 lets the new version take one and a half times as long as the old one"
_SHARE = "write a share of 0 or more: 5% or 0.05"
Given = str | float | None


def _finite(least: float) -> Any:
    """Validator of an attrs field: a number from `least` on, or None."""

    def check(_instance: object, field: Any, value: float | None) -> None:
        if value is not None and not (math.isfinite(value) and value >= least):
            raise InvalidInputError(f"{field.name}={value!r} must be a number of {least:g} or more")

    return check


@attrs.frozen(kw_only=True)
class Limits:
    """What is allowed; None: any difference is told and none is a problem.

    max_slower: the median time of the new version's batches, as a multiple of the old one's
    max_rows_changed: rows to the sink, more or fewer, as a share of the old version's
    max_state_changed: state rows of a stage, more or fewer, as a share of the old version's
    """

    max_slower: float | None = attrs.field(default=None, validator=_finite(1))
    max_rows_changed: float | None = attrs.field(default=None, validator=_finite(0))
    max_state_changed: float | None = attrs.field(default=None, validator=_finite(0))

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(value is not None for value in attrs.astuple(self))


def parse_limits(max_slower: Given = None, max_rows_changed: Given = None, max_state_changed: Given = None) -> Limits:
    """Limits as a user gives them, texts or numbers; InvalidInputError says what is wrong and what is right."""
    return Limits(
        max_slower=parse_ratio("max_slower", max_slower),
        max_rows_changed=parse_share("max_rows_changed", max_rows_changed),
        max_state_changed=parse_share("max_state_changed", max_state_changed),
    )


def parse_ratio(name: str, given: Given) -> float | None:
    """``"1.5"`` or 1.5. Below 1 is refused: who writes 0.5 may mean half again as long."""
    if given is None:
        return None
    if isinstance(given, str) and given.endswith("%"):
        raise _wrong(name, given, "is a percentage", _RATIO)
    ratio = _number(name, given, _RATIO)
    if ratio < 1:
        raise _wrong(name, given, "is less than 1", _RATIO)
    return float(ratio)


def parse_share(name: str, given: Given) -> float | None:
    """``"5%"``, ``"0.05"`` or 0.05. A plain number from 1 on is refused: who writes 5 may mean 5%."""
    if given is None:
        return None
    if isinstance(given, str) and given.endswith("%"):
        return float(_number(name, given, _SHARE, given[:-1]) / 100)
    share = _number(name, given, _SHARE)
    if share >= 1:
        raise _wrong(
            name, given, f"would be {percent(float(share))}", f"write {_plain(share)}% or {_plain(share * 100)}%"
        )
    return float(share)


def percent(share: float) -> str:
    """``0.125`` as ``12.5%``; infinite: ``infinitely much``."""
    return f"{_plain(Decimal(repr(share)) * 100)}%" if math.isfinite(share) else "infinitely much"


def _number(name: str, given: str | float, right: str, text: str | None = None) -> Decimal:
    """A number of 0 or more. text: the part of what was given that is one."""
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise _wrong(name, given, "is no number", right)
    text = text if text is not None else given if isinstance(given, str) else format(Decimal(repr(given)), "f")
    if not text:
        raise _wrong(name, given, "is empty" if not given else "has no number", right)
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        raise _wrong(name, given, "is not finite", right)
    if text.startswith("-"):
        raise _wrong(name, given, "is negative", right)
    if not _NUMBER.fullmatch(text):
        spaces = any(c.isspace() for c in text)
        raise _wrong(name, given, "has a space in it" if spaces else "is no number", right)
    if len(text) > 300:
        raise _wrong(name, given, "is too long", right)
    return Decimal(text)


def _wrong(name: str, given: object, what: str, right: str) -> InvalidInputError:
    shown = repr(given)
    return InvalidInputError(f"{name}={shown if len(shown) <= 60 else f'{shown[:57]}...'} {what}; {right}")


def _plain(number: Decimal) -> str:
    """Three digits after the point at most, without zeros at the end."""
    rounded = f"{number:.3f}".rstrip("0").rstrip(".")
    return rounded if rounded != "0" or not number else f"{number:.1e}"


@attrs.frozen(kw_only=True)
class Asked:
    """keys: by query, the columns by which rows are paired
    tolerance: by what share floating columns of a pair may differ"""

    keys: dict[str, tuple[str, ...]]
    tolerance: float = 0.0
