"""Traces of updates whose drivers really start and end, with the stand-in for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.otlp_receiver import Receiver, receiver

from .conftest import Site, document

STEPS = ["plan", "check", "standby", "snapshot", "submit", "verify", "promote"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        yield made


def trace(site: Site, *args: str) -> dict[str, Any]:
    result = site.run("trace", "alarm", *args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = document(result)
    return found


def children(found: dict[str, Any], name: str) -> list[str]:
    (around,) = [span["span_id"] for span in found["spans"] if span["name"] == name]
    return [span["name"] for span in found["spans"] if span["parent_id"] == around]


@pytest.mark.processes
def test_an_update_is_one_trace_with_its_steps_and_the_drivers_parts(running: Site, collector: Receiver) -> None:
    assert running.run("update", running.application("v2"), "--deployment", "v2").exit_code == 0
    assert len(collector.requests) == 1
    assert [len({getattr(span, field) for span in collector.spans}) for field in ("trace_id", "span_id")] == [
        1,
        len(collector.spans),
    ]
    found = trace(running)
    assert [span["span_id"] for span in found["spans"]] == [span.span_id.hex() for span in collector.spans]
    assert found["trace_id"] == collector.spans[0].trace_id.hex() and found["sent"] is False
    steps = [span for span in found["spans"] if "streamupdate.step" in span["attributes"]]
    assert [span["name"] for span in steps] == STEPS
    assert all(before["end"] <= after["begin"] for before, after in pairwise(steps))
    handed = {"drain", "wait for successor", "restore", "start queries", "first batch"}
    assert {f"driver: {part}" for part in handed} <= set(children(found, "snapshot"))
    assert "driver: get ready" in str(found["spans"])
    (pause,) = [span for span in found["spans"] if span["name"] == "pause"]
    root = found["spans"][0]
    (snapshot,) = [step for step in steps if step["name"] == "snapshot"]
    # It begins with the old version's last commit, which may be before anything was asked of it.
    assert pause["parent_id"] == (snapshot if pause["begin"] >= snapshot["begin"] else root)["span_id"]
    assert pause["seconds"] == root["attributes"]["streamupdate.pause_seconds"] > 0
    assert root["attributes"]["streamupdate.outcome"] == "promoted" and not any(s["error"] for s in found["spans"])
    shown = running.run("trace", "alarm", "v2").stdout
    assert found["trace_id"] in shown and "driver: restore" in shown

    again = trace(running, "v2", "--send")
    first, second = (list(r.resource_spans[0].scope_spans[0].spans) for r in collector.requests)
    assert again["sent"] and first == second

    assert running.run("rollback", "alarm").exit_code == 0  # of a promoted update: its trace stays what it is
    assert len(collector.requests) == 2
    assert trace(running)["spans"][0]["attributes"]["streamupdate.outcome"] == "promoted"


def test_a_rolled_back_update_has_the_error(
    running: Site, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is part of the trace that the command is run in."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    monkeypatch.setenv("TRACEPARENT", parent)
    update = ("update", running.application("v2", FAIL="run"), "--deployment", "v2", "--strategy", "restart")
    assert running.run(*update).exit_code == 1
    assert len(collector.requests) == 1
    found = trace(running, "v2")
    assert found["spans"][0]["error"].startswith("rolled-back: ")
    assert found["parent"] == parent and collector.spans[0].parent_span_id.hex() == "b7ad6b7169203331"
    names = [span["name"] for span in found["spans"] if span["parent_id"] == found["spans"][0]["span_id"]]
    assert names[-1] == "rollback" and "driver: start" in children(found, "rollback")
    failed = [span for span in found["spans"] if span["error"]]
    assert {"submit", "verify"} & {span["name"] for span in failed}
    assert collector.spans[0].status.code == collector.spans[0].status.STATUS_CODE_ERROR


def test_what_cannot_be_shown_or_sent(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    none = running.run("trace", "alarm")
    assert none.exit_code == 1 and "app alarm has had no update, so it has no trace" in none.stderr
    running.client.begin_update("alarm", "v2", "digest", "restart")
    assert trace(running)["spans"][0]["attributes"]["streamupdate.outcome"] == "under way"
    early = running.run("trace", "alarm", "--send")
    assert early.exit_code == 1 and "has not ended, so its trace is not complete" in early.stderr
    running.run("rollback", "alarm")
    nowhere = running.run("trace", "alarm", "--send")
    assert nowhere.exit_code == 1 and "set OTEL_EXPORTER_OTLP_ENDPOINT" in nowhere.stderr
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("airflow_provider_streamupdate.cli.commands.trace.SECONDS", 1.0)
    dead = running.run("trace", "alarm", "--send")
    assert dead.exit_code == 1 and "http://127.0.0.1:9 " in dead.stderr
    unknown = running.run("trace", "alarm", "v9")
    assert unknown.exit_code == 1 and "app alarm has no update to 'v9'" in " ".join(unknown.stderr.split())
    assert running.run("trace", "alarm", "../v9").exit_code != 0
