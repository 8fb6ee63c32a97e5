"""Compare a query of the new version with the hours before: pure functions of the figures of batches and minutes.

A limit is exceeded only where the hours before had nothing like it: each is held to the most that was seen, so that a
rush hour, a burst at the end of a window or a cold cache is no reason to roll back.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from ..difference.figures import COLD_BATCHES, BatchFigures
from ..history.span import Span
from ..registry.deployment import QueryStatus
from .before import Before
from .limits import SloLimits
from .stretch import Stretch, high, middle, of_batches, of_minutes, of_ten_minutes, windows

PATIENCE_SECONDS = 60.0  # for what looks worse to get better
LONGEST_SECONDS = 300.0  # for batches to judge by
FEWEST_BATCHES = 5  # of the new version, warm ones
RECENT_BATCHES = 10  # the last ones, whose time counts
FEWEST_BEFORE = 10  # batches or minutes
FEWEST_STRETCHES = 5
CATCHING_UP = 1.2  # rows done a second, as a multiple of the most that came in: what works off a backlog
ENOUGH_BATCHES = COLD_BATCHES + FEWEST_BATCHES
SLACK_SECONDS = 0.5  # what a batch may take longer in any case: a scheduler's mood, a listing of files
MORE_ROWS = 1.25  # batches with more rows than that, as a multiple of the most before, are those of a backlog
SHRINKS = 0.9  # rows of a batch, as a multiple of the most: a backlog is worked off
FAR_FEWER = 0.1  # rows of a stretch, as a share of those that are judged
SPREAD = 1.5  # the most rows of a batch, as a multiple of the fewest, that a line can be drawn through
STRAIGHT = 0.95  # correlation of batches' rows with their seconds, from which on a line through them foretells others
LAG_MORE = 1.5  # as in health: what makes an app behind
SIGMAS = 3.0  # a count of rows that is a matter of chance is off by its root
FEW_ROWS = 10  # by which rows out may be more, and a stage may grow, in any case


@attrs.frozen(kw_only=True)
class Judgement:
    """Of a query by a limit. exceeded: None where it was not compared. why: what was found, or why it was not
    open: it may be exceeded, and more batches would tell; seconds that they are worth waiting for (0: none)"""

    query: str
    limit: str
    exceeded: bool | None
    why: str
    open: float = 0.0

    @property
    def text(self) -> str:
        return _text(self.query, [self.limit], self.exceeded, self.why)


def _text(query: str, limits: Sequence[str], exceeded: bool | None, why: str) -> str:
    return f"query {query}, {', '.join(limits)}: {'not compared: ' if exceeded is None else ''}{why}"


def told(judged: Iterable[Judgement]) -> list[str]:
    """The texts; of a query's limits that were not compared for one reason, one."""
    groups: dict[tuple[str, bool | None, str], list[str]] = {}
    for j in judged:
        groups.setdefault((j.query, j.exceeded, j.why), []).append(j.limit)
    return [_text(query, limits, exceeded, why) for (query, exceeded, why), limits in groups.items()]


@attrs.frozen
class Finding:
    """What a rule says of a query. exceeded, why, open: see Judgement"""

    exceeded: bool | None
    why: str
    open: float = 0.0


Found = list[Finding]


def judge(
    name: str, now: QueryStatus, before: Before | None, limits: SloLimits, waited: float | None = None
) -> list[Judgement]:
    """Judge the query `name` by each limit that there is.

    before: None where the old version had none of this name
    waited: seconds since its last commit, once no more batches are waited for: then few are enough to say that it is
        slow (None: more are to come, or few came before, too)
    """
    rules: dict[str, Callable[[Sequence[BatchFigures], Before, float], Found]] = {
        "batch-time": _batch_time,
        "lag-growth": lambda batches, before, limit: _lag_growth(now, batches, before, limit),
        "rows-out": _rows_out,
        "state-growth": _state_growth,
    }
    found = []
    for limit, rule in rules.items():
        most = getattr(limits, limit.replace("-", "_"))
        if most is None:
            continue
        if before is None:
            judged: Found = [Finding(None, "the version before had no such query")]
        elif (known := len(with_rows(warm(now)))) >= FEWEST_BATCHES:
            judged = rule(warm(now), before, most)
        elif limit == "batch-time" and waited is not None:
            judged = _few_batches(now, before, most, waited)
        else:
            judged = [_few(known)]
        found += [Judgement(query=name, limit=limit, exceeded=f.exceeded, why=f.why, open=f.open) for f in judged]
    return found


