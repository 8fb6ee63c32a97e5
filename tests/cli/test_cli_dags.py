"""init-dags; that what it copies is in the wheel: test_wheel.py."""

from __future__ import annotations

from pathlib import Path

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
    assert refused.exit_code == 1 and f"{mine} differ" in refused.stderr and "--force" in refused.stderr
    assert [path.name for path in tmp_path.glob("*.py")] == [mine.name] and mine.read_text() == "# mine\n"
    assert run("init-dags", str(tmp_path), "--force").exit_code == 0
    assert mine.read_bytes() == (ROOT / "dags" / mine.name).read_bytes()


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    refused = run("init-dags", str(tmp_path / "nowhere"))
    assert refused.exit_code == 2 and "there is no folder" in refused.stderr
