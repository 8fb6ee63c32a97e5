"""A hot standby: a second driver of the same code that takes over when the first one dies."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import commands, lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import hot_standby
from airflow_provider_streamupdate.core.serde import to_json

from .another import client_of
from .conftest import Site, document, until

HOT = "v1-standby-1"


@pytest.fixture
def running(site: Site) -> Site:
    assert site.run("submit", site.application(RELOADABLE=["mark"]), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    return site


@pytest.fixture
def hot(running: Site) -> Site:
    result = running.run("standby", "on", "alarm")
    assert result.exit_code == 0, result.stderr
    assert running.alive() == ["v1", HOT]
    return running


def reason(site: Site, deployment: str) -> str:
    status = site.app.status(deployment)
    return str(status.reason if status else None)


def hold_lease(site: Site) -> Callable[[], None]:
    """Work on the app, in this process, until the result is called."""
    held = lease.acquire(site.app.folder, "v1", ProcessIdentity.own(), work="a test looks at it")
    return lambda: lease.release(site.app.folder, held)


def test_it_takes_over_when_the_driver_is_killed(hot: Site) -> None:
    told = document(hot.run("status", "alarm", "--json"))["hot_standby"]
    assert told["deployment"] == HOT and told["state"] == "standby"
    assert f"{HOT} is standby" in hot.run("status", "alarm").stdout
    before = hot.current
    hot.crash("v1")
    until(lambda: hot.current.deployment == HOT, "it takes over")
    assert hot.current.epoch == before.epoch + 1 and hot.current.promoted is before.promoted
    last = hot.commits("v1")[-1]
    until(lambda: hot.commits(HOT)[-1] > last, "it goes on")
    hot.client.wait_healthy("alarm")
    found = hot.commits(HOT)
    assert last in found and found == list(range(found[0], found[-1] + 1)), "no batch is left out"
    assert hot.alive() == [HOT] and "took over from v1, which died" in reason(hot, HOT)
    assert hot.run("cancel", "alarm").exit_code == 0 and hot.alive() == []


def test_a_last_heartbeat_of_a_driver_before_is_no_silence_of_the_present_one(hot: Site) -> None:
    """A driver that was taken for dead goes on, and writes over the status of the one that was started in its place."""
    app = hot.app
    clock.sleep(40.0)
    status = app.status("v1")
    assert status is not None
    os.kill(status.pid, signal.SIGSTOP)
    app.folder.write("deployments/v1/status.json", to_json(attrs.evolve(status, epoch=0)))
    clock.sleep(5.0)
    os.kill(status.pid, signal.SIGCONT)
    clock.sleep(5.0)
    assert hot.current.deployment == "v1" and hot.alive() == ["v1", HOT]


def test_it_is_one_driver_and_is_switched_off(hot: Site) -> None:
    again = hot.run("standby", "on", "alarm", "--json")
    assert again.exit_code == 0 and document(again)["hot_standby"]["deployment"] == HOT
    assert hot.alive() == ["v1", HOT]
    assert hot.run("standby", "off", "alarm").exit_code == 0 and hot.alive() == ["v1"]
    assert document(hot.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert document(hot.run("status", "alarm", "--json"))["hot_standby"] is None


def suspend(site: Site) -> Callable[[], object]:
    assert site.run("suspend", "alarm").exit_code == 0
    return lambda: site.run("restart", "alarm")


def ask_to_suspend(site: Site) -> Callable[[], object]:
    """Its driver dies before it comes to it: found by an outside review."""
    launch = site.app.launch("v1")
    assert launch is not None and launch.process is not None
    os.kill(launch.process.pid, signal.SIGSTOP)
    CommandBox(site.app.deployment_folder("v1"), site.current.epoch).issue(commands.SUSPEND)
    return lambda: site.run("restart", "alarm")


def switch_off(site: Site) -> Callable[[], object]:
    assert site.run("supervise", "alarm", "--off", "the topic is moved").exit_code == 0
    return lambda: site.run("supervise", "alarm", "--on")


@pytest.mark.parametrize("does", [suspend, ask_to_suspend, switch_off, hold_lease])
def test_it_leaves_the_app_alone(hot: Site, does: Callable[[Site], Callable[[], object]]) -> None:
    before, undo = hot.current, does(hot)
    hot.crash("v1")
    until(lambda: hot.client.status("alarm").state == "lost", "its driver is gone")
    beat = hot.app.status(HOT).beat  # type: ignore[union-attr]
    until(lambda: hot.app.status(HOT).beat > beat + 5, "it looks on")  # type: ignore[union-attr]
    assert hot.current == before
    undo()
    until(lambda: hot.client.status("alarm").state == "running", "somebody runs it")


def name_another(site: Site) -> None:
    wanted = hot_standby.read(site.app.folder)
    assert wanted is not None
    other = attrs.evolve(wanted, deployment="other", asked_at=clock.now())
    site.app.folder.write(hot_standby.PATH, to_json(other))


def change_parameters(site: Site) -> None:
    app = site.application(RELOADABLE=["mark"])
    result = site.run("update", app, "--strategy", "in_flight", "--set", "mark=two")
    assert result.exit_code == 0, result.stderr


def update_with(strategy: str) -> Callable[[Site], None]:
    def update(site: Site) -> None:
        result = site.run("update", site.application("v2"), "--deployment", "v2", "--strategy", strategy)
        assert result.exit_code == 0, result.stderr

    return update


@pytest.mark.parametrize(
    ("does", "left", "told"),
    [
        (name_another, ["v1"], "it is not to stand by any more"),
        (change_parameters, ["v1"], "the parameters of v1 were changed"),
        (lambda site: site.run("cancel", "alarm", "--drain"), [], "cancelled (while it stood by|by )"),
        (update_with("restart"), ["v2"], "v1, which it stood by for, (was replaced|is cancelled)"),
        (update_with("standby"), ["v2"], "v1, which it stood by for, (was replaced|is cancelled)"),
    ],
)
def test_what_ends_it(hot: Site, does: Callable[[Site], object], left: list[str], told: str) -> None:
    does(hot)
    until(lambda: hot.alive() == left, "it ends")
    assert re.search(told, reason(hot, HOT))


def test_a_rollback_after_it_took_over_goes_to_the_version_before(running: Site) -> None:
    assert running.run("update", running.application("v2"), "--deployment", "v2").exit_code == 0
    assert running.run("standby", "on", "alarm").exit_code == 0
    running.crash("v2")
    until(lambda: running.current.deployment == "v2-standby-1", "it takes over")
    running.client.wait_healthy("alarm")
    assert "none yet: the previous one took over" in running.run("status", "alarm").stdout
    assert document(running.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert running.alive() == ["v2-standby-1"], "it is the app"
    result = running.run("rollback", "alarm")
    assert result.exit_code == 0, result.stderr
    assert running.current.deployment == "v1" and running.alive() == ["v1"]


def test_what_cannot_have_one_is_told_so(running: Site) -> None:
    def refused(*args: str) -> str:
        result = running.run("standby", *args)
        assert result.exit_code in (1, 2), result.stdout
        return str(result.stderr)

    assert "no app 'other'" in refused("on", "other")
    assert "'maybe' is not one of 'on', 'off'" in refused("maybe", "alarm")
    client_of(running).begin_update("alarm", "v2", strategy="standby")
    assert "is under way" in refused("on", "alarm")
    client_of(running).rollback("alarm")
    assert running.run("cancel", "alarm").exit_code == 0
    assert "app alarm is cancelled (deployment v1); only an app that runs can have" in refused("on", "alarm")
    assert running.alive() == []
