"""init-dags; that what it copies is in the wheel: test_wheel.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Run, document

ROOT = Path(__file__).resolve().parents[2]
DAGS = sorted(path.name for path in (ROOT / "dags").glob("*.py"))


def test_the_dags_are_copied_and_a_second_time_unchanged(run: Run, tmp_path: Path) -> None:
    first = run("init-dags", str(tmp_path))
    assert first.exit_code == 0 and first.stdout == f"wrote {', '.join(DAGS)} into {tmp_path}\n"
    for name in DAGS:
        assert (tmp_path / name).read_bytes() == (ROOT / "dags" / name).read_bytes()
    assert document(run("init-dags", str(tmp_path), "--json"))["written"] == []


def test_what_was_changed_is_left_alone(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / DAGS[0]
    mine.write_text("# mine\n")
    refused = run("init-dags", str(tmp_path))
    assert (
        refused.exit_code == 1
        and f"{mine}: differs from the DAGs of this package; nothing was written. Move it out of the folder"
        in " ".join(refused.stderr.split())
    )
    assert [path.name for path in tmp_path.glob("*.py")] == [mine.name] and mine.read_text() == "# mine\n"
    assert run("init-dags", str(tmp_path), "--force").exit_code == 0
    assert mine.read_bytes() == (ROOT / "dags" / mine.name).read_bytes()


@pytest.mark.parametrize("given", ["nowhere", "file", ""])
def test_a_folder_that_is_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    refused = run("init-dags", given)
    assert refused.exit_code == 2 and f"there is no folder {given!r}" in refused.stderr
    assert not list(tmp_path.glob("*.py"))


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    folder = Path("/proc/self/task") if os.geteuid() == 0 else tmp_path  # root may write to any other
    if folder == tmp_path:
        tmp_path.chmod(0o555)
    elif not folder.is_dir():
        pytest.skip("root may write to every folder here")
    refused = run("init-dags", str(folder))
    tmp_path.chmod(0o755)
    assert refused.exit_code == 1 and f"the DAGs cannot be copied into {folder}: " in refused.stderr


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_where_a_dag_would_be(run: Run, tmp_path: Path, force: list[str]) -> None:
    (tmp_path / DAGS[-1]).mkdir()
    refused = run("init-dags", str(tmp_path), *force)
    assert refused.exit_code == 1 and f"Is a directory: '{tmp_path / DAGS[-1]}'" in " ".join(refused.stderr.split())
    assert [path.name for path in tmp_path.glob("*.py")] == [DAGS[-1]]
