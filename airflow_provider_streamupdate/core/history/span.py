"""The figures of one query over a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from .. import clock


@attrs.frozen(kw_only=True)
class Span:
    """The figures of one query over a stretch of time. None means unknown."""

    at: str = attrs.field(validator=clock.is_moment)  # its beginning (ISO)
    batches: int = 0  # that were committed in it
    timed: int = 0  # batches whose figures are known; the five figures below are of these
    rows_in: int = 0
    rows_out: int | None = None  # None where Spark does not report it for each batch
    seconds: float = 0.0  # of all executions together
    longest: float = 0.0  # seconds of one execution
    lag: float | None = None  # rows behind, at its end
    lag_most: float | None = None  # rows behind, at most
    watermark_age: float | None = None  # seconds by which the watermark was behind the clock, at its end
    state_rows: dict[str, int] = attrs.field(factory=dict)  # by stage, at its end
    state_bytes: int | None = None  # of all stages


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
