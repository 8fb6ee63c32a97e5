"""A dead driver: a plain submit is refused, restart goes on from the deployment's own checkpoint, --fresh begins
anew. A submit of what runs already waits for it, or goes on where another one died. An app that ends is run again."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import drivers as module
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.operations import check, rehearse, submit
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import AlreadyRunningError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Status
from airflow_provider_streamupdate.core.serde import to_json
from tests.begun_updates import begin_update

from .another import client_of, killed_at
from .conftest import Site, document

KAFKA = {"format": "kafka", "options": {"topic": "t"}}


@pytest.fixture
def dead(running: Site) -> Site:
    """v1 was killed after some batches."""
    wait_for(lambda: committed(running) > 2 or None, "batches", 60)
    running.crash("v1")
    assert running.client.status("alarm").state == "lost"
    return running


@pytest.fixture
def no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(*_: Any, **__: Any) -> Any:
        raise AssertionError("a plan was made")

    for operation in (check, rehearse, submit):
        monkeypatch.setattr(operation, "plan_application", plan)


def committed(site: Site, deployment: str = "v1") -> int:
    return max(site.commits(deployment), default=-1)


def files(site: Site) -> set[str]:
    """All that is under the root but leases: a request holds one while it looks."""
    return {name for name in site.client.registry.folder.files("") if "/lease/" not in name}


@pytest.mark.parametrize("end", ["lost", "cancelled", "snapshot"])
def test_an_app_that_has_state_is_not_started_without_it(running: Site, end: str) -> None:
    wait_for(lambda: committed(running) > 2 or None, "batches", 60)
    if end == "lost":
        running.crash("v1")
    else:
        how = (
            ("cancel", "alarm", "--drain") if end == "cancelled" else ("save-snapshot", "alarm", "nightly", "--cancel")
        )
        running.ok(*how)
    before, last = files(running), committed(running)
    told = running.submit("v2", code=1).stderr
    assert f"deployment v1 ({'lost' if end == 'lost' else 'cancelled'}, events up to batch {last})" in told
    for way in ("streamupdate restart alarm", "streamupdate update", "--snapshot", "--fresh"):
        assert way in told
    assert (f"snapshot nightly (events after batch {last})" in told) is (end == "snapshot")
    assert files(running) == before and running.alive() == [] and running.lease_is_free()


def test_state_is_what_an_earlier_deployment_or_a_snapshot_has_damaged_or_not(dead: Site) -> None:
    dead.ok("save-snapshot", "alarm", "last", "--cancel")
    assert dead.client.status("alarm").state == "cancelled"
    assert "last words of a driver that dies at start" in dead.submit("v2", "--fresh", code=1, FAIL="start").stderr
    refused = dead.submit("v3", code=1).stderr
    assert "It has deployment v1 (" in refused and "v2" not in refused.partition("nothing was started")[2]
    dead.app.folder.remove("deployments/v1/checkpoint")  # as after `adopt`: what it is of never ran here
    assert "It has snapshot last (events after batch" in (refused := dead.submit("v3", code=1).stderr)
    assert "up to batch" not in refused
    dead.app.folder.write("snapshots/last/snapshot.json", b"{")
    assert "It has snapshot last (damaged)" in dead.submit("v3", code=1).stderr


@pytest.mark.parametrize("app", ["alarm", None])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_rerun_of_a_submit_goes_on_with_its_own_state(site: Site, fresh: bool, app: str | None) -> None:
    v1 = Application(file=str(site.application(SINK=KAFKA)))
    first = client_of(site).submit(v1, owner="me", app=app, fresh=fresh)
    wait_for(lambda: committed(site, first.deployment) > 2 or None, "batches", 60)
    site.crash(first.deployment)
    last = committed(site, first.deployment)
    again = client_of(site).submit(v1, owner="me", app=app, fresh=fresh)
    assert (again.deployment, again.epoch) == (first.deployment, 2) and site.first_batch() == last + 1


def test_a_rerun_does_not_start_without_the_state_that_came_meanwhile(dead: Site) -> None:
    """Its deployment was made before the app had state, and never started."""
    dead.app.create_deployment(attrs.evolve(dead.app.spec("v1"), deployment="v0", owner="me"))
    with pytest.raises(StreamUpdateError, match="streamupdate restart alarm"):
        client_of(dead).submit(Application(file=str(dead.application())), owner="me", deployment="v0", app="alarm")
    assert dead.current.deployment == "v1"


@pytest.mark.parametrize("named", [(), ("--deployment", "v1")])
def test_the_same_again_waits_for_what_runs(site: Site, request: pytest.FixtureRequest, named: tuple[str, ...]) -> None:
    file = site.application(named=True)
    site.ok("submit", file, "--deployment", "v1")
    request.getfixturevalue("no_plan")
    expected = {"app": "alarm", "deployment": "v1", "epoch": 1, "reattached": True}
    assert document(site.ok("submit", file, *named, "--json")) == expected
    other = site.application("v2", named=True)
    assert f"already {'has a deployment' if named else 'runs as deployment'}" in site.refused("submit", other, *named)
    assert "already runs as deployment v1" in site.refused("submit", other, "--fresh")
    assert site.alive() == ["v1"]


@pytest.mark.parametrize("named", [(), ("--deployment", "mine")])
@pytest.mark.parametrize(
    "place", ["code-stored", "deployment-made", "epoch-claimed", "current-replaced", "driver-noted"]
)
def test_after_its_process_died_it_goes_on(site: Site, place: str, named: tuple[str, ...]) -> None:
    """The id counted as used: "ids are never reused", and without one a second deployment was made."""
    file = site.application(named=True)
    killed_at(site, place, lambda client: client.submit(Application(file=str(file)), *named[1:]))
    if named and place != "code-stored":
        other = site.application("v2", named=True)
        assert "already has a deployment 'mine'" in site.refused("submit", other, *named)
    result = document(site.ok("submit", file, *named, "--json"))
    assert result["reattached"] is (place == "driver-noted")
    [spec] = site.client.deployments("alarm")
    assert spec.deployment == result["deployment"] and (not named or spec.deployment == "mine")
    assert site.client.status("alarm").state == "running" and site.alive() == [spec.deployment]


@pytest.mark.usefixtures("no_plan")
@pytest.mark.parametrize("command", ["check", "rehearse"])
def test_what_there_is_nothing_of_is_refused_at_once(site: Site, command: str) -> None:
    assert "no app 'alarm' under" in site.refused(command, site.application(named=True), code=2)


def test_fresh_starts_without_state_on_purpose(dead: Site) -> None:
    dead.submit("v2", "--fresh")
    assert dead.first_batch() == 0 and dead.app.spec("v2").fresh


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"format": "foreachBatch", "seen_batch": "adds"}, "agree to it with --agree events:fresh"),
        (KAFKA, "agree to it with --agree events:fresh"),
        ({"format": "hudi", "options": {"path": "/t"}}, "Write to another place"),
    ],
)
def test_a_fresh_start_into_a_sink_that_has_the_batches_needs_agreement_or_is_refused(
    site: Site, sink: dict[str, Any], told: str
) -> None:
    site.submit(SINK=sink)
    wait_for(lambda: committed(site) > 0 or None, "batches", 60)
    site.ok("cancel", "alarm")
    before = files(site)
    assert told in site.submit("v2", "--fresh", code=1, SINK=sink).stderr
    assert files(site) == before
    code = 2 if sink["format"] == "hudi" else 0
    agreed = site.submit("v2", "--fresh", "--agree", "events:fresh", code=code, SINK=sink)
    assert ("are not losses" in agreed.stderr) is (code == 2)


def test_restart_goes_on_from_the_deployment_s_own_checkpoint(dead: Site) -> None:
    last, promoted = committed(dead), dead.current.promoted
    result = dead.ok("restart", "alarm")
    assert result.stdout == "alarm runs as deployment v1 again (epoch 2)\n"
    assert "starting v1 again, from its own checkpoint (events up to batch" in result.stderr
    assert dead.first_batch() == last + 1 and dead.alive() == ["v1"]
    assert (dead.current.deployment, dead.current.epoch, dead.current.promoted) == ("v1", 2, promoted)


def test_restart_of_a_living_driver_or_during_an_update_is_refused(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in ("running", "suspended"):
        with monkeypatch.context() as patched:
            patched.setattr(Drivers, "state", lambda *_, state=state: state)
            told = running.refused("restart", "alarm")
        assert f"deployment v1 is {state}" in told
        assert ("streamupdate resume alarm" in told) is (state == "suspended")
    assert running.current.epoch == 1 and running.alive() == ["v1"]
    begin_update(running.client, "alarm", "v2")
    running.crash("v1")
    told = running.refused("restart", "alarm")
    assert "an update of alarm to v2 is under way" in told and "streamupdate rollback alarm" in told
    assert running.current.epoch == 1
    running.ok("rollback", "alarm")  # the way it names


def test_a_silent_driver_on_another_machine_is_fenced_before_it_ends_with_a_snapshot(
    dead: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be inspected; what it committed afterwards would be lost, or come twice."""
    monkeypatch.setattr(module, "SILENT_SECONDS", 2.0)
    launch, status = dead.launch("v1"), dead.app.status("v1")
    assert launch.process is not None and status is not None
    far = attrs.evolve(launch.process, boot="another machine's")
    dead.app.set_launch("v1", attrs.evolve(launch, process=far))
    silent = attrs.evolve(status, state="running", heartbeat_at="2024-01-01T00:00:00+00:00", process=far)
    dead.app.folder.write("deployments/v1/status.json", to_json(silent))
    dead.ok("save-snapshot", "alarm", "last", "--cancel")
    checkpoint = Checkpoint(dead.app.checkpoint("v1", "events"))
    logged, saved = checkpoint.logged_batch(), dead.client.snapshot("alarm", "last").queries["events"]
    assert logged is not None and checkpoint.fenced() == logged + 1
    assert logged in (saved.batch, saved.in_flight)


