"""A strategy that is added with one file and one line goes through the command line and a DAG."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow_site import STANDIN, Site
from announced import Announced

from airflow_provider_streamupdate.control.update.strategies import STRATEGIES
from airflow_provider_streamupdate.core.registry.update import STRATEGY_SUMMARIES

LINE = """
import sys
from airflow_provider_streamupdate.control.update.strategies import STRATEGIES
from airflow_provider_streamupdate.core.registry.update import STRATEGY_SUMMARIES
from announced import Announced
STRATEGIES[Announced.name] = Announced()
STRATEGY_SUMMARIES[Announced.name] = Announced.summary
from airflow_provider_streamupdate.cli import main
try:
    main(["update", "--help"])
except SystemExit:
    main()
"""


def command(site: Site, *args: str) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join([str(STANDIN.parents[2]), str(Path(__file__).parent)])
    environment = {
        **os.environ,
        "PYTHONPATH": places,
        "STREAMUPDATE_ROOT": str(site.root),
        "STREAMUPDATE_SPARK_SUBMIT": str(site.spark_submit),
        "STREAMUPDATE_VERIFY_FOR": "0",
    }
    return subprocess.run(
        [sys.executable, "-c", LINE, *args], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.processes
def test_on_the_command_line(site: Site) -> None:
    site.submit()
    done = command(site, "update", site.application("v2"), "--deployment", "v2", "--strategy", "announced")
    assert done.returncode == 0, done.stderr
    assert "announced" in done.stdout and "with a note before the old version" in " ".join(done.stdout.split())
    assert site.client.registry.app("alarm").folder.read("announced") == b"v1"
    assert site.drivers_alive() == ["v2"]


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_db")
def test_in_a_dag(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, Announced.name, Announced())
    monkeypatch.setitem(STRATEGY_SUMMARIES, Announced.name, Announced.summary)
    site.submit()
    run = site.run_dag(
        "stream_update",
        app="alarm",
        application=site.application("v2"),
        deployment_id="v2",
        strategy="announced",
    )
    assert run.state == "success", run.states
    record = site.client.registry.app("alarm").update("v2")
    assert record is not None and (record.strategy, record.outcome) == ("announced", "promoted")
    assert "standby" not in record.step_times
    assert site.client.registry.app("alarm").folder.read("announced") == b"v1"
