"""An app whose driver is dead is updated in one step, with the state it has committed."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core import clock

from .conftest import Site, document


def fail(site: Site, kind: str) -> None:
    if kind == "lost":
        assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
        site.client.wait_healthy("alarm")
        site.crash("v1")
    else:
        assert site.run("submit", site.application(), "--deployment", "v0").exit_code == 0
        site.client.wait_healthy("alarm")
        assert site.run("save-snapshot", "alarm", "s1", "--cancel").exit_code == 0
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
    result = site.run("update", v2, "--deployment", "v2", "--strategy", "restart", "--json")
    assert result.exit_code == 0, result.stderr
    record = document(result)
    assert (record["outcome"], record["old"], record["snapshot"]) == ("promoted", "v1", "before-v2")
    snapshot = site.client.snapshot("alarm", "before-v2")
    status = site.client.wait_healthy("alarm").status
    assert status is not None
    assert status.queries["events"].first_batch == snapshot.queries["events"].batch + 1, "it has the state"
    assert site.alive() == ["v2"]


def test_a_rollback_goes_back_to_a_version_that_failed_only_by_its_name(site: Site) -> None:
    """Old behaviour: it went back to v2, which had failed, without a word."""
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    assert site.run("update", site.application("v2"), "--deployment", "v2").exit_code == 0
    site.crash("v2")
    v3 = ("update", site.application("v3"), "--deployment", "v3", "--strategy", "restart")
    assert site.run(*v3).exit_code == 0
    refused = site.run("rollback", "alarm")
    assert refused.exit_code == 1 and "is no version to go back to: its driver was lost" in refused.stderr
    assert (
        "- v1: the last one that did not fail. It computes again what was written since: v3's batches" in refused.stderr
    )
    assert "- v2: to run it once more" in refused.stderr and "of query events (" in refused.stderr
    assert site.alive() == ["v3"] and site.app.rollbacks() == []
    assert "name one of these: v2, v1" in site.run("rollback", "alarm", "--to", "v0").stderr
    result = site.run("rollback", "alarm", "--to", "v1")
    assert result.exit_code == 0 and "v1 computes again, too: v2's batches" in result.stderr
    assert site.alive() == ["v1"] and site.client.wait_healthy("alarm").healthy
    assert [(r.left, r.back_to) for r in site.app.rollbacks()] == [("v3", "v1")]