def test_a_snapshot_from_before_the_app_went_on_is_not_taken_for_its_end(running: Site) -> None:
    running.ok("save-snapshot", "alarm", "last", "--cancel")
    running.submit("v2", "--snapshot", "last")
    running.ok("rollback", "alarm")
    assert running.current.deployment == "v1"
    ended = running.client.snapshot("alarm", "last").queries["events"].batch
    wait_for(lambda: committed(running) > ended or None, "a batch", 60)
    running.crash("v1")
    assert "choose another name" in running.refused("save-snapshot", "alarm", "last", "--cancel")
    running.ok("save-snapshot", "alarm", "end", "--cancel")
    assert running.client.snapshot("alarm", "end").queries["events"].batch > ended


@pytest.mark.filterwarnings("ignore:it reads no limit")
@pytest.mark.parametrize("seen_batch", ["adds", "skips"])
def test_batches_that_run_again_from_an_older_snapshot_are_agreed_to_or_refused(site: Site, seen_batch: str) -> None:
    """By who asks before it starts (a command, a task), and by who does not."""
    sink = {"SINK": {"format": "foreachBatch", "seen_batch": seen_batch}, "WARNINGS": ["it reads no limit"]}
    assert "warning: it reads no limit" in site.submit(**sink).stderr
    site.ok("save-snapshot", "alarm", "s1")
    batch = site.client.snapshot("alarm", "s1").queries["events"].batch
    v2 = Application(file=str(site.application("v2", **sink)))
    with pytest.raises(AlreadyRunningError):
        client_of(site).submit(v2, "v2", "s1")
    assert "run again" in site.update("v2", "--snapshot", "s1", code=1, **sink).stderr and site.alive() == ["v1"]
    wait_for(lambda: committed(site) > batch or None, "a batch", 60)
    site.ok("cancel", "alarm")
    assert f"batches {batch + 1} to " in site.submit("v2", "--snapshot", "s1", code=1, **sink).stderr
    for agree in ((), ("events:again",) if seen_batch == "skips" else ()):
        with pytest.raises(StreamUpdateError, match=f"nothing was started:\n.*batches {batch + 1} to |are not losses"):
            client_of(site).submit(v2, "v2", "s1", agree=agree)
    assert [s.deployment for s in site.client.deployments("alarm")] == ["v1"] and site.alive() == []
    if seen_batch == "adds":
        assert client_of(site).submit(v2, "v2", "s1", agree=("events:again",)).epoch == 3


