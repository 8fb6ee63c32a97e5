"""What the rules for a stage compare: the stage before and after, when both plans have it under the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ....plan.plan import QueryPlan, StagePlan
from ..rule import Facts, differ

RESTART = "; give the changed stage another name to start it empty"
BY_POSITION = "StateSchemaCompatibilityChecker compares types by position, never names or expressions"
WRONG = BY_POSITION + "; measured: Spark restarts and computes wrong results"
CHANGED = "{part} changed from {old} to {new}"
FUNCTIONS = ("apply-in-pandas-with-state", "transform-with-state")


@attrs.frozen(kw_only=True)
class StageChange:
    """A stage before and after, with the queries it is in."""

    old: StagePlan
    new: StagePlan
    before: QueryPlan
    after: QueryPlan

    def part(self, name: str) -> tuple[Any, Any]:
        return self.old.definition.get(name), self.new.definition.get(name)

    def lists(self, name: str) -> tuple[list[str], list[str]]:
        old, new = self.part(name)
        return list(old or ()), list(new or ())


def of(*kinds: str) -> Callable[[Callable[[StageChange], Facts | None]], Callable[[StageChange], Facts | None]]:
    """Apply a predicate to stages that were and are of one of these kinds."""

    def limit(predicate: Callable[[StageChange], Facts | None]) -> Callable[[StageChange], Facts | None]:
        return lambda c: predicate(c) if c.old.kind == c.new.kind and c.new.kind in kinds else None

    return limit


def changed(part: str) -> Callable[[StageChange], Facts | None]:
    return lambda c: differ(*c.part(part))
