"""Hold a new version to what the app did in the hours before (core/slo)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import attrs

from ...core.difference.figures import BatchFigures
from ...core.history.recorded import recorded, utc_now
from ...core.history.span import Span
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.registry.deployment import QueryStatus, Status
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, UpdateRecord
from ...core.slo.before import Before
from ...core.slo.judging import ENOUGH_BATCHES, FEWEST_BATCHES, judge, warm, with_rows
from ...core.slo.limits import SloLimits
from .health import Health, running_for

HOURS_BEFORE = timedelta(hours=24)
PATIENCE_SECONDS = 60.0  # in addition to `run_for`: a new driver is slow at first, and some batches must have come


def held_to_before(
    registry: AppRegistry, deployment: str, found: Health, limits: SloLimits, run_for: float, uncounted: Iterable[str]
) -> Health:
    """Return the health of a new version that is healthy by itself (`found`), held to the hours before its update.

    While it exceeds a limit it is not healthy; once it has done so for PATIENCE_SECONDS after `run_for` it has failed.
    As long it is waited for batches to judge by, where as many came before. Nothing is compared of a deployment that no
    update brought in.

    uncounted: stages (``query/stage``) whose rows are not compared
    """
    record, status = registry.update(deployment), found.status
    if record is None or record.old is None or record.in_place or status is None or not limits.any:
        return found
    before = hours_before(registry, record, status, uncounted)
    patient = running_for(status) < run_for + PATIENCE_SECONDS
    if patient and run_for and (missing := _too_few(status, before)):
        return attrs.evolve(found, healthy=False, reasons=tuple(missing))
    judged = [j for name, query in sorted(status.queries.items()) for j in judge(name, query, before.get(name), limits)]
    worse = tuple(
        f"{j.text}; to allow it, give option slo: {j.limit}=LIMIT, or {j.limit}=off" for j in judged if j.exceeded
    )
    holds = (*found.holds, *(j.text for j in judged if not j.exceeded))
    return attrs.evolve(found, healthy=not worse, failed=bool(worse) and not patient, reasons=worse, holds=holds)


def hours_before(
    registry: AppRegistry, record: UpdateRecord, status: Status, uncounted: Iterable[str]
) -> Mapping[str, Before]:
    """What each query of the new version's `status` that the old one had, too, did before."""
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
        for name in status.queries
        if name in known
    }


def _spans(registry: AppRegistry, record: UpdateRecord) -> dict[str, list[Span]]:
    """By query: of the versions that ran before; not of those that were tried and did not stay."""
    tried = {u.new for u in registry.updates() if u.outcome != PROMOTED and not u.in_place}
    found: dict[str, list[Span]] = {}
    for one in recorded(registry.folder, utc_now() - HOURS_BEFORE):
        if one.deployment not in tried:
            found.setdefault(one.query, []).append(one.span)
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


def _too_few(status: Status, before: Mapping[str, Before]) -> list[str]:
    """Queries that have committed too few batches to be judged, where enough come within a minute."""
    return [
        f"query {name} has {known} of {FEWEST_BATCHES} batches by which to compare it with the hours before"
        for name, query in sorted(status.queries.items())
        if name in before and not query.idle and _batches_a_minute(before[name]) >= ENOUGH_BATCHES
        if (known := len(with_rows(warm(query)))) < FEWEST_BATCHES
    ]


def _batches_a_minute(before: Before) -> float:
    """The least of the last ten minutes that were not cut short by a driver's start or end."""
    last = [span.batches for span in before.spans[-12:-1]]
    return min(last, default=0)
