"""Help, options and wrong usage."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.cli.option_types import Duration, KeyValue
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.hooks.update_options import verify_for
from tests.core.builders import app_with_snapshots

from .conftest import Run, document

COMMANDS = tuple(main.commands)
BAD_NAMES = ("a/b", "")


def test_the_group_s_help_lists_every_command_the_exit_codes_and_the_environment(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    variables = ("STREAMUPDATE_ROOT", "STREAMUPDATE_SPARK_SUBMIT", "STREAMUPDATE_STORAGE_OPTIONS")
    for words in (*COMMANDS, "Exit codes", *variables):
        assert words in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_the_shared_options(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"streamupdate {command}" in result.stdout.split("Example", 1)[1].split("Options:")[0]
    for option in ("--root", "--json", "--storage-option"):
        assert option in result.stdout


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("pass", "airflow pyspark fsspec cattrs rich pendulum psutil"),
        # What `list` imports is what all commands import for the client.
        ("main(['list'], standalone_mode=False)", "airflow pyspark"),
    ],
)
def test_importing_the_command_line_imports_neither_airflow_nor_spark_nor_what_a_command_may_not_need(
    root: Path, code: str, without: str
) -> None:
    seen = f"print(sorted({{*{without.split()!r}}} & set(sys.modules)))"
    code = f"import sys\nfrom airflow_provider_streamupdate.cli import main\ntry:\n    {code}\nfinally:\n    {seen}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "args",
    [
        ("nosuch",),
        ("status",),
        ("save-snapshot", "app"),
        ("list", "--nosuch"),
        ("submit", "app.py", "--set", "novalue"),
        ("submit", "app.py", "--set", "=x"),
        ("submit", ""),
        ("cancel", "app", "--drain-timeout", "5m"),
        ("cancel", "app", "--drain", "--drain-timeout", "soon"),
        ("log", "app", "-n", "0"),
        ("list", "--storage-option", "x"),
    ],
)
def test_wrong_usage_is_2_with_a_message_and_as_json(run: Run, args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2 and result.stdout == "" and "Error: " in result.stderr
    as_json = run(*args, "--json")
    assert as_json.exit_code == 2
    error = document(as_json)["error"]
    assert error["type"] in ("UsageError", "BadParameter", "MissingParameter", "NoSuchOption", "NoSuchCommand")
    assert error["message"] in result.stderr.replace("\n", " ") or error["message"].split("\n")[0] in result.stderr


def test_without_a_root_the_two_ways_to_give_one_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMUPDATE_ROOT")
    result = run("list")
    assert result.exit_code == 2 and "use --root or set STREAMUPDATE_ROOT" in result.stderr


@pytest.mark.parametrize("where", ["before", "after", "both"])
def test_options_may_stand_before_or_after_the_command_and_win_over_the_environment(
    run: Run, tmp_path: Path, where: str
) -> None:
    (tmp_path / "mine").mkdir()
    mine, other = ("--root", str(tmp_path / "mine")), ("--root", str(tmp_path / "other"))
    args = {
        "before": ("--json", *mine, "status", "x"),
        "after": ("status", "x", *mine, "--json"),
        "both": (*other, "status", "x", "--json", *mine),
    }[where]
    assert f"under {tmp_path / 'mine'} " in document(run(*args))["error"]["message"]


@pytest.mark.parametrize(
    "args",
    [
        ("--root", "", "list"),
        ("list", "--root", ""),
        ("rollback", "flights", "--deployment", ""),
        ("update", "v2.py", "--agree", ""),
        ("submit", "v1.py", "--py-files", "a.zip", "--py-files", ""),
        ("pipeline", "run", "spec.yml", "--spark-submit", ""),
    ],
)
def test_an_empty_option_is_refused_and_not_taken_for_one_that_was_not_given(run: Run, args: tuple[str, ...]) -> None:
    """`--root "$UNSET"` used the environment's root, `rollback --deployment ""` the current deployment."""
    result = run(*args)
    option = args[args.index("") - 1]
    assert result.exit_code == 2 and result.stdout == ""
    assert f"Invalid value for '{option}': it is empty; give a value, or leave the option out" in result.stderr


def test_storage_options_reach_the_file_system(run: Run) -> None:
    result = run("list", "--root", "memory://x", "--storage-option", "asynchronous=true", "--json")
    assert result.exit_code == 0 and document(result) == []


def test_storage_options_that_cannot_be_read_are_2_and_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMUPDATE_STORAGE_OPTIONS", '{"secret": s3cr3t}')
    result = run("list", "--json")
    assert result.exit_code == 2 and document(result)["error"]["type"] == "InvalidInputError"
    assert "STREAMUPDATE_STORAGE_OPTIONS is not valid JSON" in result.output and "s3cr3t" not in result.output


