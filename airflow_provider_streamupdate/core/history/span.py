"""The figures of one query over a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from .. import clock


@attrs.frozen(kw_only=True)
class Span:
    """at: its beginning (ISO)

    batches: that were committed in it; timed: those of them whose figures are known, which these are of: rows_in,
    rows_out (None where Spark does not report it of each), seconds (all executions together) and longest (one)
    lag: rows behind, at its end (None: unknown); lag_most: at most
    watermark_age: seconds by which the watermark was behind the clock, at its end (None: there is none)
    state_rows: by stage, at its end; state_bytes: of all stages
    """

    at: str = attrs.field(validator=clock.is_moment)
    batches: int = 0
    timed: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    seconds: float = 0.0
    longest: float = 0.0
    lag: float | None = None
    lag_most: float | None = None
    watermark_age: float | None = None
    state_rows: dict[str, int] = attrs.field(factory=dict)
    state_bytes: int | None = None


def watermark_age(watermark: str | None, now: datetime) -> float | None:
    """Seconds by which a watermark (ISO) is behind `now`; None without one. Spark says 1970 for none."""
    if not watermark or watermark.startswith("1970-01-01T00:00:00"):
        return None
    try:
        return max((now - clock.parse(watermark)).total_seconds(), 0.0)
    except ValueError:
        return None


def merged(at: str, spans: Sequence[Span]) -> Span:
    """One span for several of the same query, oldest first, that begins at `at`: sums, and the last of what is a level.
    ValueError for none."""
    if not spans:
        raise ValueError("no spans to merge")
    timed = [s for s in spans if s.timed]
    out = [s.rows_out for s in timed if s.rows_out is not None]
    most = [s.lag_most for s in spans if s.lag_most is not None]
    return attrs.evolve(
        spans[-1],
        at=at,
        batches=sum(s.batches for s in spans),
        timed=sum(s.timed for s in spans),
        rows_in=sum(s.rows_in for s in spans),
        rows_out=sum(out) if timed and len(out) == len(timed) else None,
        seconds=sum(s.seconds for s in spans),
        longest=max(s.longest for s in spans),
        lag_most=max(most) if most else None,
    )
