"""A real Airflow (SQLite in a temporary AIRFLOW_HOME) and, under a temporary root, apps run by a stand-in for Spark
(standin_spark_submit.py)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_site import REPOSITORY, FakeTaskInstance, Site

from airflow_provider_streamupdate.core.errors import DriverError
from tests.standin import spark_submit

# Before the first import of airflow: never the user's own Airflow.
_HOME = tempfile.mkdtemp(prefix="streamupdate-airflow-")
os.environ.update(
    AIRFLOW_HOME=_HOME,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(REPOSITORY / "dags"),
    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(
        [
            {
                "name": name,
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(path), "refresh_interval": 0},
            }
            for name, path in (("dags-folder", REPOSITORY / "dags"), ("tests", Path(__file__).with_name("dags")))
        ]
    ),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME}/airflow.db",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    STREAMUPDATE_VERIFY_FOR="0",  # 10 s each would be most of the tests' time
)


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[str]:
    """A migrated database; its AIRFLOW_HOME."""
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    yield _HOME
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty installation with working connections; its drivers end with the test."""
    made = Site(tmp_path, monkeypatch)
    made.root.mkdir()
    assert spark_submit(tmp_path) == made.spark_submit
    made.connect()
    made.define("spark_default", conn_type="spark", host="local[1]")
    yield made
    made.connect()
    client = made.client
    for app in client.apps():
        for spec in client.deployments(app):
            with contextlib.suppress(DriverError):  # one that a test has made up on another machine
                client.drivers(app).kill(spec.deployment)


@pytest.fixture
def context() -> dict[str, Any]:
    """A task's context, outside a DAG run."""
    return {"ti": FakeTaskInstance()}