# An app whose queries end by themselves, and that is started again for each run


def finished_status(site: Site) -> Status:
    found = site.client.status("alarm")
    assert found.state == "finished" and found.status is not None
    return found.status


@pytest.fixture
def finished(site: Site) -> Site:
    """It has run once, over three batches."""
    site.submit(ENDS=True, INPUT=3)
    run = site.ok("restart", "alarm", "--until-finished").stdout
    assert run == f"alarm has finished its run as deployment v1 (epoch {finished_status(site).epoch})\n"
    assert finished_status(site).queries["events"].batch == 2
    return site


@pytest.mark.parametrize("strategy", ["standby", "restart", "follow"])
def test_an_app_that_has_finished_is_updated_between_its_runs(finished: Site, strategy: str) -> None:
    """It was refused: 'not running, so there is nothing to update'."""
    before = finished.current
    assert finished.ok("cancel", "alarm").stdout == "alarm is finished; no driver of it ran\n"
    refusals: tuple[dict[str, Any], ...] = ({"FAIL": "plan"}, {"STAGES": {"rooms": ["floor"]}})
    for number, refused in enumerate(refusals):
        finished.update(f"bad-{number}", "--strategy", strategy, code=1, ENDS=True, INPUT=6, **refused)
        assert finished.current == before and finished.app.rollbacks() == []
        assert {record.outcome for record in finished.app.updates()} <= {"refused"}
    finished.update("v2", "--strategy", strategy, "--verify-for", "60", ENDS=True, INPUT=6)
    record = finished.record("v2")
    assert (record.outcome, record.strategy, record.old) == ("promoted", "restart", "v1")
    assert "query events has committed 3 batches since its start, and has ended by itself" in record.verified
    events = finished_status(finished).queries["events"]
    assert (events.first_batch, events.batch) == (3, 5), "it goes on where version 1 ended"
    assert document(finished.ok("restart", "alarm", "--until-finished", "--json"))["deployment"] == "v2"
    finished.update("v2", code=1, ENDS=True, INPUT=6)  # the id is used
    file = finished.folder / "root" / "alarm" / "deployments" / "v2" / "application" / "v2.py"
    file.write_text(file.read_text() + "\nFAIL = 'run'\n")
    assert "a row the new version cannot read" in finished.refused("restart", "alarm", "--until-finished")
