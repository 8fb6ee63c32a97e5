"""Progress on a pipe and on a terminal."""

from __future__ import annotations

import re
import threading

import pytest
import rich.progress

from airflow_provider_streamupdate.cli import progress as module
from airflow_provider_streamupdate.control.waiting import Phase


def test_each_line_has_the_time_since_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with module.progress("first", "nothing") as report:
        report("second\nof two lines")
    assert capsys.readouterr().err == "[   0 s] first\n[   0 s] second\nof two lines\n"


def test_a_pipe_is_told_that_the_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.01)
    said, echo = threading.Event(), module.echo

    def shown(line: str, err: bool = False) -> None:
        echo(line, err=err)
        if "still" in line:
            said.set()

    monkeypatch.setattr(module, "echo", shown)
    before = threading.active_count()
    with module.progress("planning", "nothing"):
        assert said.wait(60)
    assert threading.active_count() == before
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[   0 s] planning" and re.fullmatch(r"\[ +\d+ s\] still: planning", lines[1])


def test_only_a_phase_is_repeated_and_it_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any last line was repeated, such as the earlier durations of the steps; each change of a reason was a line."""
    lines = module._Lines()
    lines.report(Phase("planning v2"))
    lines.report("earlier durations of the steps (the last time): standby 12 s")
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    lines.still()
    lines.report(Phase("verifying v2", "0 of 5 batches"))
    lines.report(Phase("verifying v2", "1 of 5 batches"))
    lines.still()
    lines.report("orders is healthy")
    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "planning v2",
        "earlier durations of the steps (the last time): standby 12 s",
        "still: planning v2",
        "verifying v2: 0 of 5 batches",
        "still: verifying v2: 1 of 5 batches",
        "orders is healthy",
    ]


def test_a_terminal_shows_the_phase_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(rich.progress.Progress, "update", lambda self, task, description: shown.append(description))
    with module._spinner("updating") as report:
        report(Phase("verifying v2", "0 of 5 batches"))
        report("a note")
        report(Phase("verifying v2", "1 of 5 batches [b]"))
    assert shown == ["verifying v2: 0 of 5 batches", r"verifying v2: 1 of 5 batches \[b]"]
    said = capsys.readouterr().err
    assert "a note" in said and said.count("verifying v2: 0 of 5 batches") == 1
