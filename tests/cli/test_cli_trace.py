"""Traces of updates whose drivers really start and end, with the stand-in for Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_streamupdate.control.update import trace as trace_of
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.begun_updates import begin_update
from tests.cases import STEPS
from tests.otlp_receiver import Receiver, receiver

from .conftest import Site, document


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        yield made


def trace(site: Site, *args: str) -> list[dict[str, Any]]:
    result = site.ok("trace", "alarm", *args, "--json")
    found: list[dict[str, Any]] = document(result)
    return found


def children(spans: list[dict[str, Any]], name: str) -> list[str]:
    (around,) = [span["context"]["span_id"] for span in spans if span["name"] == name]
    return [span["name"] for span in spans if span["parent_id"] == around]


@pytest.mark.processes
def test_an_update_is_one_trace_with_its_steps_and_the_drivers_parts(running: Site, collector: Receiver) -> None:
    running.ok("update", running.application("v2"), "--deployment", "v2")
    assert len(collector.requests) == 1
    assert len({span.trace_id for span in collector.spans}) == 1
    spans = trace(running)
    assert [span["name"] for span in spans] == [span.name for span in collector.spans]
    steps = [span for span in spans if "streamupdate.step" in span["attributes"]]
    assert [span["name"] for span in steps] == list(STEPS)
    assert all(before["end_time"] <= after["start_time"] for before, after in pairwise(steps))
    handed = {"draining", "handed over", "restoring", "restored", "running"}
    assert {f"driver: {part}" for part in handed} <= set(children(spans, "snapshot_and_cancel"))
    (pause,) = [span for span in spans if span["name"] == "pause"]
    root = spans[0]
    (snapshot,) = [step for step in steps if step["name"] == "snapshot_and_cancel"]
    # It begins with the old version's last commit, which may be before anything was asked of it.
    around = snapshot if pause["start_time"] >= snapshot["start_time"] else root
    assert pause["parent_id"] == around["context"]["span_id"]
    assert root["attributes"]["streamupdate.pause_seconds"] > 0
    assert root["attributes"]["streamupdate.outcome"] == "promoted"
    assert {span["status"]["status_code"] for span in spans} == {"UNSET"}
    shown = running.run("trace", "alarm", "v2").stdout.splitlines()
    assert shown[1].split()[:3] == ["update", "alarm", "0.000"] and any("    driver: restoring" in s for s in shown)

    assert len(trace(running, "v2", "--send")) == len(collector.requests[1].resource_spans[0].scope_spans[0].spans)
    assert running.run("rollback", "alarm").exit_code == 0  # of a promoted update: its trace stays what it is
    assert len(collector.requests) == 2
    assert trace(running)[0]["attributes"]["streamupdate.outcome"] == "promoted"


def test_what_cannot_be_shown_or_sent(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    none = running.run("trace", "alarm")
    assert none.exit_code == 1 and "app alarm has had no update" in none.stderr
    begin_update(running.client, "alarm", "v2", "digest", "restart")
    assert trace(running)[0]["attributes"]["streamupdate.outcome"] == "under way"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("airflow_provider_streamupdate.cli.commands.trace.SECONDS", 1.0)
    dead = running.run("trace", "alarm", "--send")
    assert dead.exit_code == 1 and "did not take the trace" in dead.stderr
    unknown = running.run("trace", "alarm", "v9")
    assert unknown.exit_code == 1 and "no update to 'v9'" in unknown.stderr
    assert running.run("trace", "alarm", "../v9").exit_code != 0
    monkeypatch.setitem(sys.modules, "airflow_provider_streamupdate.control.update.trace", None)
    missing = running.run("trace", "alarm")
    assert missing.exit_code == 1 and "pip install 'airflow-provider-streamupdate[otel]'" in missing.stderr


def test_each_update_is_sent_once_when_it_has_ended(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(trace_of, "send", lambda spans, _: sent.append(spans[0].attributes["streamupdate.outcome"]))
    for version, more, fails in (
        ("v2", ("--rehearse", "1"), {"REHEARSAL": "ValueError: no"}),
        ("v3", ("--strategy", "restart"), {"FAIL": "run"}),
    ):
        file = running.application(version, **fails)
        assert running.run("update", file, "--deployment", version, *more).exit_code == 1
    running.app.set_update(UpdateRecord(app="alarm", old="v1", new="v4", started_at=clock.now(), digest="other"))
    running.ok("update", running.application("v5"), "--deployment", "v5")
    running.ok("rollback", "alarm")
    assert sent == ["refused", "rolled-back", "superseded", "promoted"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert running.run("update", running.application("v6")).exit_code == 0 and len(sent) == 4

    def fail(*_: object) -> None:
        raise RuntimeError("the collector is gone")

    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    monkeypatch.setattr(trace_of, "send", fail)
    running.ok("update", running.application("v7"))
