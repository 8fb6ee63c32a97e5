"""Crash points that blue/green updates of the Flink operator are known to have had: the old job deleted before the new
one is final, a stale time stamp, a stale snapshot id. With a stand-in for Spark; scripts/crash.py has drivers.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
import pytest

from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import drivers as module
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.step import Step
from airflow_provider_streamupdate.control.update.strategies import standby, strategy_named
from airflow_provider_streamupdate.control.update.update import Update
from airflow_provider_streamupdate.control.waiting import quiet
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import commands
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.errors import AlreadyExistsError, DriverError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import to_json

from .conftest import Site, document


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1."""
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    return site


def stopped_for(site: Site, file: str) -> Application:
    """An update to v2 that has stopped v1 with its snapshot, and gets no further."""
    application, client = Application(file=file), site.client
    update = update_of(client, application, "restart")
    with holding(update.registry, "v2"):  # as the engine does
        strategy_named("restart").stop_old(update)
    return application


def update_of(client: StreamUpdateClient, application: Application, strategy: str) -> Update:
    """An update to v2 that has begun."""
    record = client.begin_update("alarm", "v2", application.digest(), strategy)
    options = UpdateOptions(application=application, deployment="v2", strategy=strategy)
    return Update(context=client.context, options=options, record=record, progress=quiet)


def test_what_the_way_back_rests_on_stays_until_the_new_version_is_final(running: Site) -> None:
    file = str(running.application("v2"))
    stopped_for(running, file)
    assert running.alive() == []
    refused = running.run("delete-snapshot", "alarm", "before-v2", "--json")
    assert document(refused)["error"]["type"] == "LeaseHeldError"
    old = running.client.registry.app("alarm").checkpoint("v1", "events")
    before = {name: old.read(f"commits/{name}") for name in old.names("commits")}
    assert running.run("rollback", "alarm", "--deployment", "v2").exit_code == 0
    assert running.alive() == ["v1"]
    assert before.items() <= {name: old.read(f"commits/{name}") for name in old.names("commits")}.items()


def test_a_crash_after_the_old_version_ended_is_gone_on_from(running: Site) -> None:
    file = str(running.application("v2"))
    stopped_for(running, file)
    assert running.run("update", file).exit_code == 0
    assert running.alive() == ["v2"]


@pytest.mark.parametrize("state", ["running", "cancelled", "failed"])
def test_a_heartbeat_of_an_earlier_driver_says_nothing_of_the_one_started_now(running: Site, state: str) -> None:
    """Whether it looks alive or ended, and however old its time."""
    assert running.run("update", running.application("v2"), "--deployment", "v2").exit_code == 0
    registry = running.client.registry.app("alarm")
    left = registry.status("v1")
    assert left is not None
    for age in (0.0, 86400.0):
        stale = attrs.evolve(left, state=state, heartbeat_at=clock.from_epoch_ms((time.time() - age) * 1000))
        registry.folder.write("deployments/v1/status.json", to_json(stale))
        assert running.client.drivers("alarm").state("v1") != "running"
    assert running.run("rollback", "alarm", *(["--to", "v1"] if state != "cancelled" else [])).exit_code == 0
    now = registry.status("v1")
    assert now is not None and (now.epoch, now.state) == (3, "running")


@pytest.mark.parametrize("strategy", ["restart", "standby", "follow"])
def test_a_snapshot_that_has_the_name_already_is_not_taken_for_the_fresh_one(running: Site, strategy: str) -> None:
    assert running.run("save-snapshot", "alarm", "before-v2").exit_code == 0
    taken = running.client.snapshot("alarm", "before-v2")
    v2 = running.application("v2")
    result = running.run("update", v2, "--deployment", "v2", "--strategy", strategy)
    assert result.exit_code == 1 and "already has a snapshot 'before-v2'" in result.stderr
    assert running.alive() == ["v1"] and running.client.snapshot("alarm", "before-v2") == taken
    assert running.run("update", v2, "--deployment", "v3", "--strategy", strategy).exit_code == 0
    assert running.client.snapshot("alarm", "before-v3").queries["events"].batch > taken.queries["events"].batch


