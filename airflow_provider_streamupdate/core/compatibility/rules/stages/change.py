"""What the rules for a stage compare: the stage before and after, when both plans have it under the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ....plan.plan import QueryPlan, StagePlan
from ....plan.rendering import words
from ..rule import Facts, differ, show

RESTART = "; give the changed stage another name to start it empty"
BY_POSITION = "StateSchemaCompatibilityChecker compares types by position, never names or expressions"
WRONG = BY_POSITION + "; measured: Spark restarts and computes wrong results"
FUNCTIONS = ("apply-in-pandas-with-state", "transform-with-state")


@attrs.frozen(kw_only=True)
class StageChange:
    """A stage before and after, with the queries it is in."""

    old: StagePlan
    new: StagePlan
    before: QueryPlan
    after: QueryPlan

    def part(self, name: str) -> tuple[Any, Any]:
        """Return a part of both definitions; both have it where both stages are of its kind (`of`)."""
        return getattr(self.old.definition, name, ()), getattr(self.new.definition, name, ())


def of(*kinds: str) -> Callable[[Callable[[StageChange], Facts | None]], Callable[[StageChange], Facts | None]]:
    """Apply a predicate to stages that were and are of one of these kinds."""

    def limit(predicate: Callable[[StageChange], Facts | None]) -> Callable[[StageChange], Facts | None]:
        return lambda c: predicate(c) if c.old.kind == c.new.kind and c.new.kind in kinds else None

    return limit


def changed(part: str) -> Callable[[StageChange], Facts | None]:
    return lambda c: differ(*c.part(part))


def any_changed(*names: str) -> Callable[[StageChange], Facts | None]:
    """A predicate for several parts: the facts have those that changed, in one text."""

    def applies(c: StageChange) -> Facts | None:
        changes = []
        for name, (old, new) in ((name.replace("_", " "), c.part(name)) for name in names):
            write = words if show(old) != show(new) else str
            changes += [f"{name} from {show(old, write)} to {show(new, write)}"] if old != new else []
        return {"changes": "; ".join(changes)} if changes else None

    return applies
