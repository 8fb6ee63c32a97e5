"""What the simulation has found stays mended, and a few more schedules are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXED_SEEDS = {
    39: "a rollback that gave up had told the new version to end, and the update promoted that version",
}


def simulate(*options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("seed", FIXED_SEEDS, ids=str)
def test_what_was_found_stays_mended(seed: int) -> None:
    simulate("--seed", str(seed))


def test_schedules_are_right() -> None:
    simulate("--schedules", "40", "--jobs", "1")
