"""Send an update's trace to where the environment's OTEL_ variables say (extra ``otel``).

It is sent when the update has ended. Nothing here delays an update by more than SECONDS, or fails it.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from typing import TYPE_CHECKING, Any

from ....core.errors import EnvironmentProblem, InvalidInputError, StreamUpdateError
from ....core.registry.registry import AppRegistry
from .reading import read
from .span import Span, Trace, context_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext

SECONDS = 5.0  # that an update which has ended waits for the collector
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER, DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SERVICE = "streamupdate"  # unless OTEL_SERVICE_NAME says another
_NAMES = {"": "otlp_proto_grpc", "grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}

log = logging.getLogger(__name__)


def why_not() -> str | None:
    """Return why no trace is sent with this environment; None: one is."""
    if _variable(DISABLED).lower() == "true":
        return f"{DISABLED} is true"
    if _variable(EXPORTER) == "none":
        return f"{EXPORTER} is none"
    if not endpoint():
        return f"no endpoint is set; set {ENDPOINTS[1]}, for example to http://localhost:4317"
    return None


def endpoint() -> str:
    """Return where traces are sent; empty: nowhere."""
    return next((found for name in ENDPOINTS if (found := _variable(name))), "")


def _shown() -> str:
    """The endpoint, without the password that may be in it."""
    return re.sub("//[^/@]*@", "//", endpoint())


def send_ended(registry: AppRegistry, deployment: str) -> None:
    """Send the trace of an update that has ended, where the environment asks for it. Never raises: what fails is
    logged as a warning."""
    if why_not() is not None:
        return
    try:
        record, trace = read(registry, deployment)
        if record.outcome is not None:
            send(trace, SECONDS)
    except Exception as error:
        log.warning(
            "the trace of the update of %s to %s was not sent: %s. Send it with: streamupdate trace %s %s --send",
            *(registry.name, deployment, error if isinstance(error, StreamUpdateError) else repr(error)),
            *(registry.name, deployment),
        )


def send(trace: Trace, seconds: float) -> None:
    """Send a trace, and wait for it for at most `seconds`.

    EnvironmentProblem when the libraries are missing; InvalidInputError when the environment asks for something that
    is not there; StreamUpdateError when the trace did not arrive.
    """
    found: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: found.append(_tried(trace)), name="trace", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise StreamUpdateError(f"{_shown()} has not taken it in {seconds:g} s")
    if found[0] is not None:
        raise found[0]


def _tried(trace: Trace) -> BaseException | None:
    try:
        _export(trace)
    except BaseException as error:
        return error
    return None


def _export(trace: Trace) -> None:
    try:
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise EnvironmentProblem(
            "traces need the OpenTelemetry SDK here: pip install 'airflow-provider-streamupdate[otel]'"
        ) from error
    exporter = _exporter()
    try:
        spans = _readable(trace)
        if spans and exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise StreamUpdateError(
                f"{_shown()} did not take it over {_protocol() or 'grpc'} (the warnings of opentelemetry say why). "
                f"A collector has usually port 4317 for grpc, and 4318 for {PROTOCOLS[1]}=http/protobuf"
            )
    finally:
        exporter.shutdown()


def _exporter() -> SpanExporter:
    from importlib.metadata import entry_points

    asked, protocol = _variable(EXPORTER) or "otlp", _protocol()
    if asked == "otlp" and protocol not in _NAMES:
        raise InvalidInputError(f"{PROTOCOLS[1]} is {protocol!r}; it must be grpc or http/protobuf")
    name = _NAMES[protocol] if asked == "otlp" else asked
    known = entry_points(group="opentelemetry_traces_exporter")
    entry = next((each for each in known if each.name == name), None)
    if entry is None:
        raise InvalidInputError(
            f"{EXPORTER} {asked!r} is not installed here (there are: {', '.join(sorted({e.name for e in known}))}); "
            "pip install 'airflow-provider-streamupdate[otel]' brings otlp"
        )
    made: SpanExporter = entry.load()()
    return made


def _readable(trace: Trace) -> list[Any]:
    """The trace's spans as the SDK has them: its sampler, limits and resource are the environment's."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import Link, NonRecordingSpan, Status, StatusCode, set_span_in_context

    from .... import __version__

    class Given(IdGenerator):
        """Gives the ids that the trace has."""

        span_id = 0

        def generate_span_id(self) -> int:
            return self.span_id

        def generate_trace_id(self) -> int:
            return trace.trace_id

    class Kept(SpanProcessor):
        """Keeps what is not sampled out."""

        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span)

    ended: list[ReadableSpan] = []
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    ids = Given()
    provider = TracerProvider(id_generator=ids, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(Kept())
    tracer = provider.get_tracer("airflow_provider_streamupdate", __version__)

    contexts: dict[int | None, SpanContext] = {}
    if parent := _context(trace.parent):
        contexts[None] = parent
    for span in trace.spans:
        around = contexts.get(span.parent_id)
        context = set_span_in_context(NonRecordingSpan(around), _nothing()) if around else _nothing()
        ids.span_id = span.span_id
        made = tracer.start_span(
            span.name,
            context=context,
            attributes=span.attributes,
            links=[Link(found) for text in span.links if (found := _context(text))],
            start_time=_nanoseconds(span, begin=True),
            record_exception=False,
            set_status_on_exception=False,
        )
        contexts[span.span_id] = made.get_span_context()
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        elif span.parent_id is None:
            made.set_status(Status(StatusCode.OK))
        made.end(_nanoseconds(span, begin=False))
    return ended


def _nothing() -> Any:
    from opentelemetry.context import Context

    return Context()


def _context(traceparent: str | None) -> SpanContext | None:
    from opentelemetry.trace import SpanContext, TraceFlags

    found = context_of(traceparent)
    if found is None:
        return None
    return SpanContext(found[0], found[1], is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(span: Span, begin: bool) -> int:
    """Since 1970, exact to the microsecond (a float of today's seconds is not)."""
    from datetime import datetime, timedelta, timezone

    since = (span.begin if begin else span.end) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(microseconds=1) * 1000


def _protocol() -> str:
    return next((found for name in PROTOCOLS if (found := _variable(name))), "")


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()
