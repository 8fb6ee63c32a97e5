"""Compare a query of the new version with the hours before: one rule for each limit, pure functions of figures."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import attrs

from ..difference.figures import COLD_BATCHES
from ..history.span import Span, merged
from ..registry.deployment import QueryStatus
from .baseline import Baseline, driver_batches, empty_at_end
from .limits import LONGEST_SECONDS, PATIENCE_SECONDS, SloLimits

FEWEST_BATCHES = 10  # of the new version, without its driver's first ones
FEWEST_BEFORE = 10  # minutes or stretches of the old one
SLACK_SECONDS = 0.5  # by which a batch may take longer in any case: a scheduler's mood, a listing of files
HUNG_SECONDS = 5.0  # a batch in flight that takes less long is not waited for
FEW_ROWS = 10  # fewer are a matter of chance
LAG_MORE = 1.5  # as in health: what makes an app behind
WAIT = 2.5  # times as long as batches took before: one that misses its trigger takes two
ALL = "every limit"


@attrs.frozen
class Finding:
    """The answer of a limit's rule for a query."""

    limit: str
    exceeded: bool | None  # None: not compared
    why: str
    waits: float = 0.0  # seconds after `verify_for` until which a better answer is waited for


def judge(now: QueryStatus, baseline: Baseline, limits: SloLimits, ran: float, longest: float) -> Iterator[Finding]:
    """Judge a query by each limit but `nulls`; by none, for one reason, where too few batches are known.

    ran: seconds after `verify_for` (infinite: nothing is waited for); longest: of them, that batches are waited for
    """
    slow, waits = _slow_batch(baseline), _wait_for_batches(now, baseline, ran, longest)
    allowed = math.inf if slow is None or limits.batch_time is None else limits.batch_time * slow + SLACK_SECONDS
    bound = f"before, {slow or 0:.2f} s when it was slow (at most {allowed:.2f} s are allowed)"
    batches = _with_rows(driver_batches(now))
    later = [batch.seconds for batch in _with_rows(driver_batches(now, skip=1))]
    if now.batch_running > max(allowed, HUNG_SECONDS):
        seconds = now.batch_running // 30 * 30 or HUNG_SECONDS  # so that not each poll has another text
        until = math.inf if now.batch_running < longest else 0.0
        yield Finding("batch-time", True, f"a batch has not ended for {seconds:.0f} s; {bound}", until)
    elif len(batches) >= FEWEST_BATCHES:
        if limits.batch_time is not None:
            yield _batch_time(batches[-FEWEST_BATCHES:], baseline, allowed, bound)
        rules = (_lag_growth, limits.lag_growth), (_rows_out, limits.rows_out), (_state_growth, limits.state_growth)
        yield from (rule(now, baseline, limit) for rule, limit in rules if limit is not None)
    elif waits <= ran < math.inf and min(later, default=0.0) > allowed:
        yield Finding("batch-time", True, f"a batch takes {min(later):.2f} s at least; {bound}", PATIENCE_SECONDS)
    elif _has_read_nothing(now):
        yield Finding(ALL, None, f"it has read nothing, and the old version nothing for {baseline.quiet:.1f} s", waits)
    else:
        yield Finding(ALL, None, f"{len(batches)} batches with rows, and {FEWEST_BATCHES} are needed", waits)


def _has_read_nothing(now: QueryStatus) -> bool:
    batches = driver_batches(now, skip=0)
    return (now.idle or len(batches) > COLD_BATCHES) and not now.lag and not _with_rows(batches)


def _wait_for_batches(now: QueryStatus, baseline: Baseline, ran: float, longest: float) -> float:
    """Return the seconds for which enough batches are waited for: `longest` while it works at others; none where the
    old version had too few, or where neither has had input for longer than a batch was apart from the next."""
    if len(_with_rows(baseline.batches)) < FEWEST_BATCHES or not baseline.pace:
        return 0.0
    until_quiet = baseline.batches[: len(baseline.batches) - empty_at_end(baseline.batches)]
    pace = baseline.pace * len(_with_rows(until_quiet)) / len(until_quiet)  # of batches with rows
    if _has_read_nothing(now) and baseline.quiet * pace > WAIT * 60:
        return 0.0
    if sum(batch.seconds for batch in driver_batches(now, skip=0)) + now.batch_running > ran / 2:
        return longest
    seconds = 60 * (COLD_BATCHES + FEWEST_BATCHES) / baseline.pace
    return min(longest, max(PATIENCE_SECONDS, WAIT * seconds if seconds <= longest else 0.0))


