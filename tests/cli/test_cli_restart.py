"""A dead driver: a plain submit is refused, restart goes on from the deployment's own checkpoint, --fresh begins
anew."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import drivers as module
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import AlreadyRunningError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import to_json
from tests.begun_updates import begin_update

from .another import client_of
from .conftest import Site, next_steps


@pytest.fixture
def dead(running: Site) -> Site:
    """v1 was killed after some batches."""
    wait_for(lambda: committed(running) > 2 or None, "batches", 60)
    running.crash("v1")
    assert running.client.status("alarm").state == "lost"
    return running


def committed(site: Site, deployment: str = "v1") -> int:
    return max(site.commits(deployment), default=-1)


def files(site: Site) -> set[str]:
    """All that is under the root but leases: a request holds one while it looks."""
    return {name for name in site.client.registry.folder.files("") if "/lease/" not in name}


# submit


@pytest.mark.parametrize("end", ["lost", "cancelled", "snapshot"])
def test_an_app_that_has_state_is_not_started_without_it(running: Site, end: str) -> None:
    wait_for(lambda: committed(running) > 2 or None, "batches", 60)
    if end == "lost":
        running.crash("v1")
    elif end == "cancelled":
        running.ok("cancel", "alarm", "--drain")
    else:
        running.ok("save-snapshot", "alarm", "nightly", "--cancel")
    before, last = files(running), committed(running)
    result = running.run("submit", running.application("v2"), "--deployment", "v2")
    assert result.exit_code == 1, result.output
    assert f"deployment v1 ({'lost' if end == 'lost' else 'cancelled'}, events up to batch {last})" in result.stderr
    for way in ("streamupdate restart alarm", "streamupdate update", "--snapshot", "--fresh"):
        assert way in result.stderr
    if end == "snapshot":
        assert f"snapshot nightly (events after batch {last})" in result.stderr
    assert files(running) == before and running.alive() == []
    assert running.lease_is_free()


def test_state_is_what_an_earlier_deployment_or_a_snapshot_has_damaged_or_not(dead: Site) -> None:
    dead.ok("save-snapshot", "alarm", "last", "--cancel")
    fresh = dead.run("submit", dead.application("v2", FAIL="start"), "--deployment", "v2", "--fresh")
    assert fresh.exit_code == 1 and "last words" in fresh.stderr
    refused = dead.run("submit", dead.application("v3"), "--deployment", "v3")
    assert refused.exit_code == 1 and "It has deployment v1 (" in refused.stderr
    assert "v2" not in refused.stderr.partition("nothing was started")[2]
    dead.app.folder.remove("deployments/v1/checkpoint")  # as after `adopt`: what it is of never ran here
    for manifest, told in (
        (None, "It has snapshot last (events after batch"),
        (b"{", "It has snapshot last (damaged)"),
    ):
        if manifest is not None:
            dead.app.folder.write("snapshots/last/snapshot.json", manifest)
        refused = dead.run("submit", dead.application("v3"), "--deployment", "v3")
        assert refused.exit_code == 1 and told in refused.stderr and "up to batch" not in refused.stderr


@pytest.mark.parametrize("app", ["alarm", None])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_rerun_of_a_submit_goes_on_with_its_own_state(site: Site, fresh: bool, app: str | None) -> None:
    sink = {"SINK": {"format": "kafka", "options": {"topic": "t"}}}
    v1 = Application(file=str(site.application(**sink)))
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


# submit --fresh


def test_fresh_starts_without_state_on_purpose(dead: Site) -> None:
    dead.ok("submit", dead.application("v2"), "--deployment", "v2", "--fresh")
    assert dead.first_batch() == 0 and dead.app.spec("v2").fresh


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"format": "foreachBatch", "seen_batch": "adds"}, "agree to it with --agree events:fresh"),
        ({"format": "kafka", "options": {"topic": "t"}}, "agree to it with --agree events:fresh"),
        ({"format": "hudi", "options": {"path": "/t"}}, "Write to another place"),
    ],
)
def test_a_fresh_start_into_a_sink_that_has_the_batches_needs_agreement_or_is_refused(
    site: Site, sink: dict[str, Any], told: str
) -> None:
    site.ok("submit", site.application(SINK=sink), "--deployment", "v1")
    wait_for(lambda: committed(site) > 0 or None, "batches", 60)
    site.ok("cancel", "alarm")
    before = files(site)
    submit = ("submit", site.application("v2", SINK=sink), "--deployment", "v2", "--fresh")
    result = site.run(*submit)
    assert result.exit_code == 1 and told in result.stderr, result.stderr
    assert files(site) == before
    agreed = site.run(*submit, "--agree", "events:fresh")
    if sink["format"] == "hudi":
        assert agreed.exit_code == 2 and "are not losses" in agreed.stderr
    else:
        assert agreed.exit_code == 0, agreed.stderr


# restart


def test_restart_goes_on_from_the_deployment_s_own_checkpoint(dead: Site) -> None:
    last, promoted = committed(dead), dead.current.promoted
    result = dead.ok("restart", "alarm")
    assert result.stdout == "alarm runs as deployment v1 again (epoch 2)\n"
    assert "starting v1 again, from its own checkpoint (events up to batch" in result.stderr
    assert dead.first_batch() == last + 1 and dead.alive() == ["v1"]
    assert (dead.current.deployment, dead.current.epoch, dead.current.promoted) == ("v1", 2, promoted)


@pytest.mark.parametrize("state", ["running", "suspended"])
def test_restart_of_a_living_driver_is_refused(running: Site, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drivers, "state", lambda *_: state)
    result = running.run("restart", "alarm")
    assert result.exit_code == 1 and f"deployment v1 is {state}" in result.stderr
    assert ("streamupdate resume alarm" in result.stderr) is (state == "suspended")
    assert running.current.epoch == 1 and running.alive() == ["v1"]


def test_restart_during_an_update_is_refused_and_says_which(running: Site) -> None:
    begin_update(running.client, "alarm", "v2")
    running.crash("v1")
    result = running.run("restart", "alarm")
    assert result.exit_code == 1
    assert "an update of alarm to v2 is under way" in result.stderr and "streamupdate rollback alarm" in result.stderr
    assert running.current.epoch == 1
    assert running.run("rollback", "alarm").exit_code == 0  # the way it names


def silent_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> AppRegistry:
    """The dead driver is one on a machine that cannot be inspected."""
    monkeypatch.setattr(module, "SILENT_SECONDS", 2.0)
    made, write = site.app, site.client.registry.folder.write
    launch, status = made.launch("v1"), made.status("v1")
    assert launch is not None and launch.process is not None and status is not None and status.process is not None
    far = attrs.evolve(launch.process, boot="another machine's")
    made.set_launch("v1", attrs.evolve(launch, process=far))
    silent = attrs.evolve(status, state="running", heartbeat_at="2024-01-01T00:00:00+00:00", process=far)
    write("alarm/deployments/v1/status.json", to_json(silent))
    return made


def test_a_silent_driver_on_another_machine_is_fenced_before_it_ends_with_a_snapshot(
    dead: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it committed afterwards would be lost, or come twice."""
    made = silent_elsewhere(dead, monkeypatch)
    dead.ok("save-snapshot", "alarm", "last", "--cancel")
    checkpoint = Checkpoint(made.checkpoint("v1", "events"))
    logged, saved = checkpoint.logged_batch(), dead.client.snapshot("alarm", "last").queries["events"]
    assert logged is not None and checkpoint.fenced() == logged + 1
    assert logged in (saved.batch, saved.in_flight)