def warm(query: QueryStatus) -> tuple[BatchFigures, ...]:
    """The batches of its driver, without the first ones."""
    first = query.batch if query.first_batch is None else query.first_batch
    return tuple(f for f in query.figures if f.batch >= first + COLD_BATCHES)


def with_rows(batches: Sequence[BatchFigures]) -> list[BatchFigures]:
    """Those that had any to read."""
    return [b for b in batches if b.rows_in]


def _batch_time(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """The median time of the last batches, against what was slow before. While a backlog is worked off, more rows in a
    batch may take longer by as much; not where a batch has more rows because it takes longer."""
    was = _slow_before(before)
    if was is None:
        each, minutes = len(with_rows(before.batches)), len(before.spans)
        return [Finding(None, f"only {each} batches and {minutes} minutes before are known")]
    recent = with_rows(batches)[-RECENT_BATCHES:]
    more = _more_rows(recent, before)
    seconds, allowed = middle(b.seconds for b in recent), limit * was * more + SLACK_SECONDS
    told = f"a batch takes {seconds:.2f} s; before, {was:.2f} s when it was slow"
    told += f", with {more:.1f} times fewer rows" if more > 1 else ""
    told += f" (at most {allowed:.2f} s are allowed)"
    settled = _settled(with_rows(batches), before) if seconds > allowed else None
    if settled is not None and settled <= limit * was + SLACK_SECONDS:
        return [Finding(False, f"{told}; {settled:.2f} s are foretold for when the backlog is worked off")]
    return [Finding(seconds > allowed, told, open=_until_it_is_worked_off(recent, before))]


def _until_it_is_worked_off(batches: Sequence[BatchFigures], before: Before) -> float:
    """Seconds to wait for batches of the usual size, while there are larger ones, and they get smaller or are too few to
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


def _few_batches(now: QueryStatus, before: Before, limit: float, waited: float) -> Found:
    """Where many batches came before, few of them are a sign by themselves: the median of those that there are but the
    first, or the time since the last one."""
    was = _slow_before(before)
    first = now.batch if now.first_batch is None else now.first_batch
    found = [f for f in now.figures if f.batch > first and f.rows_in]
    if was is None or now.idle:
        return [_few(len(with_rows(warm(now))))]
    allowed = limit * was * (_more_rows(found, before) if found else 1.0) + SLACK_SECONDS
    took = max(middle(f.seconds for f in found) if found else 0.0, waited)
    told = f"a batch takes {took:.2f} s or more; before, {was:.2f} s when it was slow"
    told += f" (at most {allowed:.2f} s are allowed)"
    all_of_them = [f for f in now.figures if f.batch >= first and f.rows_in]
    return [Finding(took > allowed, told, open=_until_it_is_worked_off(all_of_them, before))]


def _few(known: int) -> Finding:
    return Finding(None, f"{known} batches with rows are known, and {FEWEST_BATCHES} are needed")


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
    rows, rows_before = middle(b.rows_in or 0 for b in recent), _rows_a_batch(before)
    return max(1.0, rows / rows_before) if rows_before and _catches_up(recent, before) else 1.0


def _rows_a_batch(before: Before) -> float:
    """What 19 of 20 batches did not exceed, or the most of ten minutes' means."""
    each = high(float(b.rows_in) for b in before.batches if b.rows_in)
    parts = [(part, sum(span.timed for span in part)) for part in of_ten_minutes(before.runs)]
    means = (sum(span.rows_in for span in part) / timed for part, timed in parts if timed)
    return max(each or 0.0, *means, 0.0)


def _done(recent: Sequence[BatchFigures]) -> float:
    """Rows a second of work."""
    return sum(b.rows_in or 0 for b in recent) / max(sum(b.seconds for b in recent), 1e-9)


def _catches_up(recent: Sequence[BatchFigures], before: Before) -> bool:
    """Whether it gets clearly more rows a second done than ever came in. Unknown where no minutes are known: then it is
    taken to."""
    rates = list(_came_in(before))
    return not rates or _done(recent) > CATCHING_UP * max(rates)


def _came_in(before: Before) -> Iterator[float]:
    """Rows a second, of ten minutes each."""
    return (sum(s.rows_in for s in part) / (60 * len(part)) for part in of_ten_minutes(before.runs))


def _lag_growth(now: QueryStatus, batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Whether a query that is further behind than ever before falls back further: by the rows that came in a second
    before, against those it now gets done."""
    most = max((s.lag_most for s in before.spans if s.lag_most is not None), default=None)
    recent = with_rows(batches)[-RECENT_BATCHES:]
    if now.lag is None or most is None:
        return [Finding(None, "its lag is not known" if now.lag is None else "its lag before is not known")]
    biggest = max(b.rows_in or 0 for b in batches)
    if now.lag <= most * LAG_MORE + biggest:
        return [Finding(False, f"it is {now.lag:.0f} rows behind; before, {most:.0f} at most")]
    hour = before.spans[-60:]
    if len(hour) < FEWEST_BEFORE:
        return [Finding(None, f"only {len(hour)} minutes before are known, which do not tell how much comes in")]
    comes = sum(s.rows_in for s in hour) / (60 * len(hour))
    done = _done(recent)
    least = comes * (1 - limit)
    told = f"it is {now.lag:.0f} rows behind (before, {most:.0f} at most) and gets {done:.1f} rows a second done"
    return [Finding(done < least, f"{told}; {comes:.1f} came in before (at least {least:.1f} are needed)")]


def _rows_out(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Rows out per row in, against the least and the most before, over stretches with as many rows."""
    if before.changed:
        return [Finding(None, before.changed)]
    alike = _alike(batches, before)
    judged = alike or batches
    stretch = of_batches(judged)
    if stretch.rows_out is None or not stretch.told_in:
        return [Finding(None, "this sink does not tell how many rows it got")]
    known = [s for s in _stretches_before(judged, before) if s.out_share is not None]
    shares = [s.out_share for s in known if s.out_share is not None]
    if len(shares) < FEWEST_STRETCHES:
        few = Finding(None, f"only {len(shares)} stretches with as many rows before are known")
        return [few if alike else _MORE_ROWS]
    least, most = stretch.told_in * min(shares), stretch.told_in * max(shares)
    fewest = least * (1 - limit) - SIGMAS * math.sqrt(least)
    if least > SIGMAS**2:
        fewest = max(fewest, 1.0)  # none at all is no matter of chance, and within no limit
    highest = most * (1 + limit) + SIGMAS * math.sqrt(most) + FEW_ROWS
    told = f"{stretch.rows_out} rows out for {stretch.told_in} in; before, {least:.0f} to {most:.0f}"
    told += f" ({max(math.ceil(fewest), 0)} to {math.floor(highest)} are allowed)"
    if stretch.rows_out > highest:
        if before.rare or _fewer_a_batch(stretch, known, limit):
            return [Finding(None, before.rare or "its batches have fewer rows than any before")]
        return [Finding(True, told)]
    if not alike and (stretch.rows_out or fewest <= 0):
        return [_MORE_ROWS]
    if fewest <= 0 < least and stretch.rows_out < least / 2:
        return [
            Finding(
                None, f"{stretch.rows_out} rows out for {stretch.told_in} in are too few to tell", open=PATIENCE_SECONDS
            )
        ]
    chance = not least * (1 - limit) <= stretch.rows_out <= most * (1 + limit)
    return [Finding(stretch.rows_out < fewest, told, open=PATIENCE_SECONDS if chance else 0.0)]


# Larger batches tell that too much goes out or is kept, or that nothing goes out: an aggregation gives fewer rows for
# each that came in then, but some.
_MORE_ROWS = Finding(None, "its batches have more rows than any before", open=LONGEST_SECONDS)


def _fewer_a_batch(now: Stretch, before: Sequence[Stretch], limit: float) -> bool:
    """Whether its batches have fewer rows than ever before, and no more rows go out of a batch: the groups of an
    aggregation are no more than before, but more of each row that came in."""
    fewest = min((s.told_in / s.batches for s in before if s.batches), default=0.0)
    most = max(((s.rows_out or 0) / s.batches for s in before if s.batches), default=0.0)
    rows_out = now.rows_out or 0
    smaller = now.told_in / now.batches * MORE_ROWS < fewest
    return smaller and rows_out <= most * now.batches * (1 + limit) + SIGMAS * math.sqrt(most * now.batches)


def _state_growth(batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Rows that each stage gained per row in, against the most before."""
    if before.changed:
        return [Finding(None, before.changed)]
    alike = _alike(batches, before)
    judged = alike or batches
    stretch, stretches = of_batches(judged), _stretches_before(judged, before)
    held = judged[-1].state_rows or {}
    if not stretch.gained or not stretch.rows_in:
        return [Finding(None, "it holds no state whose rows are counted")]
    found: Found = []
    for stage, gained in sorted(stretch.gained.items()):
        shares = [share for s in stretches if (share := s.gain_share(stage)) is not None]
        if stage in before.uncounted or len(shares) < FEWEST_STRETCHES:
            why = "the update changed it" if stage in before.uncounted else f"{len(shares)} stretches before are known"
            found.append(Finding(None, f"stage {stage}: {why}"))
            continue
        most = stretch.rows_in * max(*shares, 0.0)
        allowed = most * (1 + limit) + SIGMAS * math.sqrt(most) + max(FEW_ROWS, held.get(stage, 0) // 1000)
        told = f"stage {stage} gained {gained} rows for {stretch.rows_in} in; before, {most:.0f} at most"
        exceeded = gained > allowed
        told += f" (up to {allowed:.0f} are allowed)"
        if exceeded and before.rare:
            found.append(Finding(None, f"stage {stage}: {before.rare}"))
        else:
            found.append(Finding(exceeded, told) if exceeded or alike else _MORE_ROWS)
    return found


def _alike(batches: Sequence[BatchFigures], before: Before) -> Sequence[BatchFigures]:
    """The last batches in a row that have no more rows than batches had before."""
    most = max((b.rows_in or 0 for b in before.batches), default=0)
    found = list(batches)
    for at in range(len(batches) - 1, -1, -1):
        if most and (batches[at].rows_in or 0) > most * MORE_ROWS + SIGMAS * math.sqrt(most):
            found = list(batches[at + 1 :])
            break
    return found if len(with_rows(found)) >= FEWEST_BATCHES else ()


def _stretches_before(alike: Sequence[BatchFigures], before: Before) -> list[Stretch]:
    """As long as what is judged: as many batches, and minutes with as many rows. Far fewer rows say little."""
    length, rows = min(len(alike), max(FEWEST_BATCHES, len(before.batches) // 2)), of_batches(alike).rows_in
    found = [*windows(before.batches, length), *of_minutes(before.runs, rows)]
    return [s for s in found if s.rows_in and s.rows_in >= rows * FAR_FEWER * length / len(alike)]
