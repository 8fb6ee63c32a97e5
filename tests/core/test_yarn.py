from __future__ import annotations

import os
import socket
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters import Living, yarn
from airflow_provider_streamupdate.control.drivers.launcher import in_cluster, master_of, on_this_machine
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError
from airflow_provider_streamupdate.core.registry.deployment import Launch

CLUSTER = [
    ["spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "app.py", "run"],
    ["spark-submit", "--conf", "spark.master=yarn", "--conf", "spark.submit.deployMode=cluster", "app.py", "run"],
]


@pytest.mark.parametrize("command", CLUSTER)
def test_a_plan_of_an_app_for_the_cluster_is_made_here(command: list[str]) -> None:
    assert in_cluster(command) and master_of(command) == "yarn"
    here = on_this_machine(command)
    assert not in_cluster(here) and master_of(here) == "yarn"
    assert here[0] == "spark-submit" and here[-2:] == ["app.py", "run"] and here.count("--deploy-mode") == 1
    assert on_this_machine(here) == here


def test_an_option_wins_over_a_setting_as_it_does_for_spark_submit() -> None:
    command = ["spark-submit", "--master", "local[2]", "--conf", "spark.master=yarn", "app.py"]
    assert master_of(command) == "local[2]" and not in_cluster(command)


def test_a_tag_is_added_to_the_tags_an_application_has() -> None:
    name = yarn.tag("root", "app", "one", "1")
    assert name != yarn.tag("root", "app", "one", "2") and name == name.lower() and len(name) <= 100
    assert f"spark.yarn.tags={name}" in yarn.tagged(CLUSTER[0], name)
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
        pid_started=None,
        log="",
        launched_at=clock.now(),
        cluster="yarn",
        record={"tag": "streamupdate-1"},
        handed_over=True,
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
