"""A slice of the fuzz (tests/fuzz, `make fuzz`): a few fixed pairs, so that it keeps working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.pair import RIGHT, run_pair


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6])
def test_a_pair_goes_on_as_its_verdicts_say(spark, tmp_path: Path, seed: int) -> None:
    outcome = run_pair(spark, seed, tmp_path / "pair")
    assert outcome.kind == RIGHT, outcome
    assert not spark.streams.active
    assert not list(tmp_path.iterdir())
