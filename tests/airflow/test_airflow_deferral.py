"""Tasks that wait for a driver in the triggerer: nothing of them is left in the worker meanwhile."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.operators.update import StreamUpdateBeginOperator, StreamUpdateStepOperator

Context = dict[str, Any]
pytestmark = pytest.mark.processes


def submit(application: str, **arguments: Any) -> StreamSubmitOperator:
    given = {"app": "alarm", "application": application, "deployment_id": "v1", "deferrable": True, **arguments}
    return StreamSubmitOperator(task_id="t", **given)


def restart(**arguments: Any) -> StreamRestartOperator:
    return StreamRestartOperator(task_id="t", app="alarm", deferrable=True, **arguments)


def fired(deferred: TaskDeferred) -> dict[str, Any]:
    """Return the event of what was deferred, whose trigger goes the way to the triggerer."""
    path, arguments = deferred.trigger.serialize()

    async def collect() -> list[Any]:
        return [event.payload async for event in pkgutil.resolve_name(path)(**arguments).run()]

    [event] = asyncio.run(asyncio.wait_for(collect(), 60))
    return dict(event)


def resumed(operator: Any, deferred: TaskDeferred, context: Context) -> Any:
    return getattr(operator, deferred.method_name)(context, fired(deferred), **(deferred.kwargs or {}))


def result(operator: Any, context: Context) -> tuple[Any, int]:
    """Return a task's result, and how often it was deferred."""
    try:
        return operator.execute(context), 0
    except TaskDeferred as first:
        deferred = first
    for times in range(1, 5):
        try:
            return resumed(operator, deferred, context), times
        except TaskDeferred as again:
            deferred = again
    raise AssertionError("deferred without end")


@contextmanager
def stopped(site: Site, deployment: str) -> Iterator[None]:
    """A driver that gets nowhere inside the block, and has not said anything yet."""
    launch = wait_for(lambda: site.client.registry.app("alarm").launch(deployment), "a launch", 30)
    os.killpg(launch.pid, signal.SIGSTOP)
    site.client.registry.app("alarm").deployment_folder(deployment).remove("status.json")
    try:
        yield
    finally:
        os.killpg(launch.pid, signal.SIGCONT)


def test_submit(site: Site, context: Context) -> None:
    operator = submit(site.application())
    assert result(operator, context) == ({"app": "alarm", "deployment": "v1", "epoch": 1, "reattached": False}, 1)
    assert site.drivers_alive() == ["v1"] and "driver-" in context["ti"].pushed["driver_log"]
    again, times = result(operator, {"ti": FakeTaskInstance(try_number=2)})
    assert (again["epoch"], again["reattached"], times) == (1, True, 0)


@pytest.mark.parametrize("retry", [True, False])
def test_submit_of_what_dies_at_its_start(site: Site, context: Context, retry: bool) -> None:
    with pytest.raises(AirflowException, match=r"(?s)driver of deployment v1.*last words") as caught:
        result(submit(site.application(FAIL="start"), retry_dead_driver=retry), context)
    assert isinstance(caught.value, AirflowFailException) is not retry
    assert site.drivers_alive() == [] and "driver-" in context["ti"].pushed["driver_log"]
    assert "last words" in context["ti"].pushed["error"]


def test_submit_of_what_takes_too_long_is_waited_for_again(site: Site, context: Context) -> None:
    operator = submit(site.application(FAIL="never"), timeout=0.5)
    with pytest.raises(AirflowException, match="timed out while waiting for v1, which is starting") as caught:
        result(operator, context)
    assert not isinstance(caught.value, AirflowFailException)
    assert site.drivers_alive() == ["v1"]
    with pytest.raises(AirflowException, match="timed out"):
        result(operator, {"ti": FakeTaskInstance(try_number=2)})
    assert site.client.status("alarm").current.epoch == 1


def test_restart(site: Site, context: Context) -> None:
    site.submit()
    site.crash("v1")
    found, times = result(restart(), context)
    assert (found["epoch"], found["reattached"], times) == (2, False, 1)
    assert site.drivers_alive() == ["v1"]
    found, times = result(restart(), context)
    assert (found["epoch"], found["reattached"]) == (2, True) and times == 1


def test_a_run_that_ends_by_itself(site: Site, context: Context) -> None:
    site.submit(ENDS=True, INPUT=4)
    wait_for(lambda: site.client.status("alarm").state == "finished" or None, "its end", 30)
    found, times = result(restart(until_finished=True), context)
    assert found["epoch"] == 2 and times in (1, 2)  # it may have ended before it was seen to run
    assert site.client.status("alarm").state == "finished"


def test_a_run_that_fails_before_its_end(site: Site, context: Context) -> None:
    site.submit(FAIL="run")
    wait_for(lambda: site.client.status("alarm").state == "failed" or None, "its failure", 30)
    with pytest.raises(AirflowException, match="driver of deployment v1"):
        result(restart(until_finished=True), context)


def begun(site: Site, context: Context, **options: Any) -> StreamUpdateStepOperator:
    """Return the step `prepare` of an update whose plan is made."""
    site.submit()
    given = {"application": site.application("v2"), **options}
    StreamUpdateBeginOperator(task_id="plan", app="alarm", options={**given, "deployment_id": "v2"}).execute(context)
    return step("prepare", given)


def step(name: str, options: Context) -> StreamUpdateStepOperator:
    return StreamUpdateStepOperator(
        task_id=name, step=name, app="alarm", deployment_id="v2", options=options, deferrable=True
    )


@pytest.mark.parametrize("strategy", ["standby", "follow"])
def test_a_version_gets_ready_without_a_worker(site: Site, context: Context, strategy: str) -> None:
    prepare = begun(site, context, strategy=strategy)
    with stopped(site, "v2"), pytest.raises(TaskDeferred) as deferred:
        prepare.execute(context)
    resumed(prepare, deferred.value, context)
    assert site.client.drivers("alarm").state("v2") == "standby"
    assert "prepare" in site.client.registry.app("alarm").update("v2").step_times
    assert step("snapshot_and_cancel", prepare.options).execute(context) == "before-v2"
    assert site.drivers_alive() == ["v2"]


def test_the_old_version_dies_while_nobody_works_on_its_update(site: Site, context: Context) -> None:
    prepare = begun(site, context, strategy="standby")
    with stopped(site, "v2"), pytest.raises(TaskDeferred) as deferred:
        prepare.execute(context)
    site.crash("v1")
    resumed(prepare, deferred.value, context)
    step("snapshot_and_cancel", prepare.options).execute(context)
    assert site.client.status("alarm").current.deployment == "v2"
