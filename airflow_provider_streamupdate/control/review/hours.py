"""The hours before an update beside the hours after it, from the app's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import attrs

from ...core import clock
from ...core.history.history import AHEAD, HOURS_KEPT, MINUTES_KEPT
from ...core.history.span import Span, merged
from ...core.registry.registry import AppRegistry
from ...core.registry.update import REFUSED, Step, UpdateRecord
from ..history import Recorded, main_line, recorded

LONGEST = timedelta(hours=24)  # on each side: a day has its hours with more input and with less
LEAST = timedelta(hours=1)
LEAST_OF_HOURS = timedelta(hours=2)  # where only hours are kept: a whole one lies in it, wherever it begins
HOUR = 3600.0


@attrs.frozen(kw_only=True)
class Figure:
    """One figure of a query."""

    query: str
    figure: str
    unit: str  # s, rows/s, rows, rows/h, bytes/h
    before: float | None  # None: not known, or the query was not there
    after: float | None


@attrs.frozen(kw_only=True)
class Hours:
    """The same length of time before and after a cut-over."""

    begins: str  # ISO
    ends: str  # ISO
    before: float  # seconds of which figures are kept
    after: float
    figures: tuple[Figure, ...] = ()


def hours(registry: AppRegistry, update: UpdateRecord, now: datetime) -> Hours | None:
    """Compare the time after an update's cut-over with as much time before it; None when nothing is known.

    The time ends when the next update that ran began, or now. It lasts an hour (two where only hours are kept) to a
    day. The minute or hour of the cut-over is left out, and any hour in which a version was started.
    """
    cut = _cut(update)
    if cut is None or not -AHEAD <= now - cut <= HOURS_KEPT:
        return None
    later = [begun for u in registry.updates() if u.new != update.new and _ran(u) and (begun := _began(u)) > cut]
    end = max(min([now, cut + LONGEST, *later]), cut)
    length, since = max(end - cut, LEAST), timedelta(0)
    if now - (cut - length) > MINUTES_KEPT:
        length, since = max(length, LEAST_OF_HOURS), timedelta(hours=1)
    found = list(main_line(registry, recorded(registry.folder, cut - length - since)))
    over = cut + timedelta(seconds=min(max(update.pause_seconds or 0.0, 0.0), LONGEST.total_seconds()))
    before = [r for r in _whole(found, update.old) if cut - length <= clock.parse(r.span.at) and _end(r) <= cut]
    after = [r for r in _whole(found, update.runs) if clock.parse(r.span.at) >= over and _end(r) <= end]
    if not before and not after:
        return None
    return Hours(
        begins=(cut - length).isoformat(),
        ends=end.isoformat(),
        before=_seconds(before),
        after=_seconds(after),
        figures=tuple(figures(before, after)),
    )


def figures(before: Sequence[Recorded], after: Sequence[Recorded]) -> Iterable[Figure]:
    """Yield each figure of each query, of both sides."""
    for query in sorted({r.query for r in (*before, *after)}):
        sides = [_of(tuple(r for r in side if r.query == query)) for side in (before, after)]
        for figure, unit in _FIGURES:
            old, new = (side.get(figure) for side in sides)
            if old is not None or new is not None:
                yield Figure(query=query, figure=figure, unit=unit, before=old, after=new)


_FIGURES = (
    ("batch, mean", "s"),
    ("batch, longest", "s"),
    ("rows in", "rows/s"),
    ("rows out", "rows/s"),
    ("lag at the end", "rows"),
    ("lag, most", "rows"),
    ("watermark behind", "s"),
    ("state rows, growth", "rows/h"),
    ("state size, growth", "bytes/h"),
)


def _of(found: Sequence[Recorded]) -> dict[str, float | None]:
    if not found:
        return {}
    all_ = merged(found[0].span.at, [r.span for r in found])
    seconds = _seconds(found)
    return {
        "batch, mean": all_.seconds / all_.timed if all_.timed else None,
        "batch, longest": all_.longest if all_.timed else None,
        "rows in": all_.rows_in / seconds,
        "rows out": None if all_.rows_out is None else all_.rows_out / seconds,
        "lag at the end": all_.lag,
        "lag, most": all_.lag_most,
        "watermark behind": all_.watermark_age,
        "state rows, growth": _growth(found, lambda span: sum(span.state_rows.values()) if span.state_rows else None),
        "state size, growth": _growth(found, lambda span: span.state_bytes),
    }


def _growth(found: Sequence[Recorded], level: Callable[[Span], float | None]) -> float | None:
    """Return how much a level grew an hour, from the end of the first span to that of the last."""
    known = [(_end(r), value) for r in found if (value := level(r.span)) is not None]
    passed = (known[-1][0] - known[0][0]).total_seconds() if len(known) > 1 else 0.0
    return (known[-1][1] - known[0][1]) / passed * HOUR if passed > 0 else None


def _cut(update: UpdateRecord) -> datetime | None:
    """Return when the new version took over; None when it did not."""
    times = update.step_times
    at = update.paused_at or times.get(Step.SNAPSHOT_AND_CANCEL) or times.get(Step.SUBMIT_FROM_SNAPSHOT)
    return clock.parse(at) if at else None


def _began(update: UpdateRecord) -> datetime:
    return clock.parse(update.started_at)


def _ran(update: UpdateRecord) -> bool:
    """Return whether the update replaced what ran, or may be about to."""
    return update.outcome is None or (update.outcome != REFUSED and _cut(update) is not None)


def _whole(found: Sequence[Recorded], deployment: str | None) -> list[Recorded]:
    """Return the minutes or hours of a deployment, without the hours in which it was started."""
    mine = [r for r in found if r.deployment == deployment]
    ends = {_end(r) for r in mine}
    return [r for r in mine if r.seconds < HOUR or clock.parse(r.span.at) in ends]


def _end(one: Recorded) -> datetime:
    return clock.parse(one.span.at) + timedelta(seconds=one.seconds)


def _seconds(found: Sequence[Recorded]) -> float:
    """Return the seconds that are kept, whatever the number of queries."""
    return sum({r.span.at: r.seconds for r in found}.values())
