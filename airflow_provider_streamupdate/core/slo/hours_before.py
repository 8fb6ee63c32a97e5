"""What an app did in the hours before an update, read from under its root."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

import attrs

from ..difference.figures import BatchFigures
from ..history.recorded import recorded, utc_now
from ..history.span import Span
from ..plan.plan import AppPlan, QueryPlan
from ..registry.deployment import QueryStatus
from ..registry.registry import AppRegistry
from ..registry.update import PROMOTED, UpdateRecord
from .before import Before

HOURS_BEFORE = timedelta(hours=24)


def hours_before(
    registry: AppRegistry, record: UpdateRecord, queries: Iterable[str], uncounted: Collection[str]
) -> Mapping[str, Before]:
    """What each of these queries that the old version had, too, did before the update.

    uncounted: stages (``query/stage``) whose rows cannot be compared
    """
    old = registry.status(str(record.old))
    known = old.queries if old else {}
    spec = registry.spec(record.new)
    renames = {name.rpartition("/")[2]: later.rpartition("/")[2] for name, later in spec.renames.items()}
    plans = registry.plan(str(record.old)), registry.plan(record.new)
    spans = _spans(registry, record)
    return {
        name: Before(
            spans=tuple(_span_renamed(span, renames) for span in spans.get(name, ())),
            batches=_batches(known[name], renames),
            changed=_changed(name, *plans),
            uncounted=frozenset(s.partition("/")[2] for s in uncounted if s.partition("/")[0] == name),
        )
        for name in queries
        if name in known
    }


def _spans(registry: AppRegistry, record: UpdateRecord) -> dict[str, list[Span]]:
    """By query: of the versions that ran before; not of those that were tried and did not stay, and no driver's first
    minute, which is slow."""
    tried = {u.new for u in registry.updates() if u.outcome != PROMOTED and not u.in_place}
    found: dict[str, list[Span]] = {}
    begun: set[tuple[str, int, str]] = set()
    for one in recorded(registry.folder, utc_now() - HOURS_BEFORE):
        driver = one.deployment, one.epoch, one.query
        if one.deployment not in tried and driver in begun:
            found.setdefault(one.query, []).append(one.span)
        begun.add(driver)
    return found


def _batches(query: QueryStatus, renames: Mapping[str, str]) -> tuple[BatchFigures, ...]:
    return tuple(
        attrs.evolve(f, state_rows=_renamed(f.state_rows, renames)) if f.state_rows is not None else f
        for f in query.figures
    )


def _span_renamed(span: Span, renames: Mapping[str, str]) -> Span:
    return attrs.evolve(span, state_rows=_renamed(span.state_rows, renames)) if renames else span


def _renamed(rows: Mapping[str, int], renames: Mapping[str, str]) -> dict[str, int]:
    return {renames.get(stage, stage): n for stage, n in rows.items()}


def _changed(name: str, old: AppPlan | None, new: AppPlan | None) -> str:
    """Why a query's rows out and state cannot be compared; empty: they can."""
    before, after = (plan.query(name) if plan else None for plan in (old, new))
    if before is None or after is None:
        return "a plan is missing"
    if before.output_mode != after.output_mode:
        return "its output mode changed"
    if len(before.sources) != len(after.sources):
        return "its sources changed"
    if _kinds(before) != _kinds(after):
        return "its stages changed"
    return ""


def _kinds(query: QueryPlan) -> list[str]:
    return [stage.kind for stage in query.stages]
