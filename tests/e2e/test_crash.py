"""An update is killed at each of its steps and run again: version 2 runs, the answer is right, one driver lives."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# When to strike: what the process had just said when SIGKILL came.
STEPS = ["planning and checking", "asking motion-alarm for snapshot", "bytes (", "driver started", "is running"]


@pytest.mark.parametrize("step", STEPS)
def test_the_update_is_killed_and_run_again(ground, step: str) -> None:
    v2 = str(ground.application("v2").file)
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)
    arguments = ["update", v2, *ground.params, *ground.agreed]
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
    v2 = str(ground.application("v2").file)
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(2)
    update = subprocess.Popen(
        ground.command("update", v2, "--deployment", "two", *ground.params, *ground.agreed), env=ground.environment
    )
    store = ground.client.registry.app(ground.app).folder

    def due() -> bool | None:
        if when == "draining":
            return ground.client.status(ground.app).state in ("draining", "cancelled") or None
        return store.exists("snapshots/before-two/snapshot.json") or None

    wait_for(due, when, 120, poll_seconds=0.02)
    ground.client.drivers(ground.app).kill("one")
    assert update.wait(280) == 0
    finish(ground, "two")


def finish(ground, deployment: str | None = None) -> None:
    ground.settle()
    status = ground.client.status(ground.app)
    assert status.state == "running"
    assert status.update is None
    assert deployment in (None, status.spec.deployment)
    assert len(ground.drivers()) == 1
    ground.check_answer(status.spec.from_snapshot)
