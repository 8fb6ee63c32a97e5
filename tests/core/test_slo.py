"""The SLO gate's rules: what a new version does, held to what was seen before it."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from airflow_provider_streamupdate.core.difference.figures import KEPT, BatchFigures
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.slo.before import Before
from airflow_provider_streamupdate.core.slo.judging import judge, told
from airflow_provider_streamupdate.core.slo.limits import NAMES, NO_LIMITS, SloLimits, parse_slo
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


def exceeded(app: App, later: App, seed: int, minutes: int = 30, batches: int = 20, backlog: int = 0) -> list[str]:
    """The limits that `later` exceeds after `app` ran for some minutes. backlog: rows of its first batch"""
    chance = random.Random(seed)
    gains: list[int] = []
    ran = app.run(minutes * app.batches, chance, gains=gains)
    before = Before(runs=(app.minutes(ran),), batches=tuple(ran[-KEPT:]))
    held = (ran[-1].state_rows or {})["s"]
    new = later.run(batches, chance, first=len(ran), held=held, gains=gains)
    if backlog:
        new[0] = attrs.evolve(new[0], rows_in=backlog, rows_out=backlog // 10)
    now = QueryStatus(batch=new[-1].batch, first_batch=new[0].batch, figures=tuple(new), lag=float(later.rows))
    return [j.limit for j in judge("q", now, before, SloLimits()) if j.exceeded]


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
    "slow": set(),
}


@pytest.mark.parametrize("habit", HABITS)
def test_an_app_that_goes_on_as_before_exceeds_nothing(habit: str) -> None:
    """Whatever its habits, wherever it is in them when the update comes, however long the history."""
    app = HABITS[habit]
    for seed in range(10):
        for batches in (8, 20, 45):
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
        (("off", "rows-out=1%"), "leaves nothing to limit"),
        (("rows-out=1%", "rows-out=2%"), "rows-out is given twice"),
        (("batch-time=0.5",), "batch-time='0.5' is less than 1"),
        (("batch-time=50%",), "batch-time='50%' is a percentage"),
        (("rows-out=5",), "rows-out='5' would be 500%"),
        (("rows-out=-1%",), "rows-out='-1%' is negative"),
        (("rows-out=nan",), "rows-out='nan' is not finite"),
        (("rows-out=",), "rows-out='' is empty"),
    ],
)
def test_what_is_no_limit_is_told(given: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_slo(given)
    assert why in str(raised.value)


def judged(
    limit: str, now: QueryStatus, before: Before | None, limits: SloLimits | None = None
) -> tuple[bool | None, str]:
    [found] = [j for j in judge("q", now, before, limits or SloLimits()) if j.limit == limit]
    return found.exceeded, found.text


def status(batches: list[BatchFigures], **more: float | None) -> QueryStatus:
    return QueryStatus(batch=batches[-1].batch, first_batch=batches[0].batch, figures=tuple(batches), **more)


def even(count: int, rows: int = 100, first: int = 0, **more: float | int | None) -> list[BatchFigures]:
    given = {"seconds": 1.0, "rows_out": rows, **more}
    return [BatchFigures(batch=first + n, rows_in=rows, **given) for n in range(count)]


def test_what_cannot_be_compared_says_why() -> None:
    known = Before(batches=tuple(even(30)))
    new = even(20, first=30)
    for limit in ("batch-time", "rows-out", "state-growth", "lag-growth"):
        assert judged(limit, status(new), None) == (
            None,
            f"query q, {limit}: not compared: the version before had no such query",
        )
        few = judged(limit, status(even(7, first=30)), known)
        assert few == (None, f"query q, {limit}: not compared: 4 batches with rows are known, and 5 are needed")
    assert judged("lag-growth", status(new), known)[1].endswith("its lag is not known")
    assert judged("state-growth", status(new), known)[1].endswith("it holds no state whose rows are counted")
    assert judged("rows-out", status(even(20, rows_out=None)), known)[1].endswith("does not tell how many rows it got")
    assert judged("rows-out", status(new), attrs.evolve(known, changed="its stages changed"))[1].endswith(
        "not compared: its stages changed"
    )
    assert judged("rows-out", status(even(20, rows=1000)), known)[1].endswith("more rows than any before")
    young = Before(batches=tuple(even(5)))
    for limit in ("batch-time", "rows-out"):
        assert judged(limit, status(new), young)[0] is None


def test_a_limit_that_is_off_is_not_judged() -> None:
    before, slow = Before(batches=tuple(even(30))), status(even(20, first=30, seconds=60.0))
    assert judged("batch-time", slow, before)[0]
    assert [j.limit for j in judge("q", slow, before, parse_slo(["batch-time=off", "rows-out=off"]))] == [
        "lag-growth",
        "state-growth",
    ]
    assert judge("q", slow, before, NO_LIMITS) == []
    assert judged("batch-time", slow, before, parse_slo(["batch-time=100"]))[0] is False


def test_no_data_batches_and_batches_of_a_backlog_do_not_count() -> None:
    before = Before(batches=tuple(even(30)))
    idle = [attrs.evolve(b, rows_in=0, rows_out=0, seconds=0.01) for b in even(20, first=30)]
    assert judged("batch-time", status(idle), before)[0] is None
    more = [*even(5, rows=5000, first=30, seconds=40.0), *even(15, first=35)]
    assert judged("batch-time", status(more), before)[0] is False
    assert judged("rows-out", status(more), before)[0] is False


def test_who_falls_back_further_is_told_from_who_catches_up() -> None:
    """100 rows a second come in; a query that is behind has to get more than that done."""
    hour = tuple(
        Span(at=(BEGIN + timedelta(minutes=n)).isoformat(), batches=60, timed=60, rows_in=6000, lag_most=100.0)
        for n in range(60)
    )
    before = Before(runs=(hour,), batches=tuple(even(30)))
    slower = even(20, first=30, seconds=2.0)
    assert judged("lag-growth", status(slower, lag=100.0), before)[0] is False, "it is not behind"
    exceeds, text = judged("lag-growth", status(slower, lag=5000.0), before)
    assert exceeds and "5000 rows behind (before, 100 at most) and gets 50.0 rows a second done; 100.0 came in" in text
    assert judged("lag-growth", status(slower, lag=5000.0), before, parse_slo(["lag-growth=60%"]))[0] is False
    assert judged("lag-growth", status(even(20, first=30, seconds=0.5), lag=5000.0), before)[0] is False
    short = attrs.evolve(before, runs=(hour[:5],))
    assert judged("lag-growth", status(slower, lag=5000.0), short)[0] is None


def test_a_stage_that_the_update_changed_is_not_compared() -> None:
    old = [attrs.evolve(b, state_rows={"s": 100, "t": 100}) for b in even(30)]
    new = [attrs.evolve(b, state_rows={"s": 100 + 90 * n, "t": 100 + 90 * n}) for n, b in enumerate(even(20, first=30))]
    before = Before(batches=tuple(old), uncounted=frozenset({"s"}))
    found = {
        j.text.split("stage ")[1][0]: j.exceeded
        for j in judge("q", status(new), before, parse_slo(["rows-out=off"]))
        if j.limit == "state-growth"
    }
    assert found == {"s": None, "t": True}


def minutes_of(count: int, first: int = 0, **more: float | int | None) -> tuple[Span, ...]:
    given = {"batches": 60, "timed": 60, "rows_in": 6000, "rows_out": 6000, "seconds": 54.0, **more}
    return tuple(Span(at=(BEGIN + timedelta(minutes=first + n)).isoformat(), **given) for n in range(count))


def test_a_quiet_minute_hides_nothing() -> None:
    """By night one row in a while, of which none comes out, and once 500 come out for one."""
    night = (*minutes_of(5, batches=1, timed=1, rows_in=1, rows_out=0), *minutes_of(1, 5, rows_in=1, rows_out=500))
    before = Before(runs=((*night, *minutes_of(60, 6)),), batches=tuple(even(30)))
    assert judged("rows-out", status(even(20, first=30)), before)[0] is False
    assert judged("rows-out", status(even(20, first=30, rows_out=0)), before)[0]
    assert judged("rows-out", status(even(20, first=30, rows_out=600)), before)[0]


def test_rows_that_come_out_while_none_come_in_belong_to_those_before() -> None:
    quiet = [minutes_of(5, 10 * n) + minutes_of(5, 10 * n + 5, batches=1, timed=1, rows_in=0, rows_out=30000)
             for n in range(6)]  # fmt: skip
    before = Before(runs=(sum(quiet, ()),), batches=tuple(even(30)))
    assert judged("rows-out", status(even(20, first=30, rows_out=150)), before)[0] is False


def test_a_single_alert_is_no_fault() -> None:
    before = Before(batches=tuple(even(30, rows_out=0)))
    one = [*even(19, first=30, rows_out=0), *even(1, first=49, rows_out=3)]
    assert judged("rows-out", status(one), before)[0] is False


def test_a_rush_hour_was_seen_before() -> None:
    day = (*minutes_of(700), *minutes_of(60, 700, seconds=300.0), *minutes_of(600, 760))
    before = Before(runs=(day,), batches=tuple(even(30)))
    assert judged("batch-time", status(even(20, first=30, seconds=5.0)), before)[0] is False
    assert judged("batch-time", status(even(20, first=30, seconds=20.0)), before)[0]


def test_who_takes_longer_has_more_rows_in_a_batch_and_is_no_quicker_for_it() -> None:
    """100 rows a second come in, and each batch takes what there is."""
    before = Before(runs=(minutes_of(60),), batches=tuple(even(30)))
    assert judged("batch-time", status(even(20, rows=1500, first=30, seconds=15.0)), before)[0]
    backlog = status(even(20, rows=15000, first=30, seconds=15.0))
    assert judged("batch-time", backlog, before)[0] is False, "1,000 rows a second: it works off a backlog"


def test_few_rows_say_nothing() -> None:
    before = Before(batches=tuple(even(30, rows=10, rows_out=1)))
    exceeds, text = judged("rows-out", status(even(10, rows=10, first=30, rows_out=0)), before)
    assert exceeds is None and "0 rows out for 60 in are too few to tell" in text
    assert judged("rows-out", status(even(40, rows=10, first=30, rows_out=0)), before)[0]


def test_no_row_at_all_is_within_no_limit() -> None:
    before = Before(batches=tuple(even(30, rows=100, rows_out=50)))
    now = status(even(20, first=30, rows_out=0))
    [found] = [j for j in judge("q", now, before, parse_slo(["rows-out=300%"])) if j.limit == "rows-out"]
    assert found.exceeded and found.why == "0 rows out for 1600 in; before, 800 to 800 (1 to 3294 are allowed)"


def test_a_quiet_stretch_before_hides_no_loss() -> None:
    quiet, busy = even(15, rows=1, rows_out=0), even(15, rows=1000, first=15, rows_out=50)
    now = status(even(12, rows=1000, first=30, rows_out=0))
    assert judged("rows-out", now, Before(batches=(*quiet, *busy)))[0]


def test_fewer_rows_in_a_batch_leave_the_groups_of_an_aggregation_as_they_are() -> None:
    """Twenty keys: twenty rows out of every batch, whatever comes in."""
    before = Before(batches=tuple(even(30, rows=3000, rows_out=20)))
    fewer = even(20, rows=300, first=30, rows_out=20)
    exceeds, text = judged("rows-out", status(fewer), before)
    assert exceeds is None and "its batches have fewer rows than any before" in text
    more = even(20, rows=300, first=30, rows_out=60)
    assert judged("rows-out", status(more), before)[0], "each group three times"


def test_a_batch_that_hung_once_hides_no_slowness() -> None:
    minutes = [attrs.evolve(span, batches=40, timed=40, seconds=12.0, longest=0.5) for span in minutes_of(60)]
    minutes[30] = attrs.evolve(minutes[30], seconds=1812.0, longest=1800.0)
    before = Before(runs=(tuple(minutes),), batches=tuple(even(30, seconds=0.3)))
    assert judged("batch-time", status(even(20, first=30, seconds=3.0)), before)[0]


def test_a_batch_that_hung_for_half_an_hour_hides_no_slowness_where_batches_are_few() -> None:
    minutes = [attrs.evolve(span, batches=1, timed=1, seconds=12.0, longest=12.0) for span in minutes_of(120)]
    minutes[30] = attrs.evolve(minutes[30], seconds=1812.0, longest=1800.0)
    before = Before(runs=(tuple(minutes),), batches=tuple(even(30, seconds=12.0)))
    assert judged("batch-time", status(even(20, first=30, seconds=50.0)), before)[0]


def test_more_rows_than_ever_are_waited_out() -> None:
    """After a pause the first batches have what had gathered."""
    before = Before(batches=tuple(even(30)))
    some, none = (
        judge("q", status(even(9, rows=1000, first=30, rows_out=rows)), before, SloLimits()) for rows in (1, 0)
    )
    assert [j.limit for j in some if j.open] == ["rows-out"] and not any(j.exceeded for j in some)
    assert [j.limit for j in none if j.exceeded] == ["rows-out"], "larger batches give fewer rows, but some"


def test_batches_whose_rows_out_are_not_known_are_left_out() -> None:
    """Spark tells those of a function's last batch only."""
    before = Before(batches=tuple(even(30)))
    some = [b if b.batch % 3 else attrs.evolve(b, rows_out=None) for b in even(30, first=30, rows_out=0)]
    assert judged("rows-out", status(some), before)[0]
    good = [b if b.batch % 3 else attrs.evolve(b, rows_out=None) for b in even(30, first=30)]
    assert judged("rows-out", status(good), before)[0] is False


