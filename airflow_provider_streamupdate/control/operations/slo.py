"""Hold a new version to what the app did in the hours before (core/slo)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from ...core.registry.deployment import QueryStatus, Status
from ...core.registry.registry import AppRegistry
from ...core.registry.update import UpdateRecord
from ...core.slo.before import Before
from ...core.slo.hours_before import hours_before
from ...core.slo.judging import ENOUGH_BATCHES, FEWEST_BATCHES, Judgement, judge, judgement, warm, with_rows
from ...core.slo.limits import SloLimits
from ...core.slo.output import judge_nulls
from .health import Health, running_for
from .output.reading import UnreadableOutputError, outputs

PATIENCE_SECONDS = 60.0  # in addition to `run_for`: a new driver is slow at first, and some batches must have come


@attrs.frozen(kw_only=True)
class Gate:
    """storage_options: of the root, which are tried for what queries write, too
    run_for: seconds that the new version must run"""

    registry: AppRegistry
    limits: SloLimits
    run_for: float = 0.0
    storage_options: dict[str, Any] = attrs.field(factory=dict, repr=False)

    def hold(self, deployment: str, found: Health, uncounted: Collection[str]) -> Health:
        """Return the health of a new version that is healthy by itself (`found`), held to the hours before its update.

        While it exceeds a limit it is not healthy; once it has done so for PATIENCE_SECONDS after `run_for` it has
        failed. As long it is waited for batches to judge by, where as many came before. Nothing is compared of a
        deployment that no update brought in.

        uncounted: stages (``query/stage``) whose rows are not compared
        """
        record, status = self.registry.update(deployment), found.status
        if record is None or record.old is None or record.in_place or status is None or not self.limits.any:
            return found
        before = hours_before(self.registry, record, status.queries, uncounted)
        patient = running_for(status) < self.run_for + PATIENCE_SECONDS
        if patient and self.run_for and (missing := _too_few(status, before)):
            return attrs.evolve(found, healthy=False, reasons=tuple(missing))
        judged = [
            judgement
            for name, query in sorted(status.queries.items())
            for judgement in (
                *judge(name, query, before.get(name), self.limits),
                *self._nulls(name, query, record, before.get(name)),
            )
        ]
        worse = tuple(
            f"{j.text}; to allow it, give option slo: {j.limit}=LIMIT, or {j.limit}=off" for j in judged if j.exceeded
        )
        holds = (*found.holds, *(j.text for j in judged if not j.exceeded))
        return attrs.evolve(found, healthy=not worse, failed=bool(worse) and not patient, reasons=worse, holds=holds)

    def _nulls(self, name: str, query: QueryStatus, record: UpdateRecord, before: Before | None) -> Iterator[Judgement]:
        if self.limits.nulls is None or before is None or query.first_batch is None:
            return
        plans = self.registry.plan(str(record.old)), self.registry.plan(record.new)
        old, new = (plan.query(name) if plan else None for plan in plans)
        if old is None or new is None:
            return
        ids = (self._id(str(record.old), name), self._id(record.new, name))
        judged: list[tuple[bool | None, str]]
        try:
            found = outputs((old.sink, new.sink), ids, query.first_batch, self.storage_options)
            judged = judge_nulls(found, self.limits.nulls)
        except UnreadableOutputError as error:
            judged = [(None, str(error))]
        for exceeded, text in judged:
            yield judgement(name, "nulls", exceeded, text)

    def _id(self, deployment: str, query: str) -> str:
        """What Spark calls the query."""
        text = self.registry.checkpoint(deployment, query).read("metadata")
        return str(json.loads(text)["id"]) if text else ""


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
