"""An app whose driver is dead is updated in one step, with the state it has committed, and cancelled for good. A driver
that lives and does nothing (SIGSTOP) holds no update longer than its drain timeout, and no cancellation."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from airflow_provider_streamupdate.control.update import rollback
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.deployment import Launch

from .conftest import Site, document, until


def fail(site: Site, kind: str) -> None:
    """Have v1 run, and die as `kind` says."""
    site.submit()
    site.client.wait_healthy("alarm")
    site.crash("v1")
    if kind == "failed":
        file = site.folder / "root" / "alarm" / "deployments" / "v1" / "application" / "v1.py"
        file.write_text(file.read_text() + "\nFAIL = 'run'\n")
        site.run("restart", "alarm")
    until(lambda: site.client.status("alarm").state == kind, "the failure")


@pytest.mark.parametrize("kind", ["lost", "failed"])
def test_a_dead_app_is_updated_with_strategy_restart(site: Site, kind: str) -> None:
    fail(site, kind)
    v2 = ("update", site.application("v2"), "--deployment", "v2")
    error = site.error(*v2)
    assert error["type"] == "NotRunningError"
    assert "Strategy restart replaces a version whose driver is dead" in error["message"]
    assert site.app.deployment_ids() == ["v1"]
    record = document(site.ok(*v2, "--strategy", "restart", "--json"))
    assert (record["outcome"], record["old"], record["snapshot"]) == ("promoted", "v1", "before-v2")
    saved = site.client.snapshot("alarm", "before-v2").queries["events"].batch
    assert site.first_batch() == saved + 1 and site.alive() == ["v2"], "it has the state"


def test_a_rollback_goes_back_to_a_version_that_failed_only_by_its_name(site: Site) -> None:
    """Old behaviour: it went back to v2, which had failed, without a word."""
    site.submit()
    site.client.wait_healthy("alarm")
    site.update("v2")
    site.crash("v2")
    site.update("v3", "--strategy", "restart")
    told = site.refused("rollback", "alarm")
    assert "is no version to go back to: its driver was lost" in told
    assert "- v1: the last one that did not fail. It computes again what was written since: v3's batches" in told
    assert "- v2: to run it once more" in told and "of query events (" in told
    assert site.alive() == ["v3"] and site.app.rollbacks() == []
    assert "name one of these: v2, v1" in site.refused("rollback", "alarm", "--to", "v0")
    assert "v1 computes again, too: v2's batches" in site.ok("rollback", "alarm", "--to", "v1").stderr
    assert site.alive() == ["v1"] and site.client.wait_healthy("alarm").healthy
    assert [(r.left, r.back_to) for r in site.app.rollbacks()] == [("v3", "v1")]


@pytest.fixture
def stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """The launch of deployment `v1`, whose processes stand still."""
    monkeypatch.setattr(rollback, "SILENT_SECONDS", 1.0)
    site.submit()
    launch = site.launch("v1")
    assert launch.pid is not None
    os.killpg(launch.pid, signal.SIGSTOP)
    yield launch
    with contextlib.suppress(ProcessLookupError):
        os.killpg(launch.pid, signal.SIGCONT)


@pytest.mark.processes
@pytest.mark.parametrize("strategy", ["standby", "restart"])
def test_the_update_ends_with_the_reason_and_the_app_is_brought_back(
    site: Site, stopped: Launch, strategy: str
) -> None:
    told = site.update("v2", "--strategy", strategy, "--drain-timeout", "2", code=1).stderr
    reason = f"process {stopped.pid} of the driver of deployment v1 is stopped (SIGSTOP): continue it (kill -CONT"
    what = "the hand-over to v2" if strategy == "standby" else "snapshot before-v2 of alarm"
    assert f"the update failed: {what} did not happen within 2 s: {reason}" in told
    assert f"Error: v1 of alarm neither runs on nor ends: {reason}" in told
    os.killpg(stopped.pid or 0, signal.SIGCONT)
    site.ok("rollback", "alarm")
    assert site.client.status("alarm").state == "running" and site.alive() == ["v1"]


@pytest.mark.parametrize("drain", [(), ("--drain",)])
@pytest.mark.parametrize("kind", ["lost", "failed"])
def test_a_dead_app_that_is_cancelled_stays_down(site: Site, kind: str, drain: tuple[str, ...]) -> None:
    fail(site, kind)
    epoch = site.current.epoch
    assert site.ok("cancel", "alarm", *drain).stdout.startswith("alarm is cancelled; ")
    cancelled = site.current
    assert (cancelled.deployment, cancelled.epoch) == ("v1", epoch + 1)
    assert document(site.ok("supervise", "--once", "--json")) == []
    status, [listed] = document(site.run("status", "alarm", "--json")), document(site.run("list", "--json"))
    for shown in (status, listed):
        assert (shown["state"], shown["needs"]) == ("cancelled", [])
    assert site.ok("cancel", "alarm", *drain).stdout == "alarm is cancelled; no driver of it ran\n"
    assert site.current == cancelled and site.alive() == []


@pytest.mark.parametrize("drained", [True, False])
def test_a_cancellation_at_once_waits_for_no_batch(site: Site, drained: bool) -> None:
    """drained: nor for a drain, which takes too long and goes on until then"""
    site.submit(DRAIN_SECONDS=100.0)
    if drained:
        assert site.error("cancel", "alarm", "--drain", "--drain-timeout", "1")["type"] == "WaitTimeoutError"
        assert site.alive() == ["v1"]
    began = clock.monotonic()
    site.ok("cancel", "alarm")
    assert site.alive() == []
    assert clock.monotonic() - began < (30 if drained else 10), "it was told so, and not killed in the end"
