"""What an operator is given: an option of an update is declared once, and is the same on the command line, in
`stream_update`, in the form and in a release; secrets by reference; the scheme ``streamupdate://``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG, Asset
from airflow_site import DAG_BAG, REPOSITORY, SERIALIZED_DAG, FakeTaskInstance, part_of_airflow

from airflow_provider_streamupdate import assets
from airflow_provider_streamupdate.assets import app_asset, create_asset
from airflow_provider_streamupdate.cli.commands.updates import update
from airflow_provider_streamupdate.control.update.option import Option
from airflow_provider_streamupdate.control.update.options import OPTIONS, UpdateOptions
from airflow_provider_streamupdate.core.errors import InvalidInputError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.update import RUN_FOR_VARIABLE
from airflow_provider_streamupdate.example_dags.stream_update import PARAMS
from airflow_provider_streamupdate.hooks.errors import airflow_errors
from airflow_provider_streamupdate.hooks.references import secrets_in_conf
from airflow_provider_streamupdate.hooks.settings import Settings
from airflow_provider_streamupdate.hooks.update_options import (
    APPLICATION_FIELDS,
    UpdateArguments,
    application_from,
    update_options,
)
from airflow_provider_streamupdate.release import FIELDS
from airflow_provider_streamupdate.update_dag import stream_update

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
        "submit_timeout": "the connection's", "check_only": "it is brought in", "deployment": "from its digest",
        "snapshot": "from where the app is", "unset": "a release says all that the version has", "reset": "always",
    },
}  # fmt: skip
each = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)


def missing(edge: str, there: set[str]) -> set[str]:
    return {option.name for option in OPTIONS if option.argument not in there} - set(WITHOUT.get(edge, ()))


def test_every_option_is_at_every_edge_and_no_others() -> None:
    assert {field.name for field in attrs.fields(UpdateOptions)} - {o.name for o in OPTIONS} == set(NOT_ASKED_FOR)

    on_the_command_line = {o.argument for o in OPTIONS for p in update.params if p.name == o.name}
    assert missing("command line", on_the_command_line) == set()
    assert missing("form", set(PARAMS)) == set()
    assert missing("release", set(FIELDS)) == set()
    assert missing("types of stream_update", set(UpdateArguments.__annotations__)) == set()
    table = (REPOSITORY / "docs" / "update-dag.md").read_text()
    assert missing("guide", {o.argument for o in OPTIONS if f"`{o.argument}`" in table}) == set()

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
        "agree": ('["windows/daily"]', ("windows/daily",)), "renames": ('{"a": "b"}', {"a": "b"}),
        "check_only": ("True", True), "unset": ('["max_files"]', ("max_files",)), "reset": ("True", True),
        "rehearse": ("2", 2), "strategy": ("restart", "restart"), "deployment": ("v2", "v2"),
        "snapshot": ("monday", "monday"), "max_slower": ("1.5", "1.5"), "max_rows_changed": ("5%", "5%"),
        "max_state_changed": ("5%", "5%"), "slo": ('["rows-out=off"]', ("rows-out=off",)),
        "diff_tolerance": ("0.01%", "0.01%"), "diff": ('["counts=k"]', ("counts=k",)),
    }.get(option.name, ("PT7S", 7.0))  # fmt: skip
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


pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DB", '{"conn_type": "x", "password": "hun\\"ter2", "extra": {"key": "k3y-k3y"}}')
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN_OF_HUB", "t0k3n-t0k3n")
    monkeypatch.setenv("AIRFLOW_VAR_HUB", '{"pin": "p1n-p1n"}')


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (["--mode", "none", "--separator", "", "--limit", 5], ("--mode", "none", "--separator", "", "--limit", "5")),
        ('["--topic", "a,b"]', ("--topic", "a,b")),
        ("--topic a,b --title 'All clicks'", ("--topic", "a,b", "--title", "All clicks")),
        ([], ()),
    ],
)
def test_a_script_has_its_arguments_as_they_are(given: Any, arguments: tuple[str, ...]) -> None:
    """What an unset template renders to was left out of a list, and the others moved up."""
    script = application_from("job.py", {"application_args": given}, "clicks").script
    assert script is not None and script.arguments == arguments and script.folder == str(Path.cwd())


def test_arguments_with_an_open_quotation_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"application_args cannot be read as a shell reads it \(No closing"):
        application_from("job.py", {"application_args": "--title 'All clicks"}, "clicks")
    with pytest.raises(InvalidInputError, match=r"application_args must be text, .* not nothing"):  # was 'None'
        application_from("job.py", {"application_args": '["--limit", null]'}, "clicks")


def test_references_are_read_by_the_task_and_others_stay() -> None:
    given = {
        "password": "{{ conn.db.password }}", "both": "{{conn.db.extra_dejson.key}}:{{ var.value.token_of_hub }}",
        "pin": "{{ var.json.hub.pin }}", "day": "{{ ds }}",
    }  # fmt: skip
    made = application_from("x.py", {"app_params": given, "conf": '{"spark.x": "{{ conn.db.password }}"}'})
    assert made.params == {
        "password": 'hun"ter2', "both": "k3y-k3y:t0k3n-t0k3n", "pin": "p1n-p1n", "day": "{{ ds }}",
    }  # fmt: skip
    assert made.conf == {"spark.x": 'hun"ter2'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ conn.db.passwrd }}", "not understood"),
        ("{{ conn.db.password }} {{ conn.db.get_uri() }}", "not understood"),
        *(
            (text, "not understood")
            for text in ("{{ conn['db'].password }}", "{{- conn.db.password }}", "{{\tvar.value.x }}")
        ),
        ("{{ conn.other.password }}", "connection other cannot be read"),
        ("{{ conn.db.login }}", "connection db has no login"),
        ("{{ var.value.none_such }}", "variable none_such cannot be read"),
        ("{{ var.json.hub.none }}", "variable hub has no text none"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=f"app_params 'p'.*{said}"):
        application_from("x.py", {"app_params": {"p": text}})


PLAIN = ("pwd", "db_pass", "bearer", "credentials", "storage_options", "sas", "ssh_key", "encryption_key", "basic_auth")


@pytest.mark.parametrize("field", ["parameters", "spark_conf"])
@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("db_password", "hunter2", False),
        ("spark.hadoop.fs.s3a.secret.key", "hunter2", False),
        ("API_KEY", "hunter2", False),
        ("db_password", "{{ conn.db.password }}", True),
        ("spark.security.token.enabled", "true", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.x.Provider", True),
        ("spark.kubernetes.driver.secretKeyRef.DB_PASSWORD", "db:password", True),
        ("tokenizer", "words", True),
        ("max_token_size", 65_536, True),
        ("auth_token", "{{ conn.db.login }}:{{ conn.db.password }}", True),
        ("auth_token", "{{ conn.db.login }}hunter2{{ conn.db.password }}", False),
        ("auth_token", "{{ conn.db.login }} hunter2 }}", False),
        ("password", "12345678", False),
        ("password", 12345678, False),
        ("password", ["hunter2"], False),
        ("password", {"a": "hunter2"}, False),
        *((name, "hunter2", False) for name in (*PLAIN, "userPass", "connectionString", "Authorization")),
    ],
)
def test_the_form_takes_no_secret_in_the_clear(field: str, name: str, value: object, taken: bool) -> None:
    """Airflow validates a run's conf before it makes the run, with the DAG as it is stored."""
    serialization = part_of_airflow(*SERIALIZED_DAG)
    dag = part_of_airflow(*DAG_BAG)(str(REPOSITORY / "dags")).dags["stream_update"]
    dag = serialization.from_dict(serialization.to_dict(dag))
    given = {"app": "alarm", "application": "/a.py", field: {name: value}}

    def validate() -> None:
        if hasattr(dag.params, "deep_merge"):
            dag.params.deep_merge(given).validate()
        else:  # Airflow 3.1
            dag.params.update(given)

    if taken:
        validate()
    else:
        with pytest.raises(Exception, match=r"does not match|is not of type|is greater than"):
            validate()


