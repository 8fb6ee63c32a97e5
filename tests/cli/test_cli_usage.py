"""Help, options, wrong usage, a mistyped root, and the commands ``pipeline ...`` where no driver is started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.cli.option_types import Duration, KeyValue
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.hooks.update_options import verify_for
from airflow_provider_streamupdate.pipelines import record as records
from airflow_provider_streamupdate.pipelines.record import FlowRecord, Phase, PipelineRecord
from tests.core.builders import app_with_snapshots, query_plan

from .conftest import Run, Site, document

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
    folder, broken = tmp_path / "folder", tmp_path / "broken.py"
    folder.mkdir()
    broken.write_text("def broken(:\n")
    give = "give the path of the .py file that defines the app"
    for path, told in (
        (tmp_path / "nix.py", f"Error: application file {tmp_path}/nix.py does not exist; {give}\n"),
        (folder, f"{folder} is a folder; {give}\n"),
    ):
        result = run(command, path)
        assert result.exit_code == 2 and told in result.stderr
    for name in ("v2.py", "v1.py", "notes.txt"):
        (folder / name).touch()
    assert run(command, folder).stderr.endswith("defines the app (it holds v1.py, v2.py)\n")
    result = run(command, broken, "--json")
    error = document(result)["error"]
    assert (result.exit_code, error["type"]) == (2, "ApplicationError")
    assert "does not parse as Python" in error["message"]


# The root


@pytest.mark.parametrize("bad", ["file", "/proc"])
def test_a_root_that_cannot_be_written_stops_submit(run: Run, spark: Path, tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "app.py").write_text("APP = 'alarm'\n")
    where = "/proc/streamupdate" if bad == "/proc" else tmp_path / "file" / "root"
    result = run("submit", tmp_path / "app.py", "--root", where, "--json")
    error = document(result)["error"]
    assert (result.exit_code, error["type"]) == (1, "StorageError") and "is writable for this user" in error["message"]


def test_a_root_on_a_server_that_cannot_be_reached_is_told(run: Run) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        result = run("list", "--root", f"ftp://127.0.0.1:{taken.getsockname()[1]}/root", "--json")
    error = document(result)["error"]
    assert (result.exit_code, error["type"]) == (1, "StorageError")
    assert "cannot be reached: ConnectionRefusedError" in error["message"]


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
    for text, pair in (("a=b=c", ("a", "b=c")), ("a=", ("a", ""))):
        assert KeyValue().convert(text, None, None) == pair


MAKE_A_ROOT = {"submit", "adopt"}
DO_WITHOUT = {"plan", "names", "init-dags"}  # neither reads a root nor writes to it
OF_THEIR_OWN = {"pipeline", "try"}  # a storage for its record; a root that is removed
READ_A_ROOT = main.commands.keys() - MAKE_A_ROOT - OF_THEIR_OWN
VALUES = {
    "app": "alarm", "deployment": "v1", "apps": "alarm", "name": "s1", "checkpoints": "/data/checkpoint",
    "switch": "on", "update": "v1",
}  # fmt: skip


@pytest.fixture
def missing(root: Path) -> Path:
    root.rmdir()
    return root


def arguments(site: Site, command: str) -> list[str]:
    """Something for each argument that the command takes."""
    values = {**VALUES, "app_file": str(site.application()), "folder": str(site.folder)}
    taken = [p for p in main.commands[command].params if isinstance(p, click.Argument) and p.name in values]
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
    mend = "correct it, or create the folder (only `submit` and `adopt` create a root)"
    assert f"root {missing} does not exist; {mend}" in told
    if command != "doctor":
        error = document(site.run(command, *arguments(site, command), "--json"))["error"]
        assert error["type"] == "StorageError" and f"root {missing} does not exist" in error["message"]


@pytest.mark.parametrize("command", ["submit", "adopt"])
def test_a_root_is_made_by_what_succeeds_alone(site: Site, missing: Path, command: str) -> None:
    """A mistyped one would be listed, and called ok."""
    checkpoint = site.folder / "checkpoint"
    for name in ("commits", "offsets"):
        (checkpoint / name).mkdir(parents=True)
    bad = site.application("bad", FAIL="plan")
    more = ["--app", "alarm", "--plan-from", bad, checkpoint] if command == "adopt" else [bad]
    assert site.run(command, *more, "--root", missing / "and" / "deeper").exit_code and not missing.exists()
    site.submit()
    assert os.listdir(missing) == ["alarm"]


def is_of_an_app(command: click.Command) -> bool:
    """Whether its first argument is an app."""
    return [p.name for p in command.params if isinstance(p, click.Argument)][:1] == ["app"]


@pytest.mark.parametrize("command", sorted(name for name, found in main.commands.items() if is_of_an_app(found)))
def test_an_app_that_is_not_there_is_told_before_anything_is_said_to_be_done(site: Site, command: str) -> None:
    assert site.refused(command, *arguments(site, command)).startswith("Error: no app 'alarm' under")


def test_a_root_that_is_a_file_is_told(run: Run, missing: Path) -> None:
    missing.write_text("")
    result = run("list")
    assert result.exit_code == 1 and f"root {missing} is not a folder" in result.stderr


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    flow = FlowRecord(plan=query_plan(name="counts"), folder="_checkpoints/counts/counts", version=2, batch=7)
    record = PipelineRecord(pipeline="flights", spark_version="4.3.0", flows={"counts": flow}, phase=Phase.RUNNING)
    records.write(Folder.open(str(tmp_path)), record)
    return tmp_path


def test_the_status_of_a_pipeline(run: Run, storage: Path, root: Path) -> None:
    told = run("pipeline", "status", storage)
    lines = [line.split() for line in told.stdout.splitlines()]
    assert told.exit_code == 0 and ["pipeline", "flights"] in lines and ["phase", "running"] in lines
    assert ["counts", "2", "7", "daily"] in lines
    assert document(run("pipeline", "status", storage, "--json"))["flows"]["counts"]["version"] == 2
    none = run("pipeline", "status", root)
    assert none.exit_code == 1 and "streamupdate pipeline adopt" in none.stderr


@pytest.mark.parametrize("command", ["check", "adopt", "run"])
def test_a_spec_that_is_no_file_is_wrong_usage(run: Run, tmp_path: Path, command: str) -> None:
    told = run("pipeline", command, tmp_path / "no.yml")
    assert told.exit_code == 2 and "is no file; give the path of spark-pipeline.yml" in told.stderr
    if command == "check":
        told = run("pipeline", command, tmp_path / "no.yml", "--markdown", "--json")
        assert told.exit_code == 2 and "exclude each other" in told.stdout
