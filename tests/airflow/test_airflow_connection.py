"""The connection, its form, the hook, and the command line that comes out of it."""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import jsonschema
import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow_site import Site

import airflow_provider_streamupdate
from airflow_provider_streamupdate.core.errors import EnvironmentProblem, InvalidInputError, NotFoundError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.get_provider_info import get_provider_info
from airflow_provider_streamupdate.hooks.launcher import ConnectionLauncher
from airflow_provider_streamupdate.hooks.settings import Settings
from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook


def test_provider_info_fits_airflows_schema_and_names_what_exists() -> None:
    import airflow

    info = get_provider_info()
    schema = os.path.join(os.path.dirname(airflow.__file__), "provider_info.schema.json")
    with open(schema) as file:
        jsonschema.validate(info, json.load(file))
    assert info["versions"] == [airflow_provider_streamupdate.__version__]
    for kind in ("hooks", "operators", "sensors", "triggers"):
        for entry in info[kind]:
            for module in entry["python-modules"]:
                __import__(module)
    for path in (*info["extra-links"], info["connection-types"][0]["hook-class-name"]):
        pkgutil.resolve_name(path)


def test_provider_info_leaves_no_module_out() -> None:
    listed = {m for kind in ("hooks", "operators", "sensors", "triggers") for m in _modules(kind)}
    package = os.path.dirname(airflow_provider_streamupdate.__file__)
    support = {"base", "application", "__init__"}
    support |= {"errors", "kubernetes", "launcher", "xcom", "settings", "update_options"}
    support |= {"templated_values", "metrics", "references"}
    for kind in ("hooks", "operators", "sensors", "triggers"):
        found = {f[:-3] for f in os.listdir(os.path.join(package, kind)) if f.endswith(".py")} - support
        assert {f"airflow_provider_streamupdate.{kind}.{name}" for name in found} <= listed


def _modules(kind: str) -> list[str]:
    return [m for entry in get_provider_info()[kind] for m in entry["python-modules"]]


@pytest.fixture
def providers(airflow_db: str) -> Any:
    """Airflow's own view of its providers; this package must be installed (make setup does it)."""
    from airflow.providers_manager import ProvidersManager

    return ProvidersManager()


