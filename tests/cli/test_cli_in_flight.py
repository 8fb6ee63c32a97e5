"""`update --strategy in_flight`, with a stand-in for Spark (tests/airflow/standin_spark_submit.py); tests/spark has a
real driver's."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.update import engine
from airflow_provider_streamupdate.control.update.strategies import in_flight
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.registry.deployment import RUNNING

from .conftest import Site, document

SUBMITTED = ("--set", "threshold=5", "--set", "path=/in", "--conf", "spark.x=1", "--master", "local[2]")


def submitted(site: Site, **constants: object) -> Site:
    """App alarm runs as deployment v1."""
    application = site.application(RELOADABLE=["threshold", "trigger"], **constants)
    assert site.run("submit", application, "--deployment", "v1", *SUBMITTED).exit_code == 0
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
    held = lease.read(registry.folder)
    assert held is not None and not lease.held(registry.folder, held)


def test_what_is_not_given_stays_as_it_is(running: Site) -> None:
    """Old behaviour: refused, "these differ: the Spark configuration, the Spark master"; and a parameter that was not
    given was gone."""
    result = running.run("update", running.application(RELOADABLE=["threshold", "trigger"]), "--strategy", "in_flight",
                         "--set", "threshold=7")  # fmt: skip
    assert result.exit_code == 0 and "parameter threshold: 5 -> 7" in result.stderr, result.stderr
    assert "the other parameters and settings are those of v1" in result.stderr
    assert params(running) == {"threshold": "7", "path": "/in"}
    result = running.run("update", running.application("v2"), "--deployment", "v2", "--unset", "path", "--set", "new=1")
    assert result.exit_code == 0 and "parameter path: /in -> not given" in result.stderr, result.stderr
    spec = running.client.status("alarm").spec
    assert spec is not None and spec.application.params == {"threshold": "7", "new": "1"}
    assert (spec.application.master, spec.application.conf) == ("local[2]", {"spark.x": "1"})
    missing = running.run("update", running.application("v3"), "--unset", "path")
    assert missing.exit_code == 2 and "v2 of alarm has no such value (it has: conf=spark.x, new, " in missing.stderr
    alone = running.run("update", running.application("v3"), "--deployment", "v3", "--reset")
    assert alone.exit_code == 0 and "parameter new: 1 -> not given" in alone.stderr
    assert params(running) == {} and running.alive() == ["v3"]


def test_a_driver_that_is_started_later_has_the_changed_parameters(running: Site) -> None:
    assert change(running, *changed("threshold=7")).exit_code == 0
    running.run("update", running.application("v2"), "--deployment", "v2")
    assert running.run("rollback", "alarm").exit_code == 0
    assert running.alive() == ["v1"] and params(running)["threshold"] == "7"
    # The digest is that of the application with these parameters, so that a release of it is known to run.
    digest = running.client.status("alarm").spec.digest
    assert change(running, *changed("threshold=7")).exit_code == 0
    assert running.app.changes("v1")[-1].request.digest == digest


@pytest.mark.parametrize(
    ("args", "constants", "reason"),
    [
        (changed("path=/other"), {}, "parameter path cannot change in flight: the app declares threshold, trigger"),
        (changed("threshold=7", "new=1"), {}, "parameter new cannot change in flight"),
        (("--master", "yarn"), {}, "deployment's: the Spark master (local[2], now yarn); leave out what is to stay"),
        ((*changed("threshold=7"), "--conf", "spark.x=2"), {}, "the Spark configuration (spark.x is 1, now 2)"),
        ((*changed("threshold=7"), "--env", "A=1"), {}, "deployment's: the environment"),
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


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_driver_that_dies_is_started_again_with_the_old_parameters(site: Site, dies: str) -> None:
    submitted(site, DIES=dies)
    result = change(site, *changed("threshold=7"), DIES=dies)
    assert result.exit_code == 1 and "was rolled back; v1 runs again" in document(result)["error"]["message"]
    assert params(site)["threshold"] == "5" and site.alive() == ["v1"]
    assert len(site.app.changes("v1")) == (2 if dies == "after" else 0)
    current = site.client.status("alarm").current
    assert current is not None and current.epoch == 2


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_rollback_that_was_cut_short_is_completed(
    site: Site, monkeypatch: pytest.MonkeyPatch, dies: str, runs: bool
) -> None:
    """The driver that it has started is starting, or runs, when the update is run again."""
    registry = submitted(site, DIES=dies).client.registry.app("alarm")

    def crash(drivers: Drivers, deployment: str, timeout: float) -> None:
        if runs:
            drivers.wait_for_states(deployment, (RUNNING,), timeout)
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(Drivers, "wait_running", crash)
        assert change(site, *changed("threshold=7"), DIES=dies).exit_code == 130
    made = len(registry.changes("v1"))
    result = change(site, *changed("threshold=7"), DIES=dies)
    assert result.exit_code == 1 and "was being rolled back" in document(result)["error"]["message"]
    [record], [rollback] = registry.updates(), registry.rollbacks()
    assert record.outcome == "rolled-back" and rollback.epoch == 2 and rollback.ended_at is not None
    assert params(site)["threshold"] == "5" and site.alive() == ["v1"]
    assert len(registry.changes("v1")) == made and site.current.epoch == 2


def test_a_change_that_was_cut_short_is_continued(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    registry = running.app
    for module, step, changes in ((in_flight, "change", 0), (engine, "promote", 1)):
        with monkeypatch.context() as crashing:
            crashing.setattr(module, step, crash)
            assert change(running, *changed("threshold=7")).exit_code == 130
        assert len(registry.changes("v1")) == changes
    assert change(running, *changed("threshold=7")).exit_code == 0
    [record] = registry.updates()
    assert record.outcome == "promoted" and len(registry.changes("v1")) == 1


def test_a_change_that_went_wrong_later_is_rolled_back_by_its_id(running: Site) -> None:
    record = document(change(running, *changed("threshold=7")))
    result = running.run("rollback", "alarm", "--deployment", record["new"])
    assert result.exit_code == 0, result.stderr
    assert params(running)["threshold"] == "5" and running.alive() == ["v1"]
    assert running.current.epoch == 1


def test_a_change_whose_way_back_failed_is_still_rolled_back(running: Site) -> None:
    """The driver has taken the way back, too, back: its query failed in the first batch."""
    record = document(change(running, *changed("threshold=7")))
    registry = running.client.registry.app("alarm")
    [made] = registry.changes("v1")
    back = attrs.evolve(made.request, id=f"{record['new']}-undo", params=made.before, digest=made.digest_before)
    registry.add_change("v1", back)
    registry.add_change("v1", attrs.evolve(made.request, id=back.id), undoes="the storage failed")
    assert params(running)["threshold"] == "7"
    result = running.run("rollback", "alarm", "--deployment", record["new"])
    assert result.exit_code == 0, result.stderr
    assert params(running)["threshold"] == "5"
