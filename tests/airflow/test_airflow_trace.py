"""Traces and Airflow's own statistics of updates that a DAG runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow_site import FakeTaskInstance, OutletEvents, Site

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.update import PROMOTED, UpdateRecord
from airflow_provider_streamupdate.hooks import metrics
from airflow_provider_streamupdate.hooks.metrics import count_update
from airflow_provider_streamupdate.operators.base import traceparent_of
from airflow_provider_streamupdate.operators.promote import StreamPromoteOperator
from tests.cases import STEPS
from tests.otlp_receiver import Receiver, receiver

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]

CARRIER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
Told = list[tuple[str, str, Any, dict[str, str]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What Airflow's statistics are told: how, the name, the value, the tags."""
    found: Told = []
    with metrics._stats() as stats:
        for how in ("incr", "timing"):
            signature = inspect.signature(getattr(stats, how))

            def tell(*given: Any, _how: str = how, _signature: inspect.Signature = signature, **named: Any) -> None:
                _signature.bind(*given, **named)
                if given[0].startswith("streamupdate."):
                    value = given[1] if len(given) > 1 else 1
                    found.append((_how, given[0].removeprefix("streamupdate."), value, named["tags"]))

            monkeypatch.setattr(stats, how, tell)
    return found


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        yield made


def update(site: Site, application: str, **conf: Any) -> Any:
    return site.run_dag("update_alarm", "tests/airflow/dags", application=application, deployment_id="v2", **conf)


def attributes(span: Any) -> dict[str, str]:
    return {a.key: a.value.string_value for a in span.attributes}


def test_an_update_by_a_dag_is_one_trace_and_is_counted_once(site: Site, told: Told, collector: Receiver) -> None:
    site.submit()
    run = update(site, site.application("v2"))
    assert run.state == "success"
    assert len(collector.requests) == 1
    root, *spans = collector.spans
    steps = [span for span in spans if "streamupdate.step" in attributes(span)]
    assert [s.name for s in steps] == list(STEPS)
    for step in steps:  # with its task
        asked_by = f"airflow:update_alarm/{run.run.run_id}/update.{step.name}/-1"
        assert attributes(step)["streamupdate.asked_by"] == asked_by
    assert not root.parent_span_id and root.status.code == root.status.STATUS_CODE_UNSET

    record = site.client.registry.app("alarm").update("v2")
    tags = {"app": "alarm", "strategy": "standby"}
    assert [each for each in told if each[0] == "incr"] == [("incr", "updates", 1, {**tags, "outcome": "promoted"})]
    assert ("timing", "update.pause", timedelta(seconds=record.pause_seconds), tags) in told
    timed = [each[3]["step"] for each in told if each[1] == "update.step"]
    assert timed == ["plan", "check", "prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"]
    (duration,) = [each for each in told if each[1] == "update.duration"]
    assert duration[3] == {**tags, "outcome": "promoted"} and duration[2] > timedelta(0)

    before = list(told), len(collector.requests)
    again = StreamPromoteOperator(task_id="promote", app="alarm", deployment_id="v2")
    again.execute({"ti": FakeTaskInstance(), "outlet_events": OutletEvents()})
    assert (told, len(collector.requests)) == before


def test_statistics_that_fail_fail_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with metrics._stats() as stats:
        for how in ("incr", "timing"):
            monkeypatch.setattr(stats, how, lambda *_, **__: 1 / 0)
    count_update(UpdateRecord(app="a", old="v1", new="v2", started_at=clock.now(), outcome=PROMOTED))


class Task(FakeTaskInstance):
    context_carrier: Any = CARRIER


def test_the_span_of_a_task_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    with TracerProvider(shutdown_on_exit=False).get_tracer("airflow").start_as_current_span("worker.plan") as span:
        context = span.get_span_context()
        assert str(traceparent_of(Task()))[:-2] == f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    off = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("airflow")
    with off.start_as_current_span("worker.plan"):
        assert traceparent_of(Task()) is None
    # Without a current span it is what the scheduler gave, where Airflow keeps traces.
    assert traceparent_of(Task()) is None  # Airflow makes up ids for it, and sends nothing
    monkeypatch.setenv("AIRFLOW__TRACES__OTEL_ON", "True")
    assert traceparent_of(Task()) == CARRIER["traceparent"]
    for odd in (None, {}):
        monkeypatch.setattr(Task, "context_carrier", odd)
        assert traceparent_of(Task()) is None
    assert traceparent_of(FakeTaskInstance()) is None