OF_AN_APP = ("status", "log", "cancel", "suspend", "resume", "rollback")
OF_A_SNAPSHOT = ("save-snapshot", "verify-snapshot", "delete-snapshot")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_2_and_nothing_is_asked(run: Run, root: Path, name: str) -> None:
    app = app_with_snapshots(root, ["s1"])
    for args in (*((c, name) for c in OF_AN_APP), *((c, "flights", name) for c in OF_A_SNAPSHOT)):
        result = run(*args, "--json")
        assert (result.exit_code, document(result)["error"]["type"]) == (2, "InvalidInputError"), args
    assert not app.folder.exists("deployments/v1/commands")


@pytest.mark.parametrize("command", ["submit", "update", "plan", "check"])
def test_an_application_file_that_is_missing_or_does_not_parse_is_2(run: Run, tmp_path: Path, command: str) -> None:
    missing = run(command, tmp_path / "nix.py")
    assert missing.exit_code == 2
    assert missing.stderr == (
        f"Error: application file {tmp_path}/nix.py does not exist; "
        "give the path of the .py file that defines the app\n"
    )
    (tmp_path / "folder").mkdir()
    empty = run(command, tmp_path / "folder")
    assert empty.exit_code == 2 and f"{tmp_path}/folder is a folder; give the path of the .py file" in empty.stderr
    for name in ("v2.py", "v1.py", "notes.txt"):
        (tmp_path / "folder" / name).touch()
    assert run(command, tmp_path / "folder").stderr.endswith("defines the app (it holds v1.py, v2.py)\n")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    broken = run(command, tmp_path / "broken.py", "--json")
    assert broken.exit_code == 2
    assert document(broken)["error"]["type"] == "ApplicationError"
    assert "does not parse as Python" in document(broken)["error"]["message"]


# The root


@pytest.mark.parametrize("bad", ["file", "/proc"])
def test_a_root_that_cannot_be_written_stops_submit(run: Run, spark: Path, tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "app.py").write_text("APP = 'alarm'\n")
    where = "/proc/streamupdate" if bad == "/proc" else tmp_path / "file" / "root"
    result = run("submit", tmp_path / "app.py", "--root", where, "--json")
    assert result.exit_code == 1
    error = document(result)["error"]
    assert error["type"] == "StorageError" and "is writable for this user" in error["message"]


def test_a_root_on_a_server_that_cannot_be_reached_is_told(run: Run) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        result = run("list", "--root", f"ftp://127.0.0.1:{taken.getsockname()[1]}/root", "--json")
    assert result.exit_code == 1
    error = document(result)["error"]
    assert error["type"] == "StorageError" and "cannot be reached: ConnectionRefusedError" in error["message"]


# Values


def test_durations() -> None:
    texts = {"90": 90, "1.5": 1.5, "90s": 90, "0.5s": 0.5, "5m": 300, "1h30m": 5400, "2d": 172800, "1H30M": 5400}
    texts |= {"PT5M": 300, "PT1H30M": 5400, "P1DT1S": 86401}
    assert {text: Duration().convert(text, None, None) for text in texts} == texts
    for text in ("", "soon", "0", "-5", "0m", "5 m x", "nan", "inf", "PT", "2024-01-01", "m5"):
        with pytest.raises(click.BadParameter):
            Duration().convert(text, None, None)
    assert Duration(zero=True).convert("0", None, None) == 0
    with pytest.raises(click.BadParameter, match="must be a non-negative, finite duration"):
        Duration(zero=True).convert("-1", None, None)


def test_a_new_version_runs_for_10_seconds_before_it_is_called_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the option, the argument or the environment says otherwise."""
    monkeypatch.delenv("STREAMUPDATE_VERIFY_FOR", raising=False)
    [option] = [p for p in main.commands["update"].params if p.name == "verify_for"]
    assert option.type.convert(option.default, option, None) == 10
    assert [verify_for(value, "verify_for") for value in (None, "", "None", "PT1M", 0)] == [10, 10, 10, 60, 0]
    monkeypatch.setenv("STREAMUPDATE_VERIFY_FOR", "PT2S")
    assert verify_for(None, "verify_for") == 2
    monkeypatch.setenv("STREAMUPDATE_VERIFY_FOR", "soon")
    with pytest.raises(InvalidInputError, match="STREAMUPDATE_VERIFY_FOR must be seconds"):
        verify_for(None, "verify_for")


def test_pairs_keep_further_equal_signs() -> None:
    assert KeyValue().convert("a=b=c", None, None) == ("a", "b=c")
    assert KeyValue().convert("a=", None, None) == ("a", "")
