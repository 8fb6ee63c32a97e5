"""What the command line shows: nothing that somebody else wrote is obeyed by a terminal (issue 18), no secret is told,
and progress goes to a pipe or a terminal."""

from __future__ import annotations

import ast
import os
import re
import threading
from pathlib import Path

import attrs
import pytest
import rich.progress

from airflow_provider_streamupdate import cli
from airflow_provider_streamupdate.cli import progress as module
from airflow_provider_streamupdate.cli.messages import echo, one_line, printable
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.overview import app_document
from airflow_provider_streamupdate.control.waiting import Phase
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.plan.plan import SourcePlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Launch, QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import PROMOTED, Attempt, RollbackRecord, UpdateRecord
from tests.core.builders import app_plan, deploy, query_plan, set_status, status, write_json

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


QUOTED = "cannot log in with hunter2-xyz at s3a://AK:hun/ter2@bucket/in"


@pytest.fixture
def leaky(root: Path) -> AppRegistry:
    """A failed driver, an update and a rollback, all of which quote the password."""
    made = Registry(str(root)).app("flights")
    deploy(
        made,
        application=Application(file="application/v1.py", params={"db_pass": "hunter2-xyz", "url": "x?pw=hunter2-xyz"}),
    )
    source = SourcePlan(
        name="s", named=True, format="own", location="s3a://AK:hun/ter2@b", options={"apikey": "hunter2"}
    )
    write_json(made, "deployments/v1/plan.json", app_plan(query_plan(sources=(source,))))
    died = {"error": QUOTED, "reason": QUOTED, "queries": {"q": QueryStatus(error=QUOTED)}}
    set_status(made, "v1", attrs.evolve(status("failed"), **died))
    now = clock.now()
    event = f'{{"format": 1, "event": "state", "state": "failed", "at": "{now}", "epoch": 1, "error": "{QUOTED}"}}\n'
    made.folder.write("deployments/v1/events.jsonl", event.encode())
    made.set_rollback(RollbackRecord(number=1, app="flights", left="v1", back_to="v0", started_at=now, reason=QUOTED))
    made.set_update(
        UpdateRecord(
            app="flights",
            old="v0",
            new="v1",
            started_at=now,
            step_times={"plan": now},
            outcome=PROMOTED,
            reason=QUOTED,
            verified=(QUOTED,),
            attempts=(Attempt(step="plan", began_at=now, ended_at=now, error=QUOTED),),
        )
    )
    return made


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("list",), True),
        (("status", "flights"), True),
        (("trace", "flights"), True),
        (("history", "flights"), True),
        (("history", "flights", "v1"), True),
        (("metrics",), False),
    ],
)
def test_no_command_shows_what_an_app_was_given(
    run: Run, leaky: AppRegistry, command: tuple[str, ...], told: bool, form: tuple[str, ...]
) -> None:
    result = run(*command, *(form if command != ("metrics",) else ()))
    said = result.stdout + result.stderr
    assert result.exit_code == 0 and "hunter2" not in said and "hun/ter2" not in said, said
    if told:
        assert "cannot log in with (hidden) at s3a://***@bucket/in" in " ".join(said.split())


def test_nor_does_the_page(root: Path, leaky: AppRegistry) -> None:
    """Airflow's masker, which comes after it, does not know what an app was given."""
    found = str(app_document(StreamUpdateClient(str(root)).context, "flights"))
    assert "hunter2" not in found and "hun/ter2" not in found and found.count("cannot log in with (hidden)") > 5


def test_what_is_said_beside_the_result_hides_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    echo("no apps under s3://u:hunter2@bucket/x", err=True)
    assert capsys.readouterr().err == "no apps under s3://***@bucket/x\n"


@pytest.mark.parametrize(
    "args",
    [
        *(("list", "--root", f"{scheme}://u:hunter2@localhost:1/x") for scheme in ("s3", "http", "ftp", "nosuch")),
        ("list", "--root", "/nosuch?password=hunter2"),
        ("list", "--storage-option", "secret:hunter2"),
        *(("submit", __file__, option, "password:hunter2") for option in ("--set", "--conf", "--env")),
        ("submit", __file__, "--env", "DB_PASSWORD hunter2"),
        ("submit", "https://u:hunter2@h/v1.py"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_error_of_a_command_quotes_a_secret(run: Run, args: tuple[str, ...], form: tuple[str, ...]) -> None:
    result = run(*args, *form)
    assert result.exit_code and "hunter2" not in result.stdout + result.stderr


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
