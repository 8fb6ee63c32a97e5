"""A span, and the trace it is part of, as plain data."""

from __future__ import annotations

import hashlib
from datetime import datetime

import attrs

Value = str | int | float | bool


@attrs.frozen(kw_only=True)
class Span:
    """A stretch of time of an update.

    span_id: 64 bits, never 0
    parent_id: of the span around it; None: it is the trace's root
    begin, end: UTC; end is not before begin
    error: why it failed; None: it did not
    links: other spans that it belongs to, as W3C Trace Context writes them (the tasks of a DAG's run)
    """

    name: str
    span_id: int
    parent_id: int | None
    begin: datetime
    end: datetime
    attributes: dict[str, Value] = attrs.field(factory=dict)
    error: str | None = None
    links: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


@attrs.frozen(kw_only=True)
class Trace:
    """All spans of an update.

    trace_id: 128 bits
    parent: the span that the root is part of, as W3C Trace Context writes it; None: there is none
    spans: the root first, then in the order in which they began
    """

    trace_id: int
    parent: str | None
    spans: tuple[Span, ...]

    @property
    def root(self) -> Span:
        return self.spans[0]


def made_id(bits: int, *parts: object) -> int:
    """Return an id for what these parts identify: always the same one, never 0."""
    text = "\0".join(str(part) for part in parts)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[: bits // 8], "big") or 1


def context_of(traceparent: str | None) -> tuple[int, int] | None:
    """Return the trace id and the span id of a W3C traceparent; None when it is none, or its trace is not kept."""
    version, _, rest = (traceparent or "").strip().partition("-")
    trace_id, _, rest = rest.partition("-")
    span_id, _, rest = rest.partition("-")
    flags = rest if version == "00" else rest.partition("-")[0]  # later versions may have more
    lengths = (len(version), len(trace_id), len(span_id), len(flags))
    if lengths != (2, 32, 16, 2) or version.lower() == "ff":
        return None
    try:
        found = int(trace_id, 16), int(span_id, 16)
        sampled = int(flags, 16) & 1
    except ValueError:
        return None
    return found if all(found) and sampled else None
