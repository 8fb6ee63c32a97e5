"""`update --strategy in_flight`, with a stand-in for Spark (tests/airflow/standin_spark_submit.py); tests/spark has a
real driver's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import in_flight
from airflow_provider_streamupdate.core.registry.application import Application

from .another import killed_at
from .conftest import Site, document, until

SUBMITTED = ("--set", "threshold=5", "--set", "path=/in", "--conf", "spark.x=1", "--master", "local[2]")


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1."""
    site.submit("v1", *SUBMITTED, RELOADABLE=["threshold", "trigger"])
    return site


def change(site: Site, *args: str, code: int = 0, version: str = "v1") -> Any:
    """Change the running version; the record of the update, or its error."""
    application = site.application(version, RELOADABLE=["threshold", "trigger"])
    found = document(site.ok("update", application, "--strategy", "in_flight", *args, "--json", code=code))
    return found["error"] if code else found


def changed(*settings: str) -> tuple[str, ...]:
    """All that was submitted, with other values."""
    return (*SUBMITTED, *(word for pair in settings for word in ("--set", pair)))


def params(site: Site) -> dict[str, str]:
    spec = site.client.status("alarm").spec
    assert spec is not None
    return spec.application.params


def test_reloadable_parameters_change_without_a_new_deployment(running: Site) -> None:
    before = running.client.status("alarm")
    record = change(running, *changed("threshold=7", "trigger=1 minute"))
    assert (record["outcome"], record["strategy"], record["old"]) == ("promoted", "in_flight", "v1")
    after = running.client.status("alarm")
    assert (after.current.deployment, after.current.epoch, after.launch) == ("v1", 1, before.launch)
    assert params(running) == {"threshold": "7", "path": "/in", "trigger": "1 minute"}
    registry = running.app
    assert registry.deployment_ids() == ["v1"] and running.client.snapshots("alarm") == []
    [made] = registry.changes("v1")
    assert made.changed == {"threshold": ("5", "7"), "trigger": (None, "1 minute")}
    assert made.request.id == record["new"] and "@" in made.request.asked_by
    shown = running.run("status", "alarm").stdout
    assert "changed in flight" in shown and "threshold: 5 -> 7, trigger: not given -> 1 minute" in shown
    assert running.lease_is_free()


def test_what_is_not_given_stays_as_it_is(running: Site) -> None:
    """Old behaviour: refused, "these differ: the Spark configuration, the Spark master"; and a parameter that was not
    given was gone."""
    file = running.application(RELOADABLE=["threshold", "trigger"])
    told = running.ok("update", file, "--strategy", "in_flight", "--set", "threshold=7").stderr
    assert "parameter threshold: 5 -> 7" in told and "the other parameters and settings are those of v1" in told
    assert params(running) == {"threshold": "7", "path": "/in"}
    told = running.update("v2", "--unset", "path", "--set", "new=1").stderr
    assert "parameter path: /in -> not given" in told
    spec = running.client.status("alarm").spec
    assert spec is not None and spec.application.params == {"threshold": "7", "new": "1"}
    assert (spec.application.master, spec.application.conf) == ("local[2]", {"spark.x": "1"})
    missing = running.refused("update", running.application("v3"), "--unset", "path", code=2)
    assert "v2 of alarm has no such value (it has: conf=spark.x, new, " in missing
    assert "parameter new: 1 -> not given" in running.update("v3", "--reset").stderr
    assert params(running) == {} and running.alive() == ["v3"]


@pytest.mark.parametrize(
    ("args", "version", "reason"),
    [
        (changed("path=/other"), "v1", "parameter path cannot change in flight: the app declares threshold, trigger"),
        (("--master", "yarn"), "v1", "deployment's: the Spark master (local[2], now yarn); leave out what is to stay"),
        (changed("threshold=7"), "v2", "deployment's: the code"),
    ],
)
def test_what_else_differs_is_refused_before_anything_is_written(
    running: Site, args: tuple[str, ...], version: str, reason: str
) -> None:
    error = change(running, *args, code=1, version=version)
    assert error["type"] == "RefusedError" and reason in error["message"]
    assert running.app.changes("v1") == [] and running.app.updates() == [] and running.alive() == ["v1"]


def test_parameters_under_which_a_query_fails_are_taken_back(running: Site) -> None:
    told = change(running, *changed("threshold=bad"), code=1)["message"]
    assert "failed with these parameters and continues with the old ones: ValueError: bad" in told
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"]
    made, back = running.app.changes("v1")
    assert made.undoes is None and back.undoes == "ValueError: bad"
    change(running, *changed("threshold=7"))


def dies(site: Site, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """The driver does when it is told to change: before it has recorded the change, or after that."""

    def die(name: str) -> None:
        if name == "change-asked":
            if after:
                until(lambda: site.app.changes("v1"), "the change is made")
            site.crash("v1")

    monkeypatch.setattr(in_flight, "boundary", die)


@pytest.mark.parametrize("after", [False, True])
def test_a_driver_that_dies_is_started_again_with_the_old_parameters(
    running: Site, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    digest = running.app.spec("v1").digest
    dies(running, monkeypatch, after)
    assert "was rolled back; v1 runs again" in change(running, *changed("threshold=7"), code=1)["message"]
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"] and running.current.epoch == 2
    assert [made.undoes for made in running.app.changes("v1")] == ([None, "rolled back"] if after else [])
    assert running.client.status("alarm").spec.digest == digest


@pytest.mark.parametrize("at", ["rollback-noted", "old-runs"])
@pytest.mark.parametrize("after", [False, True])
def test_one_that_was_being_rolled_back_is_not_made_again(
    running: Site, monkeypatch: pytest.MonkeyPatch, after: bool, at: str
) -> None:
    """Its process died then, and the same command is run again."""
    file = running.application(RELOADABLE=["threshold", "trigger"])
    given = {"params": {"threshold": "7"}, "conf": {}, "env_vars": {}}
    options = UpdateOptions(application=Application(file=str(file), **given), strategy="in_flight")
    with monkeypatch.context() as dying:
        dies(running, dying, after)
        killed_at(running, at, lambda client: client.update(options))
    assert "was being rolled back" in change(running, "--set", "threshold=7", code=1)["message"]
    [record], [rollback] = running.app.updates(), running.app.rollbacks()
    assert record.outcome == "rolled-back" and rollback.ended_at is not None and rollback.epoch == 2
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"]


def test_a_change_is_taken_back_later_by_its_id_while_its_driver_obeys(running: Site) -> None:
    record = change(running, *changed("threshold=7"))
    change(running, *changed("threshold=7"))
    assert len(running.app.changes("v1")) == 1
    running.ok("suspend", "alarm")
    refused = running.refused("rollback", "alarm", "--deployment", record["new"])
    assert "v1 of alarm is suspended, so its change in flight cannot" in refused
    assert params(running)["threshold"] == "7"
    running.ok("resume", "alarm")
    running.ok("rollback", "alarm", "--deployment", record["new"])
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"] and running.current.epoch == 1


def test_a_snapshot_is_no_start_of_a_change(running: Site) -> None:
    running.ok("save-snapshot", "alarm", "s1")
    told = change(running, *changed("threshold=7"), "--snapshot", "s1", code=2)["message"]
    assert "leave the snapshot out" in told