@pytest.mark.parametrize("boot", ["another machine's", None])
def test_a_driver_nobody_hears_of_can_begin_no_batch_when_another_deployment_starts(
    running: Site, boot: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine nobody can look at it may still run; on this one its process is seen to be gone."""
    assert running.run("save-snapshot", "alarm", "s1").exit_code == 0
    registry, drivers = running.client.registry.app("alarm"), running.client.drivers("alarm")
    running.crash("v1")
    launch, status = registry.launch("v1"), registry.status("v1")
    assert launch is not None and status is not None
    silent = attrs.evolve(status, state="running", heartbeat_at=clock.from_epoch_ms((time.time() - 86400) * 1000))
    registry.folder.write("deployments/v1/status.json", to_json(silent))
    monkeypatch.setattr(module, "SILENT_SECONDS", 2.0)
    if boot:
        assert launch.process is not None and status.process is not None
        silent = attrs.evolve(silent, process=attrs.evolve(status.process, boot=boot))
        registry.folder.write("deployments/v1/status.json", to_json(silent))
        registry.set_launch("v1", attrs.evolve(launch, process=attrs.evolve(launch.process, boot=boot)))
    assert drivers.state("v1") == "lost"
    submit = ("submit", running.application("v2"), "--deployment", "v2", "--snapshot", "s1")

    def die(*_: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as dying:  # just before the epoch is claimed; a new one is named on the next try
        dying.setattr(AppRegistry, "claim", die)
        assert running.run(*submit).exit_code == 143
    assert (Checkpoint(registry.checkpoint("v1", "events")).fenced() is not None) is bool(boot)
    again = running.run(*submit[:3], "v3", *submit[4:])
    assert again.exit_code == 0, again.stderr
    checkpoint = Checkpoint(registry.checkpoint("v1", "events"))
    logged = checkpoint.logged_batch()
    assert logged is not None and checkpoint.fenced() == (logged + 1 if boot else None)


def launching(site: Site) -> StreamUpdateClient:
    return StreamUpdateClient(site.client.root, SparkSubmit())


def test_a_standby_started_again_inherits_nothing_of_the_one_before(running: Site) -> None:
    """Neither its heartbeat, nor what it was told and did not come to, nor a checkpoint that it was taken back from."""
    application, client = Application(file=str(running.application("v2"))), launching(running)
    drivers, registry = client.drivers("alarm"), client.registry.app("alarm")
    update = update_of(client, application, "standby")
    standby.stand_by(update)
    first = drivers.status("v2")
    running.crash("v2")
    CommandBox(registry.deployment_folder("v2"), 2).issue(commands.CANCEL)
    registry.deployment_folder("v2").write("restored/events.json", b"{}")
    standby.stand_by(update)
    second = drivers.status("v2")
    assert first and second and (second.state, second.epoch) == ("standby", first.epoch)
    assert second.pid != first.pid and drivers.state("v2") == "standby"
    assert registry.deployment_folder("v2").names("restored") == []
    standby.hand_over(update)
    assert running.alive() == ["v2"]


def test_an_update_keeps_the_strategy_it_was_begun_with(running: Site) -> None:
    """Also where those who go on with it have no step of that strategy: a DAG that was changed meanwhile."""
    application, client = Application(file=str(running.application("v2"))), launching(running)
    client.begin_update("alarm", "v2", application.digest(), "standby")
    options = UpdateOptions(application=application, deployment="v2", strategy="restart", verify_for=0)
    engine = UpdateEngine(client.context, options)
    update = engine.begin()
    for step in strategy_named("restart").steps[1:]:
        engine.run(step, update)
    record = client.registry.app("alarm").update("v2")
    assert record is not None and (record.strategy, record.outcome) == ("standby", "promoted")
    assert "standby" in record.step_times and running.alive() == ["v2"]


@pytest.mark.parametrize(("strategy", "diff"), [("standby", ()), ("follow", ("events=room",))])
def test_one_that_does_not_stand_by_any_more_gets_ready_again(
    running: Site, strategy: str, diff: tuple[str, ...]
) -> None:
    """Found from outside: its driver ends when nobody works on the update for half an hour, for example because nobody
    has approved it, and then every try of the hand-over failed."""
    application, client = Application(file=str(running.application("v2"))), launching(running)
    options = UpdateOptions(application=application, deployment="v2", strategy=strategy, verify_for=0, diff=diff)
    engine, told = UpdateEngine(client.context, options), []
    update = engine.begin()
    for step in strategy_named(strategy).steps[1:]:
        if step == Step.SNAPSHOT:
            for deployment in (running.alive())[1:]:
                running.crash(deployment)
            assert running.alive() == ["v1"]
            engine = UpdateEngine(client.context, options, told.append)
            update = engine.resume("alarm", "v2")
        engine.run(step, update)
    assert "v2 does not stand by any more, and gets ready again" in told
    assert running.alive() == ["v2"]
    record = client.registry.app("alarm").update("v2")
    assert record is not None and record.outcome == "promoted"


def test_a_deployment_that_was_taken_back_from_is_not_gone_on_with(running: Site) -> None:
    """The old version has computed its batches again since, under other borders."""
    application = Application(file=str(running.application("v2")))
    client, registry = launching(running), running.client.registry.app("alarm")
    assert running.run("save-snapshot", "alarm", "s").exit_code == 0
    client.cancel("alarm")
    client.submit(application, "v2", "s", owner="update v2", app="alarm")
    running.crash("v2")
    assert registry.claim(Current(deployment="v1", epoch=4))
    with pytest.raises(
        AlreadyExistsError, match="v2 of alarm cannot be started again: v1 has taken over from it, in epoch 4"
    ):
        client.submit(application, "v2", "s", owner="update v2", app="alarm")


def test_a_hand_over_that_an_earlier_call_asked_for_is_taken_back(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is in the box of an epoch that is over; the update does not wait for what will not come."""
    client, registry = running.client, running.client.registry.app("alarm")
    update = update_of(client, Application(file=str(running.application("v2"))), "standby")
    registry.create_deployment(attrs.evolve(registry.spec("v1"), deployment="v2", parent="v1"))
    assert registry.claim(Current(deployment="v2", epoch=2))

    def taken_back_meanwhile(poll: Callable[[], bool | None], *_: object, **__: object) -> None:
        assert poll() is None
        assert registry.claim(Current(deployment="v1", epoch=3))
        poll()

    monkeypatch.setattr(standby, "wait_for", taken_back_meanwhile)
    with pytest.raises(DriverError, match="v2 took over and failed, so v1 took over again"):
        standby.hand_over(update)