def _slow_batch(baseline: Baseline) -> float | None:
    """Return the seconds from which on a batch is slow; None: too little is known.

    One figure for each minute (its mean) and for each ten batches in a row (the third longest of them). The highest
    hundredth of these figures, one at least, is left out as chance; the answer is the highest of the rest.
    """
    last = [batch.seconds for batch in _with_rows(baseline.batches)]
    tens = [sorted(last[at : at + FEWEST_BATCHES])[-3] for at in range(len(last) - FEWEST_BATCHES + 1)]
    seconds = sorted([*tens, *(minute.seconds / minute.timed for minute in _with_rows(baseline.minutes))])
    return seconds[-1 - max(1, len(seconds) // 100)] if len(seconds) >= FEWEST_BEFORE else None


def _batch_time(recent: Sequence[Span], baseline: Baseline, allowed: float, bound: str) -> Finding:
    """Hold the third longest of the last ten batches to what was slow before."""
    if math.isinf(allowed):
        return Finding("batch-time", None, "too few batches and minutes before are known")
    seconds, rows = sorted(batch.seconds for batch in recent)[-3], [batch.rows_in for batch in recent]
    backlog = max((batch.rows_in for batch in baseline.batches), default=0) < rows[-1] < max(rows)  # it gets smaller
    waits = LONGEST_SECONDS if backlog or recent[-1].seconds <= allowed else PATIENCE_SECONDS
    return Finding("batch-time", seconds > allowed, f"a batch takes {seconds:.2f} s; {bound}", waits)


def _lag_growth(now: QueryStatus, baseline: Baseline, limit: float) -> Finding:
    """Hold a query that is further behind than ever to the rows that came in a second in the hour before."""
    lags = [minute.lag_most for minute in baseline.minutes if minute.lag_most is not None]
    if now.lag is None or len(lags) < FEWEST_BEFORE:
        return Finding("lag-growth", None, f"its lag {'' if now.lag is None else 'before '}is not known")
    hour, recent = baseline.minutes[-60:], driver_batches(now)[-FEWEST_BATCHES:]
    behind = now.lag > max(lags) * LAG_MORE + max(batch.rows_in for batch in recent)
    rate = sum(batch.rows_in for batch in recent) / max(sum(batch.seconds for batch in recent), 1e-9)
    least = (1 - limit) * sum(minute.rows_in for minute in hour) / (60 * len(hour))
    why = f"it is {now.lag:.0f} rows behind (before, {max(lags):.0f} at most) and gets {rate:.1f} rows a second done"
    return Finding("lag-growth", behind and rate < least, f"{why}; {least:.1f} are enough", PATIENCE_SECONDS)


def _rows_out(now: QueryStatus, baseline: Baseline, limit: float) -> Finding:
    """Hold the rows out to the least and the most before, per row in and per batch."""
    batches = [batch for batch in driver_batches(now) if batch.rows_out is not None]
    if baseline.changed or len(_with_rows(batches)) < FEWEST_BATCHES:
        return Finding("rows-out", None, baseline.changed or "Spark does not tell how many rows its sink got")
    total = _total(batches)
    if not (bounds := _rows_before(baseline, total, lambda part: part.rows_out)):
        return Finding("rows-out", None, "too few batches and minutes with as many rows before are known")
    rows, least, most = total.rows_out or 0, min(bounds), max(bounds)
    fewest = max(least * (1 - limit), 1.0 if least >= FEW_ROWS else 0.0)  # none at all is within no limit
    highest = most * (1 + limit) + FEW_ROWS
    why = f"{rows} rows out for {total.rows_in} in; before, {least:.0f} to {most:.0f} "
    why += f"({math.ceil(fewest)} to {math.floor(highest)} are allowed)"
    if rows < fewest:
        exceeded, doubt = (True, "") if least >= FEW_ROWS else (None, ": too few to tell")
        return Finding("rows-out", exceeded, why + doubt, PATIENCE_SECONDS)
    return _unless_windows("rows-out", rows > highest, why, baseline)


def _state_growth(now: QueryStatus, baseline: Baseline, limit: float) -> Finding:
    """Hold the rows that each stage gained to the most before, per row in and per batch."""
    total, why = _total(driver_batches(now)), ""
    for stage, gained in () if baseline.changed else sorted(total.state_rows.items()):
        if bounds := _rows_before(baseline, total, lambda part, stage=stage: part.state_rows.get(stage)):  # type: ignore[misc]
            highest = max(*bounds, 0.0) * (1 + limit) + FEW_ROWS
            why = f"stage {stage} gained {gained} rows for {total.rows_in} in (up to {highest:.0f} are allowed)"
            if gained > highest:
                return _unless_windows("state-growth", True, why, baseline)
    missing = baseline.changed or "it has no stage whose rows are counted as before"
    return Finding("state-growth", False if why else None, why or missing)


def _unless_windows(limit: str, too_many: bool, why: str, baseline: Baseline) -> Finding:
    """Say whether there are too many rows; of windows these may be what comes once in a while."""
    if too_many and not baseline.windows_known:
        return Finding(limit, None, f"{why}; but its windows may close less often than in the hours that are known")
    return Finding(limit, too_many, why, PATIENCE_SECONDS)


def _with_rows(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.timed and span.rows_in]


def _rows_before(baseline: Baseline, now: Span, rows_of: Callable[[Span], int | None]) -> list[float]:
    """Return the rows to expect by each stretch before with about as many rows in; empty where too few are known.

    Both per row in, and per batch of about this size: of fewer rows an aggregation gives as many groups.
    """
    spans = [span for span in (*baseline.minutes, *baseline.batches) if span.timed]
    sums, parts = list(accumulate(span.rows_in for span in spans)), list[Span]()
    few = min(now.rows_in, sum(batch.rows_in for batch in baseline.batches) / 2)
    for first in range(len(spans) - 1):
        last = bisect_left(sums, sums[first] + max(few, now.rows_in / 10))
        parts += [_total(spans[first : last + 1])] if last < len(spans) else []
    known = [part for part in parts if rows_of(part) is not None]
    size = now.rows_in / now.timed
    alike = sorted(known, key=lambda part: abs(part.rows_in / part.timed - size))[: max(FEWEST_BEFORE, len(known) // 4)]
    per_row = [(rows_of(part) or 0) * now.rows_in / part.rows_in for part in known]
    per_batch = [(rows_of(part) or 0) * now.timed / part.timed for part in alike]
    return [*per_row, *per_batch] if len(known) >= FEWEST_BEFORE else []


def _total(spans: Sequence[Span]) -> Span:
    """Return all spans but the first as one, with what their stages gained since the first."""
    first, last = spans[0].state_rows, spans[-1].state_rows
    gained = {stage: last[stage] - first[stage] for stage in first.keys() & last.keys()}
    return attrs.evolve(merged(spans[0].at, spans[1:]), state_rows=gained)
