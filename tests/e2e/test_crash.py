"""An update is killed at each of its steps and run again, and its drivers die on the way: a version runs, the answer is
right, one driver lives."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

# When to strike: what the process had just said when SIGKILL came.
STEPS = [
    ("restart", "planning and checking"),
    ("restart", "asking motion-alarm for snapshot"),
    ("restart", "bytes ("),
    ("restart", "driver started"),
    ("restart", "is running"),
    ("standby", "driver started beside"),
    ("standby", "stands by"),
    ("standby", "hands over to"),
    ("standby", "has taken over"),
]


@pytest.mark.parametrize(("strategy", "step"), STEPS)
def test_the_update_is_killed_and_run_again(ground, strategy: str, step: str) -> None:
    v2 = str(ground.application("v2").file)
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)
    arguments = ["update", v2, "--strategy", strategy, *ground.params, *ground.agreed]
    with subprocess.Popen(
        ground.command(*arguments), env=ground.environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        heard = next((line for line in process.stderr if step in line), None)
        os.killpg(process.pid, signal.SIGKILL)
    assert heard is not None, f"the update never said {step!r}"
    ground.cli(*arguments)
    finish(ground)


@pytest.mark.parametrize("when", ["draining", "after the snapshot"])
def test_the_old_driver_is_killed_on_its_way_out(ground, when: str) -> None:
    """SIGKILL between the drain and the final state: what it committed is all there is, and is carried on."""
    update = start_update(ground, "restart")
    store = ground.client.registry.app(ground.app).folder

    def due() -> bool | None:
        if when == "draining":
            return ground.client.deployment_state(ground.app, "one") in ("draining", "cancelled") or None
        return store.exists("snapshots/before-two/snapshot.json") or None

    wait_for(due, when, 120, poll_seconds=0.02)
    ground.client.drivers(ground.app).kill("one")
    assert update.wait(280) == 0
    finish(ground, "two")


def test_the_old_driver_is_killed_when_it_has_handed_over(ground) -> None:
    """The snapshot it did not come to storing is stored by the update."""
    update = start_update(ground, "standby")
    wait_for(lambda: ground.current() == "two" or None, "the hand-over", 200, poll_seconds=0.02)
    ground.client.drivers(ground.app).kill("one")
    assert update.wait(280) == 0
    finish(ground, "two")


def test_the_old_driver_is_killed_before_it_has_handed_over(ground) -> None:
    """Nobody took over from it: it starts again, and the update has failed."""
    update = start_update(ground, "standby")
    drivers = ground.client.drivers(ground.app)
    wait_for(lambda: drivers.state("two") == "standby" or None, "the standby", 200, poll_seconds=0.02)
    drivers.kill("one")
    assert update.wait(280) == 1
    finish(ground, "one")


def test_the_new_driver_is_killed_while_it_takes_over(ground) -> None:
    """The old one, which waits for its first commit, takes back by itself, and the update has failed."""
    update = start_update(ground, "standby")
    wait_for(lambda: ground.current() == "two" or None, "the hand-over", 200, poll_seconds=0.02)
    ground.client.drivers(ground.app).kill("two")
    assert update.wait(280) == 1
    finish(ground, "one")
    assert ground.client.registry.app(ground.app).update("two").outcome == "rolled-back"


def test_the_new_driver_is_killed_while_it_stands_by(ground) -> None:
    update = start_update(ground, "standby")
    drivers = ground.client.drivers(ground.app)
    wait_for(lambda: drivers.app.launch("two") and drivers.status("two"), "the standby", 200)
    drivers.kill("two")
    assert update.wait(280) == 1
    finish(ground, "one")
    assert ground.client.registry.app(ground.app).update("two").outcome == "refused"


def start_update(ground, strategy: str) -> subprocess.Popen[bytes]:
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)
    v2 = str(ground.application("v2").file)
    command = ground.command(
        "update", v2, "--deployment", "two", "--strategy", strategy, *ground.params, *ground.agreed
    )
    return subprocess.Popen(command, env=ground.environment)


def finish(ground, deployment: str | None = None) -> None:
    ground.settle()
    status = ground.client.status(ground.app)
    assert status.state == "running"
    assert status.update is None
    assert deployment in (None, status.spec.deployment)
    assert len(ground.drivers()) == 1
    ground.check_answer(status.spec.from_snapshot)
