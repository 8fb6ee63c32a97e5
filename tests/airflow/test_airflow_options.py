"""What an update can be asked for is the same at every edge: each field of UpdateOptions is an option of the command
line, an argument of `stream_update`, a field of the form, and may be in a release."""

from __future__ import annotations

import inspect

import attrs
import pytest

from airflow_provider_streamupdate.cli.updates import update
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.example_dags.stream_update import PARAMS
from airflow_provider_streamupdate.hooks.application import APPLICATION_FIELDS
from airflow_provider_streamupdate.hooks.settings import Settings
from airflow_provider_streamupdate.hooks.update_options import UPDATE_FIELDS, update_options
from airflow_provider_streamupdate.release import FIELDS
from airflow_provider_streamupdate.update_dag import stream_update

# Names that differ from the field's, and why something is missing at an edge.
IN_DAGS = {"deployment": "deployment_id", "snapshot": "from_snapshot"}
ON_THE_COMMAND_LINE = {"submit_timeout": "timeout"}
WITHOUT = {
    "command line": {"asked_by": "this user", "check_only": "that is the command check"},
    "dag": {"asked_by": "the task"},
    "form": {"asked_by": "the task", "submit_timeout": "the connection's"},
    "release": {
        "asked_by": "the task",
        "submit_timeout": "the connection's",
        "check_only": "it is brought in",
        "deployment": "from its digest",
        "snapshot": "from where the app is",
    },
}
OPTIONS = [f.name for f in attrs.fields(UpdateOptions) if f.name != "application"]


def names(edge: str) -> set[str]:
    renamed = ON_THE_COMMAND_LINE if edge == "command line" else IN_DAGS
    return {renamed.get(name, name) for name in OPTIONS if name not in WITHOUT[edge]}


def test_on_the_command_line() -> None:
    assert names("command line") <= {parameter.name for parameter in update.params}


def test_in_a_dag() -> None:
    assert names("dag") == set(UPDATE_FIELDS)
    assert names("dag") <= set(inspect.signature(stream_update).parameters)


def test_in_the_form() -> None:
    assert names("form") <= set(PARAMS)


def test_in_a_release() -> None:
    assert {"app", *APPLICATION_FIELDS, *names("release")} == set(FIELDS)


@pytest.mark.parametrize("name", UPDATE_FIELDS)
def test_what_a_dag_is_given_arrives(name: str, tmp_path) -> None:
    """Each option changes what the engine is asked for, from a native value and from a rendered template."""
    file = tmp_path / "v2.py"
    file.write_text("x = 1\n")
    settings = Settings(conn_id="c", root="/root")
    field = next(f for f, given in {**{o: o for o in OPTIONS}, **IN_DAGS}.items() if given == name)
    texts = {
        "agree": '["windows/daily"]',
        "renames": '{"a": "b"}',
        "check_only": "True",
        "rehearse": "2",
        "strategy": "restart",
        "deployment_id": "v2",
        "from_snapshot": "monday",
    }
    asked = update_options({"application": str(file), name: texts.get(name, "PT7S")}, settings, "somebody")
    usual = update_options({"application": str(file)}, settings, "somebody")
    wanted = {
        "agree": ("windows/daily",),
        "renames": {"a": "b"},
        "check_only": True,
        "rehearse": 2,
    }.get(name, texts.get(name, 7.0))
    assert getattr(asked, field) == wanted != getattr(usual, field)
    assert attrs.evolve(asked, **{field: getattr(usual, field)}) == usual
