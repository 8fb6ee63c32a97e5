"""The connections (also of type `kubernetes`), their form, the hook, and the command line that comes out of them."""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow_site import Site

import airflow_provider_streamupdate
from airflow_provider_streamupdate.control.drivers.clusters import cluster_for
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.api import _kubeconfig
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.settings import where
from airflow_provider_streamupdate.core.errors import EnvironmentProblem, InvalidInputError, NotFoundError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import PodPlace
from airflow_provider_streamupdate.get_provider_info import get_provider_info
from airflow_provider_streamupdate.hooks.launcher import ConnectionLauncher
from airflow_provider_streamupdate.hooks.settings import Settings
from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook


def test_provider_info_fits_airflows_schema_and_names_what_exists_and_no_module_is_left_out() -> None:
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
    kinds = ("hooks", "operators", "sensors", "triggers")
    listed = {module for kind in kinds for entry in info[kind] for module in entry["python-modules"]}
    package = os.path.dirname(airflow_provider_streamupdate.__file__)
    support = {"base", "application", "__init__"}
    support |= {"errors", "kubernetes", "launcher", "xcom", "settings", "update_options"}
    support |= {"templated_values", "metrics", "references"}
    for kind in kinds:
        found = {f[:-3] for f in os.listdir(os.path.join(package, kind)) if f.endswith(".py")} - support
        assert {f"airflow_provider_streamupdate.{kind}.{name}" for name in found} <= listed


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


def test_a_connection_of_another_type_or_that_is_undefined_is_refused(site: Site, airflow_db: str) -> None:
    with pytest.raises(InvalidInputError, match="is of type 'spark'; give one of type streamupdate"):
        StreamUpdateHook("spark_default").get_client()
    with pytest.raises(NotFoundError, match="connection nope is not defined; create it in Admin > Connections"):
        StreamUpdateHook("nope").get_client()


def test_test_connection(site: Site) -> None:
    told = f"root {site.root} is writable and contains 0 app(s); Spark can be started"
    assert StreamUpdateHook().test_connection() == (True, told)
    for field, value, problem in (
        ("spark_submit", "/no/spark-submit", "spark-submit was not found at '/no/spark-submit';"),
        ("spark_conn_id", "elsewhere", "Spark connection elsewhere is not defined;"),
        ("root", str(site.spark_submit), str(site.spark_submit)),  # a file
        ("root", "nosuch://bucket/root", "nosuch"),
        ("root", None, "has no root"),
    ):
        site.connect(**{field: value})
        works, message = StreamUpdateHook().test_connection()
        assert not works and problem in message


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
    extra = {"queue": "streams", "deploy-mode": "client"}
    site.define("spark_default", conn_type="spark", host="yarn", extra=extra)
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
    for option, value in (
        ("--master", "yarn"),
        ("--queue", "streams"),
        ("--deploy-mode", "client"),
        ("--py-files", "/rt.zip,/apps/a.py,/apps/b.zip"),
        ("--files", "/apps/c.csv"),
        ("--name", "alarm@v1"),
    ):
        assert _option(command, option) == [value]
    conf = ["spark.x=own", "spark.z=3", "spark.y=2", "spark.yarn.appMasterEnv.A=1"]
    assert _option(command, "--conf") == conf
    command = launcher(site).command(Application(file="/apps/app.py", master="local[7]"), ["plan"], "/rt.zip")
    assert (_option(command, "--master"), _option(command, "--name")) == (["local[7]"], ["app"]), "it brings its own"


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


def test_the_environment_is_spark_own(site: Site) -> None:
    (site.spark_submit.parent / "python").symlink_to("/bin/true")
    site.monkeypatch.setenv("SPARK_HOME", "/other/spark")
    application = Application(file="/apps/app.py", env_vars={"A": "own"})
    environment = launcher(site, env_vars={"A": "default", "B": "b"}).environment(application)
    assert (environment["A"], environment["B"]) == ("own", "b")
    assert environment["PYSPARK_PYTHON"] == str(site.spark_submit.parent / "python")
    assert "SPARK_HOME" not in environment


APPLICATION = Application(file="/apps/app.py")
DRIVER = ("/root", "alarm", "v1", "1")


@pytest.fixture(autouse=True)
def no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def pods(site: Site) -> ConnectionLauncher:
    """Of an installation whose streamupdate connection names `cluster`."""
    site.monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    site.define("spark_default", conn_type="spark", host="k8s://https://10.0.0.1", extra={"deploy-mode": "cluster"})
    site.connect(kubernetes_conn_id="cluster")
    site.define("cluster", conn_type="kubernetes")
    return StreamUpdateHook().get_launcher()


