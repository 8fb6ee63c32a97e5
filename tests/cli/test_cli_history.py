"""The commands history and trace, of updates that really ran (over the stand-in for Spark)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_streamupdate.cli.commands.history import _print_code
from airflow_provider_streamupdate.control.code_diff import CodeDiff, FileDiff
from airflow_provider_streamupdate.control.update import trace as trace_of
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.users import user_and_host
from tests.begun_updates import begin_update
from tests.cases import STEPS
from tests.otlp_receiver import Receiver, receiver

from .conftest import Site, document, table


@pytest.fixture
def updated(site: Site) -> Site:
    """v1, then v2 with another parameter and conf, then an update that dies and is rolled back."""
    first = ("--set", "input=/in", "--set", "api_token=t0k3n-1", "--set", "threshold=1")
    site.submit("v1", *first)
    second = ("--set", "input=/in", "--set", "api_token=t0k3n-2", "--set", "threshold=7", "--conf", "spark.x=1")
    site.update("v2", *second)
    site.ok("rollback", "alarm")
    return site


def test_history_lists_updates_and_rollbacks_the_newest_first(updated: Site) -> None:
    rows = table(updated.run("history", "alarm"))
    assert rows[0] == ["STARTED", "FROM", "TO", "STRATEGY", "OUTCOME", "PAUSE", "REQUESTED", "BY", "REASON"]
    assert [row[1:4] for row in rows[1:]] == [["v2", "v1", "rollback"], ["v1", "v2", "standby"]]
    assert user_and_host() in updated.run("history", "alarm").stdout
    found = document(updated.run("history", "alarm", "--json"))
    [update] = found["updates"]
    assert (update["asked_by"], update["outcome"], update["runs"]) == (user_and_host(), "rolled-back", "v2")
    assert [r["left"] for r in found["rollbacks"]] == ["v2"]


@pytest.mark.processes
def test_history_of_one_update_tells_what_it_changed(updated: Site) -> None:
    result = updated.ok("history", "alarm", "v2", "--diff")
    words = " ".join(result.stdout.split())
    for told in (
        "update from v1 to v2, standby",
        f"requested by {user_and_host()}",
        "parameters threshold 1 7",
        "parameters api_token (hidden) (hidden), another",
        "conf spark.x - 1",
        "v2.py (was v1.py), +1 -1",
        "-VERSION = 'v1'",
        "+VERSION = 'v2'",
        "rolled back",
    ):
        assert told in words, told
    assert "t0k3n" not in result.stdout
    found = document(updated.run("history", "alarm", "v2", "--diff", "--json"))
    assert "t0k3n" not in json.dumps(found)
    assert [step["step"] for step in found["update"]["steps"]][-1] == "promote"
    assert found["rollback"]["back_to"] == "v1" and found["code"]["files"][0]["removed"] == 1
    # the pause lies between the commits of the two
    record = found["update"]
    begin, end = clock.parse(record["paused_at"]), clock.parse(record["step_times"]["promote"])
    assert begin < begin + timedelta(seconds=record["pause_seconds"]) < end
    assert "code" not in document(updated.run("history", "alarm", "v2", "--json"))


def test_the_name_of_a_file_adds_no_line_to_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """An entry of a zip may be called anything."""
    forged = FileDiff(name="l.zip/a.py\n+ forged", added=1, removed=1, lines=("-x", "+y"))
    _print_code(CodeDiff(old="v1", new="v2", files=(forged,)))
    assert "l.zip/a.py\\n+ forged, +1 -1\n" in (said := capsys.readouterr().out) and "\n+ forged" not in said


def test_history_of_what_is_not_there(updated: Site) -> None:
    assert "no update 'v9'" in updated.refused("history", "alarm", "v9")
    updated.ok("history", "alarm", "--diff", code=2)
    updated.submit("w", APP="young")
    assert updated.ok("history", "young").stderr == "young has not been updated yet\n"


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
    running.update("v2")
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
    running.ok("rollback", "alarm")  # of a promoted update: its trace stays what it is
    assert len(collector.requests) == 2
    assert trace(running)[0]["attributes"]["streamupdate.outcome"] == "promoted"


def test_what_cannot_be_shown_or_sent(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "app alarm has had no update" in running.refused("trace", "alarm")
    begin_update(running.client, "alarm", "v2", "digest", "restart")
    assert trace(running)[0]["attributes"]["streamupdate.outcome"] == "under way"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("airflow_provider_streamupdate.cli.commands.trace.SECONDS", 1.0)
    assert "did not take the trace" in running.refused("trace", "alarm", "--send")
    assert "no update to 'v9'" in running.refused("trace", "alarm", "v9")
    assert running.run("trace", "alarm", "../v9").exit_code != 0
    monkeypatch.setitem(sys.modules, "airflow_provider_streamupdate.control.update.trace", None)
    assert "pip install 'airflow-provider-streamupdate[otel]'" in running.refused("trace", "alarm")


def test_each_update_is_sent_once_when_it_has_ended(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(trace_of, "send", lambda spans, _: sent.append(spans[0].attributes["streamupdate.outcome"]))
    for version, more, fails in (
        ("v2", ("--rehearse", "1"), {"REHEARSAL": "ValueError: no"}),
        ("v3", ("--strategy", "restart"), {"FAIL": "run"}),
    ):
        running.update(version, *more, code=1, **fails)
    running.app.set_update(UpdateRecord(app="alarm", old="v1", new="v4", started_at=clock.now(), digest="other"))
    running.update("v5")
    running.ok("rollback", "alarm")
    assert sent == ["refused", "rolled-back", "superseded", "promoted"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    running.update("v6")
    assert len(sent) == 4

    def fail(*_: object) -> None:
        raise RuntimeError("the collector is gone")

    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    monkeypatch.setattr(trace_of, "send", fail)
    running.ok("update", running.application("v7"))
