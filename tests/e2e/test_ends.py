"""However a driver ends, its deployment is left in a clear final state, and nothing of it goes on running."""

from __future__ import annotations

import psutil
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


def processes(ground) -> tuple[psutil.Process, psutil.Process]:
    """The JVM and the Python of the one driver that runs."""
    (python,) = ground.drivers()
    jvm = python.parent()
    assert jvm is not None and jvm.name() == "java"
    return jvm, python


def final_state(ground, deployment: str) -> str:
    """The state once every process of the driver has gone."""
    drivers = ground.client.drivers(ground.app)
    wait_for(lambda: drivers.has_ended(deployment) or None, f"the end of {deployment}", 90)
    wait_for(lambda: ground.drivers() == [] or None, "the driver's Python to end", 90)
    return drivers.state(deployment)


@pytest.mark.slow
def test_a_driver_ended_by_signals_leaves_a_final_state(ground) -> None:
    ground.feed()

    def started() -> tuple[psutil.Process, psutil.Process]:
        ground.wait_for_batches(1)
        return processes(ground)

    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    _, python = started()
    python.terminate()
    assert final_state(ground, "one") == "stopped"
    assert ground.client.status(ground.app).status.reason == "stopped by signal SIGTERM"

    ground.client.restart(ground.app)
    jvm, _ = started()
    jvm.kill()
    assert final_state(ground, "one") == "failed"
    assert "the driver's JVM ended" in str(ground.client.status(ground.app).status.error)

    ground.client.restart(ground.app)
    jvm, python = started()
    python.kill()
    assert final_state(ground, "one") == "lost"
    assert not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE
    ground.client.begin_cancel(ground.app)  # no supervisor starts it any more
    assert ground.client.status(ground.app).state == "cancelled"
    assert ground.client.begin_cancel(ground.app) == ()
