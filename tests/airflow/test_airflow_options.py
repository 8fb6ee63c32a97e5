"""An option of an update is declared once, and is the same at every edge: on the command line, in `stream_update`, in
the form and in a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG
from airflow_site import FakeTaskInstance

from airflow_provider_streamupdate.cli.commands.updates import update
from airflow_provider_streamupdate.control.update.option import Option
from airflow_provider_streamupdate.control.update.options import OPTIONS, UpdateOptions
from airflow_provider_streamupdate.core.errors import InvalidInputError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.update import RUN_FOR_VARIABLE
from airflow_provider_streamupdate.example_dags.stream_update import PARAMS
from airflow_provider_streamupdate.hooks.errors import airflow_errors
from airflow_provider_streamupdate.hooks.settings import Settings
from airflow_provider_streamupdate.hooks.update_options import APPLICATION_FIELDS, UpdateArguments, update_options
from airflow_provider_streamupdate.release import FIELDS
from airflow_provider_streamupdate.update_dag import stream_update

REPOSITORY = Path(__file__).resolve().parents[2]
# Why something is missing at an edge.
NOT_ASKED_FOR = {
    "application": "it is what is updated",
    "asked_by": "the task, or this user",
    "traceparent": "the task, or the environment",
}
WITHOUT = {
    "command line": {"check_only": "that is the command check"},
    "form": {"submit_timeout": "the connection's"},
    "release": {
        "submit_timeout": "the connection's",
        "check_only": "it is brought in",
        "deployment": "from its digest",
        "snapshot": "from where the app is",
        "unset": "a release says all that the version has",
        "reset": "always",
    },
}
each = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)


def missing(edge: str, there: set[str]) -> set[str]:
    return {option.name for option in OPTIONS if option.argument not in there} - set(WITHOUT.get(edge, ()))


def test_every_field_is_declared_as_an_option() -> None:
    assert {field.name for field in attrs.fields(UpdateOptions)} - {o.name for o in OPTIONS} == set(NOT_ASKED_FOR)


def test_every_option_is_at_every_edge() -> None:
    on_the_command_line = {o.argument for o in OPTIONS for p in update.params if p.name == o.name}
    assert missing("command line", on_the_command_line) == set()
    assert missing("form", set(PARAMS)) == set()
    assert missing("release", set(FIELDS)) == set()
    assert missing("types of stream_update", set(UpdateArguments.__annotations__)) == set()
    table = (REPOSITORY / "docs" / "update-dag.md").read_text()
    assert missing("guide", {o.argument for o in OPTIONS if f"`{o.argument}`" in table}) == set()


def test_there_are_no_others() -> None:
    arguments = {option.argument for option in OPTIONS}
    assert set(UpdateArguments.__annotations__) == {*APPLICATION_FIELDS[1:], *arguments}
    assert set(FIELDS) <= {"app", *APPLICATION_FIELDS, *arguments}
    with DAG("d", schedule=None), pytest.raises(InvalidInputError, match=r"'srategy'.*did you mean 'strategy'"):
        stream_update(app="a", application="/a.py", srategy="restart")  # type: ignore[call-arg]


@each
def test_it_has_its_help_and_its_default_at_every_edge(option: Option) -> None:
    assert f"\n    {option.argument}: {option.text()}" in str(stream_update.__doc__)
    for parameter in [p for p in update.params if p.name == option.name]:
        assert isinstance(parameter, click.Option) and parameter.opts == [option.flag]
        record = parameter.get_help_record(click.Context(update))
        assert record is not None and record[1].startswith(option.text())
        if parameter.show_default:
            assert parameter.type.convert(parameter.default, parameter, None) == option.default
    if option.section:
        param = PARAMS[option.argument]
        assert str(param.description).startswith(option.text())
        param.resolve()  # the default is one that the form takes


@each
def test_what_a_dag_is_given_arrives(option: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option changes what the engine is asked for, from a native value and from a rendered template; blank does
    not."""
    monkeypatch.delenv(RUN_FOR_VARIABLE, raising=False)
    file = tmp_path / "v2.py"
    file.write_text("x = 1\n")
    settings = Settings(conn_id="c", root="/root", submit_timeout=300.0)

    def asked(**given: object) -> UpdateOptions:
        return update_options({"application": str(file), **given}, settings, "somebody")

    text, wanted = {
        "agree": ('["windows/daily"]', ("windows/daily",)),
        "renames": ('{"a": "b"}', {"a": "b"}),
        "check_only": ("True", True),
        "unset": ('["max_files"]', ("max_files",)),
        "reset": ("True", True),
        "rehearse": ("2", 2),
        "strategy": ("restart", "restart"),
        "deployment": ("v2", "v2"),
        "snapshot": ("monday", "monday"),
        "max_slower": ("1.5", "1.5"),
        "max_rows_changed": ("5%", "5%"),
        "max_state_changed": ("5%", "5%"),
        "slo": ('["rows-out=off"]', ("rows-out=off",)),
        "diff_tolerance": ("0.01%", "0.01%"),
        "diff": ('["counts=k"]', ("counts=k",)),
    }.get(option.name, ("PT7S", 7.0))
    usual = asked()
    assert getattr(usual, option.name) == option.default
    assert usual == UpdateOptions(application=usual.application, asked_by="somebody")
    for value in (text, wanted):
        changed = asked(**{option.argument: value})
        assert getattr(changed, option.name) == wanted != option.default
        assert attrs.evolve(changed, **{option.name: option.default}) == usual
    for blank in (None, "", "None"):
        assert asked(**{option.argument: blank}) == usual


@pytest.mark.parametrize(
    "given",
    [
        {"conf": '{"spark.password": "hunter2",}'},
        {"conf": '["password=hunter2"]'},
        {"app_params": {"password": {"value": "hunter2"}}},
        {"app_params": {"password": ["hunter2"]}},
        {"app_params": "{'note': 'n', 'password': 'hunter2'}"},
        {"env_vars": "DB_PASSWORD hunter2"},
        {"agree": '["password=hunter2'},
        {"py_files": ["https://u:hunter2@h/x.zip"]},
        {"application": "https://u:hunter2@h/x.py"},
    ],
)
def test_no_error_of_a_value_quotes_a_secret(given: dict[str, Any]) -> None:
    """Neither the task's exception, nor its cause, which the log shows, nor XCom, which every viewer can read."""
    task = FakeTaskInstance()
    with pytest.raises(AirflowException) as failed, airflow_errors({"ti": task}):
        update_options({"application": __file__, **given}, Settings(conn_id="c", root="/r"), "me").application.check()
    assert task.pushed and "hunter2" not in f"{failed.value} {failed.value.__cause__} {task.pushed}"


@pytest.mark.parametrize("cause", ["__cause__", "__context__"])
def test_an_error_behind_an_error_shows_no_secret(cause: str) -> None:
    """The task's log shows the whole chain, also what was being handled when the next one came."""
    behind, error = ValueError("password=hunter2-hunter2"), StreamUpdateError("it failed")
    setattr(error, cause, behind)
    with pytest.raises(AirflowException), airflow_errors({"ti": FakeTaskInstance()}):
        raise error
    assert "hunter2" not in str(behind)
