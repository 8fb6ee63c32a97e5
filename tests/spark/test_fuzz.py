"""A slice of the fuzz (tests/fuzz, `make fuzz`): a few fixed pairs, so that it keeps working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.pair import RIGHT, run_pair


# A few kinds of change.
@pytest.mark.parametrize("seed", [1004, 1007, 1010, 1019, 1024, 1027])
def test_a_pair_goes_on_as_its_verdicts_say(spark, tmp_path: Path, seed: int) -> None:
    outcome = run_pair(spark, seed, tmp_path / "pair")
    assert outcome.kind == RIGHT, outcome
    assert not spark.streams.active
    assert not list(tmp_path.iterdir())
