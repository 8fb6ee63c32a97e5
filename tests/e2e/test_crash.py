"""A few cases of `make crash`, one of each kind of death."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.ground import ROOT, SPARK_SUBMIT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CASES = (
    "restart:drained:old",
    "standby:plan-answered:new",
    "follow:first-commit-seen:task+new",
    "hot-standby:restoring:new",
)


def test_nothing_is_lost_whoever_dies(tmp_path: Path) -> None:
    chosen = f"^({'|'.join(CASES)})$".replace("+", "[+]")
    crash = [sys.executable, str(ROOT / "scripts" / "crash.py"), "--spark-submit", SPARK_SUBMIT]
    done = subprocess.run(
        [*crash, "--only", chosen, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "cases 4, faults 4, lost 0, duplicated 0, stuck 0"
