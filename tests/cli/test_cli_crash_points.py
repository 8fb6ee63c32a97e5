"""What an earlier try or driver has left is not taken for today's: a stale heartbeat, a snapshot's name, a standby that
is gone. All other crash points are drawn by tests/simulation."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import commands
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.errors import AlreadyExistsError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.update import Step
from airflow_provider_streamupdate.core.serde import to_json
from tests.begun_updates import begin_update

from .another import client_of, killed_at
from .conftest import Site


def begun(site: Site, told: list[str] | None = None, **options: Any) -> tuple[UpdateEngine, Any]:
    """An update to v2 that has begun, and its engine."""
    application = Application(file=str(site.application("v2")))
    asked = UpdateOptions(application=application, deployment="v2", **options)
    engine = UpdateEngine(client_of(site).context, asked, (told if told is not None else []).append)
    return engine, engine.begin()


@pytest.mark.parametrize("state", ["running", "failed"])
def test_a_heartbeat_of_an_earlier_driver_says_nothing_of_the_one_started_now(running: Site, state: str) -> None:
    """Whether it looks alive or ended, and however old its time."""
    running.update("v2")
    registry = running.app
    left = registry.status("v1")
    assert left is not None
    for age in (0.0, 86400.0):
        stale = attrs.evolve(left, state=state, heartbeat_at=clock.from_epoch_ms((time.time() - age) * 1000))
        registry.folder.write("deployments/v1/status.json", to_json(stale))
        assert running.client.drivers("alarm").state("v1") != "running"
    running.ok("rollback", "alarm", "--to", "v1")
    now = registry.status("v1")
    assert now is not None and (now.epoch, now.state) == (3, "running")


@pytest.mark.parametrize("strategy", ["restart", "standby"])
def test_a_snapshot_that_has_the_name_already_is_not_taken_for_the_fresh_one(running: Site, strategy: str) -> None:
    running.ok("save-snapshot", "alarm", "before-v2")
    taken = running.client.snapshot("alarm", "before-v2")
    told = running.update("v2", "--strategy", strategy, code=1).stderr
    assert "already has a snapshot 'before-v2'" in told
    assert running.alive() == ["v1"] and running.client.snapshot("alarm", "before-v2") == taken
    running.update("v3", "--strategy", strategy)
    assert running.client.snapshot("alarm", "before-v3").queries["events"].batch > taken.queries["events"].batch


def test_a_deployment_that_was_taken_back_from_is_not_gone_on_with(running: Site) -> None:
    """The old version has computed its batches again since, under other borders."""
    application = Application(file=str(running.application("v2")))
    client, registry = client_of(running), running.app
    running.ok("save-snapshot", "alarm", "s")
    client.cancel("alarm")
    client.submit(application, "v2", "s", owner="update v2", app="alarm")
    running.crash("v2")
    assert registry.claim(Current(deployment="v1", epoch=4))
    with pytest.raises(
        AlreadyExistsError, match="v2 of alarm cannot be started again: v1 has taken over from it, in epoch 4"
    ):
        client.submit(application, "v2", "s", owner="update v2", app="alarm")


def test_an_update_keeps_the_strategy_it_was_begun_with(running: Site) -> None:
    """Also where those who go on with it have no step of that strategy: a DAG that was changed meanwhile."""
    application, client = Application(file=str(running.application("v2"))), client_of(running)
    begin_update(client, "alarm", "v2", application.digest(), "standby")
    engine = UpdateEngine(client.context, UpdateOptions(application=application, deployment="v2", strategy="restart"))
    update = engine.begin()
    for step in strategy_named("restart").steps[1:]:
        engine.run(step, update)
    record = running.record("v2")
    assert (record.strategy, record.outcome) == ("standby", "promoted")
    assert "prepare" in record.step_times and running.alive() == ["v2"]
    with pytest.raises(AlreadyExistsError, match="ids are never reused"):
        engine.begin()


@pytest.mark.parametrize(("strategy", "diff"), [("standby", ()), ("follow", ("events=room",))])
def test_one_that_does_not_stand_by_any_more_gets_ready_again(
    running: Site, strategy: str, diff: tuple[str, ...]
) -> None:
    """Found from outside: its driver ends when nobody works on the update for half an hour, for example because nobody
    has approved it, and then every try of the hand-over failed."""
    told = list[str]()
    engine, update = begun(running, told, strategy=strategy, verify_for=0, diff=diff)
    for step in strategy_named(strategy).steps[1:]:
        if step == Step.SNAPSHOT_AND_CANCEL:
            for deployment in running.alive()[1:]:
                running.crash(deployment)
            update = engine.resume("alarm", "v2")
        engine.run(step, update)
    assert "v2 does not stand by any more, and gets ready again" in told
    assert running.alive() == ["v2"] and running.record("v2").outcome == "promoted"


def test_a_standby_started_again_inherits_nothing_of_the_one_before(running: Site) -> None:
    """Neither its heartbeat, nor what it was told and did not come to, nor a checkpoint that it was taken back from."""
    client = client_of(running)
    engine, update = begun(running)
    first = engine.run(Step.PREPARE, update) or client.drivers("alarm").status("v2")
    running.crash("v2")
    folder = running.app.deployment_folder("v2")
    CommandBox(folder, 2).issue(commands.CANCEL)
    folder.write("restored/events.json", b"{}")
    strategy_named("standby").get_ready(update)
    second = client.drivers("alarm").status("v2")
    assert first and second and (second.state, second.epoch) == ("standby", first.epoch) and second.pid != first.pid
    assert folder.names("restored") == []
    for step in (Step.SNAPSHOT_AND_CANCEL, Step.SUBMIT_FROM_SNAPSHOT):
        engine.run(step, update)
    assert running.alive() == ["v2"]


def test_a_step_of_an_update_that_somebody_has_ended_does_nothing(running: Site) -> None:
    engine, update = begun(running)
    client_of(running).rollback("alarm")
    for step in (Step.PREPARE, Step.PROMOTE):
        with pytest.raises(AlreadyExistsError, match="has ended \\(refused\\)"):
            engine.run(step, update)
    assert running.alive() == ["v1"]


@pytest.mark.parametrize("strategy", ["restart", "standby"])
def test_what_an_earlier_try_agreed_to_is_asked_again(running: Site, strategy: str) -> None:
    file = str(running.application("v2", named=True, STAGES={"other": ["room"]}))  # so that a standby plans it itself
    options = UpdateOptions(
        application=Application(file=file), deployment="v2", strategy=strategy, agree=("events/rooms",)
    )
    killed_at(running, "checked", lambda client: client.update(options))
    without = running.refused("update", file, "--deployment", "v2", "--strategy", strategy)
    assert "--agree events/rooms" in without and running.alive() == running.app.deployment_ids() == ["v1"]


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize(("strategy", "at"), [("standby", "standby-noted"), ("restart", "snapshotted")])
def test_the_same_command_goes_on_without_an_id(running: Site, strategy: str, at: str, literal: bool) -> None:
    """It finds its update by its application, with what it takes over from the running version."""
    running.update("v2", "--set", "limit=3")
    file = running.application("v3", named=literal)
    options = UpdateOptions(application=Application(file=str(file)), strategy=strategy)
    killed_at(running, at, lambda client: client.update(client.resolve(options)))
    running.ok("update", file, "--strategy", strategy)
    assert [update.outcome for update in running.app.updates()] == ["promoted", "promoted"]
    spec = running.client.status("alarm").spec
    assert spec is not None and spec.application.params == {"limit": "3"} and len(running.alive()) == 1
