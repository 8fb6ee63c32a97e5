"""Going on where an app stopped, and from where it was before."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint

from .conftest import Site


def test_an_app_that_failed_goes_on_where_it_stopped(running: Site) -> None:
    running.crash("v1")
    without = running.run("save-snapshot", "alarm", "last")
    assert without.exit_code == 1 and "save-snapshot --cancel" in without.stderr
    for _ in range(2):  # a rerun finds it
        assert running.run("save-snapshot", "alarm", "last", "--cancel").exit_code == 0
    saved = running.client.snapshot("alarm", "last")
    assert saved.kind == "cancelled"
    assert running.run("submit", running.application("v2"), "--deployment", "v2", "--snapshot", "last").exit_code == 0
    status = running.client.wait_healthy("alarm").status
    assert status is not None and status.queries["events"].first_batch == saved.queries["events"].batch + 1


def test_a_snapshot_from_before_the_app_went_on_is_not_taken_for_its_end(running: Site) -> None:
    assert running.run("save-snapshot", "alarm", "last", "--cancel").exit_code == 0
    assert running.run("submit", running.application("v2"), "--deployment", "v2", "--snapshot", "last").exit_code == 0
    assert running.run("rollback", "alarm").exit_code == 0
    assert running.current.deployment == "v1"
    ended = running.client.snapshot("alarm", "last").queries["events"].batch
    checkpoint = Checkpoint(running.app.checkpoint("v1", "events"))
    wait_for(lambda: (checkpoint.committed_batch() or 0) > ended or None, "a batch", 60)
    running.crash("v1")
    refused = running.run("save-snapshot", "alarm", "last", "--cancel")
    assert refused.exit_code == 1 and "choose another name" in refused.stderr
    assert running.run("save-snapshot", "alarm", "end", "--cancel").exit_code == 0
    assert running.client.snapshot("alarm", "end").queries["events"].batch > ended


@pytest.mark.parametrize(("format", "options"), [("kafka", {"topic": "t"}), ("json", {"path": "/x"})])
def test_what_runs_again_needs_agreement_or_is_refused(site: Site, format: str, options: dict[str, str]) -> None:
    constants = {"SINK": {"format": format, "options": options}}
    assert site.run("submit", site.application(**constants), "--deployment", "v1").exit_code == 0
    assert site.run("save-snapshot", "alarm", "s1").exit_code == 0
    update = ("update", site.application("v2", **constants), "--deployment", "v2", "--snapshot", "s1")
    refused = site.run(*update)
    assert refused.exit_code == 1 and "run again, maybe with other rows in each" in refused.stderr
    assert site.alive() == ["v1"] and site.client.status("alarm").state == "running"
    if format == "kafka":
        assert "agree to it with --agree events:again" in refused.stderr
        agreed = site.run(*update[:3], "v3", *update[4:], "--agree", "events:again")
        assert agreed.exit_code == 0, agreed.stderr
        assert site.alive() == ["v3"]