def settings(pods: ConnectionLauncher, **own: str) -> tuple[dict[str, str], PodPlace]:
    """Of the command, and where the pod is looked for."""
    application = Application(file="/apps/app.py", conf=own)
    command = pods.command(application, ["run"], "/rt.zip")
    given = dict(command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--conf")
    return given, where(command, pods.environment(application))


def test_the_namespace_and_the_context_become_settings_of_spark(site: Site, pods: ConnectionLauncher) -> None:
    site.define("cluster", conn_type="kubernetes", extra={"namespace": "streams", "cluster_context": "prod"})
    given, place = settings(pods)
    assert (given["spark.kubernetes.namespace"], given["spark.kubernetes.context"]) == ("streams", "prod")
    assert (place.namespace, place.context, place.kubeconfig) == ("streams", "prod", None)
    given, place = settings(pods, **{"spark.kubernetes.namespace": "own"})
    assert (place.namespace, place.context) == ("own", "prod")  # the app's own value wins


def test_a_kubeconfig_by_its_path(site: Site, pods: ConnectionLauncher) -> None:
    """spark-submit gets it, not the driver; this package uses it before its own, and its own where it is not there."""
    file = site.folder / "kubeconfig"
    file.write_text("{}")
    site.define("cluster", conn_type="kubernetes", extra={"kube_config_path": str(file)})
    given, place = settings(pods)
    assert pods.environment(APPLICATION)["KUBECONFIG"] == str(file)
    assert not any("KUBECONFIG" in setting for setting in given)
    assert place.kubeconfig == str(file)
    assert _kubeconfig(place) == str(file)
    site.monkeypatch.setenv("KUBECONFIG", "/own")
    assert _kubeconfig(place) == str(file)
    file.unlink()
    assert _kubeconfig(place) == "/own"
    with pytest.raises(EnvironmentProblem, match=f"there is no kubeconfig at {file} on this machine"):
        pods.environment(APPLICATION)


@pytest.mark.parametrize("form", [dict, json.dumps, yaml.safe_dump])
def test_a_kubeconfig_in_the_connection_is_in_a_file_of_this_user(
    site: Site, pods: ConnectionLauncher, form: Any, tmp_path: Path
) -> None:
    site.monkeypatch.setenv("TMPDIR", str(tmp_path))
    site.monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    secret = {"users": [{"name": "a", "user": {"token": "secret"}}]}
    site.define("cluster", conn_type="kubernetes", extra={"kube_config": form(secret)})
    file = Path(pods.environment(APPLICATION)["KUBECONFIG"])
    assert yaml.safe_load(file.read_text()) == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_uid == os.getuid()
    command = pods.command(APPLICATION, ["run"], "/rt.zip")
    prepared = cluster_for(command).prepare(command, DRIVER, pods.environment(APPLICATION))
    assert "secret" not in str(prepared.submitted) + " ".join(prepared.command)
    assert list(file.parent.iterdir()) == [file]  # written again, and nothing left of it


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"in_cluster": True, "kube_config_path": "/a"}, "gives more than one of in_cluster, kube_config_path"),
        ({"kube_config": "{}", "kube_config_path": "/a"}, "gives more than one of"),
        ({"kube_config": "users: [secret"}, "kube_config must be a kubeconfig in JSON or YAML$"),
        ({"kube_config": "secret"}, "kube_config must be a kubeconfig in JSON or YAML$"),
        ({"disable_verify_ssl": True}, "does not verify the API server"),
        ({"kube_config_path": "/nowhere/kubeconfig"}, "there is no kubeconfig at /nowhere/kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_refused(
    site: Site, pods: ConnectionLauncher, extra: dict[str, Any], expected: str
) -> None:
    site.define("cluster", conn_type="kubernetes", extra=extra)
    for call in (lambda: pods.check(), lambda: pods.command(APPLICATION, ["run"], "/rt.zip")):
        with pytest.raises(EnvironmentProblem, match=expected):
            call()
    works, message = StreamUpdateHook().test_connection()
    assert not works and expected.rstrip("$") in message


@pytest.mark.parametrize("where", ["environment", "home", "defaults"])
def test_the_service_account_is_not_mixed_with_a_kubeconfig(site: Site, pods: ConnectionLauncher, where: str) -> None:
    site.monkeypatch.setenv("HOME", str(site.folder))
    site.define("cluster", conn_type="kubernetes", extra={"in_cluster": True})
    assert settings(pods)[1].kubeconfig is None
    if where == "environment":
        site.monkeypatch.setenv("KUBECONFIG", "/own")
    elif where == "home":
        (site.folder / ".kube").mkdir()
        (site.folder / ".kube" / "config").write_text("{}")
    else:
        pods.env_vars["KUBECONFIG"] = "/own"
    with pytest.raises(EnvironmentProblem, match="says in_cluster, but there is a kubeconfig here"):
        pods.check()
