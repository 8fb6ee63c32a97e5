"""Cases of parametrized tests: all of them run somewhere, and one of them each time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_is_fast(cases: Iterable[Any], fast: int = 1) -> list[Any]:
    """The first ones (`fast` of them) as they are; the others, which take the same way with other values, are slow
    tests."""
    given = list(cases)
    return [*given[:fast], *map(_slow, given[fast:])]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # of pytest.param, which is a tuple of values, marks and an id
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
