"""`update --strategy parallel`, with a stand-in for Spark (tests/airflow/standin_spark_submit.py); tests/e2e has real
drivers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.strategies import parallel
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.users import user_and_host

from .another import killed_at
from .conftest import Site, document, table

KAFKA = {"format": "kafka", "options": {"topic": "old"}}
OWN = {"format": "kafka", "options": {"topic": "new"}}


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1 and writes to a Kafka topic."""
    site.submit(SINK=KAFKA)
    return site


def arguments(site: Site, *more: str, **constants: Any) -> tuple[str | Path, ...]:
    application = site.application("v2", **{"SINK": OWN, **constants})
    return "update", application, "--deployment", "v2", "--strategy", "parallel", *more


def interrupt(*_args: object, **_more: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def both(running: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The update was interrupted while v2 runs beside v1."""
    with monkeypatch.context() as crashing:
        crashing.setattr(parallel, "wait_caught_up", interrupt)
        assert running.run(*arguments(running)).exit_code == 130
    assert running.alive() == ["v1", "v2"]
    return running


def batch(site: Site, deployment: str) -> int:
    status = site.client.drivers("alarm").status(deployment)
    assert status is not None
    return status.queries["events"].batch


def place(site: Site) -> tuple[str, int, bool]:
    current = site.client.status("alarm").current
    assert current is not None
    return current.deployment, current.epoch, current.promoted


def test_both_run_until_the_new_version_has_caught_up_and_is_promoted(running: Site) -> None:
    record = document(running.ok(*arguments(running), "--json"))
    assert (record["outcome"], record["strategy"], record["snapshot"]) == ("promoted", "parallel", "before-v2")
    assert record["pause_seconds"] is None
    steps = sorted(record["step_times"], key=record["step_times"].get)
    assert steps == ["plan", "check", "prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]
    assert running.alive() == ["v2"] and place(running) == ("v2", 2, True)
    snapshot = running.client.snapshot("alarm", "before-v2")
    cut = snapshot.queries["events"].batch
    assert snapshot.kind == "live" and running.app.spec("v2").fork
    assert running.first_batch() == cut + 1, "the new version went on from the snapshot"
    assert batch(running, "v1") > cut, "and the old one, too, until it was drained"
    assert running.client.deployment_state("alarm", "v1") == "cancelled" and running.lease_is_free()


def test_both_are_shown_while_they_run(both: Site) -> None:
    assert [row[:4] for row in table(both.run("list"))[1:]] == [
        ["alarm", "running", "v1", "1"],
        ["alarm", "running", "v2", "beside"],
    ]
    [listed] = document(both.run("list", "--json"))
    assert listed["beside"] == {"deployment": "v2", "state": "running"}
    shown = both.run("status", "alarm").stdout
    assert "v1 (epoch 1" in shown and "v2 is running, " in shown
    assert document(both.run("status", "alarm", "--json"))["beside"]["status"]["queries"]["events"]["batch"] > 0
    both.refused("delete-snapshot", "alarm", "before-v2")

    # Run again, the update goes on with the driver that runs.
    launch = both.launch("v2")
    assert both.ok(*arguments(both)).stdout == "alarm runs as deployment v2, in place of v1\n"
    assert both.launch("v2") == launch and both.alive() == ["v2"] and place(both) == ("v2", 2, True)


def test_dropping_the_new_version_leaves_the_old_one_alone(both: Site) -> None:
    before = both.client.status("alarm")
    assert "is running, so it was not started again" in both.ok("rollback", "alarm").stdout
    after = both.client.status("alarm")
    assert (after.current, after.launch, after.beside, after.update) == (before.current, before.launch, None, None)
    assert both.alive() == ["v1"]
    record = both.record("v2")
    assert record.outcome == "refused"
    # Who ended it stands in both places, and stays there: it was refused for no reason, and the history had one row.
    assert record.reason == f"{user_and_host()} rolled it back"
    told = both.run("history", "alarm").stdout.splitlines()
    assert len(told) == 3 and "v1 was never stopped, and was left as it was" in told[1], told
    assert "nothing started" in told[1] and record.reason in told[2]
    both.ok("rollback", "alarm", "--deployment", "v2")  # nothing is left to do
    assert both.app.update("v2") == record and len(both.app.rollbacks()) == 1


@pytest.mark.parametrize("drain", [(), ("--drain",)])
def test_cancel_ends_both_versions_and_the_update(both: Site, drain: tuple[str, ...]) -> None:
    told = both.ok("cancel", "alarm", *drain).stdout
    assert told == "alarm is cancelled; ended: the drivers of v1, v2 and the update to v2\n"
    assert both.alive() == [] and both.record("v2").outcome == "cancelled"
    assert [both.client.deployment_state("alarm", name) for name in ("v1", "v2")] == ["cancelled", "cancelled"]
    both.refused(*arguments(both, "--run-beside", "1h"))
    assert both.alive() == [], "nothing of it is continued"
    both.ok("restart", "alarm")
    assert both.alive() == ["v1"]


def test_an_old_version_that_dies_comes_back_and_the_new_one_is_dropped(both: Site) -> None:
    both.crash("v1")
    told = both.refused(*arguments(both))
    assert "v1 runs again: the old version died: the driver of deployment v1" in told
    assert "run the update again" in told and "streamupdate restart" not in told
    assert both.alive() == ["v1"] and place(both) == ("v1", 2, True)


def test_a_new_version_that_does_not_catch_up_is_dropped(running: Site) -> None:
    told = running.refused(*arguments(running, "--run-beside", "0.1", "--catch-up-timeout", "1", FAIL="stuck"))
    assert "v2 of alarm has not caught up with v1 within 1 s: query events has committed 0 of 2 batches" in told
    assert "give it more time (--catch-up-timeout" in told
    assert running.alive() == ["v1"] and place(running)[:2] == ("v1", 1)


def test_a_rollback_that_was_cut_short_is_given_up_where_the_update_goes_on(both: Site) -> None:
    killed_at(both, "rollback-noted", lambda client: client.rollback("alarm"))
    assert [record.ended_at for record in both.app.rollbacks()] == [None]
    both.ok(*arguments(both))
    assert both.app.rollbacks() == [] and both.alive() == ["v2"]


def test_a_log_that_is_compacted_between_two_looks_is_read_again(both: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real, looks = parallel.positions, itertools.count()

    def positions(*args: Any) -> Any:
        if next(looks) == 1:
            raise CorruptError("the log was compacted")
        return real(*args)

    monkeypatch.setattr(parallel, "positions", positions)
    assert "the log was compacted" in both.ok(*arguments(both)).stderr


def test_a_function_needs_another_place_and_an_agreement_and_is_rehearsed_as_a_fork(site: Site) -> None:
    function = {"SINK": {"format": "foreachBatch", "seen_batch": "adds"}}
    site.submit(**function)
    for args, told in (
        (("a",), "query events writes with foreachBatch and is told the same as the"),
        (("b", "--set", "path=/new"), "agree to it with --agree events:fork"),
    ):
        file = site.application("v2", named=True, **function)
        assert told in site.refused("update", file, "--strategy", "parallel", "--deployment", *args)
        assert site.alive() == site.app.deployment_ids() == ["v1"] and site.client.snapshots("alarm") == []
    site.ok("save-snapshot", "alarm", "monday")
    agreed = ("--agree", "events:fork", "--set", "path=/new", "--rehearse", "1")
    site.ok(*arguments(site, *agreed, **function))
    assert "rehearse" in site.record("v2").step_times


def test_a_new_driver_that_died_meanwhile_is_started_again_under_a_number_of_its_own(both: Site) -> None:
    before = batch(both, "v2")
    both.crash("v2")
    both.ok(*arguments(both))
    assert place(both) == ("v2", 3, True) and batch(both, "v2") > before
    both.ok("rollback", "alarm")
    assert place(both) == ("v1", 4, True) and both.alive() == ["v1"]


def test_a_new_version_that_dies_once_the_old_one_is_drained_ends_the_update(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own sinks: what the old version's last batch has written is not known there."""
    monkeypatch.setattr(parallel, "boundary", lambda name: running.crash("v2") if name == "old-drained" else None)
    assert "deployment v2 of alarm is lost" in running.refused(*arguments(running)) and running.alive() == ["v1"]
