from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.drivers import launcher, process
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit, driver_environment
from airflow_provider_streamupdate.control.operations import plan as planning
from airflow_provider_streamupdate.core.errors import DriverError, EnvironmentProblem, InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.storage.options import VARIABLE, from_environment, to_environment

SECRET = {"key": "AKIA", "secret": "s3cr3t", "client_kwargs": {"endpoint_url": "http://minio"}}
APPLICATION = Application(file="/apps/app.py")


def test_they_go_through_the_environment_and_back() -> None:
    assert from_environment(to_environment(SECRET)) == SECRET
    assert from_environment({}) == from_environment({VARIABLE: ""}) == {}


@pytest.mark.parametrize(
    ("text", "message"), [('{"secret": s3cr3t}', "is not valid JSON"), ('["s3cr3t"]', "holds JSON, but not an object")]
)
def test_what_cannot_be_read_is_told_without_showing_it(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{VARIABLE} {message}") as caught:
        from_environment({VARIABLE: text})
    assert "s3cr3t" not in str(caught.value)


def test_a_driver_s_own_win_over_what_this_process_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"secret": "another root\'s"}')
    for options in (SECRET, {}):
        assert from_environment(driver_environment(SparkSubmit("spark-submit"), APPLICATION, [], options)) == options


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
            root="s3://root",
            storage_options=SECRET,
            against="current",
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
