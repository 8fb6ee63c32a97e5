"""A slice of the fuzz (tests/fuzz, `make fuzz`): a few fixed pairs, so that it keeps working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import one_is_fast
from tests.fuzz.outcome import RIGHT
from tests.fuzz.run import run


# One of a spec; then one that is drawn from the sweeps, by the real hand-over, and the other two ways.
@pytest.mark.parametrize("seed", one_is_fast([7000, 7005, 7001, 7002]))
def test_a_pair_goes_on_as_its_verdicts_say(spark, tmp_path: Path, seed: int) -> None:
    outcome = run(spark, seed, tmp_path / "pair")  # what drawn pairs read lies beside it
    assert outcome.kind == RIGHT, outcome
    assert not spark.streams.active
    assert not (tmp_path / "pair").exists()
