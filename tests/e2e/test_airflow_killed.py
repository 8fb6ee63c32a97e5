"""Airflow dies in the middle of an update, as a task and as a whole, with a real Airflow and real drivers: run again,
the update ends with version 2 running, the right answer, and one driver alive."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.error
from pathlib import Path

import psutil
import pytest
from demolib.airflow_server import AirflowServer

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
DAG = "stream_update"


class AirflowGround(Ground):
    """A ground with an Airflow whose connection leads to the same root."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        connection = {
            "conn_type": "streamupdate",
            "extra": {
                "root": str(self.root),
                "spark_conn_id": "spark_default",
                "spark_submit": self.client.launcher.spark_submit,
            },
        }
        self.airflow = AirflowServer(
            folder / "airflow",
            {
                "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps(connection),
                "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
                # how soon a new scheduler finds that a task's process has gone; 300 s unless told
                "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
                "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
                "UP_TIMEOUT": "400",
            },
        )

    def start_airflow(self) -> None:
        self.airflow.start()
        wait_for(lambda: self.airflow.ready() or None, "Airflow to start", 400)
        wait_for(lambda: self.airflow.has_dag(DAG) or None, f"Airflow to read DAG {DAG}", 120)

    def trigger(self, deployment: str) -> str:
        conf = {
            "app": self.app,
            "application": str(self.application("v2").file),
            "deployment_id": deployment,
            "agree": ["alarms/rooms"],  # other code, which reads what version 1 has kept
            "parameters": {"input": str(self.input), "output": str(self.output)},
        }

        def ask() -> str | None:
            with contextlib.suppress(urllib.error.HTTPError):  # SQLite is locked now and then
                return self.airflow.trigger(DAG, conf)
            return None

        return str(wait_for(ask, "the DAG to be triggered", 60))

    def task(self, run_id: str, task_id: str) -> dict[str, object]:
        return self.airflow.request("GET", f"dags/{DAG}/dagRuns/{run_id}/taskInstances/{task_id}")

    def end_of(self, run_id: str) -> str:
        def ended() -> str | None:
            state = self.airflow.run_state(DAG, run_id)
            return state if state in ("success", "failed") else None

        return str(wait_for(ended, f"run {run_id} to end", 400))

    def kill_airflow(self) -> None:
        """SIGKILL for every process of its session, at once."""
        leader = int((self.airflow.home / "standalone.pid").read_text())
        members = [p for p in psutil.pids() if _session(p) == leader]
        assert len(members) > 3
        # Stopped first: a task that sees that its supervisor is gone would end the driver it has started.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        psutil.wait_procs([psutil.Process(p) for p in members if psutil.pid_exists(p)], timeout=20)

    def end(self) -> None:
        self.airflow.stop()
        super().end()


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


GROUND = AirflowGround


def draining(ground: AirflowGround) -> bool | None:
    """The old version was told to end, and its task does not know yet whether it did."""
    return ground.client.deployment_state(ground.app, "one") != "running" or None


def starting(ground: AirflowGround) -> bool | None:
    """The new version's driver is alive, and its task does not know yet whether it runs."""
    return ground.drivers("two") != [] or None


def logs(ground: AirflowGround) -> str:
    """The ends of what version 2's drivers said."""
    return "\n".join(f"{path}\n{path.read_text()[-3000:]}" for path in sorted(ground.root.rglob("two/driver-*.log")))


def finish(ground: AirflowGround) -> None:
    ground.settle()
    status = ground.client.status(ground.app)
    assert (status.state, status.spec.deployment, status.update) == ("running", "two", None)
    assert len(ground.drivers()) == 1
    ground.check_answer("before-two")


def begin(ground: AirflowGround) -> str:
    """Have version 1 run, and trigger the update; its run's id."""
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.start_airflow()
    ground.wait_for_batches(2)
    return ground.trigger("two")


def test_the_tasks_are_killed_on_either_side_of_the_cutover(ground: AirflowGround) -> None:
    """SIGKILL; Airflow runs each of them again (the update's tasks have retries)."""
    run_id = begin(ground)
    for task_id, due in (("update.plan", starting), ("update.snapshot_and_cancel", draining)):
        wait_for(lambda due=due: due(ground), f"the moment to kill {task_id}", 400, poll_seconds=0.02)
        task = ground.task(run_id, task_id)
        assert task["state"] == "running", task
        os.kill(int(str(task["pid"])), signal.SIGKILL)
    assert ground.end_of(run_id) == "success", ground.airflow.task_states(DAG, run_id)
    for task_id in ("update.plan", "update.snapshot_and_cancel"):
        assert int(str(ground.task(run_id, task_id)["try_number"])) > 1
    finish(ground)


def test_the_whole_airflow_is_killed_while_version_2_starts(ground: AirflowGround) -> None:
    """SIGKILL for scheduler, API server, triggerer and tasks at once; started again, Airflow finds the task lost and
    runs it again, which finds the driver that was started."""
    run_id = begin(ground)
    wait_for(lambda: starting(ground), "version 2's driver to start", 400, poll_seconds=0.02)
    (driver,) = ground.drivers("two")
    ground.kill_airflow()
    assert driver.is_running()
    ground.start_airflow()
    assert ground.end_of(run_id) == "success", ground.airflow.task_states(DAG, run_id)
    assert int(str(ground.task(run_id, "update.plan")["try_number"])) > 1
    assert ground.drivers() == [driver], logs(ground)
    finish(ground)
