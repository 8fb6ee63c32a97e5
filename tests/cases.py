"""What many tests go through: the steps of an update, and cases, one of which runs each time and all somewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from airflow_provider_streamupdate.core.registry.update import Step

STEPS = tuple(str(step) for step in Step if step != Step.REHEARSE)  # of an update that is not rehearsed


def one_is_fast(cases: Iterable[Any], fast: int = 1) -> list[Any]:
    """The first ones (`fast` of them) as they are; the others, which take the same way with other values, are slow
    tests."""
    given = list(cases)
    return [*given[:fast], *map(_slow, given[fast:])]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # of pytest.param, which is a tuple of values, marks and an id
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
