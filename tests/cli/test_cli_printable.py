"""Nothing that somebody else wrote is obeyed by a terminal (issue 18)."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from airflow_provider_streamupdate import cli
from airflow_provider_streamupdate.cli.messages import one_line, printable
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.deployment import Launch
from airflow_provider_streamupdate.core.registry.registry import Registry
from tests.core.builders import deploy, set_status, status

from .conftest import Run

TITLE, CLEAR, TURNED = "\x1b]0;owned\x07", "\x9b2J", "\u202egnp.exe"
FILES = sorted(Path(cli.__file__).parent.glob("*.py"))


def test_every_control_character_is_written_out() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xD800):
        shown = printable(f"a{chr(code)}b")
        assert shown == (f"a{chr(code)}b" if chr(code) in "\n\t" else f"a{_written(code)}b")
        shown.encode()


def test_a_name_with_several_lines_stays_on_one() -> None:
    assert one_line("a.py\n+ forged\x1b[31m") == "a.py\\n+ forged\\x1b[31m"


def _written(code: int) -> str:
    if chr(code) == "\r":
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def test_what_people_write_stays() -> None:
    for text in ("größer", "日本語", "a\n\tb", "👩\u200d🚀", "naïve\u00a0x", "⟨a ∪ b⟩"):
        assert printable(text) == text


@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_all_of_the_command_line_prints_by_way_of_it(path: Path) -> None:
    if path.name in ("output.py", "messages.py"):  # tables and JSON, whose cells are made printable one by one
        return
    calls = [ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"} & set(calls)


def test_an_error_and_a_log_reach_no_terminal_as_they_are(root: Path, run: Run, tmp_path: Path) -> None:
    registry = Registry(str(root)).app("flights")
    deploy(registry)
    log = Path(registry.folder.path("deployments/v1/driver-1.log"))
    log.write_text(f"one {TITLE}\ntwo {CLEAR}\n")
    launch = Launch(epoch=1, host=os.uname().nodename, pid=None, log=str(log), launched_at=clock.now())
    registry.set_launch("v1", launch)
    set_status(registry, "v1", status("failed", error=f"{TITLE} {TURNED} {CLEAR}"))
    for command in (("status", "flights"), ("list",), ("log", "flights"), ("doctor",), ("status", "x" + TITLE)):
        result = run(*command, color=True)
        for sign in (TITLE, CLEAR, TURNED):
            assert sign not in result.output
    assert "one \\x1b]0;owned" in run("log", "flights").output
    assert "\\u202egnp.exe" in run("status", "flights").output
