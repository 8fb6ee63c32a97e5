"""A hot standby: a second driver of the same code that takes over when the first one dies. Drivers are the stand-in's,
and are killed for real."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.supervision.backoff import Backoff
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import commands, lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import hot_standby, supervision
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.serde import to_json

from .conftest import Site, document

SECONDS = 60.0
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


def until(true: Callable[[], object], what: str) -> None:
    deadline = clock.monotonic() + SECONDS
    while not true():
        assert clock.monotonic() < deadline, what
        clock.sleep(0.02)


def current(site: Site) -> Current:
    found = site.client.registry.app("alarm").current()
    assert found is not None
    return found


def batches(site: Site, deployment: str) -> list[int]:
    folder = site.client.registry.app("alarm").checkpoint(deployment, "events")
    return sorted(int(name) for name in folder.names("commits"))


def logged(site: Site, deployment: str) -> dict[int, bytes | None]:
    folder = site.client.registry.app("alarm").checkpoint(deployment, "events")
    return {int(name): folder.read(f"offsets/{name}") for name in folder.names("offsets")}


def reason(site: Site, deployment: str) -> str:
    status = site.client.registry.app("alarm").status(deployment)
    return str(status.reason if status else None)


def test_it_takes_over_when_the_driver_is_killed(hot: Site) -> None:
    told = document(hot.run("status", "alarm", "--json"))["hot_standby"]
    assert told["deployment"] == HOT and told["state"] == "standby"
    assert f"{HOT} is standby" in hot.run("status", "alarm").stdout
    before = current(hot)
    hot.crash("v1")
    until(lambda: current(hot).deployment == HOT, "it takes over")
    assert current(hot).epoch == before.epoch + 1 and current(hot).promoted is before.promoted
    last = max(batches(hot, "v1"))
    until(lambda: max(batches(hot, HOT)) > last, "it goes on")
    hot.client.wait_healthy("alarm")
    found = batches(hot, HOT)
    assert last in found and found == list(range(found[0], found[-1] + 1)), "no batch is left out"
    old, new = logged(hot, "v1"), logged(hot, HOT)
    assert all(new[n] == entry for n, entry in old.items() if n in new), "what had been logged was run as it was"
    assert hot.alive() == [HOT] and "took over from v1, which died" in reason(hot, HOT)
    assert hot.run("cancel", "alarm").exit_code == 0 and hot.alive() == []


def test_the_batch_that_was_in_flight_is_run_first(hot: Site) -> None:
    """Under the number and with the input that it had."""
    app = hot.client.registry.app("alarm")
    held = lease.acquire(app.folder, "v1", ProcessIdentity.own(), work="a test writes to its log")
    hot.crash("v1")
    checkpoint = Checkpoint(app.checkpoint("v1", "events"))
    last = checkpoint.committed_batch()
    assert last is not None
    entry = (checkpoint.folder.read(f"offsets/{last}") or b"").rsplit(b"\n", 1)[0] + b"\n123456"
    checkpoint.folder.write(f"offsets/{last + 1}", entry)
    lease.release(app.folder, held)
    until(lambda: current(hot).deployment == HOT, "it takes over")
    until(lambda: max(batches(hot, HOT)) > last + 1, "it goes on")
    assert logged(hot, HOT)[last + 1] == entry


def test_a_last_heartbeat_of_a_driver_before_is_no_silence_of_the_present_one(hot: Site) -> None:
    """A driver that was taken for dead goes on, and writes over the status of the one that was started in its place."""
    app = hot.client.registry.app("alarm")
    clock.sleep(40.0)
    status = app.status("v1")
    assert status is not None
    os.kill(status.pid, signal.SIGSTOP)
    app.folder.write("deployments/v1/status.json", to_json(attrs.evolve(status, epoch=0)))
    clock.sleep(5.0)
    os.kill(status.pid, signal.SIGCONT)
    clock.sleep(5.0)
    assert current(hot).deployment == "v1" and hot.alive() == ["v1", HOT]


def test_it_is_one_driver_and_asked_for_again_it_is_found(hot: Site) -> None:
    result = hot.run("standby", "on", "alarm", "--json")
    assert result.exit_code == 0 and document(result)["hot_standby"]["deployment"] == HOT
    assert hot.alive() == ["v1", HOT]


def test_it_is_switched_off(hot: Site) -> None:
    result = hot.run("standby", "off", "alarm")
    assert result.exit_code == 0 and hot.alive() == ["v1"]
    assert document(hot.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert document(hot.run("status", "alarm", "--json"))["hot_standby"] is None
    hot.crash("v1")
    assert hot.run("restart", "alarm").exit_code == 0 and current(hot).deployment == "v1"


def test_what_is_ended_or_suspended_on_request_is_not_taken_over(hot: Site) -> None:
    assert hot.run("suspend", "alarm").exit_code == 0
    before = current(hot)
    hot.crash("v1")
    until(lambda: hot.client.status("alarm").state == "lost", "its driver is gone")
    # it looks every 0.1 s: a heartbeat later it has seen that
    beat = hot.client.registry.app("alarm").status(HOT)
    until(lambda: hot.client.registry.app("alarm").status(HOT).beat > beat.beat + 5, "it looks on")  # type: ignore[union-attr]
    assert current(hot) == before
    assert hot.run("restart", "alarm").exit_code == 0, "it is started again in an epoch of its own"
    assert hot.alive() == ["v1", HOT], "and has its hot standby"
    hot.crash("v1")
    until(lambda: current(hot).deployment == HOT, "it takes over in the epoch after that")
    assert current(hot).epoch == before.epoch + 2


def test_what_was_asked_to_suspend_is_not_taken_over(hot: Site) -> None:
    """Its driver died before it came to it: found by an outside review."""
    folder = hot.client.registry.app("alarm").deployment_folder("v1")
    launch = hot.client.registry.app("alarm").launch("v1")
    assert launch is not None and launch.process is not None
    os.kill(launch.process.pid, signal.SIGSTOP)  # it does not come to its commands
    CommandBox(folder, current(hot).epoch).issue(commands.SUSPEND)
    hot.crash("v1")
    beat = hot.client.registry.app("alarm").status(HOT)
    until(lambda: hot.client.registry.app("alarm").status(HOT).beat > beat.beat + 5, "it looks on")  # type: ignore[union-attr]
    assert current(hot).deployment == "v1" and hot.alive() == [HOT]


@pytest.mark.slow
def test_it_takes_over_from_one_that_was_claimed_for_and_never_started(
    hot: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart died between the two: found by an outside review."""
    app = hot.client.registry.app("alarm")
    held = lease.acquire(app.folder, "v1", ProcessIdentity.own(), work="a restart")
    hot.crash("v1")
    assert app.claim(Current(deployment="v1", epoch=current(hot).epoch + 1))
    lease.release(app.folder, held)
    until(lambda: current(hot).deployment == HOT, "it takes over")


