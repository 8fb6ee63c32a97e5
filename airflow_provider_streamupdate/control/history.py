"""What an app did over time: the charts of the page, and what an update compares with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import attrs

from ..core import clock
from ..core.errors import InvalidInputError
from ..core.history.history import HOURS_KEPT, minute_of
from ..core.history.recorded import HOUR, MINUTE, Recorded, recorded
from ..core.registry.registry import AppRegistry
from ..core.registry.update import Step
from .operations.context import Context
from .overview import total
from .update.strategies import STRATEGIES

LONGEST_SECONDS = HOURS_KEPT.total_seconds()
POINT = ["at", "deployment", "in", "out", "lag", "longest_lag", "batch", "longest_batch", "bytes", "watermark_age"]


def history(context: Context, app: str, seconds: float) -> dict[str, Any]:
    """Return what an app did in the last seconds, as columns of equal length, for charts. NotFoundError for an unknown
    app, InvalidInputError for a time that is not kept.

    ``at`` (seconds since 1970), ``deployment``, ``in`` and ``out`` (rows per second), ``lag`` and ``longest_lag``
    (rows), ``batch`` and ``longest_batch`` (seconds, mean and longest), ``bytes`` of state, ``watermark_age``
    (seconds), and ``rows`` of state by stage. ``each``: the seconds of a point. A version that ran beside the one
    before is left out until it took over.
    """
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidInputError(f"seconds must be more than 0 and at most {LONGEST_SECONDS:.0f}, not {seconds:g}")
    registry = context.registry.existing(app)
    now = clock.utc_now()
    found = list(without_parallel_versions(registry, recorded(registry.folder, now - timedelta(seconds=seconds))))
    return {"app": app, "seconds": seconds, "each": found[0].seconds if found else MINUTE, **_columns(found, now)}


def without_parallel_versions(registry: AppRegistry, found: Iterable[Recorded]) -> Iterator[Recorded]:
    """Leave out what new versions did beside the app, in sinks of their own."""
    begins = {
        update.new: update.step_times.get(Step.SNAPSHOT_AND_CANCEL)
        for update in registry.updates()
        if (strategy := STRATEGIES.get(update.strategy)) is not None and strategy.runs_beside
    }
    for one in found:
        begin = begins.get(one.deployment, one.span.at)
        end = clock.parse(one.span.at) + timedelta(seconds=one.seconds)
        left = (end - minute_of(clock.parse(begin))).total_seconds() / one.seconds if begin else 0.0
        if left >= 1:
            yield one
        elif left > 0:  # an hour with the cut-over in it, at a constant rate
            span, counts = one.span, ("batches", "timed", "rows_in", "rows_out")
            of_part: dict[str, Any] = {
                name: None if (n := getattr(span, name)) is None else round(n * left) for name in counts
            }
            yield attrs.evolve(one, span=attrs.evolve(span, **of_part, seconds=span.seconds * left))


def _columns(found: Iterable[Recorded], now: datetime) -> dict[str, Any]:
    """Return the sums over all queries, a point for each moment. Levels are those of the newest driver."""
    moments: dict[str, list[Recorded]] = {}
    for one in found:
        moments.setdefault(one.span.at, []).append(one)
    points = [_point(clock.parse(at), all_, now) for at, all_ in moments.items()]
    stages = sorted({stage for point in points for stage in point["rows"]})
    columns: dict[str, Any] = {name: [point[name] for point in points] for name in POINT}
    return {**columns, "rows": {stage: [point["rows"].get(stage) for point in points] for stage in stages}}


def _point(at: datetime, all_: list[Recorded], now: datetime) -> dict[str, Any]:
    newest = max(all_, key=lambda r: r.epoch)
    levels = [r for r in all_ if r.epoch == newest.epoch]
    seconds, timed, out = all_[0].seconds, sum(r.span.timed for r in all_), total(r.span.rows_out for r in all_)
    if seconds == HOUR:  # one that is not over; a minute is written when it is, whatever this clock says
        seconds = min(seconds, max((now - at).total_seconds(), MINUTE))
    return {
        "at": at.timestamp(),
        "deployment": newest.deployment,
        "in": sum(r.span.rows_in for r in all_) / seconds,
        "out": None if out is None else out / seconds,
        "lag": total(r.span.lag for r in levels),
        "longest_lag": _largest(r.span.lag_most for r in all_),
        "batch": sum(r.span.seconds for r in all_) / timed if timed else None,
        "longest_batch": max(r.span.longest for r in all_) if timed else None,
        "bytes": total(r.span.state_bytes for r in levels),
        "watermark_age": _largest(r.span.watermark_age for r in levels),
        "rows": {f"{r.query}/{stage}": n for r in levels for stage, n in r.span.state_rows.items()},
    }


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
