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
from ..core.history.span import Span
from ..core.registry.registry import AppRegistry
from ..core.registry.update import Step
from .operations.context import Context
from .overview import total
from .update.strategies import STRATEGIES

MOST_SECONDS = HOURS_KEPT.total_seconds()


def _now() -> datetime:
    return clock.utc_now()


def history(context: Context, app: str, seconds: float) -> dict[str, Any]:
    """Return what an app did in the last seconds, as columns of equal length, for charts. NotFoundError for an unknown
    app, InvalidInputError for a time that is not kept.

    ``at`` (seconds since 1970), ``deployment``, ``in`` and ``out`` (rows per second), ``lag`` and ``longest_lag``
    (rows), ``batch`` and ``longest_batch`` (seconds, mean and longest), ``bytes`` of state, ``watermark_age``
    (seconds), and ``rows`` of state by stage. ``each``: the seconds of a point. A version that ran beside the one
    before is left out until it took over.
    """
    if not 0 < seconds <= MOST_SECONDS:
        raise InvalidInputError(f"seconds must be more than 0 and at most {MOST_SECONDS:.0f}, not {seconds:g}")
    registry = context.registry.existing(app)
    since = _now() - timedelta(seconds=seconds)
    found = list(main_line(registry, recorded(registry.folder, since)))
    return {"app": app, "seconds": seconds, "each": found[0].seconds if found else MINUTE, **columns(found, _now())}


def main_line(registry: AppRegistry, found: Iterable[Recorded]) -> Iterator[Recorded]:
    """Without what new versions did beside the app, in sinks of their own."""
    begins = {
        update.new: update.step_times.get(Step.SNAPSHOT_AND_CANCEL)
        for update in registry.updates()
        if (strategy := STRATEGIES.get(update.strategy)) is not None and strategy.runs_beside
    }
    for one in found:
        if one.deployment not in begins:
            yield one
            continue
        if (begin := begins[one.deployment]) is None:
            continue
        end = clock.parse(one.span.at) + timedelta(seconds=one.seconds)
        left = (end - minute_of(clock.parse(begin))).total_seconds() / one.seconds
        if left >= 1:
            yield one
        elif left > 0:  # an hour with the cut-over in it
            yield attrs.evolve(one, span=_part(one.span, left))


def _part(span: Span, part: float) -> Span:
    """Return a fraction of a span, assuming a constant rate."""
    return attrs.evolve(
        span,
        batches=round(span.batches * part),
        timed=round(span.timed * part),
        rows_in=round(span.rows_in * part),
        rows_out=None if span.rows_out is None else round(span.rows_out * part),
        seconds=span.seconds * part,
    )


def columns(found: Iterable[Recorded], now: datetime) -> dict[str, Any]:
    """Return the sums over all queries, a point for each moment. Levels are those of the newest driver."""
    moments: dict[str, list[Recorded]] = {}
    for one in found:
        moments.setdefault(one.span.at, []).append(one)
    stages = {f"{r.query}/{stage}" for at in moments.values() for r in at for stage in r.span.state_rows}
    made: dict[str, Any] = {name: [] for name in _LEVELS_AND_RATES}
    made["rows"] = {stage: [] for stage in sorted(stages)}
    for at, all_ in moments.items():
        newest = max(all_, key=lambda r: r.epoch)
        levels = [r for r in all_ if r.epoch == newest.epoch]
        made["at"].append(clock.parse(at).timestamp())
        made["deployment"].append(newest.deployment)
        seconds, timed = all_[0].seconds, sum(r.span.timed for r in all_)
        if seconds == HOUR:  # one that is not over; a minute is written when it is, whatever this clock says
            seconds = min(seconds, max((now - clock.parse(at)).total_seconds(), MINUTE))
        made["in"].append(sum(r.span.rows_in for r in all_) / seconds)
        out = total(r.span.rows_out for r in all_)
        made["out"].append(None if out is None else out / seconds)
        made["lag"].append(total(r.span.lag for r in levels))
        made["longest_lag"].append(_most(r.span.lag_most for r in all_))
        made["batch"].append(sum(r.span.seconds for r in all_) / timed if timed else None)
        made["longest_batch"].append(max(r.span.longest for r in all_) if timed else None)
        made["bytes"].append(total(r.span.state_bytes for r in levels))
        made["watermark_age"].append(_most(r.span.watermark_age for r in levels))
        rows = {f"{r.query}/{stage}": n for r in levels for stage, n in r.span.state_rows.items()}
        for stage in stages:
            made["rows"][stage].append(rows.get(stage))
    return made


_LEVELS_AND_RATES = (
    "at",
    "deployment",
    "in",
    "out",
    "lag",
    "longest_lag",
    "batch",
    "longest_batch",
    "bytes",
    "watermark_age",
)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
