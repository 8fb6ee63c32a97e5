"""The function sweep (issue 15): no two expressions with different results have one meaning, and none has two.

A slice runs with the other tests; `make sweep` runs all of it.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.sweep.judge import Verdict
from tests.sweep.places import place
from tests.sweep.positions import AGGREGATES, CONDITIONS, VALUES
from tests.sweep.sweep import listed, report, sweep

# One function of each cause that was found.
_SLICE = {"in", "like", "cast", "from_json", "struct", "explode", "sum", "hash"}
_PAIRS = 10_000


def _nothing_wrong(found: Verdict) -> None:
    told = listed(found)
    assert not told["wrong"], told["wrong"][:5]
    assert not told["unequal"], told["unequal"][:5]


def test_a_slice_of_the_functions(sweep_spark, tmp_path, capsys) -> None:
    done = sweep(sweep_spark, str(tmp_path), seed=1, most=3, most_seeds=4, only=sorted(_SLICE))
    with capsys.disabled():
        print(report(done))
    assert done.covered == _SLICE
    assert done.verdict.different > 100
    _nothing_wrong(done.verdict)


@pytest.mark.sweep
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_function_of_the_registry(sweep_spark, tmp_path, capsys, ansi: str) -> None:
    seed = int(os.environ.get("SEED") or time.time())
    most = int(os.environ.get("N") or 8)
    done = sweep(sweep_spark, str(tmp_path), seed=seed, most=most, ansi=ansi)
    with capsys.disabled():
        print(report(done))
    assert done.verdict.pairs >= _PAIRS
    _nothing_wrong(done.verdict)


@pytest.mark.sweep
@pytest.mark.timeout(4 * 3600)
def test_every_position(sweep_spark, tmp_path, capsys) -> None:
    """A sample of pairs with different results in each place of a stage: none is carried; and each app updated to
    itself is."""
    seed = int(os.environ.get("SEED") or time.time())
    found = place(sweep_spark, str(tmp_path), seed, each=int(os.environ.get("N") or 12))
    with capsys.disabled():
        print(found.report())
    assert set(found.counted) == {*VALUES, *AGGREGATES, *CONDITIONS}
    assert not found.wrong and not found.unequal
