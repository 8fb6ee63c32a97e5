"""What the simulation has found stays mended, and a few more schedules are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
FORGOTTEN = "rollback: the old version's end is not waited for"


def simulate(*options: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *options], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_what_was_found_stays_mended(file: Path) -> None:
    simulate("--replay", str(file))


def test_schedules_are_right() -> None:
    simulate("--schedules", "500", "--jobs", "1")


def test_a_planted_fault_is_found_and_what_it_does_not_need_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(simulate("--seed", "11", "--plant", FORGOTTEN, "--shrink", code=1))
    smaller = simulate("--replay", str(tmp_path / "found.json"), "--plant", FORGOTTEN, code=1)
    assert "its driver was told to end" in smaller
    assert simulate("--replay", str(tmp_path / "found.json"))
