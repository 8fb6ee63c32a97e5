"""Cases of parametrized tests: all of them run somewhere, and one of them each time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_is_fast(cases: Iterable[Any], fast: int = 1) -> list[Any]:
    """The first ones (`fast` of them) as they are; the others, which take the same way with other values, are slow
    tests."""
    given = list(cases)
    others = ((case if isinstance(case, tuple) else (case,)) for case in given[fast:])
    return [*given[:fast], *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]
