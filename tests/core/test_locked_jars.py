"""The jars that tests fetch are the locked ones (scripts/locked_jars.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "requirements"


def locked_jars(*arguments: object) -> subprocess.CompletedProcess[str]:
    script = REPOSITORY / "scripts" / "locked_jars.py"
    return subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("a-1.jar", "b-2.jar"):
        (folder / name).write_bytes(name.encode())
    return folder


def test_jars_are_the_locked_ones(jars: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert locked_jars(jars, lock, "--write").returncode == 0
    assert [line.split("  ")[1] for line in lock.read_text().splitlines()] == ["a-1.jar", "b-2.jar"]
    assert locked_jars(jars, lock).returncode == 0
    (jars / "b-2.jar").write_bytes(b"another")
    (jars / "c-3.jar").write_bytes(b"new")
    told = locked_jars(jars, lock)
    assert told.returncode == 1
    assert "b-2.jar is not the jar that was locked" in told.stderr and "c-3.jar has no locked checksum" in told.stderr
    assert "a-1.jar" not in told.stderr


def test_every_locked_package_has_hashes() -> None:
    for lock in sorted(REQUIREMENTS.glob("*.txt")):
        packages = [p for p in re.split(r"\n(?=\S)", lock.read_text()) if not p.startswith("#")]
        assert packages and all("--hash=sha256:" in p for p in packages), lock.name


def test_every_input_has_its_lock() -> None:
    assert {p.stem for p in REQUIREMENTS.glob("*.in")} == {p.stem for p in REQUIREMENTS.glob("*.txt")}
