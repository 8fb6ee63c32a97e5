"""A real OpenTelemetry Collector (scripts/ground.sh builds it) takes the traces of real updates, and writes them to a
file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.application import Application
from tests.cases import STEPS
from tests.e2e.conftest import ground  # noqa: F401 (a fixture)
from tests.e2e.ground import APPS, Ground
from tests.standin import java_home, spark_submit

from .daemon import daemon, free_port

from demolib.airflow_server import AirflowServer  # isort: skip

REPOSITORY = Path(__file__).resolve().parents[2]
COLLECTOR = Path(os.environ["STREAMUPDATE_GROUND"]) / "otel" / "bin" / "otelcol"
SECONDS = 60.0  # for what the collector is to write

PATIENCE = 900.0  # for Airflow

pytestmark = pytest.mark.timeout(1800)

Span = dict[str, Any]


@attrs.frozen
class Collector:
    """grpc, http: its endpoints; file: what it has received, a request a line"""

    grpc: str
    http: str
    file: Path

    def requests(self, wanted: int) -> list[list[Span]]:
        """The spans of each request, once there are so many."""

        def read() -> list[list[Span]] | None:
            found = [json.loads(line) for line in self.file.read_text().splitlines() if line.endswith("}")]
            return [spans_of(request) for request in found] if len(found) >= wanted else None

        found: list[list[Span]] = wait_for(read, f"{wanted} traces in {self.file}", SECONDS)
        assert len(found) == wanted
        return found


def spans_of(request: dict[str, Any]) -> list[Span]:
    (resource,) = request["resourceSpans"]
    names = {a["key"]: a["value"].get("stringValue") for a in resource["resource"]["attributes"]}
    assert names["service.name"] == "updates"
    (scope,) = resource["scopeSpans"]
    assert scope["scope"]["name"] == "airflow_provider_streamupdate"
    found: list[Span] = scope["spans"]
    return found


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """It is where the command line sends to."""
    grpc, http, file = (f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", tmp_path / "traces.json")
    config = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}},
        "exporters": {"file": {"path": str(file), "flush_interval": "100ms"}},
        "service": {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    (tmp_path / "collector.yaml").write_text(json.dumps(config))  # JSON is YAML
    file.touch()
    command = [str(COLLECTOR), f"--config={tmp_path / 'collector.yaml'}"]
    with daemon(command, tmp_path / "collector.log", "Everything is ready"):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{grpc}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "updates")
        yield Collector(grpc=f"http://{grpc}", http=f"http://{http}", file=file)


def children(spans: list[Span], name: str) -> list[Span]:
    (around,) = [span["spanId"] for span in spans if span["name"] == name]
    return [span for span in spans if span.get("parentSpanId") == around]


def times(span: Span) -> tuple[int, int]:
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def attributes(span: Span) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def check_whole(spans: list[Span]) -> Span:
    """One trace with one root, every span within the one around it; the root."""
    assert len({span["traceId"] for span in spans}) == 1
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    (root,) = [span for span in spans if not span.get("parentSpanId")]
    for span in spans:
        begin, end = times(span)
        assert begin <= end
        if span is not root:
            around = times(by_id[span["parentSpanId"]])
            assert around[0] <= begin and end <= around[1], (span, by_id[span["parentSpanId"]])
    return root


def names(spans: list[Span]) -> list[str]:
    return [str(span["name"]) for span in spans]


def test_an_update_is_one_trace_in_a_real_collector(
    ground: Ground,  # noqa: F811
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(3)
    ground.cli("update", str(ground.application("v2").file), "--deployment", "two", *ground.params, *ground.agreed)
    (spans,) = collector.requests(1)
    root = check_whole(spans)
    assert root["name"] == "update motion-alarm" and root["status"] == {}
    told = attributes(root)
    record = ground.client.registry.app(ground.app).update("two")
    assert record is not None
    assert (told["streamupdate.old"], told["streamupdate.new"]) == ("one", "two")
    assert (told["streamupdate.strategy"], told["streamupdate.outcome"]) == ("standby", "promoted")
    assert told["streamupdate.pause_seconds"] == record.pause_seconds

    steps = [span for span in spans if "streamupdate.step" in attributes(span)]
    assert names(steps) == list(STEPS)
    assert all(times(before)[1] <= times(after)[0] for before, after in pairwise(steps))
    assert all(span["parentSpanId"] == root["spanId"] for span in steps)
    handed = {"draining", "handed over", "restoring", "restored", "running"}
    assert {f"driver: {part}" for part in handed} | {"pause"} <= set(names(children(spans, "snapshot_and_cancel")))
    assert {"driver: start", "driver: planned"} <= set(names(spans))
    (pause,) = [span for span in spans if span["name"] == "pause"]
    begin, end = times(pause)
    assert (end - begin) / 1e9 == pytest.approx(record.pause_seconds, abs=1e-3)

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    ground.cli("trace", ground.app, "two", "--send")
    first, second = collector.requests(2)
    assert [(s["name"], times(s)) for s in second] == [(s["name"], times(s)) for s in first]


def test_one_that_was_rolled_back_has_the_error(ground: Ground, collector: Collector) -> None:  # noqa: F811
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(3)
    line = "os.makedirs(folder, exist_ok=True)"
    text = (APPS / "motion_alarm" / "v2.py").read_text()
    assert line in text
    broken = ground.folder / "broken.py"
    broken.write_text(text.replace(line, "raise OSError('a full disk')"))
    update = ["update", str(broken), "--deployment", "two", "--strategy", "restart", *ground.params, *ground.agreed]
    assert "a full disk" in ground.cli(*update, code=1)
    (spans,) = collector.requests(1)
    root = check_whole(spans)
    assert root["status"]["code"] == 2 and "a full disk" in root["status"]["message"]
    assert attributes(root)["streamupdate.outcome"] == "rolled-back"
    failed = [span for span in spans if span["status"].get("code") == 2 and span is not root]
    assert any("a full disk" in span["status"]["message"] for span in failed)
    assert "rollback" in names(children(spans, root["name"]))
    assert "driver: start" in names(children(spans, "rollback"))
    assert "promote" not in names(spans)


def everything(file: Path) -> list[Span]:
    """All spans that the collector has received, Airflow's own among them."""
    requests = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return [s for r in requests for rs in r["resourceSpans"] for ss in rs["scopeSpans"] for s in ss["spans"]]


