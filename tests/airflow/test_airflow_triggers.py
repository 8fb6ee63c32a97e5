"""Triggers and sensors, against a real root and the stand-in for Spark."""

from __future__ import annotations

import asyncio
import json
import os
import pkgutil
import signal
import time
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
)
from airflow.serialization.serialized_objects import BaseSerialization
from airflow.triggers.base import BaseTrigger
from airflow_site import Site

from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.sensors.health import StreamHealthSensor
from airflow_provider_streamupdate.sensors.snapshot import StreamSnapshotSensor
from airflow_provider_streamupdate.triggers.base import value_of
from airflow_provider_streamupdate.triggers.cancel import CancelTrigger
from airflow_provider_streamupdate.triggers.health import HealthTrigger
from airflow_provider_streamupdate.triggers.parallel import CaughtUpTrigger
from airflow_provider_streamupdate.triggers.snapshot import SnapshotExistsTrigger, SnapshotTrigger

Context = dict[str, Any]
COMMON = {"streamupdate_conn_id": "streamupdate_default", "app": "alarm", "poll_interval": 0.05}
TRIGGERS = [
    SnapshotTrigger(name="s1", cancel=True, deadline=12.5, **COMMON),
    SnapshotExistsTrigger(name="s1", verify=True, deadline=None, **COMMON),
    CancelTrigger(deadline=1.0, **COMMON),
    CaughtUpTrigger(deployment="v2", run_beside=1.5, catch_up_timeout=9.0, deadline=1.0, **COMMON),
    HealthTrigger(deployment="v1", baseline_snapshot="s1", batches=3, deadline=1.0, **COMMON),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda t: type(t).__name__)
def test_a_trigger_survives_the_way_to_the_triggerer(trigger: BaseTrigger) -> None:
    path, arguments = trigger.serialize()
    stored = BaseSerialization.deserialize(json.loads(json.dumps(BaseSerialization.serialize(arguments))))
    again = pkgutil.resolve_name(path)(**stored)
    assert type(again) is type(trigger)
    assert again.serialize() == (path, arguments)
    assert len(arguments) > 4 or isinstance(trigger, CancelTrigger)


def events(trigger: BaseTrigger) -> list[Any]:
    """Run a trigger to its end, as the triggerer does."""

    async def collect() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(asyncio.wait_for(collect(), 60))


def event(trigger: BaseTrigger) -> dict[str, Any]:
    (only,) = events(trigger)
    json.dumps(only)
    return dict(only)


class Saying(CancelTrigger):
    """Finds a value, or an error, as it was told."""

    said: Any = None

    def poll(self, client: Any) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def test_an_event_has_nothing_that_postgresql_refuses(site: Site) -> None:
    """A triggerer that cannot store an event dies, tries again, and dies again."""
    trigger = Saying(**COMMON)
    trigger.said = {"a\0": ["b\ud800", float("nan"), 1.5, ("c",)]}
    assert event(trigger)["value"] == {"a\ufffd": ["b\ufffd", None, 1.5, ["c"]]}
    trigger.said = StreamUpdateError("its last words: \0")
    assert event(trigger)["message"] == "its last words: \ufffd"


@pytest.mark.processes
def test_the_deadline_is_reported_with_how_things_stand(site: Site) -> None:
    site.submit()
    launch = site.client.registry.app("alarm").launch("v1")
    assert launch is not None
    os.killpg(launch.pid, signal.SIGSTOP)  # it does not come to its commands
    try:
        site.client.begin_cancel("alarm")
        late = event(CancelTrigger(deadline=time.time() + 0.2, **COMMON))
    finally:
        os.killpg(launch.pid, signal.SIGCONT)
    assert late["error"] == "WaitTimeoutError"
    assert late["message"] == "app alarm: timed out while waiting for its end; it is running"
    with pytest.raises(AirflowException, match="timed out while waiting"):
        value_of(late)
    with pytest.raises(AirflowSensorTimeout):
        value_of(late, timed_out=AirflowSensorTimeout)


@pytest.mark.parametrize("deferrable", [False, True])
def test_health_sensor_fails_at_once_when_the_driver_failed(site: Site, context: Context, deferrable: bool) -> None:
    with pytest.raises(Exception, match="the driver of deployment v1"):
        site.submit(FAIL="start")
    sensor = StreamHealthSensor(task_id="t", app="alarm", timeout=600, deferrable=deferrable)
    with pytest.raises(AirflowFailException, match="app alarm is not healthy: deployment v1 is lost"):
        sensor.execute(context)
    assert "not healthy" in context["ti"].pushed["error"]


def test_snapshot_sensor_waits_for_one_and_refuses_a_damaged_one(site: Site, context: Context) -> None:
    sensor = StreamSnapshotSensor(task_id="t", app="alarm", name="s1", verify=True, poke_interval=0.05, timeout=0.2)
    with pytest.raises(AirflowSensorTimeout):
        sensor.execute(context)  # no such app yet
    site.submit()
    with pytest.raises(AirflowSensorTimeout):
        sensor.execute(context)
    snapshot = site.client.save_snapshot("alarm", "s1")
    assert sensor.execute(context)["name"] == "s1"
    file = site.root / "alarm" / snapshot.queries["events"].files[0].object
    file.write_bytes(b"x" * file.stat().st_size)
    unverified = StreamSnapshotSensor(task_id="t", app="alarm", name="s1", timeout=1)
    assert unverified.execute(context)["name"] == "s1"
    for deferrable in (False, True):
        sensor = StreamSnapshotSensor(
            task_id="t", app="alarm", name="s1", verify=True, timeout=600, deferrable=deferrable
        )
        with pytest.raises(AirflowFailException, match="snapshot s1 of alarm is damaged"):
            sensor.execute(context)


def test_deferred_waits_in_a_dag_run(site: Site, airflow_db: str) -> None:
    """The triggers run as Airflow runs them; which of the waits is long enough to be deferred is up to timing,
    except the first and the last."""
    site.submit(DRAIN_SECONDS=0.5)
    run = site.run_dag("waits", "tests/airflow/dags")
    assert run.state == "success", run.states
    assert run.xcom("health")["status"]["queries"]["events"]["batch"] >= 59
    assert run.xcom("snapshot")["name"] == run.xcom("exists")["name"] == "s1"
    assert run.xcom("cancel") == "cancelled"
    assert site.drivers_alive() == []
