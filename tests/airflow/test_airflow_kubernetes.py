"""A connection of type `kubernetes`: what spark-submit and this package's own client make of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit
from airflow_site import Site

from airflow_provider_streamupdate.control.drivers.clusters import cluster_for
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.api import _kubeconfig
from airflow_provider_streamupdate.control.drivers.clusters.kubernetes.settings import Where, where
from airflow_provider_streamupdate.core.errors import EnvironmentProblem
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.hooks.launcher import ConnectionLauncher
from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook

APPLICATION = Application(file="/apps/app.py")
DRIVER = ("/root", "alarm", "v1", "1")


@pytest.fixture(autouse=True)
def no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def launcher(site: Site) -> ConnectionLauncher:
    """Of an installation whose streamupdate connection names `cluster`."""
    site.monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    site.define("spark_default", conn_type="spark", host="k8s://https://10.0.0.1", extra={"deploy-mode": "cluster"})
    site.connect(kubernetes_conn_id="cluster")
    site.define("cluster", conn_type="kubernetes")
    return StreamUpdateHook().get_launcher()


def settings(launcher: ConnectionLauncher, **own: str) -> tuple[dict[str, str], Where]:
    """Of the command, and where the pod is looked for."""
    application = Application(file="/apps/app.py", conf=own)
    command = launcher.command(application, ["run"], "/rt.zip")
    given = dict(command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--conf")
    return given, where(command, launcher.environment(application))


def test_the_namespace_and_the_context_become_settings_of_spark(site: Site, launcher: ConnectionLauncher) -> None:
    site.define("cluster", conn_type="kubernetes", extra={"namespace": "streams", "cluster_context": "prod"})
    given, place = settings(launcher)
    assert (given["spark.kubernetes.namespace"], given["spark.kubernetes.context"]) == ("streams", "prod")
    assert (place.namespace, place.context, place.kubeconfig) == ("streams", "prod", None)
    given, place = settings(launcher, **{"spark.kubernetes.namespace": "own"})
    assert (place.namespace, place.context) == ("own", "prod")  # the app's own value wins


def test_a_kubeconfig_by_its_path(site: Site, launcher: ConnectionLauncher) -> None:
    """spark-submit gets it, not the driver; this package uses it before its own, and its own where it is not there."""
    file = site.folder / "kubeconfig"
    file.write_text("{}")
    site.define("cluster", conn_type="kubernetes", extra={"kube_config_path": str(file)})
    given, place = settings(launcher)
    assert launcher.environment(APPLICATION)["KUBECONFIG"] == str(file)
    assert not any("KUBECONFIG" in setting for setting in given)
    assert place.kubeconfig == str(file)
    assert _kubeconfig(place) == str(file)
    site.monkeypatch.setenv("KUBECONFIG", "/own")
    assert _kubeconfig(place) == str(file)
    file.unlink()
    assert _kubeconfig(place) == "/own"
    with pytest.raises(EnvironmentProblem, match=f"there is no kubeconfig at {file} on this machine"):
        launcher.environment(APPLICATION)


@pytest.mark.parametrize("form", [dict, json.dumps, yaml.safe_dump])
def test_a_kubeconfig_in_the_connection_is_in_a_file_of_this_user(
    site: Site, launcher: ConnectionLauncher, form: Any, tmp_path: Path
) -> None:
    site.monkeypatch.setenv("TMPDIR", str(tmp_path))
    site.monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    secret = {"users": [{"name": "a", "user": {"token": "secret"}}]}
    site.define("cluster", conn_type="kubernetes", extra={"kube_config": form(secret)})
    file = Path(launcher.environment(APPLICATION)["KUBECONFIG"])
    assert yaml.safe_load(file.read_text()) == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_uid == os.getuid()
    command = launcher.command(APPLICATION, ["run"], "/rt.zip")
    prepared = cluster_for(command).prepare(command, DRIVER, launcher.environment(APPLICATION))
    assert "secret" not in json.dumps(prepared.record) + " ".join(prepared.command)
    assert list(file.parent.iterdir()) == [file]  # written again, and nothing left of it


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"in_cluster": True, "kube_config_path": "/a"}, "gives more than one of in_cluster, kube_config_path"),
        ({"kube_config": "{}", "kube_config_path": "/a"}, "gives more than one of"),
        ({"kube_config": "users: [secret"}, "kube_config must be a kubeconfig in JSON or YAML$"),
        ({"kube_config": "[]"}, "kube_config must be a kubeconfig in JSON or YAML$"),
        ({"kube_config": "secret"}, "kube_config must be a kubeconfig in JSON or YAML$"),
        ({"disable_verify_ssl": True}, "does not verify the API server"),
        ({"kube_config_path": "/nowhere/kubeconfig"}, "there is no kubeconfig at /nowhere/kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_refused(
    site: Site, launcher: ConnectionLauncher, extra: dict[str, Any], expected: str
) -> None:
    site.define("cluster", conn_type="kubernetes", extra=extra)
    for call in (lambda: launcher.check(), lambda: launcher.command(APPLICATION, ["run"], "/rt.zip")):
        with pytest.raises(EnvironmentProblem, match=expected):
            call()
    works, message = StreamUpdateHook().test_connection()
    assert not works and expected.rstrip("$") in message


@pytest.mark.parametrize("where", ["environment", "home", "defaults"])
def test_the_service_account_is_not_mixed_with_a_kubeconfig(
    site: Site, launcher: ConnectionLauncher, where: str
) -> None:
    site.monkeypatch.setenv("HOME", str(site.folder))
    site.define("cluster", conn_type="kubernetes", extra={"in_cluster": True})
    assert settings(launcher)[1].kubeconfig is None
    if where == "environment":
        site.monkeypatch.setenv("KUBECONFIG", "/own")
    elif where == "home":
        (site.folder / ".kube").mkdir()
        (site.folder / ".kube" / "config").write_text("{}")
    else:
        launcher.env_vars["KUBECONFIG"] = "/own"
    with pytest.raises(EnvironmentProblem, match="says in_cluster, but there is a kubeconfig here"):
        launcher.check()
