"""How long batches take, against what was slow before."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from ..difference.figures import BatchFigures
from ..history.span import Span
from ..registry.deployment import QueryStatus
from .before import Before
from .finding import (
    FEWEST_BATCHES,
    FEWEST_BEFORE,
    HUNG_SECONDS,
    LONGEST_SECONDS,
    MORE_ROWS,
    RECENT_BATCHES,
    Finding,
    Found,
    done,
    few,
    warm,
    with_rows,
)
from .stretch import high, middle, of_ten_minutes

CATCHING_UP = 1.2  # rows done a second, as a multiple of the most that came in: what works off a backlog
SLACK_SECONDS = 0.5  # what a batch may take longer in any case: a scheduler's mood, a listing of files
LONE_SECONDS = 30.0
SHRINKS = 0.9  # rows of a batch, as a multiple of the most: a backlog is worked off
SPREAD = 1.5  # the most rows of a batch, as a multiple of the fewest, that a line can be drawn through
STRAIGHT = 0.95  # correlation of batches' rows with their seconds, from which on a line through them foretells others


def batch_time(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """The median time of the last batches, against what was slow before; and their mean, because the median does not
    show that every third batch takes a hundred times as long. While a backlog is worked off, more rows in a batch may
    take longer by as much; not where a batch has more rows because it takes longer."""
    was = _slow_before(before)
    if was is None:
        each, minutes = len(with_rows(before.batches)), len(before.spans)
        return [Finding(None, f"only {each} batches and {minutes} minutes before are known")]
    recent = with_rows(batches)[-RECENT_BATCHES:]
    if (often := _often_slow(recent, before, limit)) is not None:
        return [often]
    more = _more_rows(recent, before)
    seconds, allowed = middle(b.seconds for b in recent), limit * was * more + SLACK_SECONDS
    told = f"a batch takes {seconds:.2f} s; before, {was:.2f} s when it was slow"
    told += f", with {more:.1f} times fewer rows" if more > 1 else ""
    told += f" (at most {allowed:.2f} s are allowed)"
    settled = _settled(with_rows(batches), before) if seconds > allowed else None
    if settled is not None and settled <= limit * was + SLACK_SECONDS:
        return [Finding(False, f"{told}; {settled:.2f} s are foretold for when the backlog is worked off")]
    return [Finding(seconds > allowed, told, open=_until_it_is_worked_off(recent, before))]


def _often_slow(recent: Sequence[BatchFigures], before: Before, limit: float) -> Finding | None:
    """Where the mean is too long, and the median is not. The longest batch does not count: one may be a matter of
    chance. While there are fewer than RECENT_BATCHES, two may be, and more are waited for."""
    kept, was = _without_longest(recent), max(_slow_before(before) or 0.0, _slow_mean_before(before, len(recent)))
    if len(kept) < FEWEST_BATCHES - 1 or middle(b.seconds for b in recent) > limit * was + SLACK_SECONDS:
        return None
    seconds, rows = _mean(b.seconds for b in kept), _mean(float(b.rows_in or 0) for b in kept)
    allowed = limit * was * _more(rows, recent, before) + SLACK_SECONDS
    if seconds <= allowed:
        return None
    told = (
        f"some batches are slow: the last {len(recent)}, without the longest, took {seconds:.2f} s on average; before, "
    )
    told += f"{was:.2f} s when it was slow (at most {allowed:.2f} s are allowed)"
    if len(recent) < RECENT_BATCHES:
        return Finding(True, told, open=LONGEST_SECONDS)
    return Finding(True, told, open=_until_it_is_worked_off(recent, before))


def _slow_mean_before(before: Before, length: int) -> float:
    """What the means of 19 of 20 groups of so many batches did not exceed, each without its longest batch."""
    each = with_rows(before.batches)
    groups = (each[at : at + length] for at in range(len(each) - length + 1))
    return high(_mean(b.seconds for b in _without_longest(group)) for group in groups) or 0.0


def _without_longest(batches: Sequence[BatchFigures]) -> list[BatchFigures]:
    return sorted(batches, key=lambda b: b.seconds)[:-1]


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(found) if (found := list(values)) else 0.0


def _until_it_is_worked_off(batches: Sequence[BatchFigures], before: Before) -> float:
    """Seconds to wait for batches of the usual size, while there are larger ones that get smaller, or are too few to
    tell; else 0."""
    rows = [b.rows_in or 0 for b in batches]
    if not rows or rows[-1] <= MORE_ROWS * _rows_a_batch(before):
        return 0.0
    return LONGEST_SECONDS if len(rows) < 3 or rows[-1] < SHRINKS * max(rows) else 0.0


def _settled(batches: Sequence[BatchFigures], before: Before) -> float | None:
    """Seconds of a batch when the backlog is worked off, by a line through rows and seconds of the batches that work it
    off. None where they are on no line, or will never be done with it."""
    rows, seconds = [float(b.rows_in or 0) for b in batches], [b.seconds for b in batches]
    comes = max(_came_in(before), default=0.0)
    if (
        max(rows) < SPREAD * min(rows)
        or min(seconds) == max(seconds)
        or statistics.correlation(rows, seconds) < STRAIGHT
    ):
        return None
    each, fixed = statistics.linear_regression(rows, seconds)
    if not comes or each * comes >= 1:
        return None
    return max(fixed, 0.0) + each * max(_rows_a_batch(before), comes * max(fixed, 0.0) / (1 - each * comes))


def few_batches(now: QueryStatus, before: Before, limit: float) -> Found:
    """Where many batches came before, few of them are a sign by themselves: the median of those that there are but the
    first; while they have more rows than usual, more are waited for. One alone is a sign only where it takes more than
    LONE_SECONDS."""
    was = _slow_before(before)
    first = now.batch if now.first_batch is None else now.first_batch
    found = [f for f in now.figures if f.batch > first and f.rows_in]
    if was is None or not found:
        return [few(len(with_rows(warm(now))))]
    took, allowed = middle(f.seconds for f in found), limit * was * _more_rows(found, before) + SLACK_SECONDS
    if len(found) == 1 and took <= max(allowed, LONE_SECONDS):
        return [few(len(with_rows(warm(now))))]
    told = f"a batch takes {took:.2f} s; before, {was:.2f} s when it was slow (at most {allowed:.2f} s are allowed)"
    backlog = (found[-1].rows_in or 0) > MORE_ROWS * _rows_a_batch(before)
    return [Finding(took > allowed, told, open=LONGEST_SECONDS if backlog or len(found) == 1 else 0.0)]


def hung_batch(now: QueryStatus, before: Before, limit: float, longest: float) -> Found:
    """Of the batch in flight, where it has taken longer than HUNG_SECONDS and than is allowed: a fault when it has for
    `longest` seconds. Nothing of any other batch."""
    was, running = _slow_before(before), now.batch_running
    if was is None or running <= max(limit * was + SLACK_SECONDS, HUNG_SECONDS):
        return []
    seen = running // 30 * 30 or HUNG_SECONDS  # so that not each look tells something new
    told = f"a batch has not ended for {seen:.0f} s; before, one took {was:.2f} s when it was slow"
    return [Finding(True, told, ends=running < min(LONGEST_SECONDS, longest))]


def _slow_before(before: Before) -> float | None:
    """Seconds of a batch: the most that ten minutes had as their mean, and what 19 of 20 medians of as many batches as
    are judged did not exceed. None where too little is known."""
    each = with_rows(before.batches)
    minutes = [s for s in before.spans if s.timed and s.rows_in]
    if len(each) < FEWEST_BEFORE and len(minutes) < FEWEST_BEFORE:
        return None
    length = min(RECENT_BATCHES, len(each))
    medians = [middle(b.seconds for b in each[at : at + length]) for at in range(len(each) - length + 1) if length]
    return max(high(medians) or 0.0, *map(_mean_seconds, of_ten_minutes(before.runs, FEWEST_BEFORE)), 0.0)


def _mean_seconds(minutes: Sequence[Span]) -> float:
    """Of a batch. One that hung does not count, where there are enough of them."""
    timed, seconds = sum(span.timed for span in minutes), sum(span.seconds for span in minutes)
    if timed >= FEWEST_BEFORE:
        timed, seconds = timed - 1, seconds - max(span.longest for span in minutes)
    return seconds / timed if timed else 0.0


def _more_rows(recent: Sequence[BatchFigures], before: Before) -> float:
    """Rows a batch, as a multiple of what they were, while a backlog is worked off; else 1."""
    return _more(middle(b.rows_in or 0 for b in recent), recent, before)


def _more(rows: float, recent: Sequence[BatchFigures], before: Before) -> float:
    rows_before = _rows_a_batch(before)
    return max(1.0, rows / rows_before) if rows_before and _catches_up(recent, before) else 1.0


def _rows_a_batch(before: Before) -> float:
    """What 19 of 20 batches did not exceed, or the most of ten minutes' means."""
    each = high(float(b.rows_in) for b in before.batches if b.rows_in)
    parts = [(part, sum(span.timed for span in part)) for part in of_ten_minutes(before.runs)]
    means = (sum(span.rows_in for span in part) / timed for part, timed in parts if timed)
    return max(each or 0.0, *means, 0.0)


def _catches_up(recent: Sequence[BatchFigures], before: Before) -> bool:
    """Whether it gets clearly more rows a second done than ever came in. Unknown where no minutes are known: then it is
    taken to."""
    rates = list(_came_in(before))
    return not rates or done(recent) > CATCHING_UP * max(rates)


def _came_in(before: Before) -> Iterator[float]:
    """Rows a second, of ten minutes each."""
    return (sum(s.rows_in for s in part) / (60 * len(part)) for part in of_ten_minutes(before.runs))