def test_windows_that_may_close_less_often_than_is_known_are_not_judged_by_more_rows() -> None:
    before = Before(batches=tuple(even(30, rows_out=0)), rare="windows")
    burst = status(even(20, first=30, rows_out=300))
    assert judged("rows-out", burst, before) == (None, "query q, rows-out: not compared: windows")
    assert judged("rows-out", burst, attrs.evolve(before, rare=""))[0]


def test_a_gap_in_the_minutes_is_no_growth() -> None:
    held = (minutes_of(30, state_rows={"s": 1000}), minutes_of(30, 400, state_rows={"s": 400_000}))
    old = [attrs.evolve(b, state_rows={"s": 400_000}) for b in even(30)]
    new = [attrs.evolve(b, state_rows={"s": 400_000 + 90 * n}) for n, b in enumerate(even(20, first=30))]
    assert judged("state-growth", status(new), Before(runs=held, batches=tuple(old)))[0]


def test_limits_that_were_not_compared_for_one_reason_are_told_together() -> None:
    known = Before(batches=tuple(even(30)))
    few = judge("q", status(even(4, first=30)), known, SloLimits())
    why = "not compared: 1 batches with rows are known, and 5 are needed"
    assert told(few) == [f"query q, batch-time, lag-growth, rows-out, state-growth: {why}"]
    enough = told(judge("q", status(even(20, first=30)), known, SloLimits()))
    assert [text.split(":")[0] for text in enough] == [
        f"query q, {limit}" for limit in ("batch-time", "lag-growth", "rows-out", "state-growth")
    ]