def test_the_form_of_the_connection(airflow_db: str) -> None:
    """As the UI shows it: in a process of its own, because Airflow 3.1 puts stand-ins for WTForms among the modules."""
    code = (
        "import json\n"
        "from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService\n"
        "found = [h.model_dump() for h in HookMetaService.hook_meta_data() if h.connection_type == 'streamupdate']\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    [form] = json.loads(done.stdout.splitlines()[-1])
    assert form["hook_name"] == "Stream Update"
    fields = form["extra_fields"]
    assert set(fields) == {"root", "spark_conn_id", "kubernetes_conn_id", "spark_submit", "storage_options", "defaults"}
    root = fields.pop("root")
    assert root["schema"]["title"] == "Root URI"
    assert "fsspec URI" in root["description"]
    if [int(part) for part in version("apache-airflow-core").split(".")[:2]] > [3, 1]:  # 3.1 has no more than texts
        # required is what may not be null; all groups but this one are folded up (Airflow's ConnectionForm)
        assert root["schema"]["type"] == "string" and root["schema"]["section"] == "standardFields"
        for field in fields.values():
            assert "null" in field["schema"]["type"]
        seen = {name for name, field in fields.items() if field["schema"].get("section") == "standardFields"}
        assert seen == {"spark_conn_id", "spark_submit"}, "without these no driver is started"
    assert fields["spark_conn_id"]["value"] == "spark_default"
    assert [name for name, field in fields.items() if field["schema"].get("format") == "password"] == [
        "storage_options"
    ]
    hidden = {name for name, field in form["standard_fields"].items() if field and field["hidden"]}
    assert hidden == {"host", "url_schema", "login", "password", "port"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, "connection c has no root"),
        ({"root": " "}, "connection c has no root"),
        (
            {"root": "/r", "spark_sumbit": "/spark"},
            "connection c has no 'spark_sumbit' (did you mean 'spark_submit'?); it may have root",
        ),
        ({"root": "/r", "storage_options": "{"}, "field storage_options of connection c must be a JSON object"),
        ({"root": "/r", "storage_options": "[]"}, "field storage_options of connection c must be a JSON object"),
        (
            {"root": "/r", "defaults": '{"drain_timout": 1}'},
            "field defaults of connection c has no 'drain_timout' (did you mean 'drain_timeout'?); it may have conf",
        ),
        ({"root": "/r", "defaults": '{"drain_timeout": "x"}'}, "drain_timeout in defaults of connection c must be"),
        ({"root": "/r", "defaults": '{"conf": {"a": []}}'}, "conf in defaults of connection c 'a' must be text"),
    ],
)
def test_settings_say_which_field_is_wrong(extra: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Settings.from_extra("c", "streamupdate", extra)
    assert expected in str(caught.value)


def test_a_connection_of_another_type_is_refused(site: Site) -> None:
    with pytest.raises(InvalidInputError, match="is of type 'spark'; give one of type streamupdate"):
        StreamUpdateHook("spark_default").get_client()


def test_an_undefined_connection_is_explained(airflow_db: str) -> None:
    with pytest.raises(NotFoundError, match="connection nope is not defined; create it in Admin > Connections"):
        StreamUpdateHook("nope").get_client()


def test_test_connection(site: Site) -> None:
    assert StreamUpdateHook().test_connection() == (
        True,
        f"root {site.root} is writable and contains 0 app(s); Spark can be started",
    )
    site.connect(spark_submit="/no/spark-submit")
    assert _problem() == "spark-submit was not found at '/no/spark-submit'"
    site.connect(spark_conn_id="elsewhere")
    assert _problem() == "Spark connection elsewhere is not defined"
    site.connect(root=str(site.spark_submit))  # a file
    assert str(site.spark_submit) in _problem()
    site.connect(root="nosuch://bucket/root")
    assert "nosuch" in _problem()
    site.connect(root=None)
    assert "has no root" in _problem()


def _problem() -> str:
    works, message = StreamUpdateHook().test_connection()
    assert not works
    return message.split(";")[0]


def launcher(site: Site, **kwargs: Any) -> ConnectionLauncher:
    return ConnectionLauncher("spark_default", spark_submit=str(site.spark_submit), **kwargs)


def test_spark_submit_hook_still_has_the_private_parts_used() -> None:
    """A contract with apache-airflow-providers-apache-spark: when this fails, look at hooks/launcher.py."""
    build = inspect.signature(SparkSubmitHook._build_spark_submit_command)
    assert list(build.parameters) == ["self", "application"]
    assert list(inspect.signature(SparkSubmitHook._resolve_should_track_driver_status).parameters) == ["self"]
    accepted = inspect.signature(SparkSubmitHook.__init__).parameters
    used = {"conn_id", "conf", "py_files", "files", "name", "application_args", "env_vars", "spark_binary"}
    assert used <= set(accepted)


def test_the_command_is_what_the_spark_connection_asks_for(site: Site) -> None:
    site.define(
        "spark_default",
        conn_type="spark",
        host="yarn",
        extra={"queue": "streams", "deploy-mode": "client"},
    )
    application = Application(
        file="/apps/app.py",
        py_files=("/apps/a.py", "/apps/b.zip"),
        files=("/apps/c.csv",),
        conf={"spark.x": "own", "spark.y": "2"},
        env_vars={"A": "1"},
    )
    args = ["run", "--app", "alarm", "--deployment", "v1", "--epoch", "1"]
    command = launcher(site, conf={"spark.x": "default", "spark.z": "3"}).command(application, args, "/rt.zip")
    assert command[0] == str(site.spark_submit)
    assert command[command.index("/apps/app.py") :] == ["/apps/app.py", *args]
    assert _option(command, "--master") == ["yarn"]
    assert _option(command, "--queue") == ["streams"]
    assert _option(command, "--deploy-mode") == ["client"]
    assert _option(command, "--py-files") == ["/rt.zip,/apps/a.py,/apps/b.zip"]
    assert _option(command, "--files") == ["/apps/c.csv"]
    assert _option(command, "--name") == ["alarm@v1"]
    conf = ["spark.x=own", "spark.z=3", "spark.y=2", "spark.yarn.appMasterEnv.A=1"]
    assert _option(command, "--conf") == conf


def _option(command: list[str], name: str) -> list[str]:
    return [command[i + 1] for i, word in enumerate(command) if word == name]


@pytest.mark.parametrize(
    ("connection", "files", "told"),
    [
        ({}, (), "Spark connection spark_default has no host"),
        ({"host": "spark://m", "port": 7077, "extra": {"deploy-mode": "cluster"}}, (), "cluster mode on a standalone"),
        ({"host": "local[1]"}, ("/a,b",), "contains a comma"),
    ],
)
def test_what_no_driver_can_be_started_with_is_refused(
    site: Site, connection: dict[str, Any], files: tuple[str, ...], told: str
) -> None:
    site.define("spark_default", conn_type="spark", **connection)
    with pytest.raises((EnvironmentProblem, InvalidInputError), match=told):
        launcher(site).command(Application(file="/apps/app.py", files=files), [], "/rt.zip")


def test_an_application_may_bring_its_own_master(site: Site) -> None:
    application = Application(file="/apps/app.py", master="local[7]")
    command = launcher(site).command(application, ["plan"], "/rt.zip")
    assert _option(command, "--master") == ["local[7]"]
    assert _option(command, "--name") == ["app"]


def test_the_environment_is_spark_own(site: Site) -> None:
    (site.spark_submit.parent / "python").symlink_to("/bin/true")
    site.monkeypatch.setenv("SPARK_HOME", "/other/spark")
    application = Application(file="/apps/app.py", env_vars={"A": "own"})
    environment = launcher(site, env_vars={"A": "default", "B": "b"}).environment(application)
    assert (environment["A"], environment["B"]) == ("own", "b")
    assert environment["PYSPARK_PYTHON"] == str(site.spark_submit.parent / "python")
    assert "SPARK_HOME" not in environment
