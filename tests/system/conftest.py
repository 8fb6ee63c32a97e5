"""The system tests: example DAGs in a real Airflow, with real drivers (.venv-spark), under a root of their own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from tests.airflow_home import REPOSITORY, airflow_db  # noqa: F401

SPARK_SUBMIT = os.environ.get("STREAMUPDATE_SPARK_SUBMIT") or str(REPOSITORY / ".venv-spark" / "bin" / "spark-submit")
FOLDER = os.environ["SYSTEM_TESTS_FOLDER"] = tempfile.mkdtemp(prefix="streamupdate-system-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@pytest.fixture
def installation(airflow_db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: F811
    """The connections that the examples use; the drivers end with the test."""
    root = str(tmp_path / "root")
    extra = {"root": root, "spark_submit": SPARK_SUBMIT, "defaults": {"conf": {"spark.ui.enabled": "false"}}}
    for name, connection in (
        ("STREAMUPDATE_DEFAULT", {"conn_type": "streamupdate", "extra": extra}),
        ("SPARK_DEFAULT", {"conn_type": "spark", "host": "local[2]"}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    yield
    client = StreamUpdateClient(root)
    for app in client.apps():
        for spec in client.deployments(app):
            client.drivers(app).kill(spec.deployment)
