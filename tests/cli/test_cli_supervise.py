"""`supervise`, with drivers of the stand-in for Spark, which are killed for real."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.supervision import watch
from airflow_provider_streamupdate.control.supervision.backoff import Backoff
from airflow_provider_streamupdate.control.supervision.supervise import GaveUp
from airflow_provider_streamupdate.core.errors import LeaseHeldError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import supervision

from .conftest import Site, document

BACK = 30.0  # seconds in which a driver has to run again


@pytest.fixture
def running(site: Site) -> Site:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    return site


def until(true: Callable[[], object], what: str, seconds: float = BACK) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def epoch(site: Site) -> int:
    current = site.client.registry.app("alarm").current()
    assert current is not None
    return current.epoch


def runs(site: Site, in_epoch: int) -> bool:
    status = site.client.status("alarm")
    return status.state == "running" and status.status is not None and status.status.epoch == in_epoch


@contextmanager
def supervised(site: Site, told: list[str], backoff: Backoff = Backoff()) -> Iterator[list[GaveUp]]:  # noqa: B008
    """A supervisor at work."""
    client = StreamUpdateClient(site.client.root, SparkSubmit())
    end, gave_up = threading.Event(), list[GaveUp]()

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


def test_a_killed_driver_is_back_and_goes_on_where_it_was(running: Site) -> None:
    told: list[str] = []
    quick = Backoff(initial=0.1, most=0.1, attempts=100, reset_after=0.2)
    with supervised(running, told, quick):
        for number in range(3):
            before = running.client.status("alarm").status
            running.crash("v1")
            until(lambda n=number: runs(running, n + 2), "no driver was started")
            status = running.client.wait_healthy("alarm").status
            assert status is not None and before is not None
            assert status.queries["events"].first_batch > before.queries["events"].batch
            assert running.alive() == ["v1"]
            until(lambda: supervision.read(running.client.registry.app("alarm").folder).attempts == 0, "no recovery")
    assert told[0].startswith("alarm: its driver is lost; starting it again")
    assert any(line.startswith("alarm runs again as v1 (epoch 2)") for line in told)


@pytest.mark.parametrize("ended", ["cancel", "suspend"])
def test_what_was_ended_on_request_is_never_started(running: Site, ended: str) -> None:
    assert running.run(ended, "alarm").exit_code == 0
    result = running.run("supervise", "--once", "--json")
    assert result.exit_code == 0 and document(result) == []
    assert epoch(running) == 1


def test_once_starts_what_is_dead(running: Site) -> None:
    running.crash("v1")
    result = running.run("supervise", "--once", "--json")
    assert result.exit_code == 0 and document(result) == []
    assert "alarm: its driver is lost; starting it again (start 1 in a row)" in result.stderr
    assert running.client.status("alarm").state == "running" and epoch(running) == 2


def test_supervision_is_switched_off_for_a_reason_and_on_again(running: Site) -> None:
    running.crash("v1")
    assert running.run("supervise", "--off", "x").exit_code == 2
    assert running.run("supervise", "alarm", "--off", " ").exit_code == 2
    assert running.run("supervise", "nosuch", "--off", "x").exit_code == 1
    assert running.run("supervise", "alarm", "--off", "the topic is moved").exit_code == 0
    assert running.run("supervise", "--once").exit_code == 0 and epoch(running) == 1
    assert supervision.read(running.client.registry.app("alarm").folder).off == "the topic is moved"
    assert running.run("supervise", "alarm", "--on").exit_code == 0
    assert running.run("supervise", "--once").exit_code == 0 and epoch(running) == 2


def test_a_crash_loop_ends_and_says_why(running: Site) -> None:
    app = running.client.registry.app("alarm")
    file = app.folder.path_here / "deployments" / "v1" / "application" / "v1.py"  # type: ignore[operator]
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")  # what the driver reads, changed behind its back
    running.crash("v1")
    told: list[str] = []
    with supervised(running, told, Backoff(initial=0.1, most=0.2, attempts=3)) as gave_up:
        until(lambda: gave_up, "it was not given up", 60)
        at = epoch(running)
    assert at == 4 and [g.app for g in gave_up] == ["alarm"]
    assert "after 3 starts in a row, none of which recovered" in gave_up[0].reason
    last = next(line for line in told if "crash loop" in line)
    assert "Mend the cause, then run streamupdate restart alarm" in last
    again = running.run("supervise", "--once", "--json")
    assert again.exit_code == 1 and [g["app"] for g in document(again)] == ["alarm"]
    assert epoch(running) == at, "it is left alone"


def test_one_supervisor_watches_and_another_stands_by(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    app, other = running.client.registry.app("alarm"), ProcessIdentity.of(os.getppid())
    first = watch.take(app)
    assert watch.take(app) == first, "renewed only now and then"
    with monkeypatch.context() as patched:
        patched.setattr(ProcessIdentity, "own", lambda: other)
        with pytest.raises(LeaseHeldError, match=r"process \d+ on .* supervises alarm already; this one stands by"):
            watch.take(app)
        running.crash("v1")
        result = running.run("supervise", "--once")
        assert "supervises alarm already" in result.stderr and epoch(running) == 1
    watch.leave(app)
    monkeypatch.setattr(ProcessIdentity, "own", lambda: other)
    assert watch.take(app).number == first.number + 1