def test_it_ends_with_the_app(hot: Site) -> None:
    assert hot.run("cancel", "alarm", "--drain").exit_code == 0
    until(lambda: hot.alive() == [], "it ends")
    seen = str(hot.client.registry.app("alarm").cancellation())
    assert seen.startswith("cancelled by ")
    assert reason(hot, HOT) in ("cancelled while it stood by", seen)  # told by a command, or seen at a look


def test_it_leaves_an_app_alone_that_is_not_to_be_supervised(hot: Site) -> None:
    assert hot.run("supervise", "alarm", "--off", "the topic is moved").exit_code == 0
    hot.crash("v1")
    beat = hot.client.registry.app("alarm").status(HOT)
    until(lambda: hot.client.registry.app("alarm").status(HOT).beat > beat.beat + 5, "it looks on")  # type: ignore[union-attr]
    assert current(hot).deployment == "v1"
    assert hot.run("supervise", "alarm", "--on").exit_code == 0
    until(lambda: current(hot).deployment == HOT, "it takes over")


@pytest.mark.parametrize("strategy", ["restart", "standby", "follow"])
def test_an_update_ends_it(hot: Site, strategy: str) -> None:
    result = hot.run("update", hot.application("v2"), "--deployment", "v2", "--strategy", strategy)
    assert result.exit_code == 0, result.stderr
    until(lambda: hot.alive() == ["v2"], "it ends")
    assert current(hot).deployment == "v2" and re.search(
        "v1, which it stood by for, (was replaced|is cancelled)", reason(hot, HOT)
    )


def test_during_an_update_it_waits(hot: Site) -> None:
    """Whoever works on the update ends it or rolls it back."""
    client = StreamUpdateClient(hot.client.root, SparkSubmit())
    client.begin_update("alarm", "v2", strategy="standby")
    hot.crash("v1")
    beat = client.registry.app("alarm").status(HOT)
    until(lambda: client.registry.app("alarm").status(HOT).beat > beat.beat + 5, "it looks on")  # type: ignore[union-attr]
    assert current(hot).deployment == "v1"
    assert hot.run("rollback", "alarm").exit_code == 0
    until(lambda: hot.client.status("alarm").state == "running", "somebody runs it")


def test_while_another_process_works_on_the_app_it_waits(hot: Site) -> None:
    folder = hot.client.registry.app("alarm").folder
    held = lease.acquire(folder, "v1", ProcessIdentity.own(), work="a test looks at it")
    hot.crash("v1")
    beat = hot.client.registry.app("alarm").status(HOT)
    until(lambda: hot.client.registry.app("alarm").status(HOT).beat > beat.beat + 5, "it looks on")  # type: ignore[union-attr]
    assert current(hot).deployment == "v1"
    lease.release(folder, held)
    until(lambda: current(hot).deployment == HOT, "it takes over")


