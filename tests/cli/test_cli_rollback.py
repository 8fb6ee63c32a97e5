"""Rollbacks: which ids they give again, what those leave that died, and what they do about a version that is dead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.operations import submit
from airflow_provider_streamupdate.control.operations.abandoned import supersede_left_behind
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.rollback import RollbackOptions
from airflow_provider_streamupdate.control.update.rollback_target import choose_version
from airflow_provider_streamupdate.control.update.strategies import follow, standby
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import RefusedError, StorageError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.supervision import EVICTED
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.snapshots import superseded
from tests.core.builders import app_with_snapshots, set_status, spec, status

from .another import client_of, killed_at
from .conftest import Site, document

AGREE = ("--agree", "events/foreachBatch")


def updated(site: Site, **sink: str) -> Site:
    """App alarm runs as v2, after v1; both write with a function."""
    constants, agree = {"SINK": {"format": "foreachBatch", **sink}}, () if sink else AGREE
    site.submit("v1", *agree, **constants)
    site.update("v2", *agree, **constants)
    return site


@pytest.mark.parametrize(("at", "code"), [("rollback-noted", 0), ("old-settled", 0), ("old-runs", 1), ("gone-back", 1)])
def test_later_ids_are_given_before_the_old_version_runs(site: Site, at: str, code: int) -> None:
    """To a rollback that died, too: it does what it says, or says that it is too late."""
    killed_at(updated(site), at, lambda client: client.rollback("alarm"))
    again = site.ok("rollback", "alarm", "--later-ids", "events", code=code)
    assert ("query events continues with batch ids after those of v2" in again.stderr) is (code == 0)
    [record] = site.app.rollbacks()
    assert record.later_ids == (("events",) if code == 0 else ())
    assert site.run("rollback", "alarm").exit_code == 0 or code == 0
    assert site.alive() == ["v1"]


def test_ids_that_are_given_again_are_named_and_later_ones_come_too_late(site: Site) -> None:
    told = updated(site).ok("rollback", "alarm").stderr
    assert "query events of v1 gets batch ids again that v2 used" in told
    assert "roll back with --later-ids events" in told
    for command in ("history", "suspend"):
        site.ok(command, "alarm")
        late = site.refused("rollback", "alarm", "--deployment", "v2", "--later-ids", "events")
        assert "v1 of alarm already runs again with its old batch ids" in late, command
    site.ok("rollback", "alarm", "--deployment", "v2", "--timeout", "5")  # nothing is left to do


def test_later_ids_are_for_functions_that_do_not_say_what_they_do(site: Site) -> None:
    updated(site, seen_batch="skips")
    for query, why in (("views", "no query 'views' (its queries: events)"), ("events", "(seen_batch='skips')")):
        assert why in site.refused("rollback", "alarm", "--later-ids", query, code=2) and site.alive() == ["v2"]
    assert "gets batch ids again" not in site.ok("rollback", "alarm").stderr and site.alive() == ["v1"]


def test_an_app_whose_next_version_fails_as_well_is_left_as_it_was_and_can_be_updated(running: Site) -> None:
    """The old version died, and dies at every start."""
    running.crash("v1")
    file = running.folder / "root" / "alarm" / "deployments" / "v1" / "application" / "v1.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    restart = ("--strategy", "restart")
    bad = running.update("v2", *restart, code=1, FAIL="start").stderr
    assert "v1 does not run, as before the update" in bad
    [record] = running.app.updates()
    assert record.outcome == "rolled-back" and record.old_dead
    running.update("v3", *restart)
    assert running.alive() == ["v3"]
    file = file.parents[2] / "v3" / "application" / "v3.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    worse = running.update("v4", *restart, code=1, FAIL="run").stderr
    assert "does not run, as before" not in worse, "it ran before the update"
    assert "last words" in worse and running.client.status("alarm").update is not None


def test_one_that_died_is_completed_and_goes_to_no_other_version(running: Site) -> None:
    """The same command again, without an id: once the old version runs, the current one is not the one to leave."""
    for version in ("v2", "v3"):
        running.update(version)
    killed_at(running, "rollback-noted", lambda client: client.rollback("alarm"))
    assert "the rollback of v3 to v2 is not complete" in running.refused("rollback", "alarm", "--to", "v1")
    killed_at(running, "old-runs", lambda client: client.rollback("alarm"))
    assert "runs as deployment v2 again" in running.ok("rollback", "alarm").stdout
    [record] = running.app.rollbacks()
    assert record.ended_at is not None and record.epoch == running.current.epoch and running.alive() == ["v2"]
    assert running.record("v3").outcome == "rolled-back"


def needs(site: Site) -> list[str]:
    return [need["kind"] for need in document(site.run("list", "--json"))[0]["needs"]]


@pytest.mark.parametrize("at", ["new-stopped", "epoch-claimed"])
@pytest.mark.parametrize("then", ["rollback", "restart", "cancel"])
def test_one_that_died_while_the_app_is_down_is_named_everywhere(running: Site, at: str, then: str) -> None:
    """Until somebody completes it, starts the app otherwise, or cancels it."""
    running.update("v2")
    killed_at(running, at, lambda client: client.rollback("alarm"))
    told = "streamupdate rollback alarm completes it"
    listed = document(running.run("list", "--json"))[0]
    assert listed["state"] == "cancelled" and told in listed["needs"][0]["help"]
    assert needs(running) == ["update-interrupted"]
    assert told in running.run("status", "alarm").stdout and told in running.run("doctor").stdout
    for command in (then, "cancel"):
        running.ok(command, "alarm")
        assert needs(running) == []


@pytest.mark.parametrize(("strategy", "moment"), [("standby", "standby-ready"), ("follow", "handover-asked")])
def test_an_old_version_that_dies_before_it_has_handed_over_is_not_gone_back_to(
    running: Site, monkeypatch: pytest.MonkeyPatch, strategy: str, moment: str
) -> None:
    """The new one takes over with every batch after the last one that was committed, once."""
    monkeypatch.setattr(standby, "boundary", lambda name: running.crash("v1") if name == moment else None)
    running.update("v2", "--strategy", strategy)
    old, new = running.commits("v1"), running.commits("v2")
    assert running.alive() == ["v2"] and new == list(range(new[0], new[-1] + 1)) and new[0] <= old[-1] < new[-1]
    assert running.client.snapshot("alarm", "before-v2").queries["events"].batch == old[-1]


@pytest.mark.parametrize("at", ["old-runs", "rollback-ended", "gone-back"])
def test_an_update_that_died_in_its_rollback_is_run_again(running: Site, at: str) -> None:
    """Its record is ended last, so that nothing is left under way."""
    file = str(running.application("v2", FAIL="run"))
    options = UpdateOptions(application=Application(file=file), deployment="v2", strategy="restart", asked_by="me")
    killed_at(running, at, lambda client: client.update(options))
    assert (running.record("v2").outcome is None) is (at != "gone-back")
    running.update("v2", "--strategy", "restart", code=1, FAIL="run")
    [note], record = running.app.rollbacks(), running.record("v2")
    assert record.outcome == "rolled-back" and note.ended_at is not None and "cannot read" in str(record.reason)
    assert note.epoch == running.current.epoch == 3 and running.alive() == ["v1"]
    assert note.asked_by == "me" and "cannot read" in str(note.reason)


def test_a_step_that_failed_takes_nothing_back_that_another_process_has_completed(running: Site) -> None:
    running.update("v2")
    failed = RollbackOptions(reason="the lease was lost")
    with pytest.raises(RefusedError, match="v2 was completed by another process"):
        client_of(running).rollback("alarm", "v2", options=failed)
    assert running.alive() == ["v2"] and running.app.rollbacks() == []


@pytest.mark.parametrize("dies", ["", "before", "after"])
def test_an_update_that_nobody_continued_is_closed_by_a_submit_in_its_place(
    running: Site, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """dies: the submit does, around the end of the record. What is left then is no reason to end what runs."""
    app = running.app
    app.set_update(UpdateRecord(app="alarm", old="v1", new="v2", started_at=clock.now(), digest="other"))
    submit_v3 = ("submit", running.application("v3"), "--deployment", "v3", "--snapshot", "s1")
    running.ok("save-snapshot", "alarm", "s1")
    running.ok(*submit_v3, code=1)
    assert app.update_under_way(), "v1 runs: it is still about what runs"
    running.ok("save-snapshot", "alarm", "s2", "--cancel")

    def die(*args: Any) -> None:
        if dies == "after":
            supersede_left_behind(*args)
        raise SystemExit(143)

    with monkeypatch.context() as dying:
        if dies:
            dying.setattr(submit, "supersede_left_behind", die)
        running.ok(*submit_v3[:-1], "s2", code=143 if dies else 0)
    assert (running.record("v2").outcome is None) is (dies == "before")
    if dies == "before":
        assert "streamupdate rollback alarm --deployment v3" in running.refused("rollback", "alarm")
    assert "has been replaced by v3" in running.refused("rollback", "alarm", "--deployment", "v2")
    assert running.alive() == ["v3"] and running.record("v2").outcome == "superseded"
    running.ok("rollback", "alarm")
    assert running.alive() == ["v1"]


@pytest.fixture
def versions(root: Path) -> AppRegistry:
    """v4 runs; v1 to v3 ran before it."""
    app = app_with_snapshots(root, ["s1"])
    for number in (2, 3, 4):
        app.create_deployment(spec(f"v{number}", parent=f"v{number - 1}"))
    for number in (1, 2, 3):
        app.set_launch(f"v{number}", attrs.evolve(app.launch("v1"), epoch=1))  # type: ignore[arg-type]
        set_status(app, f"v{number}", status("cancelled"))
    app.set_current(attrs.evolve(app.current(), deployment="v4", epoch=5))  # type: ignore[arg-type]
    return app


def fails(reason: str) -> Callable[[AppRegistry], None]:
    return lambda app: set_status(app, "v3", status("failed", error="x", reason=reason))


def under_way(app: AppRegistry) -> None:
    fails("x")(app)
    app.set_update(UpdateRecord(app="flights", old="v3", new="v4", started_at=clock.now()))


def freed(app: AppRegistry) -> None:
    fails("x")(app)
    app.checkpoint("v2", "windows").write("metadata", b"{}")
    superseded.free(app, "v2")


@pytest.mark.parametrize(
    ("before", "left", "to", "chosen"),
    [
        (lambda app: None, "v4", None, "v3"),
        (lambda app: None, "v4", "v1", "v1"),
        (fails(EVICTED), "v4", None, "v3"),  # its node was drained
        (under_way, "v4", None, "v3"),  # it ran before the update, in whatever state
        (fails("x"), "v4", None, "- v2: the last one that did not fail"),
        (freed, "v4", None, "- v1: the last one that did not fail"),
        (under_way, "v4", "v2", "v4 of flights is not what runs"),
        (lambda app: None, "v3", "v1", "v3 of flights is not what runs"),
        (lambda app: None, "v4", "v0", "name one of these: v3, v2, v1"),
    ],
)
def test_the_version_that_it_goes_back_to(
    versions: AppRegistry, root: Path, before: Callable[[AppRegistry], None], left: str, to: str | None, chosen: str
) -> None:
    before(versions)
    drivers = StreamUpdateClient(str(root)).drivers("flights")
    if chosen in ("v1", "v3"):
        assert choose_version(versions, drivers, left, to) == chosen
        return
    with pytest.raises(StreamUpdateError, match=re.escape(chosen)):
        choose_version(versions, drivers, left, to)


@pytest.mark.parametrize("fails", [False, True])
def test_rows_that_cannot_be_removed_fail_no_update_and_no_rollback(
    running: Site, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def full(*_: Any) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(follow, "clear_comparison", full)
    given: dict[str, Any] = {"FAIL": "stuck"} if fails else {}
    result = running.update("v2", "--strategy", "follow", "--drain-timeout", "3", code=int(fails), **given)
    assert "not all removed: the disk is gone" in result.stderr
    assert running.record("v2").outcome == ("rolled-back" if fails else "promoted")
    assert running.alive() == ["v1" if fails else "v2"]
