"""A cluster that is added with one file and one line goes through the command line and a DAG."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_site import Site
from click.testing import CliRunner, Result

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.drivers import clusters
from airflow_provider_streamupdate.core.registry.deployment import Launch
from tests.clusters.boxes import Boxes, lives


@pytest.fixture
def master(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(clusters, "CLUSTERS", [Boxes(), *clusters.CLUSTERS])
    boxes = site.folder / "boxes"
    yield f"box:{boxes}"
    for box in boxes.glob("*"):
        if lives(box):
            os.killpg(int((box / "pid").read_text()), 9)


def command(site: Site, master: str, *args: str) -> Result:
    given = ["--master", master] if args[0] in ("submit", "update") else []
    places = ["--root", str(site.root)]
    places += ["--spark-submit", str(site.spark_submit)] if given else []
    return CliRunner().invoke(main, [*args, *given, *places])


def launch(site: Site, deployment: str) -> Launch:
    found = site.client.registry.app("alarm").launch(deployment)
    assert found is not None
    assert (found.cluster, found.handed_over) == ("boxes", True)
    return found


def box(site: Site, deployment: str) -> Path:
    return Path(launch(site, deployment).record["box"])


@pytest.mark.processes
def test_on_the_command_line(site: Site, master: str) -> None:
    done = command(site, master, "submit", site.application("v1"), "--deployment", "v1")
    assert done.exit_code == 0, done.stderr
    assert lives(box(site, "v1"))
    done = command(site, master, "update", site.application("v2"), "--deployment", "v2")
    assert done.exit_code == 0, done.stderr
    assert lives(box(site, "v2")) and not lives(box(site, "v1"))
    told = command(site, master, "log", "alarm")
    assert "the driver's own:" in told.stdout + told.stderr
    status = json.loads(command(site, master, "status", "alarm", "--json").stdout)
    assert status["state"] == "running"
    done = command(site, master, "update", site.application("v3", FAIL="start"), "--deployment", "v3")
    assert done.exit_code != 0 and lives(box(site, "v2"))


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_in_a_dag(site: Site, master: str) -> None:
    done = command(site, master, "submit", site.application("v1"), "--deployment", "v1")
    assert done.exit_code == 0, done.stderr
    site.define("spark_default", conn_type="spark", host=master)
    run = site.run_dag("stream_update", app="alarm", application=site.application("v2"), deployment_id="v2")
    assert run.state == "success", run.states
    assert lives(box(site, "v2")) and not lives(box(site, "v1"))