def test_what_looks_like_a_secret_in_a_run_s_conf_is_warned_of() -> None:
    given = {"url": "x://h;password=hunter2", "pin_code": "7", "t": "{{ conn.db.password }}"}
    conf = {"app": "alarm", "parameters": given, "spark_conf": {"spark.ssl.keyPassword": "hunter2"}}
    assert [*secrets_in_conf(conf)] == ["parameters 'url'", "spark_conf 'spark.ssl.keyPassword'"]
    assert [*secrets_in_conf(None)] == []
    others = {"application": "s3://AK:hunter2@b/a.py", "py_files": ["https://u:hunter2@h/x.zip"], "check_only": True}
    nested = {"a": {"password": "hunter2"}, "password": 12345678, "token_count": None}
    assert [*secrets_in_conf({**others, "spark_conf": nested})] == [
        "application",
        "py_files",
        "spark_conf 'a'",
        "spark_conf 'password'",
    ]


def test_airflow_finds_what_it_needs_for_the_scheme(airflow_db: str) -> None:
    from airflow.providers_manager import ProvidersManager

    providers: Any = ProvidersManager()
    assert providers.asset_uri_handlers["streamupdate"] is assets.sanitize_uri
    assert providers.asset_factories["streamupdate"] is assets.create_asset
    assert providers.asset_to_openlineage_converters["streamupdate"] is assets.convert_asset_to_openlineage


@pytest.mark.parametrize("app", ["Motion-Alarm_2", "a:b@c", "a+b=c"])
def test_an_apps_asset_has_one_uri_however_it_is_written(app: str) -> None:
    made = app_asset(app)
    assert made == create_asset(app=app) and made.group == "streamupdate"
    for written in (made.uri, made.uri.rstrip("/"), made.uri.replace("streamupdate", "StreamUpdate"), f"{made.uri}#x"):
        assert Asset(uri=written).uri == made.uri
    assert Asset("streamupdate://%61larm").uri == app_asset("alarm").uri


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("streamupdate://alarm/deployments/v2", "has more than an app's name; write streamupdate://<app>"),
        ("streamupdate://", "names no app: the app name is empty"),
        ("streamupdate://alarm:8080", "write these signs of an app's name as %40 and %3A"),
        ("streamupdate://..", "names no app: app name '..' is not allowed"),
        ("streamupdate://a%00b", "names no app: app name 'a\\x00b' is not allowed"),
        ("streamupdate://%ff", "names no app: 'utf-8' codec can't decode"),
        ("streamupdate://ａlarm", "is not allowed; use letters, digits"),
        (f"streamupdate://{'x' * 201}", "has 201 characters; at most 200 are allowed"),
    ],
)
def test_a_uri_that_is_no_apps_is_refused(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match="asset") as caught:
        Asset(uri=uri)
    assert why in str(caught.value)
    for name in ("", "a/b", None):
        with pytest.raises(InvalidInputError, match="app name"):
            app_asset(name)  # type: ignore[arg-type]
