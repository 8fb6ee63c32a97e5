"""The repository's own scripts. `.ci/run`: what it ran, what it did not run and why, and nothing that was not earned.
The locked jars. The examples of the docs are those of the system tests. The lock of scripts/setup.sh, in real
processes: never two at work, also after an owner died with others waiting."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MAKEFILE = """
test: ; @echo 'ERROR tests/one.py' ; echo '==== 7 passed, 1 skipped in 3.10s ===='
demo: ; @echo demo
test-slow: ; @echo '==== 2 passed in 9.00s ===='
test-spark42: ; @echo 'make test-spark42: skipped: no such registry' ; echo '==== 1 skipped in 0.01s ===='
"""


def ci(folder: Path, minutes: str, makefile: str = MAKEFILE) -> tuple[int, list[str]]:
    """Exit code and output of .ci/run on another Makefile."""
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(makefile)
    done = subprocess.run(
        [folder / ".ci" / "run"], env={**os.environ, "CI_MINUTES": minutes}, capture_output=True, text=True
    )
    return done.returncode, done.stdout.splitlines()


OUT_OF_TIME = "echo '!!!!!!! session-timeout: 60.0 sec exceeded !!!!!!' ; echo '=== 2 passed in 9.00s ===' ; false"


@pytest.mark.parametrize(("more", "code"), [("", 0), ("echo 'FAILED tests/one.py::test_one' ; ", 1)])
def test_slow_tests_that_end_for_time_have_not_failed(tmp_path: Path, more: str, code: int) -> None:
    makefile = MAKEFILE.replace("echo '==== 2 passed in 9.00s ===='", more + OUT_OF_TIME)
    found, lines = ci(tmp_path, "80", makefile)
    assert found == code
    assert ("  make test-slow: the rest of it, cut off for time" in lines) == (code == 0)
    assert ("=== failed: test-slow" in lines) == (code == 1)


@pytest.mark.parametrize(
    ("suite", "before", "after"),
    [("test", "test: ;", f"test: ; @{OUT_OF_TIME}\nunused: ;"), ("demo", "echo demo", "false")],
)
def test_a_suite_that_failed_fails_it_and_the_fast_tests_may_not_end_for_time(
    tmp_path: Path, suite: str, before: str, after: str
) -> None:
    code, lines = ci(tmp_path, "80", MAKEFILE.replace(before, after))
    assert code == 1 and f"=== failed: {suite}" in lines


# Locked jars and packages


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


def test_every_input_has_its_lock_and_every_locked_package_its_hashes() -> None:
    assert {p.stem for p in REQUIREMENTS.glob("*.in")} == {p.stem for p in REQUIREMENTS.glob("*.txt")}
    for lock in sorted(REQUIREMENTS.glob("*.txt")):
        packages = [p for p in re.split(r"\n(?=\S)", lock.read_text()) if not p.startswith("#")]
        assert packages and all("--hash=sha256:" in p for p in packages), lock.name


# Examples of the docs


@pytest.fixture
def examples_docs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    return importlib.import_module("examples_docs")


def test_the_pages_have_the_examples_as_they_are_run(examples_docs: ModuleType) -> None:
    for page in examples_docs.pages():
        text = page.read_text()
        assert examples_docs.page(text) == text, f"{page} is out of date: run scripts/examples_docs.py"


# The lock of scripts/setup.sh


ROUNDS, WAITING = 50, 4
# One setup. It notes when another one is at work as well; the first of a round is killed at its work.
SETUP = """
. scripts/setup/system.sh
. scripts/setup/lock.sh
LOCKS=$1/locks
take_lock >>"$1/said"
mkdir "$1/at-work" 2>/dev/null || echo "round $2" >>"$1/two"
echo $$ >>"$1/done"
if mkdir "$1/killed-$2" 2>/dev/null; then rmdir "$1/at-work"; kill -9 $$; fi
sleep 0.01
rmdir "$1/at-work"
release_lock
"""
ALL = """
set -u
export SETUP_POLL_SECONDS=0.02
mkdir "$1/locks"
for round in $(seq "$3"); do
    true & gone=$!
    wait $gone
    : >"$1/locks/$gone"
    for _ in $(seq "$4"); do bash -euo pipefail "$2" "$1" "$round" & done
    wait
done 2>"$1/err"
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_never_two_setups_at_work_when_an_owner_died(tmp_path: Path) -> None:
    script, loop = tmp_path / "setup.sh", tmp_path / "all.sh"
    script.write_text(SETUP)
    loop.write_text(ALL)
    words = [str(w) for w in ("bash", loop, tmp_path, script, ROUNDS, WAITING)]
    # in a session of its own: bash looks after its terminal when a child is killed, and would be stopped
    subprocess.run(words, cwd=REPOSITORY, check=True, timeout=280, start_new_session=True)
    assert not (tmp_path / "two").exists(), (tmp_path / "two").read_text()
    assert len((tmp_path / "done").read_text().split()) == ROUNDS * WAITING, (tmp_path / "err").read_text()[-2000:]
    assert len(list(tmp_path.glob("killed-*"))) == ROUNDS
    assert "is running; waiting for it" in (tmp_path / "said").read_text()
    left = [int(file.name) for file in (tmp_path / "locks").iterdir()]
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()], "what is left is of processes that are gone"
