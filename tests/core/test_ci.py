"""What `.ci/run` says of itself: what it ran, what it did not run and why, and nothing that was not earned."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CLOSING = re.compile(r"=+ .*\b(passed|failed|skipped)\b.* in [0-9].*=+")
NO_SUITE = {
    "help",
    "setup",
    "demo",
    "lint",
    "format",
    "golden",
    "golden-root",
    "www",
    "up",
    "down",
    "lock",
    "sbom",
    "audit",
    "clean",
    "clean-all",
}
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


def test_it_ends_with_what_it_did_not_run_and_the_closing_lines(tmp_path: Path) -> None:
    code, lines = ci(tmp_path, "80")
    assert code == 0
    assert lines[-3:] == [
        "==== 1 skipped in 0.01s ====",
        "==== 2 passed in 9.00s ====",
        "==== 7 passed, 1 skipped in 3.10s ====",
    ]
    told = lines[lines.index("=== not run") + 1 : -3]
    assert told[0] == "  make test-spark42: skipped: no such registry"
    assert "  make test-yarn: not part of CI: needs jars from a Maven repository" in told
    assert all(re.match(r"  make [a-z0-9-]+: (skipped|not part of CI: needs) ?.+", line) for line in told)


def test_what_there_was_no_time_for_is_told(tmp_path: Path) -> None:
    code, lines = ci(tmp_path, "12")
    assert code == 0
    told = lines[lines.index("=== not run") + 1 :]
    assert told[0] == "  make demo: left out for time (12 min were left, it needs 15)" or told[0].startswith(
        "  make demo: left out for time (11 min"
    )
    assert any(line.startswith("  make test-spark42: left out for time") for line in told)
    assert lines[-2:] == ["==== 2 passed in 9.00s ====", "==== 7 passed, 1 skipped in 3.10s ===="]


OUT_OF_TIME = "echo '!!!!!!! session-timeout: 60.0 sec exceeded !!!!!!' ; echo '=== 2 passed in 9.00s ===' ; false"


@pytest.mark.parametrize(("more", "code"), [("", 0), ("echo 'FAILED tests/one.py::test_one' ; ", 1)])
def test_slow_tests_that_end_for_time_have_not_failed(tmp_path: Path, more: str, code: int) -> None:
    makefile = MAKEFILE.replace("echo '==== 2 passed in 9.00s ===='", more + OUT_OF_TIME)
    found, lines = ci(tmp_path, "80", makefile)
    assert found == code
    assert ("  make test-slow: the rest of it, cut off for time" in lines) == (code == 0)
    assert ("=== failed: test-slow" in lines) == (code == 1)


def test_the_fast_tests_may_not_end_for_time(tmp_path: Path) -> None:
    code, lines = ci(tmp_path, "80", MAKEFILE.replace("test: ;", f"test: ; @{OUT_OF_TIME}\nunused: ;"))
    assert code == 1 and "=== failed: test" in lines


def test_a_suite_that_failed_fails_it(tmp_path: Path) -> None:
    code, lines = ci(tmp_path, "80", MAKEFILE.replace("echo demo", "false"))
    assert code == 1 and "=== failed: demo" in lines


def test_every_suite_of_the_makefile_is_run_or_told() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    script = (REPOSITORY / ".ci" / "run").read_text()
    run = set(re.findall(r"^run ([a-z0-9-]+) ", script, re.MULTILINE))
    listed = script.partition('ELSEWHERE="')[2].partition('"')[0]
    elsewhere = {line.partition(": ")[0] for line in listed.splitlines()}
    assert run | elsewhere == (targets - NO_SUITE) | {"demo"} and not run & elsewhere


def test_a_suite_without_its_parts_is_skipped_by_pytest_itself() -> None:
    done = subprocess.run(
        ["scripts/skipped.sh", "test-s3", "no such registry", "tests/ground/s3.py"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "make test-s3: skipped: no such registry"
    assert "1 skipped" in lines[-1] and CLOSING.fullmatch(lines[-1])


def test_no_script_prints_a_summary_that_no_suite_has_earned() -> None:
    scripts = [REPOSITORY / ".ci" / "run", *(REPOSITORY / "scripts").rglob("*.sh"), REPOSITORY / "noxfile.py"]
    for script in scripts:
        assert not re.search(r"echo.*[0-9]+ (passed|skipped)", script.read_text()), script


def test_the_workflow_runs_it_and_the_hooks_run_what_lint_runs() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())
    [job] = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert int(job["steps"][-1]["env"]["CI_MINUTES"]) < job["timeout-minutes"]
    repositories = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = {" ".join(hook["entry"].split()[:2]) for hook in repositories[0]["hooks"]}
    lint = (REPOSITORY / "scripts" / "lint.sh").read_text()
    assert hooks == set(re.findall(r"^(\.venv/bin/(?:ruff \w+|mypy))", lint, re.MULTILINE))
