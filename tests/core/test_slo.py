"""The SLO gate's rules: what a new version does, held to what was seen before it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from airflow_provider_streamupdate.core.difference.figures import KEPT, BatchFigures
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.slo.baseline import Baseline, driver_batches
from airflow_provider_streamupdate.core.slo.limits import LONGEST_SECONDS, NAMES, NO_LIMITS, SloLimits, parse_slo
from airflow_provider_streamupdate.core.slo.rules import Finding, judge
from tests.levels.simulator import span_of

BEGIN = datetime(2026, 11, 27, tzinfo=timezone.utc)


def some(rows: int, share: float, chance: random.Random) -> int:
    """How many of the rows have what this share of all has."""
    if share in (0.0, 1.0):
        return round(rows * share)
    if rows <= 20:
        return sum(chance.random() < share for _ in range(rows))
    return min(rows, max(0, round(chance.gauss(rows * share, math.sqrt(rows * share * (1 - share))))))


@attrs.frozen(kw_only=True)
class App:
    """An app by its habits. rows: a batch's; spread: by which they vary, as a share; batches: a minute
    out: rows out per row in; burst: every so many batches, what is due of all since goes out at once (0: at once)
    seconds: a batch takes at the middle; cold: the first ones, as a multiple
    gain: rows a stage gains per row in; window: after so many batches what came in has left (0: never)
    rush: every so many batches, three times the rows (0: never)
    """

    rows: int = 200
    spread: float = 0.3
    batches: int = 40
    out: float = 0.5
    burst: int = 0
    seconds: float = 0.3
    cold: float = 4.0
    gain: float = 0.0
    window: int = 0
    rush: int = 0

    def run(
        self, count: int, chance: random.Random, first: int = 0, held: int = 5000, gains: list[int] | None = None
    ) -> list[BatchFigures]:
        """gains: of every batch before, which leave when their window ends; it gets those of this run"""
        found, due, gains = [], 0.0, [] if gains is None else gains
        for number in range(first, first + count):
            rows = max(1, round(self.rows * (1 + chance.uniform(-self.spread, self.spread))))
            if self.rush and number % self.rush == 0:
                rows *= 3
            due += some(rows, min(self.out, 1), chance) * max(self.out, 1)
            gains.append(some(rows, self.gain, chance))
            held += gains[-1] - (gains[-1 - self.window] if self.window and len(gains) > self.window else 0)
            now = not self.burst or number % self.burst == 0
            warm = max(1.0, self.cold * math.exp(first - number))
            seconds = self.seconds * chance.lognormvariate(0, 0.25) * warm * (0.7 + 0.3 * rows / self.rows)
            out, due = (round(due), 0.0) if now else (0, due)
            found.append(
                BatchFigures(batch=number, rows_in=rows, rows_out=out, state_rows={"s": held}, seconds=seconds)
            )
        return found

    def minutes(self, batches: list[BatchFigures]) -> tuple[Span, ...]:
        spans = []
        for at in range(0, len(batches), self.batches):
            part = batches[at : at + self.batches]
            at_minute = (BEGIN + timedelta(minutes=len(spans))).isoformat()
            spans.append(span_of(at_minute, part, lag=0.0, lag_most=float(max(b.rows_in or 0 for b in part))))
        return tuple(spans)


def findings(
    new: list[BatchFigures], baseline: Baseline, *slo: str, ran: float = LONGEST_SECONDS, **status: float | bool
) -> dict[str, Finding]:
    """What is said of a driver that has committed these batches, the first of them its first, by limit."""
    now = QueryStatus(batch=new[-1].batch, first_batch=new[0].batch, figures=tuple(new), **status)
    return {finding.limit: finding for finding in judge(now, baseline, parse_slo(slo), ran, LONGEST_SECONDS)}


def baseline(batches: Iterable[BatchFigures] = (), minutes: tuple[Span, ...] = (), **more: object) -> Baseline:
    """What the old version did; its driver's first batches are not among these."""
    figures = tuple(batches)
    query = QueryStatus(first_batch=figures[0].batch if figures else None, figures=figures)
    return Baseline(batches=driver_batches(query, skip=0), minutes=minutes, **{"pace": 60.0, **more})


