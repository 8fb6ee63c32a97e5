"""The hours before an update beside the hours after it, from the app's history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import attrs

from ...core import clock
from ...core.history.history import AHEAD, HOURS_KEPT, MINUTES_KEPT
from ...core.history.recorded import HOUR, Recorded, recorded
from ...core.history.span import merged
from ...core.registry.registry import AppRegistry
from ...core.registry.update import REFUSED, Step, UpdateRecord
from ..history import without_parallel_versions

LONGEST = timedelta(hours=24)  # on each side: a day has its hours with more input and with less
LEAST = timedelta(hours=1)


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

    before: float  # seconds of which figures are kept
    after: float
    figures: tuple[Figure, ...] = ()


def hours(registry: AppRegistry, update: UpdateRecord, now: datetime) -> Hours | None:
    """Compare the time after an update's cut-over with as much time before it; None when nothing is known.

    The time ends when the next update that ran began, or now. It lasts an hour (two where only hours are kept) to a
    day. The minute or hour of the cut-over is left out, and any hour in which a version was started.
    """
    cut = _cut_over(update)
    if cut is None or not -AHEAD <= now - cut <= HOURS_KEPT:
        return None
    began = [clock.parse(other.started_at) for other in registry.updates() if other.new != update.new and _ran(other)]
    end = max(min([now, cut + LONGEST, *(at for at in began if at > cut)]), cut)
    begin = since = cut - max(end - cut, LEAST)
    if now - begin > MINUTES_KEPT:  # in two hours lies a whole one, and the hour before tells what was started in it
        begin = min(begin, cut - 2 * LEAST)
        since = begin - LEAST
    found = list(without_parallel_versions(registry, recorded(registry.folder, since)))
    pause = timedelta(seconds=min(max(update.pause_seconds or 0.0, 0.0), LONGEST.total_seconds()))
    before, after = _within(found, update.old, begin, cut), _within(found, update.runs, cut + pause, end)
    if not before and not after:
        return None
    return Hours(before=_seconds(before), after=_seconds(after), figures=tuple(_figures(before, after)))


def _cut_over(update: UpdateRecord) -> datetime | None:
    """Return when the new version took over; None when it did not."""
    times = update.step_times
    at = update.paused_at or times.get(Step.SNAPSHOT_AND_CANCEL) or times.get(Step.SUBMIT_FROM_SNAPSHOT)
    return clock.parse(at) if at else None


def _ran(update: UpdateRecord) -> bool:
    """Return whether the update replaced what ran, or may be about to."""
    return update.outcome is None or (update.outcome != REFUSED and _cut_over(update) is not None)


def _within(found: Sequence[Recorded], deployment: str | None, begin: datetime, end: datetime) -> list[Recorded]:
    """Return the minutes or hours of a deployment within a time, without the hours in which it was started."""
    mine = [r for r in found if r.deployment == deployment]
    ends = {_end(r) for r in mine}
    return [
        r
        for r in mine
        if begin <= (at := clock.parse(r.span.at)) and _end(r) <= end and (r.seconds < HOUR or at in ends)
    ]


def _figures(before: Sequence[Recorded], after: Sequence[Recorded]) -> Iterator[Figure]:
    """Yield each known figure of each query, of both sides."""
    for query in sorted({r.query for r in (*before, *after)}):
        old, new = (_query_figures([r for r in side if r.query == query]) for side in (before, after))
        for figure, unit in {**old, **new}:
            sides = (old.get((figure, unit)), new.get((figure, unit)))
            if sides != (None, None):
                yield Figure(query=query, figure=figure, unit=unit, before=sides[0], after=sides[1])


def _query_figures(found: Sequence[Recorded]) -> dict[tuple[str, str], float | None]:
    """Return the figures of one query, by name and unit."""
    if not found:
        return {}
    whole, seconds = merged(found[0].span.at, [r.span for r in found]), _seconds(found)
    rows = [(_end(r), sum(r.span.state_rows.values())) for r in found if r.span.state_rows]
    size = [(_end(r), r.span.state_bytes) for r in found if r.span.state_bytes is not None]
    return {
        ("batch, mean", "s"): whole.seconds / whole.timed if whole.timed else None,
        ("batch, longest", "s"): whole.longest if whole.timed else None,
        ("rows in", "rows/s"): whole.rows_in / seconds,
        ("rows out", "rows/s"): None if whole.rows_out is None else whole.rows_out / seconds,
        ("lag at the end", "rows"): whole.lag,
        ("lag, most", "rows"): whole.lag_most,
        ("watermark behind", "s"): whole.watermark_age,
        ("state rows, growth", "rows/h"): _growth(rows),
        ("state size, growth", "bytes/h"): _growth(size),
    }


def _growth(levels: Sequence[tuple[datetime, int]]) -> float | None:
    """Return how much a level grew an hour, from the end of the first span to that of the last."""
    passed = (levels[-1][0] - levels[0][0]).total_seconds() if levels else 0.0
    return (levels[-1][1] - levels[0][1]) / passed * HOUR if passed > 0 else None


def _end(one: Recorded) -> datetime:
    return clock.parse(one.span.at) + timedelta(seconds=one.seconds)


def _seconds(found: Sequence[Recorded]) -> float:
    """Return the seconds that are kept, whatever the number of queries."""
    return sum({r.span.at: r.seconds for r in found}.values())
