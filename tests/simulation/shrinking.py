"""Make a schedule that has found something smaller: leave out strikes, people and faults that the violation does not
need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
        values: list[Any] = [wanted]
        if isinstance(value, tuple):
            values += [value[:at] + value[at + 1 :] for at in range(len(value))]
        elif isinstance(value, int) and value - 1 > wanted:
            values.append(value - 1)
        for less in values:
            yield attrs.evolve(plan, **{field.name: less}), strikes
    for at, strike in enumerate(strikes):
        if strike.job and strike.blow:
            for simpler in (attrs.evolve(strike, job=None), attrs.evolve(strike, blow=None)):
                yield plan, [*strikes[:at], simpler, *strikes[at + 1 :]]


def _kind(outcome: Outcome) -> str:
    """What was violated, without the numbers and names of one schedule."""
    first = outcome.problems[0].partition("\n")[0].partition(":")[0] if outcome.problems else ""
    return re.sub(r"[\d.]+|v\d\S*", "#", first)
