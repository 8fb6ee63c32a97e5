"""`update --strategy in_flight`, with a stand-in for Spark (tests/airflow/standin_spark_submit.py); tests/spark has a
real driver's."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import in_flight
from airflow_provider_streamupdate.core.registry.application import Application

from .another import killed_at
from .conftest import Site, document, until

SUBMITTED = ("--set", "threshold=5", "--set", "path=/in", "--conf", "spark.x=1", "--master", "local[2]")


def submitted(site: Site, **constants: object) -> Site:
    """App alarm runs as deployment v1."""
    application = site.application(RELOADABLE=["threshold", "trigger"], **constants)
    site.ok("submit", application, "--deployment", "v1", *SUBMITTED)
    return site


@pytest.fixture
def running(site: Site) -> Site:
    return submitted(site)


def change(site: Site, *args: str, **constants: object):
    application = site.application(RELOADABLE=["threshold", "trigger"], **constants)
    return site.run("update", application, "--strategy", "in_flight", *args, "--json")


def changed(*settings: str) -> tuple[str, ...]:
    """All that was submitted, with other values."""
    return (*SUBMITTED, *(word for pair in settings for word in ("--set", pair)))


def params(site: Site) -> dict[str, str]:
    spec = site.client.status("alarm").spec
    assert spec is not None
    return spec.application.params


def test_reloadable_parameters_change_without_a_new_deployment(running: Site) -> None:
    before = running.client.status("alarm")
    record = document(change(running, *changed("threshold=7", "trigger=1 minute")))
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
    assert "changed in flight" in shown and "threshold: 5 -> 7, trigger: None -> 1 minute" in shown
    assert running.lease_is_free()


def test_what_is_not_given_stays_as_it_is(running: Site) -> None:
    """Old behaviour: refused, "these differ: the Spark configuration, the Spark master"; and a parameter that was not
    given was gone."""
    result = running.run("update", running.application(RELOADABLE=["threshold", "trigger"]), "--strategy", "in_flight",
                         "--set", "threshold=7")  # fmt: skip
    assert result.exit_code == 0 and "parameter threshold: 5 -> 7" in result.stderr, result.stderr
    assert "the other parameters and settings are those of v1" in result.stderr
    assert params(running) == {"threshold": "7", "path": "/in"}
    result = running.ok("update", running.application("v2"), "--deployment", "v2", "--unset", "path", "--set", "new=1")
    assert "parameter path: /in -> not given" in result.stderr, result.stderr
    spec = running.client.status("alarm").spec
    assert spec is not None and spec.application.params == {"threshold": "7", "new": "1"}
    assert (spec.application.master, spec.application.conf) == ("local[2]", {"spark.x": "1"})
    missing = running.run("update", running.application("v3"), "--unset", "path")
    assert missing.exit_code == 2 and "v2 of alarm has no such value (it has: conf=spark.x, new, " in missing.stderr
    alone = running.ok("update", running.application("v3"), "--deployment", "v3", "--reset")
    assert "parameter new: 1 -> not given" in alone.stderr
    assert params(running) == {} and running.alive() == ["v3"]


@pytest.mark.parametrize(
    ("args", "constants", "reason"),
    [
        (changed("path=/other"), {}, "parameter path cannot change in flight: the app declares threshold, trigger"),
        (("--master", "yarn"), {}, "deployment's: the Spark master (local[2], now yarn); leave out what is to stay"),
        (changed("threshold=7"), {"version": "v2"}, "deployment's: the code"),
    ],
)
def test_what_else_differs_is_refused_before_anything_is_written(
    running: Site, args: tuple[str, ...], constants: dict[str, str], reason: str
) -> None:
    result = change(running, *args, **constants)
    assert result.exit_code == 1
    error = document(result)["error"]
    assert error["type"] == "RefusedError" and reason in error["message"]
    registry = running.app
    assert registry.changes("v1") == [] and registry.updates() == []
    assert running.alive() == ["v1"]


def test_parameters_under_which_a_query_fails_are_taken_back(running: Site) -> None:
    result = change(running, *changed("threshold=bad"))
    assert result.exit_code == 1
    assert (
        "failed with these parameters and continues with the old ones: ValueError: bad"
        in document(result)["error"]["message"]
    )
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"]
    made, back = running.app.changes("v1")
    assert made.undoes is None and back.undoes == "ValueError: bad"
    assert change(running, *changed("threshold=7")).exit_code == 0


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
    result = change(running, *changed("threshold=7"))
    assert result.exit_code == 1 and "was rolled back; v1 runs again" in document(result)["error"]["message"]
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
    result = change(running, "--set", "threshold=7")
    assert result.exit_code == 1 and "was being rolled back" in document(result)["error"]["message"], result.output
    [record], [rollback] = running.app.updates(), running.app.rollbacks()
    assert record.outcome == "rolled-back" and rollback.ended_at is not None and rollback.epoch == 2
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"]


def test_a_change_is_taken_back_later_by_its_id_while_its_driver_obeys(running: Site) -> None:
    record = document(change(running, *changed("threshold=7")))
    assert change(running, *changed("threshold=7")).exit_code == 0 and len(running.app.changes("v1")) == 1
    running.ok("suspend", "alarm")
    refused = running.run("rollback", "alarm", "--deployment", record["new"])
    assert refused.exit_code == 1 and "v1 of alarm is suspended, so its change in flight cannot" in refused.stderr
    assert params(running)["threshold"] == "7"
    running.ok("resume", "alarm")
    running.ok("rollback", "alarm", "--deployment", record["new"])
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"] and running.current.epoch == 1


def test_a_snapshot_is_no_start_of_a_change(running: Site) -> None:
    running.ok("save-snapshot", "alarm", "s1")
    result = change(running, *changed("threshold=7"), "--snapshot", "s1")
    assert result.exit_code == 2 and "leave the snapshot out" in document(result)["error"]["message"]
