"""`cancel` of an app whose driver is dead: it counts as cancelled, and no supervisor starts it again."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.stop import claim_cancellation
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.update import Update
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.deployment import Cancellation
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import Outcome, UpdateRecord
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
    result = running.run("cancel", "alarm", *drain)
    assert result.exit_code == 0 and result.stdout.startswith("alarm is cancelled; "), result.output
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
    assert running.run("cancel", "alarm", "--drain").stdout == "alarm is cancelled; ended: the driver of v1\n"
    assert supervised_once(running) == (0, [])


def test_an_update_that_no_process_works_on_ends_with_the_app(run: Run, root: Any) -> None:
    app = failed(root)
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now()))
    result = run("cancel", "flights")
    assert result.stdout == "flights is cancelled; ended: the update to v2\n", result.stderr
    record = app.update("v2")
    assert record is not None and record.outcome == "cancelled" and record.ended_at is not None
    assert record.reason == str(app.cancellation()) and user_and_host() in record.reason


@pytest.mark.parametrize("fails", [True, False])
def test_an_update_that_a_cancellation_has_ended_starts_nothing(
    running: Site, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Its process stood still, so that whoever cancelled took it for dead and recorded its end."""
    app = running.client.registry.app("alarm")

    check = UpdateEngine._check

    def stands_still(engine: UpdateEngine, update: Update) -> Any:
        claim_cancellation(app, Cancellation(by="somebody", at=clock.now(), drain=True))
        wait_for(lambda: running.alive() == [] or None, "the end of v1", 60)
        record = app.update("v2")
        assert record is not None
        app.set_update(attrs.evolve(record, outcome=Outcome.CANCELLED, ended_at=clock.now()))
        if fails:
            raise StreamUpdateError("a step failed")
        return check(engine, update)

    monkeypatch.setattr(UpdateEngine, "_check", stands_still)
    result = running.run("update", running.application("v2"), "--deployment", "v2", "--strategy", "restart")
    assert result.exit_code == 1 and "alarm was cancelled by somebody" in result.stderr
    assert running.alive() == [] and app.cancellation() is not None
    assert running.run("rollback", "alarm", "--deployment", "v2").exit_code == 0, "a person asks for the start"
    assert running.alive() == ["v1"]


def test_an_update_that_another_process_of_it_has_taken_back_goes_no_further(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, check = running.client.registry.app("alarm"), UpdateEngine._check

    def meanwhile(engine: UpdateEngine, update: Update) -> Any:
        report, record = check(engine, update), app.update("v2")
        assert record is not None
        app.set_update(attrs.evolve(record, outcome=Outcome.REFUSED, ended_at=clock.now()))
        return report

    monkeypatch.setattr(UpdateEngine, "_check", meanwhile)
    result = running.run("update", running.application("v2"), "--deployment", "v2", "--strategy", "restart")
    assert result.exit_code == 1 and "the update of alarm to v2 has ended (refused)" in result.stderr
    assert running.alive() == ["v1"] and running.client.status("alarm").state == "running"
    assert CommandBox(app.deployment_folder("v1"), 1).pending() == []


def failed(root: Any) -> AppRegistry:
    app = Registry(str(root)).app("flights")
    deploy(app, state="failed")
    return app
