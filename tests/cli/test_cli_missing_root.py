"""A mistyped root: no command but those that make a root makes one, and each says that it is not there. The commands
are click's own list of them, so that a new one is covered."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from airflow_provider_streamupdate.cli import main

from .conftest import Run, Site, document

MAKE_A_ROOT = {"submit", "adopt"}
DO_WITHOUT = {"plan", "init-dags"}  # neither reads a root nor writes to it
GROUPS = {"pipeline"}  # its record lies in its own storage: tests/cli/test_cli_pipeline.py
READ_A_ROOT = main.commands.keys() - MAKE_A_ROOT - GROUPS
VALUES = {
    "app": "alarm",
    "deployment": "v1",
    "apps": "alarm",
    "name": "s1",
    "checkpoints": "/data/checkpoint",
    "switch": "on",
    "update": "v1",
}


@pytest.fixture
def missing(root: Path) -> Path:
    root.rmdir()
    return root


def arguments(site: Site, command: str) -> list[str]:
    """Something for each argument that the command takes."""
    values = {**VALUES, "app_file": str(site.application()), "folder": str(site.folder)}
    taken = [p for p in main.commands[command].params if isinstance(p, click.Argument)]
    return [values[str(p.name)] for p in taken]


@pytest.mark.parametrize("command", sorted(READ_A_ROOT))
def test_no_other_command_makes_a_root_that_is_not_there(site: Site, missing: Path, command: str) -> None:
    result = site.run(command, *arguments(site, command))
    assert not missing.exists()
    if command in DO_WITHOUT:
        assert result.exit_code == 0, result.output
        return
    assert result.exit_code == (2 if command in ("check", "rehearse") else 1), result.output
    told = " ".join((result.stdout if command == "doctor" else result.stderr).split())
    assert (
        f"root {missing} does not exist; correct it, or create the folder (only `submit` and `adopt` create a root)"
        in told
    )
    if command != "doctor":
        error = document(site.run(command, *arguments(site, command), "--json"))["error"]
        assert error["type"] == "StorageError" and f"root {missing} does not exist" in error["message"]


def test_submit_makes_the_root(site: Site, missing: Path) -> None:
    site.ok("submit", site.application(), "--deployment", "v1")
    assert os.listdir(missing) == ["alarm"]


@pytest.mark.parametrize("command", ["submit", "adopt"])
def test_a_root_is_not_left_by_what_was_refused(site: Site, missing: Path, command: str) -> None:
    """A mistyped one would be listed, and called ok."""
    deep = missing / "and" / "deeper"
    checkpoint = site.folder / "checkpoint"
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "offsets").mkdir()
    bad = site.application("bad", FAIL="plan")
    more = ["--app", "alarm", "--plan-from", bad, checkpoint] if command == "adopt" else [bad]
    result = site.run(command, *more, "--root", deep)
    assert result.exit_code != 0 and not missing.exists()


def of_an_app() -> list[str]:
    """The commands whose first argument is an app."""
    return sorted(n for n, c in main.commands.items() if [p.name for p in c.params if is_argument(p)][:1] == ["app"])


def is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


@pytest.mark.parametrize("command", of_an_app())
def test_an_app_that_is_not_there_is_told_before_anything_is_said_to_be_done(site: Site, command: str) -> None:
    refused = site.run(command, *arguments(site, command))
    assert refused.exit_code == 1 and refused.stderr.startswith("Error: no app 'alarm' under"), refused.stderr


def test_a_root_that_is_a_file_is_told(run: Run, missing: Path) -> None:
    missing.write_text("")
    result = run("list")
    assert result.exit_code == 1 and f"root {missing} is not a folder" in result.stderr
