"""`streamupdate doctor --conn-id` beside a real Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_site import Site

DOCTOR = "from airflow_provider_streamupdate.cli import main; main()"


def airflow(*args: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *args], check=True, capture_output=True)


def findings(conn_id: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and by thing its outcome and what was found, in a shell of its own."""
    command = [sys.executable, "-c", DOCTOR, "doctor", "--conn-id", conn_id, "--json"]
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("AIRFLOW_CONN_", "_AIRFLOW_"))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.returncode, {f["thing"]: (f["outcome"], f["found"]) for f in json.loads(done.stdout)}


@pytest.fixture
def missing(airflow_db: str, site: Site) -> Iterator[Path]:
    """The root of connection `streams`, which is in the database; there is no such folder."""
    root = site.folder / "nowhere"
    extra = {"root": str(root), "spark_conn_id": "spark_local", "spark_submit": str(site.spark_submit)}
    airflow("connections", "add", "spark_local", "--conn-type", "spark", "--conn-host", "local[2]")
    airflow("connections", "add", "streams", "--conn-type", "streamupdate", "--conn-extra", json.dumps(extra))
    yield root
    for conn_id in ("streams", "spark_local"):
        airflow("connections", "delete", conn_id)


@pytest.mark.slow
def test_it_finds_connections_in_airflows_database(missing: Path) -> None:
    """As docs/getting-started.md makes them."""
    code, found = findings("streams")
    assert found["connection"] == ("ok", "streams; drivers start through connection spark_local")
    assert code == 1 and found["root"][0] == "failed" and f"root {missing} does not exist" in found["root"][1]
    assert not missing.exists()
    missing.mkdir()
    _, found = findings("streams")
    assert found["root"][0] == "ok"
    code, found = findings("no_such")
    assert code == 1 and "connection no_such is not defined" in found["connection"][1]
