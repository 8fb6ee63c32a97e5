"""`submit --fork`, with a stand-in for Spark; what Spark makes of a fork is tested in tests/spark/test_fork.py."""

from __future__ import annotations

import pytest

from .conftest import Site, document


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1; its snapshot s1."""
    site.ok("submit", site.application(), "--deployment", "v1")
    site.ok("save-snapshot", "alarm", "s1")
    return site


FORK = ("--deployment", "f1", "--snapshot", "s1", "--fork", "--from-app", "alarm", "--json")


def test_a_fork_runs_beside_the_app_its_state_is_from(running: Site) -> None:
    trial = running.application("trial", APP="trial")
    result = running.ok("submit", trial, *FORK)
    assert document(result) == {"app": "trial", "deployment": "f1", "epoch": 1, "reattached": False}
    assert "verifying snapshot s1 of alarm" in result.stderr
    client = running.client
    assert client.status("alarm").state == client.status("trial").state == "running"
    assert running.first_batch("trial") == client.snapshot("alarm", "s1").queries["events"].batch + 1
    assert "s1 of alarm (fork)" in running.run("status", "trial").stdout
    running.run("save-snapshot", "alarm", "s2")
    deleted = running.run("delete-snapshot", "alarm", "s1")
    assert deleted.exit_code == 1 and "deployment f1 of app trial, which runs now, was forked from it" in deleted.stderr
    client.drivers("trial").kill("f1")


def test_a_fork_is_checked_without_being_started(running: Site) -> None:
    trial = running.application("trial", APP="trial")
    against = ("--snapshot", "s1", "--fork", "--from-app", "alarm")
    report = document(running.run("check", trial, *against, "--json"))
    assert report["app"] == "trial" and report["source"] == "snapshot s1", report
    alone = running.run("check", running.application("v2"), "--fork", "--json")
    assert document(alone)["source"] == "deployment v1"
    for wrong in (("--from-app", "alarm"), ("--fork", "--plan", "plan.json")):
        assert running.run("check", trial, *wrong).exit_code == 2
    assert running.client.apps() == ["alarm"]


def test_another_app_s_snapshot_is_no_other_start(running: Site) -> None:
    trial = running.application("trial", APP="trial")
    for wrong in (("--snapshot", "s1", "--from-app", "alarm"), ("--fork",)):
        assert running.run("submit", trial, *wrong).exit_code == 2
    result = running.run("submit", trial, "--snapshot", "nosuch", "--fork", "--from-app", "alarm")
    assert result.exit_code == 1 and "has a snapshot 'nosuch'" in result.stderr
    assert running.client.apps() == ["alarm"]


def test_an_app_s_fork_under_its_own_name_waits_for_its_end(running: Site) -> None:
    v2 = running.application("v2")
    result = running.run("submit", v2, "--deployment", "v2", "--snapshot", "s1", "--fork", "--json")
    error = document(result)["error"]
    assert result.exit_code == 1 and error["type"] == "AlreadyRunningError"
    assert "A fork beside it needs a file that defines another app" in error["message"]
    running.run("cancel", "alarm")
    result = running.ok("submit", v2, "--deployment", "v2", "--snapshot", "s1", "--fork", "--json")
    assert running.app.spec("v2").fork
