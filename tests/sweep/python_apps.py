"""Writes apps into folders and runs them (python_runner.py) in Spark's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-spark" / "bin" / "python"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def run(jobs: Sequence[Mapping[str, Any]], hash_seed: str = "0") -> list[dict[str, Any]]:
    """One process after another, forked from one that has loaded what takes long."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    python = str(PYTHON) if PYTHON.exists() else sys.executable
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    command = [python, str(Path(__file__).with_name("python_runner.py"))]
    done = subprocess.run(command, input=lines, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(jobs)
    return outcomes
