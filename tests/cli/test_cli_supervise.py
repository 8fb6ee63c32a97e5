"""`supervise`: what is started again, what is left alone, and what is said of it. The rules are tests/core's."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.operations import hot_standby
from airflow_provider_streamupdate.control.supervision import supervise, watch
from airflow_provider_streamupdate.control.supervision.decision import Backoff
from airflow_provider_streamupdate.control.supervision.supervise import GaveUp
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import commands
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.errors import DriverError, LeaseHeldError, StorageError, StreamUpdateError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import supervision
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.supervision import Supervision

from .another import client_of
from .conftest import Site, document, next_steps, until


@contextmanager
def supervised(site: Site, told: list[str], backoff: Backoff = Backoff()) -> Iterator[list[GaveUp]]:  # noqa: B008
    """A supervisor at work."""
    client, end, gave_up = client_of(site), threading.Event(), list[GaveUp]()

    def work() -> None:
        client.supervise((), backoff, 0.1, 60.0, told.append, gave_up.append, end=end)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield gave_up
    finally:
        end.set()
        thread.join(60)
        assert not thread.is_alive()


def terminate(site: Site) -> None:
    """As an orderly shutdown of the machine does."""
    site.signal("v1", signal.SIGTERM)
    until(lambda: site.alive() == [], "the driver lives")


def tell(site: Site, command: str) -> Callable[[], object]:
    """A command to the driver; the result answers it, with an error or without."""
    box = CommandBox(site.app.deployment_folder("v1"), 1)
    more = {"snapshot": "s1", "cancel": True} if command == commands.SNAPSHOT else {}
    name = box.issue(command, **more)  # type: ignore[arg-type]
    return lambda error=None: box.answer(name, error)


def dies_after_its_answer(site: Site, command: str) -> None:
    """Between its answer and its last word."""
    site.crash("v1")
    tell(site, command)()


def hangs_and_is_killed(site: Site) -> None:
    site.signal("v1", signal.SIGSTOP)
    tell(site, commands.CANCEL)
    site.crash("v1")


def is_told_to_end_and_terminated(site: Site) -> None:
    tell(site, commands.CANCEL)
    terminate(site)
    assert site.client.status("alarm").state == "cancelled"


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (is_told_to_end_and_terminated, 0),
        (lambda site: dies_after_its_answer(site, commands.CANCEL), 1),
        (lambda site: dies_after_its_answer(site, commands.SNAPSHOT), 1),
        (lambda site: [site.ok("suspend", "alarm"), site.crash("v1")], 1),
        (hangs_and_is_killed, 1),
    ],
)
def test_what_was_ended_on_request_is_never_started(running: Site, ended: Callable[[Site], object], code: int) -> None:
    ended(running)
    before = running.current
    result = running.ok("supervise", "--once", code=code)
    assert running.current == before
    assert ("died after it was told to end, or suspended" in result.stderr) is (code == 1)


def test_supervision_is_switched_off_for_a_reason_and_on_again(running: Site) -> None:
    running.crash("v1")
    for args, code in ((("--off", "x"), 2), (("alarm", "--off", " "), 2), (("nosuch", "--off", "x"), 1)):
        running.ok("supervise", *args, code=code)
    running.ok("supervise", "alarm", "--off", "the topic is moved")
    running.ok("supervise", "--once")
    assert running.current.epoch == 1
    assert supervision.off(running.app.folder).reason == "the topic is moved"
    running.ok("supervise", "alarm", "--on")
    result = running.ok("supervise", "--once", "--json")
    assert document(result) == [] and running.current.epoch == 2
    assert "alarm: its driver is lost; starting it again" in result.stderr


def test_a_crash_loop_ends_and_says_why(running: Site) -> None:
    app = running.app
    file = app.folder.path_here / "deployments" / "v1" / "application" / "v1.py"  # type: ignore[operator]
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")  # what the driver reads, changed behind its back
    running.crash("v1")
    told: list[str] = []
    with supervised(running, told, Backoff(initial=0.1, most=0.2, attempts=3)) as gave_up:
        until(lambda: gave_up, "it was not given up", 60)
        at = running.current.epoch
    assert at == 4 and [g.app for g in gave_up] == ["alarm"]
    assert "after 3 starts in a row, none of which recovered" in gave_up[0].reason
    last = next(line for line in told if "crash loop" in line)
    assert "Mend the cause, then run streamupdate restart alarm" in last
    for name, text in next_steps(running.run, "alarm").items():
        assert re.search(r"in a crash loop since 20.* UTC, and supervisors leave it alone: its driver", text), name
        assert "after 3 starts in a row, none of which recovered" in text, name
        assert "streamupdate restart alarm continues from its own checkpoint" in text, name
    starts = supervision.read(app.folder)
    assert (starts.attempts, starts.limit) == (3, 3)
    assert starts.gave_up and clock.age(starts.gave_up_at) < 60 and clock.age(starts.started_at) < 60
    assert [g["app"] for g in document(running.ok("supervise", "--once", "--json", code=1))] == ["alarm"]
    assert running.current.epoch == at, "it is left alone"


def test_one_supervisor_watches_and_another_stands_by(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    app, other = running.app, ProcessIdentity.of(os.getppid())
    first = watch.take(app)
    assert watch.take(app) == first, "renewed only now and then"
    with monkeypatch.context() as patched:
        patched.setattr(ProcessIdentity, "own", lambda: other)
        with pytest.raises(LeaseHeldError, match=r"process \d+ on .* supervises alarm already; this one stands by"):
            watch.take(app)
        running.crash("v1")
        result = running.run("supervise", "--once")
        assert "supervises alarm already" in result.stderr and running.current.epoch == 1
    watch.leave(app)
    monkeypatch.setattr(ProcessIdentity, "own", lambda: other)
    assert watch.take(app).number == first.number + 1


def test_a_start_that_cannot_be_made_is_not_counted(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    running.crash("v1")

    def fail(*_: object, **__: object) -> None:
        raise StreamUpdateError("the cluster takes nothing")

    with monkeypatch.context() as patched:
        patched.setattr(Drivers, "start", fail)
        result = running.ok("supervise", "--once", "--json", code=1)
    assert "the cluster takes nothing" in document(result)[0]["reason"]
    assert supervision.read(running.app.folder).attempts == 0
    running.ok("supervise", "--once")
    assert running.current.epoch == 2


def test_a_killed_driver_is_back_each_time_once_it_has_recovered(running: Site) -> None:
    told: list[str] = []
    with supervised(running, told, Backoff(initial=0.1, most=0.1, attempts=1, reset_after=0.2)) as gave_up:
        for epoch in (2, 3):
            running.crash("v1")
            until(lambda: any(f"alarm runs again as v1 (epoch {epoch})" in line for line in told), "no start")  # noqa: B023
            until(lambda: supervision.read(running.app.folder).attempts == 0, "no recovery")
            assert any("alarm has recovered" in line for line in told)
    assert gave_up == [] and running.alive() == ["v1"]


def test_an_app_that_cannot_be_looked_at_stops_no_other(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = running.client.registry.app("aaa").folder
    for file in ("current.json", "deployments/v1/spec.json"):
        bad.write(file, b"{")
    running.crash("v1")
    assert "aaa cannot be looked at: " in running.refused("supervise", "--once") and running.alive() == ["v1"]

    def gone(_: Registry) -> list[str]:
        raise StorageError("the root is gone")

    with monkeypatch.context() as patched:
        patched.setattr(Registry, "apps", gone)
        assert "the apps cannot be listed: the root is gone" in running.run("supervise", "--once").stderr
    bad.remove("")


def test_a_hot_standby_that_cannot_be_started_is_tried_again_later_and_later(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead driver whose standby does not take over is started again."""
    running.ok("standby", "on", "alarm")
    running.crash("v1-standby-1")
    tried: list[float] = []

    def refuse(*_: Any, **__: Any) -> None:
        tried.append(clock.monotonic())
        raise DriverError("the cluster takes nothing")

    monkeypatch.setattr(hot_standby, "_store", refuse)
    told: list[str] = []
    with supervised(running, told, Backoff(initial=2.0, most=100.0)):
        until(lambda: len(tried) == 3, "it is tried again")
    delays = [after - before for before, after in itertools.pairwise(tried)]
    assert 2 <= delays[0] < 3 and 4 <= delays[1] < 5
    assert "alarm has no hot standby: the cluster takes nothing. The next one is started in 2 s" in told


