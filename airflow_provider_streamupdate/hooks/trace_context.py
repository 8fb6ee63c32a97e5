"""The span in which Airflow runs a task, so that an update's trace can be part of the one of its DAG's run."""

from __future__ import annotations

import contextlib
from typing import Any

from airflow.providers.common.compat.sdk import conf


def traceparent_of(ti: Any) -> str | None:
    """Return the span of this task, as W3C Trace Context writes it; None when no trace is kept of it.

    From Airflow 3.2 on a task's process has a current span; before, only what the scheduler gave the task (its
    ``context_carrier``) is known. Airflow makes up ids for that even when it keeps no traces, so that its setting
    decides.
    """
    with contextlib.suppress(ImportError):
        from opentelemetry import trace

        span = trace.get_current_span()
        if span.is_recording():
            found = span.get_span_context()
            return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 1:02x}"
    carrier = getattr(ti, "context_carrier", None)
    if isinstance(carrier, dict) and conf.getboolean("traces", "otel_on", fallback=False):
        given = carrier.get("traceparent")
        return given if isinstance(given, str) else None
    return None
