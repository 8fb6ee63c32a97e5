"""A real Airflow (SQLite in a temporary AIRFLOW_HOME) and, under a temporary root, apps run by a stand-in for Spark
(standin_spark_submit.py)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.core.errors import DriverError
from tests.airflow_home import airflow_db  # noqa: F401
from tests.simulation.in_process import world  # noqa: F401
from tests.simulation.world import World
from tests.standin import spark_submit


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drivers_world: World | None) -> Iterator[Site]:
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


@pytest.fixture(autouse=True)
def forget_secrets() -> Iterator[None]:
    """Airflow's masker compiles all that it was ever told anew with each secret; of each test's connections it is
    told."""
    yield
    for name, module in list(sys.modules.items()):
        if name.endswith("secrets_masker.secrets_masker") and hasattr(module, "_secrets_masker"):
            module._secrets_masker().reset_masker()


@pytest.fixture
def context() -> dict[str, Any]:
    """A task's context, outside a DAG run."""
    return {"ti": FakeTaskInstance()}
