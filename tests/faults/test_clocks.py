"""Clocks that are set, and machines whose clocks differ: who lives is not called lost, and keeps its lease."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control import app_lease as holding_module
from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.drivers import drivers as drivers_module
from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters import Living
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import LeaseHeldError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import SILENT_SECONDS
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.core.builders import deploy, set_status, status

from .conftest import MINUTES_AHEAD, Stranger

SetClock = Callable[[float], None]
AHEAD = MINUTES_AHEAD * 60.0
STEPS = pytest.mark.parametrize("step", [-2.0, AHEAD, -AHEAD])


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    app = Registry(str(tmp_path)).app("flights")
    deploy(app)
    return app


@pytest.fixture
def drivers(app: AppRegistry, tmp_path: Path) -> Drivers:
    return Drivers(app, None, str(tmp_path), {})


@STEPS
def test_a_driver_s_process_is_known_after_the_clock_was_set(
    app: AppRegistry, drivers: Drivers, tmp_path: Path, set_clock: SetClock, step: float
) -> None:
    launch = process.start(["sleep", "600"], os.environ, tmp_path / "log", 1, lambda made: app.set_launch("v1", made))
    try:
        assert launch.process is not None
        set_status(app, "v1", status(host=launch.host, pid=launch.pid, process=launch.process))
        set_clock(step)
        assert process.alive(launch) is True is Living()(launch)
        assert drivers.state("v1") == "running" and not drivers.has_ended("v1")
    finally:
        drivers.kill("v1")
    assert drivers.state("v1") == "lost" and drivers.has_ended("v1")


@STEPS
def test_a_living_holder_keeps_its_lease_after_the_clock_was_set(
    app: AppRegistry, stranger: Stranger, set_clock: SetClock, step: float
) -> None:
    other = stranger()
    lease.acquire(app.folder, "v2", ProcessIdentity.of(other.pid))
    set_clock(step)
    for owner in ("v2", "v3"):
        with pytest.raises(LeaseHeldError, match="v2"), holding(app, owner):
            pass
    other.kill()
    other.wait()
    with holding(app, "v3"):  # at once: its process is seen to be gone
        pass


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Heartbeats come five times as often, and are waited for a tenth of the time."""
    monkeypatch.setattr(drivers_module, "SILENT_SECONDS", SILENT_SECONDS / 10)
    monkeypatch.setattr(holding_module, "WATCH_SECONDS", 2.0)
    return


@pytest.mark.usefixtures("impatient")
def test_a_holder_elsewhere_keeps_its_lease_while_it_renews_it(
    app: AppRegistry, stranger: Stranger, monkeypatch: pytest.MonkeyPatch, set_clock: SetClock, elsewhere: SetClock
) -> None:
    """This machine's clock is ahead by more than the lease is held for."""
    held = lease.acquire(app.folder, "v2", ProcessIdentity.of(stranger().pid))
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.3):
            lease.renew(app.folder, attrs.evolve(held))

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        set_clock(AHEAD)
        elsewhere()  # type: ignore[call-arg]
        for owner in ("v2", "v3"):
            with pytest.raises(LeaseHeldError, match="v2"), holding(app, owner):
                pass
    finally:
        over.set()
        renewing.join()
    with holding(app, "v3"):  # nobody renews it any more, and it is not needed
        pass


@pytest.mark.parametrize("machine", ["this one", "another one"])
@pytest.mark.usefixtures("impatient")
def test_an_update_between_two_steps_keeps_its_lease(
    app: AppRegistry, set_clock: SetClock, elsewhere: SetClock, machine: str
) -> None:
    """No process renews it then: its age is told by the time since boot, or by the storage's clock."""
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now()))
    with holding(app, "v2"):
        pass
    set_clock(AHEAD)
    if machine == "another one":
        elsewhere()  # type: ignore[call-arg]
    with pytest.raises(LeaseHeldError, match="v2 holds the lease until"), holding(app, "v3"):
        pass
    assert lease.held(app.folder, lease.read(app.folder))


def test_an_update_that_nobody_went_on_with_gives_the_app_back_by_the_storage_s_clock(
    app: AppRegistry, set_clock: SetClock, elsewhere: SetClock
) -> None:
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now()))
    with holding(app, "v2"):
        pass
    elsewhere()  # type: ignore[call-arg]
    set_clock(AHEAD)
    found = lease.read(app.folder)
    assert found is not None
    path, old = app.folder.path(f"lease/{found.number}.json"), time.time() - AHEAD
    os.utime(path, (old, old))
    with holding(app, "v3"):
        pass
