"""What an earlier try or driver has left is not taken for today's: a stale heartbeat, a snapshot's name, a standby that
is gone. All other crash points are drawn by tests/simulation."""

from __future__ import annotations

import time

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import AlreadyExistsError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.serde import to_json

from .conftest import Site


@pytest.mark.parametrize("state", ["running", "failed"])
def test_a_heartbeat_of_an_earlier_driver_says_nothing_of_the_one_started_now(running: Site, state: str) -> None:
    """Whether it looks alive or ended, and however old its time."""
    assert running.run("update", running.application("v2"), "--deployment", "v2").exit_code == 0
    registry = running.app
    left = registry.status("v1")
    assert left is not None
    for age in (0.0, 86400.0):
        stale = attrs.evolve(left, state=state, heartbeat_at=clock.from_epoch_ms((time.time() - age) * 1000))
        registry.folder.write("deployments/v1/status.json", to_json(stale))
        assert running.client.drivers("alarm").state("v1") != "running"
    assert running.run("rollback", "alarm", "--to", "v1").exit_code == 0
    now = registry.status("v1")
    assert now is not None and (now.epoch, now.state) == (3, "running")


@pytest.mark.parametrize("strategy", ["restart", "standby"])
def test_a_snapshot_that_has_the_name_already_is_not_taken_for_the_fresh_one(running: Site, strategy: str) -> None:
    assert running.run("save-snapshot", "alarm", "before-v2").exit_code == 0
    taken = running.client.snapshot("alarm", "before-v2")
    v2 = running.application("v2")
    result = running.run("update", v2, "--deployment", "v2", "--strategy", strategy)
    assert result.exit_code == 1 and "already has a snapshot 'before-v2'" in result.stderr
    assert running.alive() == ["v1"] and running.client.snapshot("alarm", "before-v2") == taken
    assert running.run("update", v2, "--deployment", "v3", "--strategy", strategy).exit_code == 0
    assert running.client.snapshot("alarm", "before-v3").queries["events"].batch > taken.queries["events"].batch


def launching(site: Site) -> StreamUpdateClient:
    return StreamUpdateClient(site.client.root, SparkSubmit())


def test_a_deployment_that_was_taken_back_from_is_not_gone_on_with(running: Site) -> None:
    """The old version has computed its batches again since, under other borders."""
    application = Application(file=str(running.application("v2")))
    client, registry = launching(running), running.app
    assert running.run("save-snapshot", "alarm", "s").exit_code == 0
    client.cancel("alarm")
    client.submit(application, "v2", "s", owner="update v2", app="alarm")
    running.crash("v2")
    assert registry.claim(Current(deployment="v1", epoch=4))
    with pytest.raises(
        AlreadyExistsError, match="v2 of alarm cannot be started again: v1 has taken over from it, in epoch 4"
    ):
        client.submit(application, "v2", "s", owner="update v2", app="alarm")
