"""The example DAGs as a person tries them: `providers list`, `dags list`, `dags test` of each, with real drivers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from demolib.airflow_server import without_airflow

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import ROOT, SPARK_SUBMIT, Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def airflow(ground: Ground, tmp_path: Path):
    """Runs an `airflow` command in an Airflow of its own; what it printed. Its exit code must be 0."""
    home = tmp_path / "airflow"
    connection = {"conn_type": "streamupdate", "extra": {"root": str(ground.root), "spark_submit": SPARK_SUBMIT}}
    environment = {
        **without_airflow(),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    run("db", "migrate")
    return run


def rows(printed: str) -> list[dict[str, Any]]:
    """What a command printed with `-o json`; log lines may stand before it."""
    found: list[dict[str, Any]] = json.loads(next(line for line in printed.splitlines()[::-1] if line.startswith("[")))
    return found


def test_the_example_dags_are_listed_and_each_is_run(ground: Ground, airflow, tmp_path: Path) -> None:
    assert "airflow-provider-streamupdate" in airflow("providers", "list", "-o", "plain")
    airflow("dags", "reserialize")
    assert rows(airflow("dags", "list-import-errors", "-o", "json")) == []
    listed = {d["dag_id"] for d in rows(airflow("dags", "list", "-o", "json"))}
    assert listed == {file.stem for file in (ROOT / "dags").glob("*.py")}

    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)

    # By hand, with the form's parameters.
    params = ground.application("v2").params
    application = str(ground.application("v2").file)
    conf = {"app": ground.app, "application": application, "deployment_id": "two", "parameters": params}
    conf["agree"] = ["alarms/rooms"]  # other code, which reads what version 1 has kept
    airflow("dags", "test", "stream_update", "-c", json.dumps(conf))
    assert ground.client.status(ground.app).spec.deployment == "two"
    ground.wait_for_batches(2)

    # A release that differs in a parameter is brought in, then there is nothing left to do.
    release = tmp_path / "release.json"
    described = {"app": ground.app, "application": application, "app_params": {**params, "max_files": "5"}}
    release.write_text(json.dumps(described))
    for _ in range(2):
        airflow("dags", "test", "stream_release", "-c", json.dumps({"release_file": str(release)}))
        assert [s.parent for s in ground.client.deployments(ground.app)] == [None, "one", "two"]

    before = {s.name for s in ground.client.snapshots(ground.app)}
    airflow("dags", "test", "stream_maintenance")
    (taken,) = {s.name for s in ground.client.snapshots(ground.app)} - before
    assert taken.startswith("periodic-")

    ground.settle()
    assert ground.client.status(ground.app).state == "running"
    assert len(ground.drivers()) == 1
    ground.check_answer("before-two")

    # Back to the deployment before the release, whose batches replace the released one's.
    seen = ground.batch()
    airflow("dags", "test", "stream_rollback", "-c", json.dumps({"app": ground.app}))
    assert ground.client.status(ground.app).spec.deployment == "two"
    ground.feed()
    wait_for(lambda: ground.batch() > seen or None, "deployment two to replace the released one's batches", 200)
    ground.settle()
    assert len(ground.drivers()) == 1
    ground.check_answer("before-two")