def test_an_update_by_airflow_is_part_of_the_trace_of_its_dag_s_run(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for Spark, since this is about what Airflow's tasks hand on."""
    submit, root = spark_submit(tmp_path / "spark"), tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "java")))
    for version in ("v1", "v2"):
        (tmp_path / f"{version}.py").write_text(f"APP = 'alarm'\nVERSION = {version!r}\n")
    client = StreamUpdateClient(str(root), SparkSubmit(str(submit)))
    client.submit(Application(file=str(tmp_path / "v1.py")), "v1", app="alarm")
    connection = {"conn_type": "streamupdate", "extra": {"root": str(root), "spark_submit": str(submit)}}
    airflow = AirflowServer(
        tmp_path / "airflow",
        {
            "UP_TIMEOUT": f"{PATIENCE:.0f}",
            "UP_PYTHONPATH": str(REPOSITORY),
            "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps(connection),
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "STREAMUPDATE_VERIFY_FOR": "0",
        },
    )
    airflow.start()
    try:
        wait_for(lambda: airflow.ready() or None, "Airflow", PATIENCE)
        wait_for(lambda: airflow.has_dag("stream_update") or None, "the DAG", PATIENCE)
        asked = {"app": "alarm", "application": str(tmp_path / "v2.py"), "deployment_id": "v2"}
        run = airflow.trigger("stream_update", asked)

        def ended() -> str | None:
            state = None
            with suppress(OSError):  # a busy machine: its API did not answer in time
                state = airflow.run_state("stream_update", run)
            return state if state in ("success", "failed") else None

        assert wait_for(ended, "the run", PATIENCE) == "success", airflow.task_states("stream_update", run)

        def of_the_run() -> list[Span] | None:
            """Its own span comes last."""
            spans = everything(collector.file)
            return spans if "dag_run.stream_update" in names(spans) else None

        spans = wait_for(of_the_run, "the span of the DAG's run", SECONDS)
    finally:
        airflow.stop()
        for spec in client.deployments("alarm"):
            client.drivers("alarm").kill(spec.deployment)
    by_id = {span["spanId"]: span for span in spans}
    (root_span,) = [span for span in spans if span["name"] == "update alarm"]
    around = by_id[root_span["parentSpanId"]]
    assert around["name"] == "worker.update.plan" and around["traceId"] == root_span["traceId"]
    (dag_run,) = [span for span in spans if span["name"] == "dag_run.stream_update"]
    assert dag_run["traceId"] == root_span["traceId"]
    assert f"/{run}/" in attributes(root_span)["streamupdate.asked_by"]
    for step in children(spans, "update alarm"):
        if "streamupdate.step" in attributes(step):
            (link,) = step["links"]
            assert by_id[link["spanId"]]["name"] == f"worker.update.{step['name']}"
