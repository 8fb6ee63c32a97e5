"""What a driver is started with: its cluster, its storage's options, its runtime's zip."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import uuid
import zipfile
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import drivers, launcher, process, runtime
from airflow_provider_streamupdate.control.drivers.clusters import Living, yarn
from airflow_provider_streamupdate.control.drivers.launch_files import local_folder
from airflow_provider_streamupdate.control.drivers.launcher import (
    SparkSubmit,
    driver_environment,
    in_cluster,
    master_of,
    on_this_machine,
)
from airflow_provider_streamupdate.control.operations import plan as planning
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError, EnvironmentProblem, InvalidInputError, StorageError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Launch, Submitted
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.options import VARIABLE, from_environment, to_environment
from airflow_provider_streamupdate.core.users import user_name
from tests.core.builders import spec

ON_YARN = [
    ["spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "app.py", "run"],
    ["spark-submit", "--conf", "spark.master=yarn", "--conf", "spark.submit.deployMode=cluster", "app.py", "run"],
]


@pytest.mark.parametrize("command", ON_YARN)
def test_a_plan_of_an_app_for_the_cluster_is_made_here(command: list[str]) -> None:
    assert in_cluster(command) and master_of(command) == "yarn"
    here = on_this_machine(command)
    assert not in_cluster(here) and master_of(here) == "yarn"
    assert here[0] == "spark-submit" and here[-2:] == ["app.py", "run"] and here.count("--deploy-mode") == 1
    assert on_this_machine(here) == here


def test_the_last_option_or_setting_counts_as_for_spark_submit() -> None:
    command = ["spark-submit", "--master", "local[2]", "--conf", "spark.master=yarn", "app.py"]
    assert master_of(command) == "local[2]" and not in_cluster(command)
    # a tag is added to the tags an application has
    name = yarn.tag("root", "app", "one", "1")
    assert name != yarn.tag("root", "app", "one", "2") and name == name.lower() and len(name) <= 100
    assert f"spark.yarn.tags={name}" in yarn.tagged(ON_YARN[0], name)
    own = ["spark-submit", "--conf", "spark.yarn.tags=team", "--conf", "spark.yarn.maxAppAttempts=2", "app.py"]
    made = yarn.tagged(own, name)
    settings = dict(word.split("=", 1) for word in made if "=" in word)  # the last one counts, as for spark-submit
    assert settings["spark.yarn.tags"] == f"team,{name}"
    assert settings["spark.yarn.maxAppAttempts"] == "2"
    assert settings["spark.yarn.submit.waitAppCompletion"] == "false"


def test_a_driver_in_the_cluster_is_not_judged_by_the_process_that_submitted_it() -> None:
    launch = Launch(
        epoch=1,
        host=socket.gethostname(),
        pid=os.getpid(),
        log="",
        launched_at=clock.now(),
        cluster="yarn",
        submitted=Submitted(name="streamupdate-1"),
    )
    for alive in (process.alive, Living()):
        assert alive(launch) is None
        assert alive(attrs.evolve(launch, killed=True)) is False
        assert alive(attrs.evolve(launch, host="elsewhere")) is None


def test_why_yarn_cannot_be_asked_is_told(tmp_path: Path) -> None:
    spark_class = tmp_path / "spark-class"
    spark_class.write_text("#!/bin/sh\necho no such resource manager >&2\nexit 1\n")
    spark_class.chmod(0o755)
    with pytest.raises(DriverError, match=r"the request to YARN failed .*HADOOP_CONF_DIR.*\nno such resource manager"):
        yarn.kill(str(tmp_path / "spark-submit"), {}, "streamupdate-1")


SECRET = {"key": "AKIA", "secret": "s3cr3t", "client_kwargs": {"endpoint_url": "http://minio"}}
APPLICATION = Application(file="/apps/app.py")


def test_options_go_through_the_environment_and_a_driver_s_own_win(monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_environment(to_environment(SECRET)) == SECRET
    assert from_environment({}) == from_environment({VARIABLE: ""}) == {}
    monkeypatch.setenv(VARIABLE, '{"secret": "another root\'s"}')
    for options in (SECRET, {}):
        assert from_environment(driver_environment(SparkSubmit("spark-submit"), APPLICATION, [], options)) == options


@pytest.mark.parametrize(
    ("text", "message"), [('{"secret": s3cr3t}', "is not valid JSON"), ('["s3cr3t"]', "holds JSON, but not an object")]
)
def test_what_cannot_be_read_is_told_without_showing_it(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{VARIABLE} {message}") as caught:
        from_environment({VARIABLE: text})
    assert "s3cr3t" not in str(caught.value)


def test_a_plan_s_command_line_does_not_hold_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, started = tmp_path / "app.py", {}
    file.write_text("")

    def run(command: list[str], environment: dict[str, str], *_: Any) -> int:
        started.update(command=command, options=from_environment(environment))
        return 3

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(launcher, "check_environment", lambda *_: None)
    with pytest.raises(DriverError):
        planning.plan_application(
            SparkSubmit("spark-submit"),
            Application(file=str(file)),
            planning.PlanOptions(root="s3://root", storage_options=SECRET, against="current"),
        )
    assert started["options"] == SECRET
    assert "s3cr3t" not in json.dumps(started["command"]) and "s3://root" in started["command"]


CLUSTER = (
    ["spark-submit", "--deploy-mode", "cluster", "app.py"],
    ["spark-submit", "--conf", "spark.submit.deployMode=cluster", "app.py"],
)


@pytest.mark.parametrize("command", CLUSTER)
def test_a_driver_in_a_cluster_does_not_inherit_them(command: list[str]) -> None:
    spark_submit = SparkSubmit("spark-submit")
    with pytest.raises(EnvironmentProblem, match=f"secretKeyRef.{VARIABLE}=<secret>:<key>") as caught:
        driver_environment(spark_submit, APPLICATION, command, SECRET)
    assert "s3cr3t" not in str(caught.value)
    driver_environment(spark_submit, APPLICATION, command, {})
    given = [*command, "--conf", f"spark.kubernetes.driver.secretKeyRef.{VARIABLE}=minio:options"]
    driver_environment(spark_submit, APPLICATION, given, SECRET)


# The runtime zip of a deployment whose root is elsewhere: kept there, and copied to each machine that starts it


def elsewhere() -> Folder:
    return Folder.open(f"memory://{uuid.uuid4().hex}/app/deployments/v1")


def test_a_deployment_runs_what_it_was_made_with_on_each_machine(tmp_path: Path) -> None:
    root = elsewhere()
    root.write(runtime.NAME, b"of the release that made it")
    made = runtime.of_deployment(root, tmp_path / "another", str(root.address))
    assert made.read_bytes() == b"of the release that made it"
    # one without it gets that of this release
    root = elsewhere()
    made = runtime.of_deployment(root, tmp_path / "here", str(root.address))
    with zipfile.ZipFile(made) as archive:
        assert "airflow_provider_streamupdate/core/formats.py" in archive.namelist()
    assert root.read(runtime.NAME) == made.read_bytes()


def test_a_root_made_again_has_other_files_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same address, and its deployments the same ids; so has one of the same name on another server, whose
    drivers read their code from here while they run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root, made = elsewhere(), spec("v1")
    root.write("application/a.py", b"1")
    again = attrs.evolve(made, submitted_at="2026-11-28T09:46:00+00:00")
    here = local_folder(root, made)
    assert local_folder(root, made) == here != local_folder(root, again)
    assert (local_folder(root, again) / "application" / "a.py").read_bytes() == b"1"
    assert local_folder(root, attrs.evolve(made, digest="changed in flight")) == here


def test_its_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root, made = elsewhere(), spec("v1")
    for name in ("a.py", "lib/b.py"):
        root.write(f"application/{name}", b"1")
    read = (local_folder(root, made) / "application" / "lib" / "b.py").open("rb")
    with read:
        root.write("application/lib/b.py", b"2")
        here = local_folder(root, made)
        assert read.read() == b"1" and (here / "application" / "lib" / "b.py").read_bytes() == b"2"
    assert sorted(p.name for p in here.rglob("*") if p.is_file()) == ["a.py", "b.py"]


def test_it_is_written_once(tmp_path: Path) -> None:
    """A driver that runs reads its code from it."""
    root = elsewhere()
    made = runtime.of_deployment(root, tmp_path, str(root.address))
    written = made.stat()
    assert runtime.of_deployment(root, tmp_path, str(root.address)).stat().st_ino == written.st_ino
    other = runtime.of_deployment(root, tmp_path / "another", str(root.address))
    assert other.read_bytes() == made.read_bytes()


def test_two_machines_at_once_use_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, build = elsewhere(), runtime.build

    def beaten(target: Path | None = None, root_: str = "", **given: str) -> Path:
        root.write(runtime.NAME, b"of the other")
        return build(target, given.get("root", root_))

    monkeypatch.setattr(runtime, "build", beaten)
    assert runtime.of_deployment(root, tmp_path, str(root.address)).read_bytes() == b"of the other"


def test_one_that_vanishes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = elsewhere()
    monkeypatch.setattr(Folder, "create", lambda *_, **__: False)
    with pytest.raises(StorageError, match="was removed while it was looked for"):
        runtime.of_deployment(root, tmp_path, str(root.address))


def test_a_driver_of_another_user_was_not_signalled_and_its_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ProcessIdentity.own()
    launch = Launch(epoch=1, host=own.host, pid=own.pid, log="", launched_at=clock.now(), process=own)
    assert "after SIGTERM and SIGKILL" in drivers._why_not(launch)
    mine = user_name(os.geteuid())
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert f"is a process of {mine}, which" in drivers._why_not(launch)
    assert f"run this as {mine} or root" in drivers._why_not(launch)
