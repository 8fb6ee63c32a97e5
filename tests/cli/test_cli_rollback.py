"""Rollbacks: which ids they give again, what those leave that died, and what they do about a version that is dead."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.strategies import follow
from airflow_provider_streamupdate.core.errors import StorageError

from .another import killed_at
from .conftest import Site

AGREE = ("--agree", "events/foreachBatch")


def updated(site: Site, **sink: str) -> Site:
    """App alarm runs as v2, after v1; both write with a function."""
    constants, agree = {"SINK": {"format": "foreachBatch", **sink}}, () if sink else AGREE
    assert site.run("submit", site.application(**constants), "--deployment", "v1", *agree).exit_code == 0
    assert site.run("update", site.application("v2", **constants), "--deployment", "v2", *agree).exit_code == 0
    return site


@pytest.mark.parametrize(("at", "code"), [("rollback-noted", 0), ("old-settled", 0), ("old-runs", 1), ("gone-back", 1)])
def test_later_ids_are_given_before_the_old_version_runs(site: Site, at: str, code: int) -> None:
    """To a rollback that died, too: it does what it says, or says that it is too late."""
    killed_at(updated(site), at, lambda client: client.rollback("alarm"))
    again = site.run("rollback", "alarm", "--later-ids", "events")
    assert again.exit_code == code, again.stderr
    assert ("query events continues with batch ids after those of v2" in again.stderr) is (code == 0)
    [record] = site.app.rollbacks()
    assert record.later_ids == (("events",) if code == 0 else ())
    assert site.run("rollback", "alarm").exit_code == 0 or code == 0
    assert site.alive() == ["v1"]


def test_ids_that_are_given_again_are_named_and_later_ones_come_too_late(site: Site) -> None:
    told = updated(site).run("rollback", "alarm")
    assert told.exit_code == 0 and "query events of v1 gets batch ids again that v2 used" in told.stderr
    assert "roll back with --later-ids events" in told.stderr
    for command in (("history", "alarm"), ("suspend", "alarm")):
        assert site.run(*command).exit_code == 0
        late = site.run("rollback", "alarm", "--deployment", "v2", "--later-ids", "events")
        assert late.exit_code == 1 and "v1 of alarm already runs again with its old batch ids" in late.stderr, command


def test_later_ids_are_for_functions_that_do_not_say_what_they_do(site: Site) -> None:
    updated(site, seen_batch="skips")
    for query, why in (("views", "no query 'views' (its queries: events)"), ("events", "(seen_batch='skips')")):
        wrong = site.run("rollback", "alarm", "--later-ids", query)
        assert wrong.exit_code == 2 and why in wrong.stderr and site.alive() == ["v2"]
    told = site.run("rollback", "alarm")
    assert told.exit_code == 0 and "gets batch ids again" not in told.stderr and site.alive() == ["v1"]


def test_an_app_whose_next_version_fails_as_well_is_left_as_it_was_and_can_be_updated(running: Site) -> None:
    """The old version died, and dies at every start."""
    running.crash("v1")
    file = running.folder / "root" / "alarm" / "deployments" / "v1" / "application" / "v1.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    bad = running.application("v2", FAIL="start")
    result = running.run("update", bad, "--deployment", "v2", "--strategy", "restart")
    assert result.exit_code == 1 and "v1 does not run, as before the update" in result.stderr
    [record] = running.app.updates()
    assert record.outcome == "rolled-back" and record.old_dead
    good = running.run("update", running.application("v3"), "--deployment", "v3", "--strategy", "restart")
    assert good.exit_code == 0 and running.alive() == ["v3"], good.stderr
    file = file.parents[2] / "v3" / "application" / "v3.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    worse = running.run("update", running.application("v4", FAIL="run"), "--deployment", "v4", "--strategy", "restart")
    assert worse.exit_code == 1 and "does not run, as before" not in worse.stderr, "it ran before the update"
    assert "last words" in worse.stderr and running.client.status("alarm").update is not None


@pytest.mark.parametrize("fails", [False, True])
def test_rows_that_cannot_be_removed_fail_no_update_and_no_rollback(
    running: Site, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def full(*_: Any) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(follow, "clear_comparison", full)
    file = running.application("v2", **({"FAIL": "stuck"} if fails else {}))
    result = running.run("update", file, "--deployment", "v2", "--strategy", "follow", "--drain-timeout", "3")
    assert result.exit_code == int(fails) and "not all removed: the disk is gone" in result.stderr
    record = running.app.update("v2")
    assert record is not None and record.outcome == ("rolled-back" if fails else "promoted")
    assert running.alive() == ["v1" if fails else "v2"]
