"""A slice of the fuzz (tests/fuzz, `make fuzz`): a few fixed pairs, so that it keeps working."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.pair import RIGHT, run_pair


# A source that joins a union below a window, another aggregate and a source less, an aggregate dropped, a key dropped,
# another delay.
@pytest.mark.parametrize("seed", [7000, 7001, 7004, 7006, 7007])
def test_a_pair_goes_on_as_its_verdicts_say(spark, tmp_path: Path, seed: int) -> None:
    outcome = run_pair(spark, seed, tmp_path / "pair")
    assert outcome.kind == RIGHT, outcome
    assert not spark.streams.active
    assert not list(tmp_path.iterdir())
