"""The trace of an update: what its record and the drivers' events make of it, and what arrives at a collector."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from airflow_provider_streamupdate.control.update import record as records
from airflow_provider_streamupdate.control.update.record import send_trace
from airflow_provider_streamupdate.control.update.trace import make_spans
from airflow_provider_streamupdate.core.errors import NotFoundError, StorageError
from airflow_provider_streamupdate.core.formats import EVENT
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import (
    PROMOTED,
    ROLLED_BACK,
    Attempt,
    RollbackRecord,
    UpdateRecord,
)
from tests.otlp_receiver import Receiver, receiver

from .builders import deploy

START = datetime(2026, 11, 27, 7, 0, tzinfo=timezone.utc)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
APP = "flights"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the machine of the tests says."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(records, "TRACE_SECONDS", 1.0)


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    made = Registry(str(tmp_path)).app(APP)
    deploy(made)
    return made


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        yield made


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What this package warns of."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, line: logging.LogRecord) -> None:
            found.append(line.getMessage())

    handler = Kept(logging.WARNING)
    records.log.addHandler(handler)
    yield found
    records.log.removeHandler(handler)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def attempt(step: str, begin: float, end: float | None, **more: Any) -> Attempt:
    return Attempt(step=step, began_at=at(begin), ended_at=None if end is None else at(end), **more)


def update(*attempts: Attempt, end: float | None = 10, **more: Any) -> UpdateRecord:
    """One that was promoted after `end` seconds, unless it is said otherwise."""
    times = {"plan": at(1)} if end is None else {"plan": at(1), "promote": at(end)}
    outcome, ended = (None, None) if end is None else (PROMOTED, at(end))
    given = {"step_times": times, "outcome": outcome, "ended_at": ended, **more}
    return UpdateRecord(app=APP, old="v1", new="v2", strategy="standby", started_at=at(1), attempts=attempts, **given)


STEPS = (attempt("plan", 0, 3, by="kim@host"), attempt("snapshot", 4, 8), attempt("promote", 9, 10))


def events(app: AppRegistry, deployment: str, *told: tuple[str, float], **more: Any) -> None:
    """Of the driver of epoch 1: states are written in lower case, other events with a star before them."""
    lines = []
    for name, seconds in told:
        kind = {"event": name[1:]} if name.startswith("*") else {"event": "state", "state": name}
        lines.append(json.dumps(EVENT.stamped({**kind, "at": at(seconds), "epoch": 1, **more})))
    app.folder.write(f"deployments/{deployment}/events.jsonl", "\n".join(lines).encode())


def spans(app: AppRegistry, record: UpdateRecord) -> list[ReadableSpan]:
    app.set_update(record)
    return make_spans(app, "v2")


def shape(made: list[ReadableSpan]) -> list[tuple[str, str | None, float, float]]:
    """The spans by name: the one around, and the seconds since the update began."""
    names = {span.context.span_id: span.name for span in made}
    return [
        (
            span.name,
            names.get(span.parent.span_id) if span.parent else None,
            *(((moment or 0) - (made[0].start_time or 0)) / 1e9 for moment in (span.start_time, span.end_time)),
        )
        for span in made
    ]


def named(made: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in made if span.name == name]
    return found


def test_the_steps_and_what_the_drivers_did_in_them(app: AppRegistry) -> None:
    events(app, "v1", ("running", -50), ("*command", 4.1), ("draining", 4.2), ("*handed over", 4.5), ("cancelled", 7))
    later = ("draining", 90.0), ("cancelled", 91.0)
    new = ("*planned", 2.0), ("standby", 3.5), ("restoring", 4.6), ("running", 5.5), ("*first batch", 6.5), *later
    events(app, "v2", *new, since=at(1))
    made = spans(app, update(*STEPS, pause_seconds=1.75, paused_at=at(4.25), asked_by="kim@host"))
    assert shape(made) == [
        ("update flights", None, 0.0, 10.0),
        ("plan", "update flights", 0.0, 3.0),
        ("driver: start", "plan", 1.0, 2.0),
        ("driver: planned", "update flights", 2.0, 3.5),
        ("driver: standby", "update flights", 3.5, 4.6),
        ("snapshot", "update flights", 4.0, 8.0),
        ("driver: draining", "snapshot", 4.2, 4.5),
        ("pause", "snapshot", 4.25, 6.0),
        ("driver: handed over", "snapshot", 4.5, 7.0),
        ("driver: restoring", "snapshot", 4.6, 5.5),
        ("driver: running", "snapshot", 5.5, 6.5),
        ("promote", "update flights", 9.0, 10.0),
    ]
    assert len({span.context.trace_id for span in made}) == 1 and not any(span.status.description for span in made)
    assert made[0].attributes == {
        "streamupdate.app": "flights",
        "streamupdate.old": "v1",
        "streamupdate.new": "v2",
        "streamupdate.strategy": "standby",
        "streamupdate.outcome": "promoted",
        "streamupdate.pause_seconds": 1.75,
        "streamupdate.asked_by": "kim@host",
    }
    driver = named(made, "driver: draining")
    assert driver.attributes == {"streamupdate.deployment": "v1", "streamupdate.epoch": 1}


def test_steps_that_died_or_are_under_way(app: AppRegistry) -> None:
    made = spans(
        app,
        update(attempt("snapshot", 2, None), attempt("snapshot", 6, 7, error="it failed"), attempt("promote", 9, None)),
    )
    first, second = (span for span in made if span.name == "snapshot")
    assert (first.end_time or 0) == second.start_time and "its process died" in str(first.status.description)
    assert second.status.description == "it failed"
    assert "its process died" in str(named(made, "promote").status.description)
    # one under way lasts until now and has no error
    made = spans(app, update(attempt("standby", 2, None), end=None))
    assert time.time() - (made[0].end_time or 0) / 1e9 < 60 and made[1].end_time == made[0].end_time
    assert [span.status.description for span in made] == [None, None]


def test_a_rolled_back_update_has_the_way_back_and_the_error(app: AppRegistry) -> None:
    back = RollbackRecord(number=3, app=APP, left="v2", back_to="v1", started_at=at(6), ended_at=at(9))
    for other in (attrs.evolve(back, number=1, left="v1"), attrs.evolve(back, number=2, started_at=at(-5)), back):
        app.set_rollback(other)
    events(app, "v1", ("restoring", 7), ("failed", 8), since=at(6.5), error="PythonException")
    record = update(attempt("verify", 4, 5.5, error="no"), end=None, outcome=ROLLED_BACK, reason="no", ended_at=at(9.5))
    made = spans(app, record)
    assert [span[:2] for span in shape(made)] == [
        ("update flights", None),
        ("verify", "update flights"),
        ("rollback", "update flights"),
        ("driver: start", "rollback"),
        ("driver: restoring", "rollback"),
    ]
    assert made[0].status.description == "rolled-back: no"
    assert named(made, "driver: restoring").status.description == "PythonException"


@pytest.mark.parametrize(
    ("traceparent", "joined"),
    [
        (PARENT, True),
        (PARENT[:-2] + "00", False),  # not sampled: nobody keeps that trace
        (PARENT.replace("b7ad6b7169203331", "0" * 16), False),
        ("garbage", False),
        (None, False),
    ],
)
def test_it_is_part_of_the_trace_of_the_task_that_began_it(
    app: AppRegistry, traceparent: str | None, joined: bool
) -> None:
    made = spans(app, update(attempt("plan", 0, 1, traceparent=traceparent), attempt("promote", 9, 10)))
    plan = named(made, "plan")
    assert (made[0].parent is not None) is (f"{made[0].context.trace_id:032x}" == PARENT.split("-")[1]) is joined
    assert [f"{link.context.span_id:016x}" for link in plan.links] == ([PARENT.split("-")[2]] if joined else [])
    assert {span.context.trace_id for span in made} == {made[0].context.trace_id}


def test_events_that_make_no_sense_are_left_out(app: AppRegistry) -> None:
    odd = b'{"event": 3}\nno json\n{"epoch": "x"}\n[]\n\xff\n{"event": "state", "at": 3, "epoch": [], "state": {}}\n'
    app.folder.write("deployments/v1/events.jsonl", odd)
    assert len(spans(app, update(*STEPS))) == 4
    with pytest.raises(NotFoundError, match="app flights has had no update to 'v9'"):
        make_spans(app, "v9")


def test_what_arrives_is_the_trace(app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    made = spans(app, update(*STEPS))
    send_trace(app, "v2")
    assert len(collector.requests) == 1
    assert [(s.name, s.start_time_unix_nano) for s in collector.spans] == [(s.name, s.start_time) for s in made]
    resource = collector.resources[0]
    assert (resource["service.name"], resource["deployment.environment"]) == ("streamupdate", "test")
    assert {k.lower(): v for k, v in collector.headers[0].items()}["authorization"] == "Bearer abc"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "updates")
    send_trace(app, "v2")
    assert collector.resources[1]["service.name"] == "updates"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    ],
)
def test_it_can_be_switched_off(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str], name: str, value: str
) -> None:
    app.set_update(update(*STEPS))
    monkeypatch.setenv(name, value)
    send_trace(app, "v2")
    assert (collector.requests, warnings) == ([], [])


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("problem", ["grpc", "http/protobuf", "hangs", "refuses", "no url at all", "no update"])
def test_what_fails_costs_little_and_is_logged(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str], problem: str
) -> None:
    app.set_update(update(*STEPS))
    if problem in ("grpc", "http/protobuf"):  # and nobody listens
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://kim:geheim@127.0.0.1:{closed_port()}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", problem)
    elif problem == "no url at all":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", problem)
    elif problem == "no update":
        app.folder.write("updates/v2.json", b"{")
    collector.never, collector.answer = problem == "hangs", 401 if problem == "refuses" else 200
    began = time.monotonic()
    send_trace(app, "v2")
    assert time.monotonic() - began < 8  # the first import of the libraries is in it
    assert len(warnings) == 1 and "geheim" not in warnings[0]
    assert "the trace of an update was not sent: " in warnings[0] and "streamupdate trace flights v2" in warnings[0]


def test_without_the_libraries_no_update_fails(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "airflow_provider_streamupdate.control.update.trace", None)
    send_trace(app, "v2")
    assert len(warnings) == 1 and not collector.requests


def test_a_note_that_cannot_be_written_fails_no_step(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    app.set_update(update(end=None))
    done = []
    with records.attempting(app, "v2", attempt("check", 0, None)):
        done.append(1)
    with pytest.raises(ValueError, match="the step's own"), records.attempting(app, "v2", attempt("verify", 1, None)):
        raise ValueError("the step's own")
    found = app.update("v2")
    assert [(a.step, a.ended_at is not None, a.error) for a in found.attempts] == [
        ("check", True, None),
        ("verify", True, "ValueError: the step's own"),
    ]

    def broken(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(AppRegistry, "set_update", broken)
    with records.attempting(app, "v2", attempt("submit", 2, None)):
        done.append(2)
    assert done == [1, 2]


def test_tries_go_on_in_other_processes_and_stay_few(app: AppRegistry) -> None:
    app.set_update(update(end=None))
    records.begin_attempt(app, "v2", attempt("verify", 0, None, by="task"), again=True)
    records.begin_attempt(app, "v2", attempt("verify", 1, None, by="task"), again=True)  # it was rescheduled
    records.begin_attempt(app, "v2", attempt("verify", 2, None, by="other"), again=True)
    found = app.update("v2")
    assert found is not None and [a.by for a in found.attempts] == ["task", "other"]
    # the record of an update that is tried forever stays small
    app.set_update(update(end=None))
    for number in range(records.MOST_ATTEMPTS + 5):
        records.begin_attempt(app, "v2", attempt("verify", number, number))
    assert len(app.update("v2").attempts) == records.MOST_ATTEMPTS
