"""Hold a new version to what the app did in the hours before (core/slo)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from ...core.registry.deployment import Status
from ...core.registry.registry import AppRegistry
from ...core.slo.before import Before
from ...core.slo.hours_before import hours_before
from ...core.slo.judging import ENOUGH_BATCHES, FEWEST_BATCHES, judge, warm, with_rows
from ...core.slo.limits import SloLimits
from .health import Health, running_for

PATIENCE_SECONDS = 60.0  # in addition to `run_for`: a new driver is slow at first, and some batches must have come


def held_to_before(
    registry: AppRegistry, deployment: str, found: Health, limits: SloLimits, run_for: float, uncounted: Collection[str]
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
    before = hours_before(registry, record, status.queries, uncounted)
    patient = running_for(status) < run_for + PATIENCE_SECONDS
    if patient and run_for and (missing := _too_few(status, before)):
        return attrs.evolve(found, healthy=False, reasons=tuple(missing))
    judged = [j for name, query in sorted(status.queries.items()) for j in judge(name, query, before.get(name), limits)]
    worse = tuple(
        f"{j.text}; to allow it, give option slo: {j.limit}=LIMIT, or {j.limit}=off" for j in judged if j.exceeded
    )
    holds = (*found.holds, *(j.text for j in judged if not j.exceeded))
    return attrs.evolve(found, healthy=not worse, failed=bool(worse) and not patient, reasons=worse, holds=holds)


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