def test_a_snapshot_from_before_the_app_went_on_is_not_taken_for_its_end(running: Site) -> None:
    running.ok("save-snapshot", "alarm", "last", "--cancel")
    running.ok("submit", running.application("v2"), "--deployment", "v2", "--snapshot", "last")
    running.ok("rollback", "alarm")
    assert running.current.deployment == "v1"
    ended = running.client.snapshot("alarm", "last").queries["events"].batch
    checkpoint = Checkpoint(running.app.checkpoint("v1", "events"))
    wait_for(lambda: (checkpoint.committed_batch() or 0) > ended or None, "a batch", 60)
    running.crash("v1")
    refused = running.run("save-snapshot", "alarm", "last", "--cancel")
    assert refused.exit_code == 1 and "choose another name" in refused.stderr
    running.ok("save-snapshot", "alarm", "end", "--cancel")
    assert running.client.snapshot("alarm", "end").queries["events"].batch > ended


# the next step


@pytest.mark.filterwarnings("ignore:it reads no limit")
@pytest.mark.parametrize("seen_batch", ["adds", "skips"])
def test_batches_that_run_again_from_an_older_snapshot_are_agreed_to_or_refused(site: Site, seen_batch: str) -> None:
    """By who asks before it starts (a command, a task), and by who does not."""
    sink = {"SINK": {"format": "foreachBatch", "seen_batch": seen_batch}, "WARNINGS": ["it reads no limit"]}
    first = site.ok("submit", site.application(**sink), "--deployment", "v1")
    assert "warning: it reads no limit" in first.stderr
    site.ok("save-snapshot", "alarm", "s1")
    batch = site.client.snapshot("alarm", "s1").queries["events"].batch
    v2 = Application(file=str(site.application("v2", **sink)))
    with pytest.raises(AlreadyRunningError):
        client_of(site).submit(v2, "v2", "s1")
    update = site.run("update", v2.file, "--deployment", "v2", "--snapshot", "s1")
    assert update.exit_code == 1 and "run again" in update.stderr and site.alive() == ["v1"]
    wait_for(lambda: committed(site) > batch or None, "a batch", 60)
    site.ok("cancel", "alarm")
    refused = site.run("submit", v2.file, "--deployment", "v2", "--snapshot", "s1")
    assert refused.exit_code == 1 and f"batches {batch + 1} to " in refused.stderr
    for agree in ((), ("events:again",) if seen_batch == "skips" else ()):
        with pytest.raises(StreamUpdateError, match=f"nothing was started:\n.*batches {batch + 1} to |are not losses"):
            client_of(site).submit(v2, "v2", "s1", agree=agree)
    assert [s.deployment for s in site.client.deployments("alarm")] == ["v1"] and site.alive() == []
    if seen_batch == "adds":
        assert client_of(site).submit(v2, "v2", "s1", agree=("events:again",)).epoch == 3


def test_what_looks_names_the_next_step_for_a_dead_driver(dead: Site) -> None:
    for name, text in next_steps(dead.run, "alarm").items():
        assert "streamupdate restart alarm" in text, name
    assert dead.run("list").exit_code == 0 and dead.run("doctor").exit_code == 1