def exceeded(app: App, later: App, seed: int, minutes: int = 30, batches: int = 20, backlog: int = 0) -> list[str]:
    """The limits that `later` exceeds after `app` ran for some minutes. backlog: rows of its first batch"""
    chance = random.Random(seed)
    gains: list[int] = []
    ran = app.run(minutes * app.batches, chance, gains=gains)
    held = (ran[-1].state_rows or {})["s"]
    new = later.run(batches, chance, first=len(ran), held=held, gains=gains)
    if backlog:
        new[0] = attrs.evolve(new[0], rows_in=backlog, rows_out=backlog // 10)
    found = findings(new, baseline(ran[-KEPT:], app.minutes(ran)), lag=float(later.rows))
    return [limit for limit, finding in found.items() if finding.exceeded]


HABITS = {
    "even": App(),
    "few rows": App(rows=8),
    "one row": App(rows=1, spread=0),
    "slow": App(seconds=20.0, batches=3),
    "bursts at the end of windows": App(burst=120, gain=0.8, window=120),
    "rush hours": App(rush=100, spread=0.8),
    "rush within what is seen": App(rush=7),
    "a state that grows": App(gain=0.4),
    "a state of windows": App(gain=1.0, window=60),
    "more rows out than in": App(out=7.0),
    "nothing out": App(out=0.0),
    "restless": App(spread=0.95),
}
WORSE = {
    "six times slower": (lambda a: attrs.evolve(a, seconds=a.seconds * 6 + 1), "batch-time"),
    "ten times slower": (lambda a: attrs.evolve(a, seconds=a.seconds * 10 + 1), "batch-time"),
    "most rows lost": (lambda a: attrs.evolve(a, out=a.out * 0.1), "rows-out"),
    "no rows": (lambda a: attrs.evolve(a, out=0.0), "rows-out"),
    "twice the rows": (lambda a: attrs.evolve(a, out=a.out * 2.2), "rows-out"),
    "ten times the rows": (lambda a: attrs.evolve(a, out=a.out * 10), "rows-out"),
    "every row stays": (lambda a: attrs.evolve(a, gain=1.0, window=0), "state-growth"),
}
# What the hours before do not tell from a fault, by habit: too few rows, or bursts that hide it.
HIDDEN = {
    "few rows": {"most rows lost", "no rows", "twice the rows"},
    "one row": {"most rows lost", "no rows", "twice the rows", "ten times the rows", "every row stays"},
    "bursts at the end of windows": {
        "most rows lost",
        "no rows",
        "twice the rows",
        "ten times the rows",
        "every row stays",
    },
    "nothing out": {"most rows lost", "no rows", "twice the rows", "ten times the rows"},
    "a state of windows": {"every row stays"},
}


@pytest.mark.parametrize("habit", HABITS)
def test_an_app_that_goes_on_as_before_exceeds_nothing(habit: str) -> None:
    """Whatever its habits, wherever it is in them when the update comes, however long the history."""
    app = HABITS[habit]
    for seed in range(10):
        for batches in (13, 20, 45):
            assert not exceeded(app, app, seed, minutes=5 + 6 * seed, batches=batches), (seed, batches)
        backlog = exceeded(app, app, seed, backlog=app.rows * 100)
        assert not backlog, seed


@pytest.mark.parametrize("habit", HABITS)
def test_what_is_better_or_a_little_worse_exceeds_nothing(habit: str) -> None:
    app = HABITS[habit]
    for seed in range(4):
        for later in (
            attrs.evolve(app, seconds=app.seconds / 5),
            attrs.evolve(app, seconds=app.seconds * 1.3),
            attrs.evolve(app, cold=20.0),
            attrs.evolve(app, out=app.out * 0.85),
            attrs.evolve(app, out=app.out * 1.15),
            attrs.evolve(app, gain=0.0),
            attrs.evolve(app, rows=app.rows // 3 + 1),
        ):
            assert not exceeded(app, later, seed), (seed, later)


@pytest.mark.parametrize("worse", WORSE)
@pytest.mark.parametrize("habit", HABITS)
def test_a_fault_exceeds_its_limit(habit: str, worse: str) -> None:
    make, limit = WORSE[worse]
    app = HABITS[habit]
    if worse not in HIDDEN.get(habit, ()):
        found = [limit in exceeded(app, make(app), seed, batches=30) for seed in range(5)]
        assert all(found), (habit, worse, found.count(True))


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ((), SloLimits()),
        (("off",), NO_LIMITS),
        (("batch-time=2",), SloLimits(batch_time=2)),
        ((" batch-time = 1.5 ", "rows-out=off"), SloLimits(batch_time=1.5, rows_out=None)),
        (("lag-growth=0", "state-growth=250%"), SloLimits(lag_growth=0, state_growth=2.5)),
    ],
)
def test_limits_are_given_by_name(given: tuple[str, ...], most: SloLimits) -> None:
    assert parse_slo(given) == most


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("speed=2",), f"'speed=2' is no limit; write NAME=LIMIT, NAME=off, or off alone; names: {', '.join(NAMES)}"),
        (("rows-out",), "'rows-out' is no limit"),
        (("rows_out=1%",), "'rows_out=1%' is no limit"),
        (("",), "'' is no limit"),
        (("off", "rows-out=1%"), "'off' is no limit"),
        (("rows-out=1%", "rows-out=2%"), "rows-out is given twice"),
        (("batch-time=0.5",), "batch-time='0.5' is less than 1"),
        (("batch-time=50%",), "batch-time='50%' is a percentage"),
        (("rows-out=5",), "rows-out='5' would be 500%"),
        (("rows-out=-1%",), "rows-out='-1%' is no number of 0 or more"),
        (("rows-out=nan",), "rows-out='nan' is no number of 0 or more"),
        (("rows-out=",), "rows-out='' is no number of 0 or more"),
    ],
)
def test_what_is_no_limit_is_told(given: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_slo(given)
    assert why in str(raised.value)


def even(count: int, rows: int = 100, first: int = 0, **more: object) -> list[BatchFigures]:
    given = {"seconds": 1.0, "rows_out": rows, **more}
    return [BatchFigures(batch=first + n, rows_in=rows, **given) for n in range(count)]


def minutes_of(count: int, first: int = 0, **more: object) -> tuple[Span, ...]:
    given = {"batches": 60, "timed": 60, "rows_in": 6000, "rows_out": 6000, "seconds": 54.0, **more}
    return tuple(Span(at=(BEGIN + timedelta(minutes=first + n)).isoformat(), **given) for n in range(count))


BEFORE = baseline(even(30))
AFTER = even(20, first=30)


def test_how_many_batches_and_rows_are_needed() -> None:
    few = findings(even(12, first=30), BEFORE)
    assert few == {"every limit": Finding("every limit", None, "9 batches with rows, and 10 are needed", 60.0)}
    assert {limit: finding.exceeded for limit, finding in findings(even(13, first=30), BEFORE).items()} == {
        "batch-time": False,
        "lag-growth": None,
        "rows-out": False,
        "state-growth": None,
    }
    idle = [attrs.evolve(batch, rows_in=0, rows_out=0, seconds=0.01) for batch in AFTER]
    assert findings(idle, BEFORE)["every limit"].why.startswith("it has read nothing")
    # too few batches are slow when each of them is
    slow = even(4, first=30, seconds=9.0)
    found = findings(slow, BEFORE)["batch-time"]
    assert found.exceeded and found.why.startswith("a batch takes 9.00 s at least; before, 1.00 s")
    assert findings(slow, BEFORE, ran=0.0)["every limit"].waits == LONGEST_SECONDS, "it works at the others"
    assert "every limit" in findings([*slow[:3], attrs.evolve(slow[3], seconds=3.0)], BEFORE)
    assert "every limit" in findings(slow[:1], BEFORE), "the first one of a driver is slow"
    assert "every limit" in findings(slow, BEFORE, ran=math.inf), "nobody wants it to run for a time"
    # few rows say nothing and more are waited for
    before = baseline(even(40, rows=10, rows_out=1))
    few = findings(even(13, rows=10, first=30, rows_out=0), before)["rows-out"]
    assert few.exceeded is None and few.waits and few.why.endswith("too few to tell")
    assert findings(even(40, rows=10, first=30, rows_out=0), before)["rows-out"].exceeded
    alert = [*even(19, first=30, rows_out=0), *even(1, first=49, rows_out=3)]
    assert findings(alert, baseline(even(30, rows_out=0)))["rows-out"].exceeded is False


@pytest.mark.parametrize(
    ("limit", "new", "before", "why"),
    [
        ("batch-time", AFTER, baseline(even(12)), "too few batches and minutes before are known"),
        ("lag-growth", AFTER, BEFORE, "its lag is not known"),
        ("rows-out", even(20, rows_out=None), BEFORE, "Spark does not tell how many rows its sink got"),
        ("rows-out", AFTER, baseline(even(10)), "too few batches and minutes with as many rows before are known"),
        ("rows-out", AFTER, attrs.evolve(BEFORE, changed="its sink"), "its sink"),
        ("state-growth", AFTER, BEFORE, "it has no stage whose rows are counted as before"),
        ("state-growth", AFTER, attrs.evolve(BEFORE, changed="its sink"), "its sink"),
    ],
)
def test_what_cannot_be_compared_says_why(limit: str, new: list[BatchFigures], before: Baseline, why: str) -> None:
    found = findings(new, before)[limit]
    assert (found.exceeded, found.why) == (None, why)


def test_a_limit_that_is_off_is_not_judged() -> None:
    slow = even(20, first=30, seconds=60.0)
    assert findings(slow, BEFORE)["batch-time"].exceeded
    assert list(findings(slow, BEFORE, "batch-time=off", "rows-out=off")) == ["lag-growth", "state-growth"]
    assert findings(slow, BEFORE, "off") == {}
    assert findings(slow, BEFORE, "batch-time=100")["batch-time"].exceeded is False


def test_a_slow_time_before_counts_when_it_was_long() -> None:
    day = (*minutes_of(700), *minutes_of(60, 700, seconds=300.0), *minutes_of(600, 760))
    before = baseline(even(30), day)
    assert findings(even(20, first=30, seconds=5.0), before)["batch-time"].exceeded is False
    assert findings(even(20, first=30, seconds=20.0), before)["batch-time"].exceeded
    before = baseline(attrs.evolve(b, seconds=100.0) if b.batch in (3, 8, 14, 19, 25) else b for b in even(30))
    assert findings(even(20, first=30, seconds=9.0), before)["batch-time"].exceeded
    for long in (2, 3):  # three long batches of ten are slow
        new = [attrs.evolve(batch, seconds=100.0) if batch.batch >= 50 - long else batch for batch in AFTER]
        assert findings(new, BEFORE)["batch-time"].exceeded is (long == 3)


@pytest.mark.parametrize("count", [12, 120])
def test_a_minute_in_which_a_batch_hung_hides_no_slowness(count: int) -> None:
    minutes = minutes_of(count, batches=1, timed=1, rows_in=100, seconds=12.0)
    minutes = (*minutes[:5], attrs.evolve(minutes[5], seconds=1812.0), *minutes[6:])
    assert findings(even(20, first=30, seconds=50.0), baseline((), minutes))["batch-time"].exceeded


def test_the_end_of_a_backlog_is_waited_for() -> None:
    """It is one while batches get smaller, or the last one is as quick as before."""

    def waits(*last: tuple[int, float]) -> float:
        more = [attrs.evolve(b, rows_in=r, seconds=s) for b, (r, s) in zip(AFTER[-len(last) :], last, strict=True)]
        found = findings([*even(20 - len(last), rows=9000, first=30, seconds=90.0), *more], BEFORE)["batch-time"]
        assert found.exceeded
        return found.waits

    assert waits((8000, 80.0)) == LONGEST_SECONDS
    assert waits((100, 1.0)) == LONGEST_SECONDS
    assert waits((9500, 95.0)) == 60.0, "it grows"
    assert waits((100, 80.0)) == 60.0, "it is slow without one"


def test_batches_are_waited_for_as_they_came_before() -> None:
    def waits(pace: float, batches: list[BatchFigures] | None = None, **more: float | bool) -> float:
        before = baseline(even(30), pace=pace, quiet=more.pop("quiet", 0.0))
        found = findings(batches or even(3, first=30, seconds=0.1), before, **{"ran": 30.0, **more})
        return found["every limit"].waits

    assert [waits(pace) for pace in (60.0, 13.0, 4.0, 1.0, 0.0)] == [60.0, 150.0, 300.0, 60.0, 0.0]
    nothing = [attrs.evolve(batch, rows_in=0) for batch in even(3, first=30, seconds=0.1)]
    assert waits(60.0, nothing, idle=True) == 60.0, "rows came until the end"
    assert waits(60.0, nothing, idle=True, quiet=3.0) == 0.0, "none came for longer than usual"
    assert waits(60.0, nothing, idle=True, quiet=3.0, lag=7.0) == 60.0, "there is input"
    assert waits(60.0, nothing, quiet=3.0) == 60.0, "it has not found out yet"
    empty = [attrs.evolve(batch, rows_in=0) for batch in even(4, first=30, seconds=0.1)]
    assert waits(60.0, empty, quiet=3.0) == 0.0, "Spark makes batches of nothing, for timers: it is never idle"
    assert waits(60.0, empty, quiet=2.0) == 60.0
    assert waits(60.0, empty, quiet=3.0, lag=7.0) == 60.0
    assert findings(even(3, first=30), baseline(even(9)))["every limit"].waits == 0.0, (
        "there is nothing to compare with"
    )
    # Each batch with rows has one without after it, as with a watermark; the rows come every two seconds.
    every_other = [attrs.evolve(batch, rows_in=batch.rows_in * (n % 2)) for n, batch in enumerate(even(30))]
    empty = [attrs.evolve(batch, rows_in=0) for batch in even(4, first=30, seconds=0.1)]

    def waits(quiet: float) -> float:
        found = findings(empty, baseline(every_other, pace=60.0, quiet=quiet), ran=30.0)
        return found["every limit"].waits

    assert (waits(4.0), waits(6.0)) == (60.0, 0.0)


def test_who_falls_back_further_is_told_from_who_catches_up() -> None:
    """100 rows a second come in; a query that is behind has to get more than that done."""
    before = baseline(even(30), minutes_of(60, lag_most=100.0))

    def behind(lag: float, seconds: float, *slo: str, before: Baseline = before) -> bool | None:
        return findings(even(20, first=30, seconds=seconds), before, *slo, lag=lag)["lag-growth"].exceeded

    assert behind(100.0, 2.0) is False, "it is not behind"
    assert behind(5000.0, 2.0) and behind(5000.0, 2.0, "lag-growth=60%") is False
    assert behind(5000.0, 0.5) is False, "it catches up"
    assert behind(5000.0, 2.0, before=attrs.evolve(before, minutes=before.minutes[:5])) is None


def test_rows_out_of_quiet_times_and_unknown_batches() -> None:
    # By night one row in a while, of which none comes out, and once 500 come out for one.
    night = (*minutes_of(5, batches=1, timed=1, rows_in=1, rows_out=0), *minutes_of(1, 5, rows_in=1, rows_out=500))
    before = baseline(even(30), (*night, *minutes_of(60, 6)))
    assert findings(AFTER, before)["rows-out"].exceeded is False
    assert findings(even(20, first=30, rows_out=0), before)["rows-out"].exceeded
    assert findings(even(20, first=30, rows_out=600), before)["rows-out"].exceeded
    quiet = baseline([*even(15, rows=1, rows_out=0), *even(15, rows=1000, first=15, rows_out=50)])
    assert findings(even(16, rows=1000, first=30, rows_out=0), quiet)["rows-out"].exceeded
    # no row at all is within no limit
    before = baseline(even(30, rows=100, rows_out=50))
    found = findings(even(20, first=30, rows_out=0), before, "rows-out=300%")["rows-out"]
    assert found.exceeded and found.why == "0 rows out for 1600 in; before, 800 to 800 (1 to 3210 are allowed)"
    # Spark tells those of a function's last batch only.
    for rows, fault in ((0, True), (100, False)):
        new = even(30, first=30, rows_out=rows)
        some = [batch if batch.batch % 3 else attrs.evolve(batch, rows_out=None) for batch in new]
        assert findings(some, BEFORE)["rows-out"].exceeded is fault


@pytest.mark.parametrize("times", [10, 100])
def test_the_groups_of_an_aggregation_are_as_many_whatever_a_batch_has(times: int) -> None:
    """Twenty keys: twenty rows out of every batch."""
    small, large = (even(30, rows=rows, rows_out=20, first=30) for rows in (300, 300 * times))
    assert findings(small, baseline(large))["rows-out"].exceeded is False
    assert (
        findings(large[:15], baseline(small, minutes_of(60, rows_in=18_000, rows_out=1200)))["rows-out"].exceeded
        is False
    )
    more = even(20, rows=300, first=30, rows_out=60)
    assert findings(more, baseline(large))["rows-out"].exceeded, "each group three times"


def test_windows_that_may_close_less_often_than_is_known_are_not_judged_by_more_rows() -> None:
    before = baseline([attrs.evolve(b, state_rows={"s": 0}) for b in even(30, rows_out=0)], windows_known=False)
    burst = [attrs.evolve(b, state_rows={"s": 99 * b.batch}) for b in even(20, first=30, rows_out=300)]
    for known, fault in ((False, None), (True, True)):
        found = findings(burst, attrs.evolve(before, windows_known=known))
        assert (found["rows-out"].exceeded, found["state-growth"].exceeded) == (fault, fault)
    lost = findings(even(20, first=30, rows_out=0), baseline(even(30), windows_known=False))
    assert lost["rows-out"].exceeded, "too few are judged"


def test_each_stage_is_held_to_its_own_growth() -> None:
    old = [attrs.evolve(b, state_rows={"s": 100 * b.batch, "t": 7, "gone": 1}) for b in even(30)]
    new = [attrs.evolve(b, state_rows={"s": 100 * b.batch, "t": 7, "new": 5}) for b in AFTER]
    assert findings(new, baseline(old))["state-growth"].exceeded is False
    less = [attrs.evolve(b, state_rows={"s": 9000 - 100 * b.batch}) for b in even(30)]
    assert findings(new, baseline(less))["state-growth"].exceeded, "it shrank before"
    same = [attrs.evolve(b, state_rows={"s": 6000}) for b in AFTER]
    assert findings(same, baseline(less))["state-growth"].exceeded is False
    worse = [attrs.evolve(b, state_rows={"s": 100 * b.batch, "t": 3 * b.batch}) for b in AFTER]
    found = findings(worse, baseline(old))["state-growth"]
    assert found.exceeded and found.why == "stage t gained 48 rows for 1600 in (up to 10 are allowed)"
