"""Sending an update's trace: what arrives, and what happens when nothing can."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.update import record
from airflow_provider_streamupdate.control.update.trace import sending
from airflow_provider_streamupdate.control.update.trace.reading import read
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import ROLLED_BACK
from tests.otlp_receiver import Receiver, receiver

from .builders import deploy
from .test_update_trace import PARENT, STEPS, attempt, promoted

APP = "flights"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the machine of the tests says."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    made = Registry(str(tmp_path)).app(APP)
    deploy(made)
    made.set_update(promoted(*STEPS))
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
    sending.log.addHandler(handler)
    yield found
    sending.log.removeHandler(handler)


def test_what_arrives_is_the_trace(app: AppRegistry, collector: Receiver) -> None:
    sending.send_ended(app, "v2")
    _, trace = read(app, "v2")
    assert len(trace.spans) == len(collector.spans) == 4
    for sent, made in zip(collector.spans, trace.spans, strict=True):
        assert sent.trace_id == trace.trace_id.to_bytes(16, "big") and sent.span_id == made.span_id.to_bytes(8, "big")
        assert sent.parent_span_id == (b"" if made.parent_id is None else made.parent_id.to_bytes(8, "big"))
        assert (sent.end_time_unix_nano - sent.start_time_unix_nano) / 1e9 == made.seconds
        assert sent.start_time_unix_nano == int(made.begin.timestamp()) * 10**9 + made.begin.microsecond * 1000
        assert {a.key for a in sent.attributes} == set(made.attributes)
    assert collector.spans[0].status.code == collector.spans[0].status.STATUS_CODE_OK
    assert collector.resources[0]["service.name"] == "streamupdate"


def test_a_trace_that_is_sent_again_is_the_same(app: AppRegistry, collector: Receiver) -> None:
    sending.send_ended(app, "v2")
    sending.send_ended(app, "v2")
    first, second = (r.resource_spans[0].scope_spans for r in collector.requests)
    assert list(first) == list(second)


def test_the_standard_variables_are_obeyed(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "updates")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    sending.send_ended(app, "v2")
    resource = collector.resources[0]
    assert (resource["service.name"], resource["deployment.environment"]) == ("updates", "test")
    assert {k.lower(): v for k, v in collector.headers[0].items()}["authorization"] == "Bearer abc"


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
    app: AppRegistry,
    collector: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    warnings: list[str],
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    sending.send_ended(app, "v2")
    assert (collector.requests, warnings) == ([], [])


def test_without_an_endpoint_nothing_is_read(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "read", lambda *_: pytest.fail("it was read"))
    sending.send_ended(app, "v2")


def test_one_that_has_not_ended_is_not_sent(app: AppRegistry, collector: Receiver) -> None:
    app.set_update(attrs.evolve(promoted(*STEPS), outcome=None, step_times={}))
    sending.send_ended(app, "v2")
    assert collector.requests == []


def test_errors_links_and_the_span_around(app: AppRegistry, collector: Receiver) -> None:
    failed = attempt("verify", 4, 5, error="not healthy", traceparent=PARENT)
    made = promoted(attempt("plan", 0, 1, traceparent=PARENT), failed)
    app.set_update(attrs.evolve(made, outcome=ROLLED_BACK, reason="not healthy", step_times={}))
    sending.send_ended(app, "v2")
    root, plan, verify = collector.spans
    assert root.trace_id.hex() == PARENT.split("-")[1] and root.parent_span_id.hex() == PARENT.split("-")[2]
    assert (root.status.code, root.status.message) == (root.status.STATUS_CODE_ERROR, "rolled-back: not healthy")
    assert (verify.status.code, verify.status.message) == (verify.status.STATUS_CODE_ERROR, "not healthy")
    assert plan.status.code == plan.status.STATUS_CODE_UNSET
    assert [link.span_id.hex() for link in verify.links] == [PARENT.split("-")[2]]


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("protocol", ["", "grpc", "http/protobuf"])
def test_nobody_listens(app: AppRegistry, monkeypatch: pytest.MonkeyPatch, warnings: list[str], protocol: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    monkeypatch.setattr(sending, "SECONDS", 1.0)
    began = time.monotonic()
    sending.send_ended(app, "v2")
    assert time.monotonic() - began < 8  # the first import of the libraries is in it
    assert len(warnings) == 1
    assert "the trace of the update of flights to v2 was not sent: " in warnings[0]
    assert "streamupdate trace flights v2 --send" in warnings[0]


def test_one_that_takes_forever_is_not_waited_for(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    collector.never = True
    monkeypatch.setattr(sending, "SECONDS", 1.0)
    began = time.monotonic()
    sending.send_ended(app, "v2")
    assert 1.0 <= time.monotonic() - began < 8
    assert f"{collector.url} has not taken it in 1 s" in warnings[0]


def test_a_password_in_the_endpoint_is_not_told(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    collector.answer = 401
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.replace("//", "//kim:geheim@"))
    sending.send_ended(app, "v2")
    assert f"{collector.url} did not take it" in warnings[0] and "geheim" not in warnings[0]


@pytest.mark.parametrize("answer", [400, 401, 404, 500])
def test_one_that_refuses(app: AppRegistry, collector: Receiver, warnings: list[str], answer: int) -> None:
    collector.answer = answer
    sending.send_ended(app, "v2")
    assert f"{collector.url} did not take it over http/protobuf" in warnings[0]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "OTEL_EXPORTER_OTLP_PROTOCOL is 'smoke'; it must be grpc or http/pro"),
        ("OTEL_TRACES_EXPORTER", "pigeon", "OTEL_TRACES_EXPORTER 'pigeon' is not installed here (there are: "),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "no url at all", "was not sent"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1", "was not sent"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "was not sent"),
    ],
)
def test_an_environment_that_makes_no_sense(
    app: AppRegistry,
    collector: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    warnings: list[str],
    name: str,
    value: str,
    told: str,
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sending, "SECONDS", 1.0)
    sending.send_ended(app, "v2")
    if collector.requests:
        assert name == "OTEL_EXPORTER_OTLP_TIMEOUT"  # the libraries take their own default for it
    else:
        assert len(warnings) == 1 and told in warnings[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "dice"),
        ("OTEL_TRACES_SAMPLER_ARG", "x"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "few"),
        ("OTEL_RESOURCE_ATTRIBUTES", ",,=,"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "\x00;;,="),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
    ],
)
def test_other_variables_that_make_no_sense_raise_nothing(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str], name: str, value: str
) -> None:
    try:
        monkeypatch.setenv(name, value)
    except ValueError:
        monkeypatch.setenv(name, ";;,=")
    sending.send_ended(app, "v2")
    assert bool(collector.requests) is not bool(warnings)


def test_without_the_libraries_it_says_what_to_install(
    app: AppRegistry, collector: Receiver, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    sending.send_ended(app, "v2")
    assert "pip install 'airflow-provider-streamupdate[otel]'" in warnings[0] and not collector.requests


def test_a_damaged_record_or_event_fails_nothing(app: AppRegistry, collector: Receiver, warnings: list[str]) -> None:
    app.folder.write("deployments/v1/events.jsonl", b'{"event": 3}\nno json\n{"epoch": "x"}\n[]\n\xff\n')
    sending.send_ended(app, "v2")
    assert (len(collector.spans), warnings) == (4, [])
    app.folder.write("updates/v2.json", b"{")
    sending.send_ended(app, "v2")
    assert "was not sent" in warnings[0]


def test_a_note_that_cannot_be_written_fails_no_step(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    app.set_update(attrs.evolve(promoted(), outcome=None, step_times={}))
    done = []
    with record.attempting(app, "v2", attempt("check", 0, None)):
        done.append(1)
    with pytest.raises(ValueError, match="the step's own"), record.attempting(app, "v2", attempt("verify", 1, None)):
        raise ValueError("the step's own")
    found = app.update("v2")
    assert found is not None
    assert [(a.step, a.ended_at is not None, a.error) for a in found.attempts] == [
        ("check", True, None),
        ("verify", True, "ValueError: the step's own"),
    ]

    def broken(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(AppRegistry, "set_update", broken)
    with record.attempting(app, "v2", attempt("submit", 2, None)):
        done.append(2)
    assert done == [1, 2]


def test_the_record_of_an_update_that_is_tried_forever_stays_small(app: AppRegistry) -> None:
    app.set_update(attrs.evolve(promoted(), outcome=None, step_times={}))
    for number in range(record.MOST_ATTEMPTS + 5):
        record.begin_attempt(app, "v2", attempt("verify", number, number))
    found = app.update("v2")
    assert found is not None and len(found.attempts) == record.MOST_ATTEMPTS


def test_a_try_goes_on_in_another_process_of_the_same_task(app: AppRegistry) -> None:
    app.set_update(attrs.evolve(promoted(), outcome=None, step_times={}))
    record.begin_attempt(app, "v2", attempt("verify", 0, None, by="task"), again=True)
    record.begin_attempt(app, "v2", attempt("verify", 1, None, by="task"), again=True)  # it was rescheduled
    record.begin_attempt(app, "v2", attempt("verify", 2, None, by="other"), again=True)
    found = app.update("v2")
    assert found is not None and [a.by for a in found.attempts] == ["task", "other"]
