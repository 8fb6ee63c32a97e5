"""Read a deployment's health, or wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from ....core.checkpoint.snapshot import Snapshot
from ....core.compatibility.report import CARRIED
from ....core.compatibility.successors import new_names
from ....core.errors import StreamUpdateError
from ....core.registry.deployment import FINISHED, RUNNING
from ....core.registry.registry import AppRegistry
from ....core.slo.limits import LONGEST_SECONDS, parse_slo
from ....core.snapshots.snapshots import SnapshotStore
from ...waiting import Phase, Progress, discard_progress, wait_for
from ..context import Context
from . import slo as slo_gate
from .health import Health, assess

T = TypeVar("T")
# Stages whose functions add and remove any rows, timers and expired values included.
_FUNCTIONS = ("transform-with-state", "apply-in-pandas-with-state")
_REPORTS = "spark.sql.streaming.numRecentProgressUpdates"
FEW_REPORTS = 20  # with fewer kept, batches are missed between two looks (with 1, Spark keeps none: measured)
_TRACKED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


def uncounted(registry: AppRegistry, deployment: str) -> set[str]:
    """Return the stages (``query/stage``) whose number of rows does not show whether their state was carried over.

    These are: stages that the update did not carry unchanged, stages of state functions, stages without a name, and all
    stages of a query whose rows are not counted or not reported.
    """
    report, plan = registry.report(deployment), registry.plan(deployment)
    found = {i.name for i in report.items if i.thing == "stage" and i.verdict != CARRIED} if report else set()
    for query in plan.queries if plan else ():
        silent = _not_counted(query.given)
        found |= {f"{query.name}/{s.name}" for s in query.stages if silent or s.kind in _FUNCTIONS or not s.named}
    return found


def under_new_names(registry: AppRegistry, deployment: str, snapshot: str) -> Snapshot:
    """Return the snapshot with its figures under the names that stages and sources have in the deployment."""
    found, plan = SnapshotStore(registry).get(snapshot), registry.plan(deployment)
    if plan is None or found.deployment == deployment:
        return found
    names = new_names(found.plan, plan, registry.spec(deployment).renames)

    def renamed(query: str, figures: Mapping[str, T]) -> dict[str, T]:
        new = names.get(query, {})
        return {new.get(name, name): figure for name, figure in figures.items()}

    queries = {
        name: attrs.evolve(q, state_rows=renamed(name, q.state_rows), source_lag=renamed(name, q.source_lag))
        for name, q in found.queries.items()
    }
    return attrs.evolve(found, queries=queries)


def _not_counted(given: Mapping[str, str]) -> bool:
    reports = given.get(_REPORTS, "100")
    return given.get(_TRACKED, "true").lower() == "false" or (reports.isdecimal() and int(reports) < FEW_REPORTS)


def health(
    context: Context,
    app: str,
    deployment: str | None = None,
    baseline_snapshot: str | None = None,
    batches: int = 2,
    run_for: float = 0.0,
    slo: Iterable[str] | None = None,
    longest: float = LONGEST_SECONDS,
) -> Health:
    """Return the health of a deployment (default: the current one), compared with a snapshot. See `health.assess`.

    slo: how much worse than in the hours before its update it may do (`parse_slo`); None: that is not compared
    longest: seconds after `run_for`, at most, that are waited for batches to judge by (`slo.Gate`)
    """
    gate = _gate(context, app, run_for, slo, longest)
    return _health(context, app, deployment, baseline_snapshot, batches, run_for, gate)


def _gate(
    context: Context, app: str, run_for: float, slo: Iterable[str] | None, longest: float
) -> slo_gate.Gate | None:
    if slo is None:
        return None
    return slo_gate.Gate(
        registry=context.registry.existing(app),
        limits=parse_slo(slo),
        run_for=run_for,
        longest=longest,
        storage_options=context.storage_options,
    )


def _health(
    context: Context,
    app: str,
    deployment: str | None,
    baseline_snapshot: str | None,
    batches: int,
    run_for: float,
    gate: slo_gate.Gate | None,
) -> Health:
    registry = context.registry.existing(app)
    deployment = deployment or registry.running()[0]
    registry.spec(deployment)
    drivers = context.drivers(registry)
    baseline = under_new_names(registry, deployment, baseline_snapshot) if baseline_snapshot else None
    state = drivers.state(deployment)
    apart = uncounted(registry, deployment) if baseline and state in (RUNNING, FINISHED) else ()
    found = assess(deployment, state, drivers.status(deployment), baseline, batches, run_for, apart)
    return gate.hold(deployment, found) if gate is not None and found.healthy else found


def wait_healthy(
    context: Context,
    app: str,
    deployment: str | None = None,
    baseline_snapshot: str | None = None,
    timeout: float = 300.0,
    batches: int = 2,
    run_for: float = 0.0,
    progress: Progress = discard_progress,
    slo: Iterable[str] | None = None,
) -> Health:
    """Wait until the deployment is healthy; StreamUpdateError, with the reasons, when it fails or takes too long.

    timeout: seconds it may take, in addition to `run_for`; slo: see `health`
    """
    last: list[Health] = []
    gate = _gate(context, app, run_for, slo, min(LONGEST_SECONDS, timeout / 2))

    def poll() -> Health | None:
        found = _health(context, app, deployment, baseline_snapshot, batches, run_for, gate)
        if not last or last[-1].reasons != found.reasons:
            detail = found.batches_done(batches) or "; ".join(found.reasons)
            progress(Phase(f"verifying {deployment or app}", detail))
            if found.healthy:
                progress(found.lines(app))
        last.append(found)
        if found.failed:
            raise StreamUpdateError(f"{app} is not healthy: {'; '.join(found.reasons)}")
        return found if found.healthy else None

    try:
        return wait_for(poll, f"the health of {app}", timeout + run_for)
    except TimeoutError as error:
        reasons = "; ".join(last[-1].reasons) if last else "no status"
        raise StreamUpdateError(f"{app} is not healthy after {timeout + run_for:g} s: {reasons}") from error
