"""Make a schedule that has found something smaller: leave out strikes, people and faults that the violation does not
need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import attrs

from .plan import Found, Plan, Strike
from .schedule import Outcome

Run = Callable[[Plan, Sequence[Strike]], Outcome]
DRAWS = ("scene", "failing", "creating", "deaths", "blows", "aimed", "aims", "times")  # of no use to known strikes


def shrink(outcome: Outcome, run: Run) -> Found:
    """The smallest schedule that is found with the same violation."""
    simple, kind = Plan(), _kind(outcome)
    plan = attrs.evolve(outcome.plan, **{name: getattr(simple, name) for name in DRAWS})
    strikes = list(outcome.strikes)
    if _kind(run(plan, strikes)) != kind:
        raise AssertionError("the strikes that were drawn do not lead to the same violation")
    smaller = True
    while smaller:
        smaller = False
        for plan_then, strikes_then in _simpler(plan, strikes):
            found = run(plan_then, strikes_then)
            if _kind(found) == kind:  # what was not struck is left out, too
                smaller, plan, strikes = True, plan_then, list(found.strikes)
                break
    return Found(fault=run(plan, strikes).problems[0].partition("\n")[0], plan=plan, strikes=tuple(strikes))


def _simpler(plan: Plan, strikes: list[Strike]) -> Iterator[tuple[Plan, list[Strike]]]:
    """Schedules with less, the ones with much less first."""
    size = max(len(strikes) // 2, 1)
    while strikes:
        for at in range(0, len(strikes), size):
            yield plan, strikes[:at] + strikes[at + size :]
        if size == 1:
            break
        size //= 2
    simple = Plan()
    for field in attrs.fields(Plan):
        value, wanted = getattr(plan, field.name), getattr(simple, field.name)
        if field.name in ("seed", "long") or value == wanted:
            continue
        yield attrs.evolve(plan, **{field.name: wanted}), strikes
        if isinstance(value, tuple):
            for at in range(len(value)):
                yield attrs.evolve(plan, **{field.name: value[:at] + value[at + 1 :]}), strikes
        elif isinstance(value, int) and value - 1 > wanted:
            yield attrs.evolve(plan, **{field.name: value - 1}), strikes
    for at, strike in enumerate(strikes):
        for less in ({"job": None}, {"blow": None}) if strike.job and strike.blow else ():
            yield plan, [*strikes[:at], attrs.evolve(strike, **less), *strikes[at + 1 :]]


def _kind(outcome: Outcome) -> str:
    """What was violated, without the numbers and names of one schedule."""
    first = outcome.problems[0].partition("\n")[0].partition(":")[0] if outcome.problems else ""
    return re.sub(r"[\d.]+|v\d\S*", "#", first)