def test_a_standby_that_does_not_take_over_is_not_waited_for(running: Site) -> None:
    running.ok("standby", "on", "alarm")
    running.signal("v1-standby-1", signal.SIGSTOP)
    running.crash("v1")
    began = clock.monotonic()
    with supervised(running, []):
        until(lambda: running.current.epoch == 2, "it is started again")
    assert clock.monotonic() - began >= supervise.TAKEOVER_SECONDS and running.current.deployment == "v1"


def test_what_changes_before_a_start_counts(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    running.crash("v1")
    real = supervise.restart

    def later(*arguments: Any, **options: Any) -> Any:
        supervision.switch(running.app.folder, "not now")
        return real(*arguments, **options)

    monkeypatch.setattr(supervise, "restart", later)
    assert "alarm was not started" in running.run("supervise", "--once").stderr
    assert running.current.epoch == 1


def test_the_next_start_is_noted_and_one_in_the_future_is_of_a_clock_that_was_set(running: Site) -> None:
    running.crash("v1")
    ahead = Supervision(attempts=2, epoch=1, started_at="2100-01-01T00:00:00+00:00")
    supervision.write(running.app.folder, ahead)
    running.ok("supervise", "--once", "--initial-backoff", "7", "--max-backoff", "9", "--attempts", "4")
    assert running.current.epoch == 2
    known = supervision.read(running.app.folder)
    seconds = (clock.parse(known.next_start_at) - clock.parse(known.started_at)).total_seconds()
    assert (known.attempts, known.limit, seconds) == (3, 4, 9)
