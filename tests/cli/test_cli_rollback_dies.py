"""A rollback whose process dies while the app is down, with a stand-in for Spark."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.boundaries import KILL

from .conftest import Site, document
from .test_cli_each_boundary import Marks, ended, forked


@pytest.fixture(params=["new-stopped", "epoch-claimed"])
def died(site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    """App alarm was to go back from v2 to v1."""
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    assert site.run("update", site.application("v2"), "--deployment", "v2").exit_code == 0
    marks = Marks(tmp_path / "boundaries")
    marks.arm(request.param, KILL)

    def work() -> None:
        boundaries._folder = str(marks.folder)
        StreamUpdateClient(site.client.root, SparkSubmit()).rollback("alarm")

    assert ended(forked(work)) == -signal.SIGKILL
    return site


def needs(site: Site) -> list[str]:
    return [need["kind"] for need in document(site.run("list", "--json"))[0]["needs"]]


@pytest.mark.processes
def test_it_is_named_everywhere_and_completed(died: Site) -> None:
    told = "streamupdate rollback alarm completes it"
    listed = document(died.run("list", "--json"))[0]
    assert listed["state"] == "cancelled" and told in listed["next_step"] and needs(died) == ["update-interrupted"]
    assert told in died.run("status", "alarm").stdout
    doctor = died.run("doctor")
    assert doctor.exit_code == 1 and told in doctor.stdout
    assert died.run("rollback", "alarm").exit_code == 0
    for command in ("cancel", "restart"):
        assert died.run(command, "alarm").exit_code == 0 and needs(died) == []


@pytest.mark.processes
def test_who_starts_the_app_otherwise_and_ends_it_is_told_nothing(died: Site) -> None:
    assert died.run("restart", "alarm").exit_code == 0 and needs(died) == []
    assert died.run("save-snapshot", "alarm", "s1", "--cancel").exit_code == 0 and needs(died) == []


def test_who_cancels_the_app_is_told_nothing(died: Site) -> None:
    assert died.run("cancel", "alarm").exit_code == 0 and needs(died) == []
