"""`cancel` of an app whose driver is dead: it counts as cancelled, and no supervisor starts it again."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.users import user_and_host
from tests.core.builders import deploy

from .conftest import Run, Site, document


def end(site: Site, how: str) -> None:
    if how == "lost":
        site.crash("v1")
    else:
        app = site.app
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
    epoch = running.app.current()
    result = running.ok("cancel", "alarm", *drain)
    assert result.stdout.startswith("alarm is cancelled; "), result.output
    cancelled = running.app.current()
    assert epoch and cancelled and (cancelled.deployment, cancelled.epoch) == ("v1", epoch.epoch + 1)
    assert supervised_once(running) == (0, [])
    assert running.app.current() == cancelled and running.alive() == []
    status = document(running.run("status", "alarm", "--json"))
    assert (status["state"], status["next_step"]) == ("cancelled", None)
    [listed] = document(running.run("list", "--json"))
    assert (listed["state"], listed["next_step"]) == ("cancelled", None)
    again = running.run("cancel", "alarm", *drain)
    assert (again.exit_code, again.stdout) == (0, "alarm is cancelled; no driver of it ran\n"), again.stderr
    assert running.app.current() == cancelled


def test_a_drain_that_takes_too_long_is_1_and_goes_on_until_somebody_cancels_at_once(site: Site) -> None:
    site.ok("submit", site.application(DRAIN_SECONDS=100.0), "--deployment", "v1")
    slow = site.run("cancel", "alarm", "--drain", "--drain-timeout", "1", "--json")
    assert slow.exit_code == 1 and document(slow)["error"]["type"] == "WaitTimeoutError" and site.alive() == ["v1"]
    began = clock.monotonic()
    assert site.run("cancel", "alarm").exit_code == 0 and site.alive() == []
    assert clock.monotonic() - began < 30


def test_a_cancellation_at_once_waits_for_no_batch(site: Site) -> None:
    site.ok("submit", site.application(DRAIN_SECONDS=100.0), "--deployment", "v1")
    began = clock.monotonic()
    assert site.run("cancel", "alarm").exit_code == 0 and site.alive() == []
    assert clock.monotonic() - began < 10, "it was told so, and not killed in the end"


def test_a_snapshot_with_cancel_of_a_dead_app_ends_it_as_well(running: Site) -> None:
    end(running, "lost")
    running.ok("save-snapshot", "alarm", "last", "--cancel")
    assert running.client.status("alarm").state == "cancelled"
    assert supervised_once(running) == (0, [])


def test_an_update_that_no_process_works_on_ends_with_the_app(run: Run, root: Any) -> None:
    app = failed(root)
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now()))
    result = run("cancel", "flights")
    assert result.stdout == "flights is cancelled; ended: the update to v2\n", result.stderr
    record = app.update("v2")
    assert record is not None and record.outcome == "cancelled" and record.ended_at is not None
    assert record.reason == str(app.cancellation()) and user_and_host() in record.reason


def failed(root: Any) -> AppRegistry:
    app = Registry(str(root)).app("flights")
    deploy(app, state="failed")
    return app
