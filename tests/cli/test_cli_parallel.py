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
    site.ok("submit", site.application(SINK=KAFKA), "--deployment", "v1")
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
    result = running.ok(*arguments(running), "--json")
    record = document(result)
    assert (record["outcome"], record["strategy"], record["snapshot"]) == ("promoted", "parallel", "before-v2")
    assert record["pause_seconds"] is None
    steps = sorted(record["step_times"], key=record["step_times"].get)
    assert steps == ["plan", "check", "prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]
    assert running.alive() == ["v2"] and place(running) == ("v2", 2, True)
    client = running.client
    snapshot = client.snapshot("alarm", "before-v2")
    assert snapshot.kind == "live"
    cut, registry = snapshot.queries["events"].batch, client.registry.app("alarm")
    assert registry.spec("v2").fork
    assert running.first_batch() == cut + 1, "the new version went on from the snapshot"
    assert batch(running, "v1") > cut, "and the old one, too, until it was drained"
    assert client.deployment_state("alarm", "v1") == "cancelled"
    assert running.lease_is_free()


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
    assert both.run("delete-snapshot", "alarm", "before-v2").exit_code == 1

    # Run again, the update goes on with the driver that runs.
    launch = both.app.launch("v2")
    result = both.ok(*arguments(both))
    assert result.stdout == "alarm runs as deployment v2, in place of v1\n"
    assert both.app.launch("v2") == launch
    assert both.alive() == ["v2"] and place(both) == ("v2", 2, True)


def test_dropping_the_new_version_leaves_the_old_one_alone(both: Site) -> None:
    before = both.client.status("alarm")
    result = both.ok("rollback", "alarm")
    assert "is running, so it was not started again" in result.stdout
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
    assert both.run("rollback", "alarm", "--deployment", "v2").exit_code == 0, "nothing is left to do"
    assert both.app.update("v2") == record and len(both.app.rollbacks()) == 1


@pytest.mark.parametrize("drain", [(), ("--drain",)])
def test_cancel_ends_both_versions_and_the_update(both: Site, drain: tuple[str, ...]) -> None:
    result = both.ok("cancel", "alarm", *drain)
    assert result.stdout == "alarm is cancelled; ended: the drivers of v1, v2 and the update to v2\n"
    assert both.alive() == [] and both.record("v2").outcome == "cancelled"
    assert [both.client.deployment_state("alarm", name) for name in ("v1", "v2")] == ["cancelled", "cancelled"]
    result = both.run(*arguments(both, "--run-beside", "1h"))
    assert result.exit_code == 1 and both.alive() == [], "nothing of it is continued"
    assert both.run("restart", "alarm").exit_code == 0 and both.alive() == ["v1"]


def test_an_old_version_that_dies_comes_back_and_the_new_one_is_dropped(both: Site) -> None:
    both.crash("v1")
    result = both.run(*arguments(both))
    assert result.exit_code == 1 and "v1 runs again: the old version died: the driver of deployment v1" in result.stderr
    assert "run the update again" in result.stderr and "streamupdate restart" not in result.stderr, result.stderr
    assert both.alive() == ["v1"] and place(both) == ("v1", 2, True)


def test_a_new_version_that_does_not_catch_up_is_dropped(running: Site) -> None:
    result = running.run(*arguments(running, "--run-beside", "0.1", "--catch-up-timeout", "1", FAIL="stuck"))
    assert result.exit_code == 1
    assert (
        "v2 of alarm has not caught up with v1 within 1 s: query events has committed 0 of 2 batches" in result.stderr
    )
    assert "give it more time (--catch-up-timeout" in result.stderr
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
    result = both.ok(*arguments(both))
    assert "the log was compacted" in result.stderr, result.stderr


FUNCTION = {"format": "foreachBatch", "seen_batch": "adds"}


@pytest.mark.parametrize(
    ("sink", "args", "told"),
    [
        (FUNCTION, (), "query events writes with foreachBatch and has the same parameters as the"),
        (FUNCTION, ("--set", "path=/new"), "agree to it with --agree events:fork"),
    ],
)
def test_the_same_sink_is_refused(site: Site, sink: dict[str, Any], args: tuple[str, ...], told: str) -> None:
    site.ok("submit", site.application(SINK=sink), "--deployment", "v1")
    result = site.run(
        "update", site.application("v2", named=True, SINK=sink), "--deployment", "v2", "--strategy", "parallel", *args
    )
    assert result.exit_code == 1 and told in result.stderr, result.stderr
    assert site.alive() == site.app.deployment_ids() == ["v1"] and site.client.snapshots("alarm") == []


def test_a_rehearsal_before_is_one_of_a_fork(site: Site) -> None:
    site.ok("submit", site.application(SINK=FUNCTION), "--deployment", "v1")
    site.ok("save-snapshot", "alarm", "monday")
    agreed = ("--agree", "events:fork", "--set", "path=/new", "--rehearse", "1")
    site.ok(*arguments(site, *agreed, SINK=FUNCTION))
    assert "rehearse" in site.record("v2").step_times


def test_a_new_driver_that_died_meanwhile_is_started_again_under_a_number_of_its_own(both: Site) -> None:
    before = batch(both, "v2")
    both.crash("v2")
    both.ok(*arguments(both))
    assert place(both) == ("v2", 3, True) and batch(both, "v2") > before
    both.ok("rollback", "alarm")
    assert place(both) == ("v1", 4, True) and both.alive() == ["v1"]


@pytest.mark.parametrize(("at", "dies", "why"), [
    ("beside-asked", "v1", "the old version died"),
    ("old-drained", "v2", "deployment v2 of alarm is lost"),
])  # fmt: skip
def test_one_of_the_two_that_dies_ends_the_update(
    running: Site, monkeypatch: pytest.MonkeyPatch, at: str, dies: str, why: str
) -> None:
    """The new one has its own sinks: what the old version's last batch has written is not known there."""
    monkeypatch.setattr(parallel, "boundary", lambda name: running.crash(dies) if name == at else None)
    result = running.run(*arguments(running))
    assert result.exit_code == 1 and why in result.stderr and running.alive() == ["v1"], result.stderr
