"""An update as a trace of OpenTelemetry: spans of its steps and of what its drivers did. This needs the extra ``otel``.

They are made of its record and the drivers' events when it has ended: an update of several processes is one trace, and
no collector delays a step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import zip_longest

import attrs
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...core import clock
from ...core.errors import CorruptError, NotFoundError, StreamUpdateError
from ...core.registry.events import latest_lines, parse_event
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, Step, UpdateRecord

ASIDE = ("command", "snapshot", "renumbered")  # events that change nothing in what a driver does


@attrs.frozen
class Stretch:
    """A stretch of time of an update, which becomes a span."""

    name: str
    begin: datetime
    end: datetime
    attributes: dict[str, str | float]
    error: str | None = None
    link: str | None = None  # the span of the task that ran it (W3C traceparent)


def make_spans(registry: AppRegistry, deployment: str) -> list[ReadableSpan]:
    """Return the spans of the update to a deployment, the root first, without secrets. NotFoundError without one."""
    record, hiding, memory = registry.update(deployment), Hiding.in_app(registry), InMemorySpanExporter()
    if record is None:
        raise NotFoundError(f"app {registry.name} has had no update to {deployment!r}")
    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", "streamupdate")})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("airflow_provider_streamupdate")

    def add(stretch: Stretch, around: trace.Span | None) -> trace.Span:
        context = trace.set_span_in_context(around, Context()) if around else Context()
        links = [trace.Link(task.get_span_context())] if (task := _task(stretch)) else []
        begin, end = (round(at.timestamp() * 1_000_000) * 1000 for at in (stretch.begin, stretch.end))
        span = tracer.start_span(stretch.name, context, attributes=stretch.attributes, links=links, start_time=begin)
        if stretch.error:
            span.set_status(trace.Status(trace.StatusCode.ERROR, stretch.error))
        span.end(end)
        return span

    whole, *steps = _steps(registry, hiding.update(record))
    update = add(attrs.evolve(whole, link=None), _task(whole))
    around = [(step, add(step, update)) for step in steps]
    for part in _parts(registry, record, hiding):
        if whole.begin <= part.begin and part.end <= whole.end:
            inside = [span for step, span in around if step.begin <= part.begin and part.end <= step.end]
            add(part, inside[-1] if inside else update)
    return sorted(memory.get_finished_spans(), key=lambda span: span.start_time or 0)


def _task(stretch: Stretch) -> trace.Span | None:
    """Return the span of the task that ran it; None where its trace is not kept."""
    span = trace.get_current_span(
        TraceContextTextMapPropagator().extract({"traceparent": stretch.link or ""}, Context())
    )
    return span if span.get_span_context().trace_flags.sampled else None


def _steps(registry: AppRegistry, record: UpdateRecord) -> Iterator[Stretch]:
    """Yield the whole update, each try of a step, and the way back."""
    outcome = PROMOTED if Step.PROMOTE in record.step_times else record.outcome
    failed = f"{outcome}: {record.reason}" if outcome not in (None, PROMOTED) else None
    begin = min(clock.parse(at) for at in (record.started_at, *(attempt.began_at for attempt in record.attempts)))
    end = clock.parse(record.ended_at or clock.now())
    values = {name: getattr(record, name) for name in ("app", "old", "new", "strategy", "pause_seconds", "asked_by")}
    values["outcome"] = str(outcome or "under way")
    about = {f"streamupdate.{name}": value for name, value in values.items() if value is not None}
    first = record.attempts[0].traceparent if record.attempts else None
    yield Stretch(f"update {record.app}", begin, end, about, failed, first)
    for attempt, later in zip_longest(record.attempts, record.attempts[1:]):
        over = attempt.ended_at or (later.began_at if later else None)
        died = not attempt.ended_at and (later or record.outcome)
        error = attempt.error or ("it did not end: its process died, or was killed" if died else None)
        about = {"streamupdate.step": attempt.step, "streamupdate.asked_by": attempt.by}
        until = clock.parse(over) if over else end
        yield Stretch(attempt.step, clock.parse(attempt.began_at), until, about, error, attempt.traceparent)
    for back in registry.rollbacks():
        since, until = clock.parse(back.started_at), clock.parse(back.ended_at) if back.ended_at else end
        if back.left == record.new and begin <= since <= until <= end:
            yield Stretch("rollback", since, until, {"streamupdate.asked_by": back.asked_by})


def _parts(registry: AppRegistry, record: UpdateRecord, hiding: Hiding) -> Iterator[Stretch]:
    """Yield the pause, and what each driver did from one of its events to the next."""
    if record.paused_at and record.pause_seconds is not None:
        begin = clock.parse(record.paused_at)
        yield Stretch("pause", begin, begin + timedelta(seconds=record.pause_seconds), {})
    for deployment in filter(None, (record.old, record.new)):
        last: dict[int, tuple[str, datetime]] = {}  # by epoch
        for line in latest_lines(registry.deployment_folder(deployment)):
            try:
                event = hiding.event(parse_event(line, deployment))
                epoch, kind = int(event["epoch"]), str(event["state"] if event["event"] == "state" else event["event"])
                at, since = clock.parse(event["at"]), clock.parse(event.get("since") or event["at"])
            except (CorruptError, AttributeError, KeyError, TypeError, ValueError):
                continue  # nothing depends on events
            if kind not in ASIDE:
                before, begin = last.get(epoch, ("start", since))
                error = str(event.get("error") or event.get("reason")) if kind == "failed" else None
                about: dict[str, str | float] = {"streamupdate.deployment": deployment, "streamupdate.epoch": epoch}
                yield Stretch(f"driver: {before}", begin, at, about, error)
                last[epoch] = kind, at


def send(spans: list[ReadableSpan], seconds: float) -> None:
    """Send spans to the collector that the environment names; StreamUpdateError when they do not arrive in time."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    exporter = (HttpExporter if protocol == "http/protobuf" else GrpcExporter)(timeout=seconds)
    if spans and exporter.export(spans) is not SpanExportResult.SUCCESS:
        raise StreamUpdateError("it did not take the trace: has it port 4317 of grpc, or 4318 of http/protobuf?")
