"""The pause that an update reports: for how long input waited for either version."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.promotion import pause
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.deployment import DRAINING, RUNNING, QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent.reporting import Reporter

from .builders import deploy, set_status

ZERO = datetime(2026, 11, 28, tzinfo=timezone.utc)
RECORD = UpdateRecord(app="flights", old="v1", new="v2", started_at=ZERO.isoformat(), strategy="standby")


def at(seconds: float) -> str:
    return (ZERO + timedelta(seconds=seconds)).isoformat()


def status(queries: dict[str, QueryStatus], **values: Any) -> Status:
    return Status(state=RUNNING, epoch=1, heartbeat_at=at(300), started_at=at(0), queries=queries, **values)


def committed(last: float | None = None, first: float | None = None) -> QueryStatus:
    return QueryStatus(
        last_commit_at=None if last is None else at(last), first_commit_at=None if first is None else at(first)
    )


# Old: last commit, when the drain began (0.0: idle then). New: first commit, first look that found nothing. The pause.
@pytest.mark.parametrize(
    ("last", "drained", "idle", "first", "nothing", "expected"),
    [
        (10.0, 200.0, False, 209.0, None, (199.0, 10.0)),  # a batch's worth of input waited for 190 s already
        (201.0, 200.0, False, 209.0, None, (8.0, 201.0)),  # the batch in flight was committed by the drain
        (10.0, 200.0, True, 209.0, None, (9.0, 200.0)),  # nothing waited: it reported 199 s
        (201.0, 200.0, True, 209.0, None, (8.0, 201.0)),  # input came just before
        (10.0, 200.0, True, None, 204.0, (4.0, 200.0)),  # nothing came afterwards either: none was reported
        (10.0, 200.0, True, 260.0, 204.0, (4.0, 200.0)),  # input came long after the new version was ready
        (None, 200.0, True, 209.0, None, (9.0, 200.0)),  # it never had input
        (10.0, None, False, 209.0, None, (199.0, 10.0)),  # it died, and was not drained
        (10.0, 200.0, True, None, None, None),  # the new version has not looked yet
    ],
)
def test_it_lasts_as_long_as_input_waited(
    app: AppRegistry,
    last: float | None,
    drained: float | None,
    idle: bool,
    first: float | None,
    nothing: float | None,
    expected: tuple[float, float] | None,
) -> None:
    old = status(
        {"q": committed(last=last)},
        drain_began_at=None if drained is None else at(drained),
        idle_at_drain=("q",) if idle else (),
    )
    new = status({"q": committed(first=first)}, first_idle_at={} if nothing is None else {"q": at(nothing)})
    for deployment, found in (("v1", old), ("v2", new)):
        deploy(app, deployment)
        set_status(app, deployment, found)
    assert pause(app, RECORD) == (None if expected is None else (expected[0], at(expected[1])))


def test_the_longest_of_all_queries_counts(app: AppRegistry) -> None:
    old = status(
        {"idle": committed(last=10.0), "busy": committed(last=198.0)}, drain_began_at=at(200.0), idle_at_drain=("idle",)
    )
    new = status({"idle": committed(first=204.0), "busy": committed(first=209.0)})
    for deployment, found in (("v1", old), ("v2", new)):
        deploy(app, deployment)
        set_status(app, deployment, found)
    assert pause(app, RECORD) == (11.0, at(198.0))


def test_a_driver_reports_what_was_idle_when_it_began_to_drain(tmp_path: Path) -> None:
    folder = Folder.open(str(tmp_path))
    reporter = Reporter(folder, 1)
    reporter.report(state=RUNNING)
    reporter.report(queries={"idle": QueryStatus(idle=True), "busy": QueryStatus(idle=False)})
    status = json.loads(folder.read("status.json") or b"")
    first, since = status["first_idle_at"], status["state_since"]
    assert clock.age(since) < 60
    assert list(first) == ["idle"] and clock.age(first["idle"]) < 60
    reporter.report(queries={"idle": QueryStatus(idle=True), "busy": QueryStatus(idle=True, first_commit_at=at(1))})
    reporter.report(state=DRAINING)
    reporter.report(queries={"idle": QueryStatus(), "busy": QueryStatus()})
    found = json.loads(folder.read("status.json") or b"")
    assert found["state_since"] > since, "when it began to drain, not its last report"
    assert found["first_idle_at"] == first, "the first look counts, and none after a batch"
    assert sorted(found["idle_at_drain"]) == ["busy", "idle"] and clock.age(found["drain_began_at"]) < 60