def test_a_rollback_after_it_took_over_goes_to_the_version_before(running: Site) -> None:
    assert running.run("update", running.application("v2"), "--deployment", "v2").exit_code == 0
    assert running.run("standby", "on", "alarm").exit_code == 0
    running.crash("v2")
    until(lambda: current(running).deployment == "v2-standby-1", "it takes over")
    running.client.wait_healthy("alarm")
    assert "none yet: the one before took over" in running.run("status", "alarm").stdout
    assert document(running.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert running.alive() == ["v2-standby-1"], "it is the app"
    result = running.run("rollback", "alarm")
    assert result.exit_code == 0, result.stderr
    assert current(running).deployment == "v1" and running.alive() == ["v1"]


def test_one_that_dies_as_it_starts_is_told_and_the_app_runs_on(running: Site) -> None:
    name = f"deployments/v1/application/{running.application().name}"
    folder = running.client.registry.app("alarm").folder
    folder.write(name, (folder.read(name) or b"") + b"FAIL = 'follow'\n")
    result = running.run("standby", "on", "alarm")
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "hot standby v1-standby-1 of alarm is failed" in text
    assert "alarm runs without one; correct the cause and run streamupdate standby on alarm again" in text
    until(lambda: running.alive() == ["v1"], "it ends")


def test_other_parameters_end_it(hot: Site) -> None:
    app = hot.application(RELOADABLE=["mark"])
    result = hot.run("update", app, "--strategy", "in_flight", "--set", "mark=two")
    assert result.exit_code == 0, result.stderr
    until(lambda: hot.alive() == ["v1"], "it ends")
    assert "the parameters of v1 were changed" in reason(hot, HOT)


def test_a_supervisor_starts_the_next_one(hot: Site) -> None:
    told: list[str] = []
    client, end = StreamUpdateClient(hot.client.root, SparkSubmit()), threading.Event()
    backoff = Backoff()

    def work() -> None:
        client.supervise((), backoff, 0.1, 60.0, told.append, end=end)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        hot.crash("v1")
        until(lambda: hot.alive() == [HOT, "v1-standby-2"], "it takes over, and has one of its own")
        until(lambda: any("v1-standby-2 stands by" in line for line in told), "it tells so")
        assert current(hot) == attrs.evolve(current(hot), deployment=HOT)
        assert supervision.read(client.registry.app("alarm").folder).attempts == 0, "nothing was started again"
        hot.crash(HOT)
        until(lambda: current(hot).deployment == "v1-standby-2", "and so on")
    finally:
        end.set()
        thread.join(60)
    assert not thread.is_alive()


def test_what_cannot_have_one_is_told_so(running: Site, site: Site) -> None:
    def refused(*args: str) -> str:
        result = running.run("standby", *args)
        assert result.exit_code in (1, 2), result.stdout
        return str(result.stderr)

    assert "no app 'other'" in refused("on", "other")
    assert "'maybe' is not one of 'on', 'off'" in refused("maybe", "alarm")
    client = StreamUpdateClient(running.client.root, SparkSubmit())
    client.begin_update("alarm", "v2", strategy="standby")
    assert "is under way" in refused("on", "alarm")
    client.rollback("alarm")
    assert running.run("cancel", "alarm").exit_code == 0
    assert "app alarm is cancelled (deployment v1); only an app that runs can have" in refused("on", "alarm")
    assert running.alive() == []


def test_one_that_is_not_named_ends(hot: Site) -> None:
    folder = hot.client.registry.app("alarm").folder
    wanted = hot_standby.read(folder)
    assert wanted is not None
    folder.write(hot_standby.PATH, to_json(attrs.evolve(wanted, deployment="other", asked_at=clock.now())))
    until(lambda: hot.alive() == ["v1"], "it ends")
    assert "it is not to stand by any more" in reason(hot, HOT)


def test_its_driver_dies_and_the_app_runs_on(hot: Site) -> None:
    hot.crash(HOT)
    told: dict[str, Any] = document(hot.run("status", "alarm", "--json"))["hot_standby"]
    assert told["state"] == "lost"
    assert hot.run("standby", "on", "alarm").exit_code == 0
    assert hot.alive() == ["v1", "v1-standby-2"]


def test_a_deployment_with_a_long_name_has_one(site: Site) -> None:
    """Found from outside: with the suffix the name was too long."""
    assert site.run("submit", site.application(), "--deployment", "v" * 196).exit_code == 0
    site.client.wait_healthy("alarm")
    result = site.run("standby", "on", "alarm")
    assert result.exit_code == 0, result.stderr
    assert site.run("standby", "off", "alarm").exit_code == 0
