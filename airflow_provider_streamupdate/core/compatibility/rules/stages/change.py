"""What the rules for a stage compare: the stage before and after, when both plans have it under the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ....plan.differences import describe_differences
from ....plan.expressions import Column
from ....plan.plan import QueryPlan, StagePlan, Watermark
from ....plan.visitors import without_branches
from ..rule import Facts, differ, show

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
        changed = [(name.replace("_", " "), *c.part(name)) for name in names if differ(*c.part(name))]
        changes = [f"{name} changed: {_difference(old, new)}" for name, old, new in changed]
        details = [f"{name} from {show(old, str)} to {show(new, str)}" for name, old, new in changed]
        return {"changes": "; ".join(changes), "details": "; ".join(details)} if changed else None

    return applies


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, tuple) and isinstance(new, tuple):
        return describe_differences(old, new)
    return f"{show(old)} -> {show(new)}"


def watermarks_of_both(old: QueryPlan, new: QueryPlan) -> tuple[list[Watermark], list[Watermark]]:
    """Return the watermarks before and after: those on columns of sources that both plans have, without a union's
    branches that only one has, and with the stages below them that both have."""
    names = [({s.name for s in query.sources}, {s.name for s in query.stages}) for query in (old, new)]
    sources, stages = names[0][0] & names[1][0], names[0][1] & names[1][1]

    def shared(query: QueryPlan) -> list[Watermark]:
        own = ({s.name for s in query.sources} | {s.name for s in query.stages}) - sources - stages
        found = []
        for mark in query.watermarks:
            column = None if mark.column is None else without_branches(mark.column, own, sources | stages)
            above = tuple(name for name in mark.above if name in stages)
            found.append(attrs.evolve(mark, column=column, above=above))
        both = (w for w in found if not _of_one_version(w, own))
        return sorted(both, key=lambda w: (w.place, w.delay_ms))

    return shared(old), shared(new)


def _of_one_version(watermark: Watermark, own: set[str]) -> bool:
    """Return whether it is on a source, or of a stage, that only one version has."""
    if watermark.column is None:
        return not watermark.above
    return isinstance(watermark.column, Column) and watermark.column.source in own


def means_the_same(old: StagePlan, new: StagePlan) -> bool:
    """Return whether nothing but the name tells two stages apart: the rows that reach them count, too."""
    return _meaning(old) == _meaning(new)


def _meaning(stage: StagePlan) -> tuple[object, ...]:
    return stage.kind, stage.definition, stage.filters, stage.arrivals, stage.paths
