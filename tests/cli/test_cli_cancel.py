"""`cancel` of an app whose driver is dead: it counts as cancelled, and no supervisor starts it again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.operations import stop
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.core.builders import deploy

from .conftest import Run, Site, document


@pytest.fixture
def running(site: Site) -> Site:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    return site


def end(site: Site, how: str) -> None:
    if how == "lost":
        site.crash("v1")
    else:
        app = site.client.registry.app("alarm")
        file = app.folder.path_here / "deployments" / "v1" / "application" / "v1.py"  # type: ignore[operator]
        file.write_text(file.read_text() + "\nFAIL = 'run'\n")
        site.crash("v1")
        site.run("restart", "alarm")
        wait_for(lambda: site.client.status("alarm").state == how or None, "the failure", 60)
    assert site.client.status("alarm").state == how


def supervised_once(site: Site) -> tuple[int, Any]:
    result = site.run("supervise", "--once", "--json")
    return result.exit_code, document(result)


@pytest.mark.parametrize("drain", [(), ("--drain",)])
@pytest.mark.parametrize("how", ["lost", "failed"])
def test_a_dead_app_that_is_cancelled_stays_down(running: Site, how: str, drain: tuple[str, ...]) -> None:
    end(running, how)
    epoch = running.client.registry.app("alarm").current()
    result = running.run("cancel", "alarm", *drain)
    assert (result.exit_code, result.stdout) == (0, "alarm is cancelled\n"), result.output
    assert supervised_once(running) == (0, [])
    assert running.client.registry.app("alarm").current() == epoch and running.alive() == []
    status = document(running.run("status", "alarm", "--json"))
    assert (status["state"], status["next_step"]) == ("cancelled", None)
    [listed] = document(running.run("list", "--json"))
    assert (listed["state"], listed["next_step"]) == ("cancelled", None)
    again = running.run("cancel", "alarm", *drain)
    assert again.exit_code == 1 and "is cancelled); nothing to cancel" in again.stderr


def test_restart_starts_it_again_and_supervision_goes_on(running: Site) -> None:
    end(running, "lost")
    assert running.run("cancel", "alarm").exit_code == 0
    assert running.run("restart", "alarm").exit_code == 0
    assert running.client.status("alarm").state == "running"
    running.crash("v1")
    assert supervised_once(running) == (0, [])
    assert running.client.status("alarm").state == "running"


def test_a_snapshot_with_cancel_of_a_dead_app_ends_it_as_well(running: Site) -> None:
    end(running, "lost")
    assert running.run("save-snapshot", "alarm", "last", "--cancel").exit_code == 0
    assert running.client.status("alarm").state == "cancelled"
    assert supervised_once(running) == (0, [])


def test_a_driver_that_fails_while_it_drains_counts_as_cancelled(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CommandBox.issue

    def issue(box: CommandBox, *arguments: Any, **options: Any) -> str:
        running.crash("v1")
        return real(box, *arguments, **options)

    monkeypatch.setattr(CommandBox, "issue", issue)
    assert running.run("cancel", "alarm", "--drain").stdout == "alarm is cancelled\n"
    assert supervised_once(running) == (0, [])


def test_an_app_that_is_just_started_again_is_cancelled_once_it_shows(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has the lease, and its driver does not show yet: cancel waits for it."""
    end(running, "lost")
    waits, go_on = threading.Event(), threading.Event()
    real = Drivers.start

    def start(drivers: Drivers, *arguments: Any, **options: Any) -> Any:
        waits.set()
        assert go_on.wait(60)
        return real(drivers, *arguments, **options)

    monkeypatch.setattr(Drivers, "start", start)
    client = StreamUpdateClient(running.client.root, SparkSubmit())
    supervisor = threading.Thread(target=lambda: client.supervise(once=True))
    supervisor.start()
    assert waits.wait(60)
    app = running.client.registry.app("alarm")
    before = stop.count_as_cancelled

    def count(*arguments: Any) -> bool:
        """The threads of a process count as one holder of the lease."""
        if not go_on.is_set():
            latest = lease.read(app.folder)
            assert latest is not None and lease.held(app.folder, latest)
            go_on.set()
            wait_for(lambda: app.launch("v1").epoch == 2 or None, "the start", 60)  # type: ignore[union-attr]
        return before(*arguments)

    monkeypatch.setattr(stop, "count_as_cancelled", count)
    assert running.run("cancel", "alarm").stdout == "alarm is cancelled\n"
    supervisor.join(60)
    assert app.current() == Current(deployment="v1", epoch=2) and running.alive() == []
    assert supervised_once(running) == (0, []) and app.current() == Current(deployment="v1", epoch=2)


def test_who_holds_the_app_for_long_is_named(run: Run, root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app = failed(root)
    monkeypatch.setattr(stop, "CLAIM_SECONDS", 0.1)
    lease.acquire(app.folder, "v2", ProcessIdentity.of(1))
    result = run("cancel", "flights", "--json")
    assert result.exit_code == 1 and document(result)["error"]["type"] == "LeaseHeldError"
    assert app.launch("v1").cancelled_at is None  # type: ignore[union-attr]


def test_during_an_update_that_goes_first(run: Run, root: Any) -> None:
    app = failed(root)
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now()))
    result = run("cancel", "flights", "--json")
    assert result.exit_code == 1
    error = document(result)["error"]
    assert error["type"] == "LeaseHeldError" and "during an update to v2" in error["message"]
    assert "streamupdate rollback flights; then cancel" in error["message"]
    assert not app.folder.exists("deployments/v1/commands")
    assert app.launch("v1").cancelled_at is None  # type: ignore[union-attr]


def failed(root: Any) -> AppRegistry:
    app = Registry(str(root)).app("flights")
    deploy(app, state="failed")
    return app
