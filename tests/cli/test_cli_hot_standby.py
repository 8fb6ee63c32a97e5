"""A hot standby: a second driver of the same code that takes over when the first one dies."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import commands, lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import hot_standby
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.serde import to_json
from tests.begun_updates import begin_update

from .another import client_of
from .conftest import Site, document, until

HOT = "v1-standby-1"


@pytest.fixture
def running(site: Site) -> Site:
    site.submit(RELOADABLE=["mark"])
    site.client.wait_healthy("alarm")
    return site


@pytest.fixture
def hot(running: Site) -> Site:
    running.ok("standby", "on", "alarm")
    assert running.alive() == ["v1", HOT]
    return running


def reason(site: Site, deployment: str) -> str:
    status = site.app.status(deployment)
    return str(status.reason if status else None)


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
    hot.ok("standby", "on", "alarm")
    assert hot.alive() == [HOT, "v1-standby-2"]
    hot.ok("cancel", "alarm")
    assert hot.alive() == []


def test_it_is_one_driver_and_is_switched_off(hot: Site) -> None:
    assert document(hot.ok("standby", "on", "alarm", "--json"))["hot_standby"]["deployment"] == HOT
    assert hot.alive() == ["v1", HOT]
    hot.ok("standby", "off", "alarm")
    assert hot.alive() == ["v1"]
    assert document(hot.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert document(hot.run("status", "alarm", "--json"))["hot_standby"] is None


def test_what_cannot_have_one_is_told_so(running: Site) -> None:
    assert "no app 'other'" in running.refused("standby", "on", "other")
    assert "'maybe' is not one of 'on', 'off'" in running.refused("standby", "maybe", "alarm", code=2)
    begin_update(client_of(running), "alarm", "v2", strategy="standby")
    assert "is under way" in running.refused("standby", "on", "alarm")
    client_of(running).rollback("alarm")
    running.ok("cancel", "alarm")
    told = running.refused("standby", "on", "alarm")
    assert "app alarm is cancelled (deployment v1); only an app that runs can have" in told
    assert running.alive() == []


def change(site: Site) -> None:
    site.ok("update", site.application(RELOADABLE=["mark"]), "--strategy", "in_flight", "--set", "mark=2")


def name_another(site: Site) -> None:
    wanted = hot_standby.read(site.app.folder)
    assert wanted is not None
    site.app.folder.write(hot_standby.PATH, to_json(attrs.evolve(wanted, deployment="other")))


@pytest.mark.parametrize(
    ("work", "alive", "why"),
    [
        (lambda site: site.update("v2"), "v2", "was replaced|is cancelled"),
        (change, "v1", "the parameters of v1 were changed"),
        (name_another, "v1", "it is not to stand by any more"),
        (lambda site: site.run("cancel", "alarm", "--drain"), "", "cancelled by|cancelled while it stood by"),
    ],
)
def test_it_ends_when_it_is_not_needed_any_more(
    hot: Site, work: Callable[[Site], object], alive: str, why: str
) -> None:
    work(hot)
    until(lambda: hot.alive() == alive.split(), "it ends")
    assert re.search(why, reason(hot, HOT)), reason(hot, HOT)


def told_to_suspend(site: Site) -> None:
    """Its driver dies before it comes to it: found by an outside review."""
    site.signal("v1", signal.SIGSTOP)
    CommandBox(site.app.deployment_folder("v1"), 1).issue(commands.SUSPEND)
    site.crash("v1")


def switched_off(site: Site) -> None:
    site.ok("supervise", "alarm", "--off", "the topic is moved")
    site.crash("v1")


def at_work(site: Site) -> None:
    lease.acquire(site.app.folder, "v1", ProcessIdentity.own(), work="a test looks at it")
    site.crash("v1")


def updating(site: Site) -> None:
    """Whoever works on the update ends it or rolls it back."""
    begin_update(client_of(site), "alarm", "v2", strategy="standby")
    site.crash("v1")


def release(site: Site) -> None:
    held = lease.read(site.app.folder)
    assert held is not None
    lease.release(site.app.folder, held)


@pytest.mark.parametrize(
    ("work", "then", "runs"),
    [
        (told_to_suspend, lambda site: site.run("restart", "alarm"), "v1"),
        (switched_off, lambda site: site.run("supervise", "alarm", "--on"), HOT),
        (at_work, release, HOT),
        (updating, lambda site: site.run("rollback", "alarm"), "v1"),
    ],
)
def test_it_leaves_a_dead_driver_to_those_who_decide_about_the_app(
    hot: Site, work: Callable[[Site], object], then: Callable[[Site], object], runs: str
) -> None:
    work(hot)
    before = hot.current
    clock.sleep(5.0)
    assert hot.current == before and HOT in hot.alive()
    then(hot)
    until(lambda: hot.client.status("alarm").state == "running", "somebody runs it")
    assert hot.current.deployment == runs


def test_it_runs_the_batch_that_was_in_flight_first_and_takes_over_from_one_that_never_started(hot: Site) -> None:
    """Under the number and with the input that it had. Found by an outside review: a restart died after its claim."""
    held = lease.acquire(hot.app.folder, "v1", ProcessIdentity.own(), work="a restart")
    hot.crash("v1")
    checkpoint = Checkpoint(hot.app.checkpoint("v1", "events"))
    last = checkpoint.committed_batch()
    assert last is not None
    entry = (checkpoint.folder.read(f"offsets/{last}") or b"").rsplit(b"\n", 1)[0] + b"\n123456"
    checkpoint.folder.write(f"offsets/{last + 1}", entry)
    assert hot.app.claim(Current(deployment="v1", epoch=hot.current.epoch + 1))
    lease.release(hot.app.folder, held)
    until(lambda: hot.current.deployment == HOT, "it takes over")
    until(lambda: hot.commits(HOT)[-1] > last + 1, "it goes on")
    assert hot.app.checkpoint(HOT, "events").read(f"offsets/{last + 1}") == entry


def test_the_one_after_it_has_a_number_of_its_own_and_a_rollback_goes_to_the_version_before(running: Site) -> None:
    long = "v" * 190
    file = running.application("v2", RELOADABLE=["mark"])
    running.ok("update", file, "--deployment", long)
    running.ok("standby", "on", "alarm")
    first = running.alive()[-1]
    assert first == f"{'v' * 150}-standby-1"
    running.crash(first)
    assert document(running.run("status", "alarm", "--json"))["hot_standby"]["state"] == "lost"
    running.ok("standby", "on", "alarm")
    second = running.alive()[-1]
    assert second == f"{'v' * 150}-standby-2"
    running.crash(long)
    until(lambda: running.current.deployment == second, "it takes over")
    running.client.wait_healthy("alarm")
    assert document(running.run("status", "alarm", "--json"))["hot_standby"]["took_over"] is True
    assert document(running.run("standby", "off", "alarm", "--json"))["ended"] is None, "it is the app"
    running.ok("rollback", "alarm")
    assert running.alive() == ["v1"]


def test_one_that_dies_as_it_starts_is_told_and_the_app_runs_on(running: Site) -> None:
    name = f"deployments/v1/application/{running.application().name}"
    running.app.folder.write(name, (running.app.folder.read(name) or b"") + b"FAIL = 'follow'\n")
    text = running.refused("standby", "on", "alarm")
    assert "hot standby v1-standby-1 of alarm is failed" in text
    assert "alarm runs without one; correct the cause and run streamupdate standby on alarm again" in text
    until(lambda: running.alive() == ["v1"], "it ends")
