"""The boundaries of an update: those declared are those in the code, and what a test can have happen at one."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from airflow_provider_streamupdate.control.update.strategies import STRATEGIES, strategy_named
from airflow_provider_streamupdate.core.boundaries import BOUNDARIES, FAIL, KILL, VARIABLE, boundary

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from crashlib.cases import never_struck  # noqa: E402

PACKAGE = ROOT / "airflow_provider_streamupdate"


def marked() -> Counter[str]:
    """How often each name is marked in the package's code."""
    found: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "boundary":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{file}: a boundary's name is written out"
                found[name.value] += 1
    return found


def test_each_boundary_is_marked_once_and_each_mark_is_declared() -> None:
    assert marked() == Counter(BOUNDARIES.keys())


def test_each_boundary_has_a_case() -> None:
    listed = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "crash.py"), "--list"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(listed) == len(set(listed)) >= 100
    assert not never_struck()
    struck: dict[str, set[str]] = {}
    for line in listed:
        way, _, victims = line.split(":")
        struck.setdefault(way, set()).add(victims)
    for strategy in STRATEGIES:
        assert {"task", "storage"} <= struck[strategy]
        assert ("new" in struck[strategy]) is not strategy_named(strategy).in_place
    assert {"supervisor", "new", "storage"} == struck["supervise"]


def test_a_name_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="'nowhere' is no boundary"):
        boundary("nowhere")


CODE = """
from airflow_provider_streamupdate.core.boundaries import boundary
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.storage import Folder
import sys
folder = Folder.open(sys.argv[1])
boundary("begun")
boundary("checked")
try:
    folder.read("x")
    print("read")
except StorageError as error:
    print(error)
boundary("checked")
folder.read("x")
print("done")
"""


def run(folder: Path, code: str = CODE, **armed: str) -> subprocess.Popen[str]:
    for part in ("armed", "reached", "go"):
        (folder / part).mkdir(parents=True)
    for name, action in armed.items():
        (folder / "armed" / name).write_text(action)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_process_ends_itself_where_it_is_told_to(tmp_path: Path) -> None:
    process = run(tmp_path, checked=KILL)
    assert process.wait(60) == -signal.SIGKILL
    assert (tmp_path / "reached" / f"checked.{process.pid}").exists()


def test_the_next_storage_call_fails_once(tmp_path: Path) -> None:
    out, _ = run(tmp_path, checked=FAIL).communicate(timeout=60)
    assert "a test wants it to" in out and out.endswith("done\n")


DRIVER = """
import sys
from pathlib import Path
from airflow_provider_streamupdate.control.drivers import process
folder = Path(sys.argv[1])
process.start(["/bin/sh", "-c", "echo $0 began", "a b"], {}, folder / "log", 1, lambda launch: print(launch.pid))
"""


def test_a_driver_whose_launch_was_not_noted_never_begins(tmp_path: Path) -> None:
    process = run(tmp_path, DRIVER, **{"driver-forked": KILL})
    assert process.wait(60) == -signal.SIGKILL
    children = [p for p in psutil.process_iter(["cmdline"]) if "echo $0 began" in (p.info["cmdline"] or [])]
    psutil.wait_procs(children, timeout=60)
    assert (tmp_path / "log").read_text() == ""
