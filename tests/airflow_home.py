"""An Airflow of the tests' own: importing this, before the first import of airflow, keeps the user's Airflow out."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
HOME = tempfile.mkdtemp(prefix="streamupdate-airflow-")
_BUNDLES = {
    "dags-folder": REPOSITORY / "dags",
    "tests": REPOSITORY / "tests" / "airflow" / "dags",
    "system-tests": REPOSITORY / "tests" / "system" / "streamupdate",
}
os.environ.update(
    AIRFLOW_HOME=HOME,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(REPOSITORY / "dags"),
    AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(
        [
            {
                "name": name,
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(path), "refresh_interval": 0},
            }
            for name, path in _BUNDLES.items()
        ]
    ),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME}/airflow.db",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    STREAMUPDATE_VERIFY_FOR="0",  # 10 s each would be most of the tests' time
)


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[str]:
    """A migrated database; its AIRFLOW_HOME."""
    from airflow.utils.db import upgradedb

    upgradedb()
    yield HOME
    shutil.rmtree(HOME, ignore_errors=True)
