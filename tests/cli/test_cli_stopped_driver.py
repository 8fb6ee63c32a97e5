"""An old version whose driver lives and does nothing (SIGSTOP) holds no update longer than its drain timeout."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from airflow_provider_streamupdate.control.update import rollback
from airflow_provider_streamupdate.core.registry.deployment import Launch

from .conftest import Site


@pytest.fixture
def stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """The launch of deployment `v1`, whose processes stand still."""
    monkeypatch.setattr(rollback, "SILENT_SECONDS", 1.0)
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    launch = site.app.launch("v1")
    assert launch is not None and launch.pid is not None
    os.killpg(launch.pid, signal.SIGSTOP)
    yield launch
    with contextlib.suppress(ProcessLookupError):
        os.killpg(launch.pid, signal.SIGCONT)


@pytest.mark.processes
@pytest.mark.parametrize("strategy", ["standby", "restart"])
def test_the_update_ends_with_the_reason_and_the_app_is_brought_back(
    site: Site, stopped: Launch, strategy: str
) -> None:
    arguments = ("--deployment", "v2", "--strategy", strategy, "--drain-timeout", "2")
    result = site.run("update", site.application("v2"), *arguments)
    reason = f"process {stopped.pid} of the driver of deployment v1 is stopped (SIGSTOP): continue it (kill -CONT"
    what = "the hand-over to v2" if strategy == "standby" else "snapshot before-v2 of alarm"
    assert result.exit_code == 1
    assert f"the update failed: {what} did not happen within 2 s: {reason}" in result.stderr
    assert f"Error: v1 of alarm neither runs on nor ends: {reason}" in result.stderr
    os.killpg(stopped.pid or 0, signal.SIGCONT)
    assert site.run("rollback", "alarm").exit_code == 0
    assert site.client.status("alarm").state == "running" and site.alive() == ["v1"]
