"""An app whose driver is dead is updated in one step, with the state it has committed. One whose driver lives and does
nothing (SIGSTOP) holds no update longer than its drain timeout."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from airflow_provider_streamupdate.control.update import rollback
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.deployment import Launch

from .conftest import Site, document


def fail(site: Site, kind: str) -> None:
    if kind == "lost":
        site.ok("submit", site.application(), "--deployment", "v1")
        site.client.wait_healthy("alarm")
        site.crash("v1")
    else:
        site.ok("submit", site.application(), "--deployment", "v0")
        site.client.wait_healthy("alarm")
        site.ok("save-snapshot", "alarm", "s1", "--cancel")
        failing = site.application("v1", FAIL="run")
        site.run("submit", failing, "--deployment", "v1", "--snapshot", "s1")
        while site.client.status("alarm").state not in ("failed", "lost"):
            clock.sleep(0.05)
    assert site.client.status("alarm").state == kind


@pytest.mark.parametrize("kind", ["lost", "failed"])
def test_a_dead_app_is_updated_with_strategy_restart(site: Site, kind: str) -> None:
    fail(site, kind)
    v2 = site.application("v2")
    refused = site.run("update", v2, "--deployment", "v2", "--json")
    assert refused.exit_code == 1 and document(refused)["error"]["type"] == "NotRunningError"
    assert "Strategy restart replaces a version whose driver is dead" in document(refused)["error"]["message"]
    assert [s.deployment for s in site.client.deployments("alarm")][-1] == "v1"
    result = site.ok("update", v2, "--deployment", "v2", "--strategy", "restart", "--json")
    record = document(result)
    assert (record["outcome"], record["old"], record["snapshot"]) == ("promoted", "v1", "before-v2")
    snapshot = site.client.snapshot("alarm", "before-v2")
    assert site.first_batch() == snapshot.queries["events"].batch + 1, "it has the state"
    assert site.alive() == ["v2"]


def test_a_rollback_goes_back_to_a_version_that_failed_only_by_its_name(site: Site) -> None:
    """Old behaviour: it went back to v2, which had failed, without a word."""
    site.ok("submit", site.application(), "--deployment", "v1")
    site.client.wait_healthy("alarm")
    site.ok("update", site.application("v2"), "--deployment", "v2")
    site.crash("v2")
    v3 = ("update", site.application("v3"), "--deployment", "v3", "--strategy", "restart")
    site.ok(*v3)
    refused = site.run("rollback", "alarm")
    assert refused.exit_code == 1 and "is no version to go back to: its driver was lost" in refused.stderr
    assert (
        "- v1: the last one that did not fail. It computes again what was written since: v3's batches" in refused.stderr
    )
    assert "- v2: to run it once more" in refused.stderr and "of query events (" in refused.stderr
    assert site.alive() == ["v3"] and site.app.rollbacks() == []
    assert "name one of these: v2, v1" in site.run("rollback", "alarm", "--to", "v0").stderr
    result = site.ok("rollback", "alarm", "--to", "v1")
    assert "v1 computes again, too: v2's batches" in result.stderr
    assert site.alive() == ["v1"] and site.client.wait_healthy("alarm").healthy
    assert [(r.left, r.back_to) for r in site.app.rollbacks()] == [("v3", "v1")]


@pytest.fixture
def stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """The launch of deployment `v1`, whose processes stand still."""
    monkeypatch.setattr(rollback, "SILENT_SECONDS", 1.0)
    site.ok("submit", site.application(), "--deployment", "v1")
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
    site.ok("rollback", "alarm")
    assert site.client.status("alarm").state == "running" and site.alive() == ["v1"]
