"""The log of a driver in the log of the task that starts it (argument `get_logs`)."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow_site import Site

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import log_tail
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import NotFoundError
from airflow_provider_streamupdate.operators.driver import lines as driver_lines
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.operators.update import StreamUpdateStepOperator
from tests.begun_updates import begin_update

Context = dict[str, Any]
OPENS, DIES = "the driver opens its session", "the last words of a driver that dies at start"


class Lines:
    """What a task's log gets."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.texts: list[tuple[int, str]] = []
        self._patch = patch

    def of(self, operator: Any) -> Any:
        """The operator, whose log is this."""
        logger = logging.Logger("task")
        handler = logging.Handler()
        handler.emit = lambda record: self.texts.append((record.levelno, record.getMessage()))  # type: ignore[method-assign]
        logger.addHandler(handler)
        self._patch.setattr(type(operator), "log", logger)
        return operator

    def count(self, text: str) -> int:
        return [said for _, said in self.texts].count(text)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    monkeypatch.setattr(driver_lines, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(log_tail, "FOLLOW_SECONDS", 0.02)
    return Lines(monkeypatch)


def submit(site: Site, **arguments: Any) -> StreamSubmitOperator:
    constants = {"FAIL": arguments.pop("fails", None)}
    return StreamSubmitOperator(
        task_id="t", app="alarm", application=site.application(**constants), deployment_id="v1", **arguments
    )


@pytest.mark.processes
def test_a_submit_shows_what_its_driver_says(site: Site, context: Context, lines: Lines) -> None:
    """And nobody listens to it once the task is over: it writes nothing more, and lives on."""
    lines.of(submit(site)).execute(context)
    assert lines.count(f"[v1] {OPENS}") == 1
    wait_for(lambda: not any(t.name == "driver-lines" for t in threading.enumerate()) or None, "the thread's end", 10)
    assert site.drivers_alive() == ["v1"]


def test_no_secret_is_shown(site: Site, context: Context, lines: Lines) -> None:
    """A parameter whose name says that it is one."""
    with pytest.raises(AirflowException):
        lines.of(submit(site, fails="start", app_params={"password": "driver that dies"})).execute(context)
    assert lines.count(f"[v1] {DIES}") == 0
    assert any(said.startswith("[v1] the last words of a ") for _, said in lines.texts)


@pytest.mark.processes
def test_a_step_of_an_update_shows_the_new_driver(site: Site, context: Context, lines: Lines) -> None:
    site.submit()
    begin_update(site.client, "alarm", "v2", strategy="standby")
    options = {"application": site.application("v2"), "drain_timeout": 20}
    operator = StreamUpdateStepOperator(task_id="t", step="prepare", app="alarm", options=options, deployment_id="v2")
    lines.of(operator).execute(context)
    assert lines.count(f"[v2] {OPENS}") == 1


def test_a_log_that_cannot_be_read_here_is_told_once_and_is_no_error(
    site: Site, context: Context, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(*_: Any) -> Any:
        raise NotFoundError("the log is on other at /driver.log")

    monkeypatch.setattr(StreamUpdateClient, "follow_log", elsewhere)
    lines.of(submit(site)).execute(context)
    told = [said for _, said in lines.texts if "not shown here" in said]
    assert told == ["the log of the driver of v1 is not shown here: the log is on other at /driver.log"]
    assert site.drivers_alive() == ["v1"]
