"""A dead driver: a plain submit is refused, restart goes on from the deployment's own checkpoint, --fresh begins
anew."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import drivers as module
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import to_json

from .conftest import Site, document


@pytest.fixture
def running(site: Site) -> Site:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    return site


@pytest.fixture
def dead(running: Site) -> Site:
    """v1 was killed after some batches."""
    wait_for(lambda: committed(running) > 2 or None, "batches", 60)
    running.crash("v1")
    assert running.client.status("alarm").state == "lost"
    return running


def committed(site: Site, deployment: str = "v1") -> int:
    found = Checkpoint(registry(site).checkpoint(deployment, "events")).committed_batch()
    return -1 if found is None else found


def registry(site: Site) -> AppRegistry:
    return site.client.registry.app("alarm")


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
        assert running.run("cancel", "alarm", "--drain").exit_code == 0
    else:
        assert running.run("save-snapshot", "alarm", "nightly", "--cancel").exit_code == 0
    before, last = files(running), committed(running)
    result = running.run("submit", running.application("v2"), "--deployment", "v2")
    assert result.exit_code == 1, result.output
    assert f"deployment v1 ({'lost' if end == 'lost' else 'cancelled'}, events up to batch {last})" in result.stderr
    for way in ("streamupdate restart alarm", "streamupdate update", "--snapshot", "--fresh"):
        assert way in result.stderr
    if end == "snapshot":
        assert f"snapshot nightly (events after batch {last})" in result.stderr
    assert files(running) == before and running.alive() == []
    folder = registry(running).folder
    assert not lease.held(folder, lease.read(folder))


def test_the_refusal_is_a_document_too(dead: Site) -> None:
    result = dead.run("--json", "submit", dead.application("v2"))
    assert result.exit_code == 1 and document(result)["error"]["type"] == "RefusedError"


def test_a_snapshot_alone_is_state(dead: Site) -> None:
    """As after `adopt`: what it is of never ran here."""
    assert dead.run("save-snapshot", "alarm", "last", "--cancel").exit_code == 0
    dead.client.registry.folder.remove("alarm/deployments/v1/checkpoint")
    result = dead.run("submit", dead.application("v2"))
    assert result.exit_code == 1 and "snapshot last" in result.stderr and "up to batch" not in result.stderr
    assert dead.run("submit", dead.application("v2"), "--deployment", "v2", "--snapshot", "last").exit_code == 0


def test_a_damaged_snapshot_is_state_as_well(dead: Site) -> None:
    assert dead.run("save-snapshot", "alarm", "last", "--cancel").exit_code == 0
    dead.client.registry.folder.remove("alarm/deployments/v1/checkpoint")
    dead.client.registry.folder.write("alarm/snapshots/last/snapshot.json", b"{")
    result = dead.run("submit", dead.application("v2"))
    assert result.exit_code == 1 and "snapshot last (damaged)" in result.stderr


def test_a_deployment_that_never_committed_leaves_nothing(site: Site) -> None:
    assert site.run("submit", site.application(FAIL="start"), "--deployment", "v1").exit_code == 1
    result = site.run("submit", site.application("v2"), "--deployment", "v2")
    assert result.exit_code == 0, result.output


def test_what_an_earlier_deployment_has_counts_after_a_failed_fresh_start(dead: Site) -> None:
    failed = dead.run("submit", dead.application("v2", FAIL="start"), "--deployment", "v2", "--fresh")
    assert failed.exit_code == 1 and "last words" in failed.stderr
    result = dead.run("submit", dead.application("v3"), "--deployment", "v3")
    assert result.exit_code == 1 and "deployment v1 (lost, events up to batch" in result.stderr
    assert "v2" not in result.stderr.partition("nothing was started")[2]


def test_a_rerun_of_a_killed_submit_does_not_start_without_the_state_that_came_meanwhile(dead: Site) -> None:
    """Its deployment was made before the app had state, and never started."""
    made = registry(dead)
    made.create_deployment(attrs.evolve(made.spec("v1"), deployment="v0", owner="me"))
    with pytest.raises(Exception, match="streamupdate restart alarm"):
        client(dead).submit(application(dead), owner="me", deployment="v0", app="alarm")
    assert made.current_id() == "v1"


def test_a_rerun_of_a_submit_goes_on_with_its_own_state(site: Site) -> None:
    first = client(site).submit(application(site), owner="me", app="alarm")
    wait_for(lambda: committed(site, first.deployment) > 2 or None, "batches", 60)
    site.crash(first.deployment)
    last = committed(site, first.deployment)
    again = client(site).submit(application(site), owner="me", app="alarm")
    assert (again.deployment, again.epoch) == (first.deployment, 2)
    assert first_batch(site) == last + 1


# submit --fresh


def test_fresh_starts_without_state_on_purpose(dead: Site) -> None:
    result = dead.run("submit", dead.application("v2"), "--deployment", "v2", "--fresh")
    assert result.exit_code == 0, result.output
    assert first_batch(dead) == 0 and registry(dead).spec("v2").fresh


def test_fresh_and_a_snapshot_exclude_each_other(dead: Site) -> None:
    result = dead.run("submit", dead.application("v2"), "--fresh", "--snapshot", "s")
    assert result.exit_code == 2 and "--fresh" in result.stderr


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
    assert site.run("submit", site.application(SINK=sink), "--deployment", "v1").exit_code == 0
    wait_for(lambda: committed(site) > 0 or None, "batches", 60)
    assert site.run("cancel", "alarm").exit_code == 0
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


def test_a_rerun_of_a_fresh_submit_is_not_asked_about_its_own_batches(dead: Site) -> None:
    first = client(dead).submit(application(dead, "v2"), owner="me", app="alarm", fresh=True)
    wait_for(lambda: committed(dead, first.deployment) > 0 or None, "batches", 60)
    dead.crash(first.deployment)
    again = client(dead).submit(application(dead, "v2"), owner="me", app="alarm", fresh=True)
    assert again.deployment == first.deployment and first_batch(dead) > 0


# restart


def test_restart_goes_on_from_the_deployment_s_own_checkpoint(dead: Site) -> None:
    last = committed(dead)
    result = dead.run("restart", "alarm")
    assert result.exit_code == 0, result.output
    assert result.stdout == "alarm runs as deployment v1 again (epoch 2)\n"
    assert "starting v1 again, from its own checkpoint (events up to batch" in result.stderr
    assert first_batch(dead) == last + 1 and dead.alive() == ["v1"]
    current = registry(dead).current()
    assert current is not None and (current.deployment, current.epoch) == ("v1", 2)


def test_restart_as_a_document(dead: Site) -> None:
    told = document(dead.run("restart", "alarm", "--json"))
    assert told == {"app": "alarm", "deployment": "v1", "epoch": 2, "reattached": False}


@pytest.mark.parametrize("promoted", [True, False])
def test_restart_keeps_whether_the_deployment_was_promoted(dead: Site, promoted: bool) -> None:
    current = registry(dead).current()
    assert current is not None
    registry(dead).set_current(attrs.evolve(current, promoted=promoted))
    assert dead.run("restart", "alarm").exit_code == 0
    after = registry(dead).current()
    assert after is not None and after.promoted is promoted


@pytest.mark.parametrize("end", [("cancel", "alarm", "--drain"), ("save-snapshot", "alarm", "s", "--cancel")])
def test_restart_goes_on_after_an_end_on_request(running: Site, end: tuple[str, ...]) -> None:
    assert running.run(*end).exit_code == 0
    last = committed(running)
    assert running.run("restart", "alarm").exit_code == 0
    assert first_batch(running) == last + 1


@pytest.mark.parametrize("state", ["running", "suspended"])
def test_restart_of_a_living_driver_is_refused(running: Site, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drivers, "state", lambda *_: state)
    result = running.run("restart", "alarm")
    assert result.exit_code == 1 and f"deployment v1 is {state}" in result.stderr
    assert ("streamupdate resume alarm" in result.stderr) is (state == "suspended")
    assert registry(running).current().epoch == 1 and running.alive() == ["v1"]  # type: ignore[union-attr]


def test_restart_of_what_is_not_there(site: Site) -> None:
    result = site.run("restart", "alarm")
    assert result.exit_code == 1 and "no app 'alarm'" in result.stderr
    assert not site.client.registry.folder.names("")


def test_restart_names_the_deployment_it_is_of(dead: Site) -> None:
    result = dead.run("restart", "alarm", "--deployment", "v0")
    assert result.exit_code == 1 and "v1 is" in result.stderr
    assert registry(dead).current().epoch == 1  # type: ignore[union-attr]


def test_restart_during_an_update_is_refused_and_says_which(running: Site) -> None:
    running.client.begin_update("alarm", "v2")
    running.crash("v1")
    result = running.run("restart", "alarm")
    assert result.exit_code == 1
    assert "an update of alarm to v2 is under way" in result.stderr and "streamupdate rollback alarm" in result.stderr
    assert registry(running).current().epoch == 1  # type: ignore[union-attr]
    assert running.run("rollback", "alarm").exit_code == 0  # the way it names


def test_a_driver_that_dies_at_its_restart_can_be_restarted_again(dead: Site) -> None:
    file = dead.client.registry.folder.path("alarm/deployments/v1/application/v1.py")
    with open(file, "a") as code:
        code.write("FAIL = 'start'\n")
    result = dead.run("restart", "alarm")
    assert result.exit_code == 1 and "last words" in result.stderr and "streamupdate restart alarm" in result.stderr
    with open(file, "a") as code:
        code.write("FAIL = None\n")
    assert dead.run("restart", "alarm").exit_code == 0
    assert registry(dead).current().epoch == 3  # type: ignore[union-attr]


def test_a_restart_that_was_cut_off_after_its_claim_is_done_again(dead: Site) -> None:
    """The epoch is claimed, and no driver was started for it."""
    current = registry(dead).current()
    assert current is not None and registry(dead).claim(attrs.evolve(current, epoch=2))
    assert dead.run("restart", "alarm").exit_code == 0
    assert registry(dead).current().epoch == 3  # type: ignore[union-attr]


def silent_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> AppRegistry:
    """The dead driver is one on a machine that cannot be inspected."""
    monkeypatch.setattr(module, "SILENT_SECONDS", 2.0)
    made, write = registry(site), site.client.registry.folder.write
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
    result = dead.run("save-snapshot", "alarm", "last", "--cancel")
    assert result.exit_code == 0, result.stderr
    checkpoint = Checkpoint(made.checkpoint("v1", "events"))
    logged, saved = checkpoint.logged_batch(), dead.client.snapshot("alarm", "last").queries["events"]
    assert logged is not None and checkpoint.fenced() == logged + 1
    assert logged in (saved.batch, saved.in_flight)


def test_a_silent_driver_on_another_machine_is_fenced_before_its_restart(
    dead: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still run: it can begin no batch in the checkpoint that the new driver goes on with, which takes the fence
    away. Who only looks does not know that it is dead."""
    made = silent_elsewhere(dead, monkeypatch)
    assert "streamupdate restart alarm watches it" in dead.run("list").stderr
    checkpoint = Checkpoint(made.checkpoint("v1", "events"))

    def die(*_: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as dying:  # just before the epoch is claimed
        dying.setattr(AppRegistry, "claim", die)
        assert dead.run("restart", "alarm").exit_code == 143
    logged = checkpoint.logged_batch()  # it may have died in a batch
    assert logged is not None and checkpoint.fenced() == logged + 1 and logged - committed(dead) in (0, 1)
    again = dead.run("restart", "alarm")
    assert again.exit_code == 0, again.stderr


# the next step


def test_what_looks_names_the_next_step_for_a_dead_driver(dead: Site) -> None:
    step = "streamupdate restart alarm"
    assert step in dead.run("status", "alarm").stdout
    assert step in document(dead.run("--json", "status", "alarm"))["next_step"]
    listed = dead.run("list")
    assert listed.exit_code == 0 and step in listed.stderr
    assert step in document(dead.run("--json", "list"))[0]["next_step"]
    examined = dead.run("doctor")
    assert examined.exit_code == 1 and step in examined.stdout
    assert step in dead.client.app_document("alarm")["next_step"]


def test_during_an_update_the_next_step_is_the_update_s(running: Site) -> None:
    running.client.begin_update("alarm", "v2")
    running.crash("v1")
    for shown in (running.run("status", "alarm").stdout, running.run("list").stderr, running.run("doctor").stdout):
        assert "streamupdate rollback alarm" in shown and "streamupdate restart" not in shown


@pytest.mark.parametrize("end", [None, ("cancel", "alarm", "--drain")])
def test_an_app_that_runs_or_was_ended_needs_no_step(running: Site, end: tuple[str, ...] | None) -> None:
    if end:
        assert running.run(*end).exit_code == 0
    assert document(running.run("--json", "list"))[0]["next_step"] is None
    assert "restart" not in running.run("status", "alarm").stdout
    assert running.run("doctor").exit_code == 0


def client(site: Site) -> StreamUpdateClient:
    """With a launcher."""
    return StreamUpdateClient(site.client.root, SparkSubmit())


def application(site: Site, version: str = "v1") -> Application:
    return Application(file=str(site.application(version)))


def first_batch(site: Site) -> int:
    status = site.client.wait_healthy("alarm").status
    assert status is not None
    first = status.queries["events"].first_batch
    assert first is not None
    return first
