"""Hold a new version to what the app did in the hours before (core/slo)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs

from ....core import clock
from ....core.errors import StorageError, describe
from ....core.registry.deployment import QueryStatus, Status
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ....core.slo.baseline import Baseline, read_baselines
from ....core.slo.limits import LONGEST_SECONDS, NO_LIMITS, PATIENCE_SECONDS, SloLimits
from ....core.slo.rules import ALL, Finding, judge
from .health import Health
from .output.nulls import nulls


@attrs.frozen(kw_only=True)
class Gate:
    """The comparison of a new version with the hours before its update."""

    registry: AppRegistry
    limits: SloLimits
    run_for: float = 0.0  # seconds that the new version must run; 0: nothing is waited for
    longest: float = LONGEST_SECONDS  # seconds in addition, at most
    storage_options: dict[str, Any] = attrs.field(factory=dict, repr=False)  # of the root, tried for sinks, too
    _baselines: dict[str, Baseline] = attrs.field(factory=dict, init=False)  # read once: it is over

    def hold(self, deployment: str, health: Health) -> Health:
        """Return the health of a new version that is healthy by itself (`health`), held to the hours before its update.

        Nothing is compared of a deployment that no update brought in; whatever goes wrong here is told, and is no
        reason to roll back.
        """
        if health.status is None or self.limits == NO_LIMITS:
            return health
        lived = (clock.parse(health.status.heartbeat_at) - clock.parse(health.status.runs_since)).total_seconds()
        ran = math.inf if health.status.final or not self.run_for else lived - self.run_for
        try:
            record = self.registry.update(deployment)
            if record is None or record.old is None or record.in_place:
                return health
            return self._held(record, health, health.status, ran)
        except Exception as error:  # what was before may be damaged, or written by whoever
            why = f"the hours before were not compared: {describe(error)}"
            if isinstance(error, StorageError) and ran < min(PATIENCE_SECONDS, self.longest):
                return attrs.evolve(health, healthy=False, reasons=(why,))  # it may answer at the next poll
            return attrs.evolve(health, holds=(*health.holds, why))

    def _held(self, record: UpdateRecord, health: Health, status: Status, ran: float) -> Health:
        self._baselines.update(self._baselines or read_baselines(self.registry, record))
        unread = {path for baseline in self._baselines.values() for path in baseline.unread}
        missing = [f"a part of the hours before is missing: {path} cannot be read" for path in sorted(unread)[:1]]
        holds, reasons, failed = [*health.holds, *missing], list[str](), False
        for name, query in sorted(status.queries.items()):
            for finding in self._findings(name, query, record, ran):
                limit, waits = finding.limit, ran < min(finding.waits, self.longest) or finding.waits == math.inf
                text = f"query {name}, {limit}: {'not compared: ' if finding.exceeded is None else ''}{finding.why}"
                text += f"; to allow it, give option slo: {limit}=LIMIT, or {limit}=off" if finding.exceeded else ""
                failed = failed or (finding.exceeded is True and not waits)
                (reasons if finding.exceeded or (finding.exceeded is None and waits) else holds).append(text)
        return attrs.evolve(health, healthy=not reasons, failed=failed, reasons=tuple(reasons), holds=tuple(holds))

    def _findings(self, name: str, query: QueryStatus, record: UpdateRecord, ran: float) -> Iterator[Finding]:
        baseline, limit = self._baselines.get(name), self.limits.nulls
        if baseline is None:
            yield Finding(ALL, None, "the version before had no such query")
            return
        yield from judge(query, baseline, self.limits, ran, self.longest)
        if limit is not None and baseline.changed:
            yield Finding("nulls", None, baseline.changed)
        elif limit is not None:
            yield nulls(self.registry, record, name, query.first_batch or 0, limit, self.storage_options)
