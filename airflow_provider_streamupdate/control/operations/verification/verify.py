"""Read a deployment's health, or wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from ....core.checkpoint.snapshot import Snapshot
from ....core.compatibility.successors import new_names
from ....core.compatibility.verdict import CARRIED
from ....core.errors import StreamUpdateError
from ....core.registry.deployment import FINISHED, RUNNING
from ....core.registry.registry import AppRegistry
from ....core.slo.limits import LONGEST_SECONDS, NO_LIMITS, parse_slo
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


@attrs.frozen
class HealthOptions:
    """A deployment, and what it is judged by (see `health.assess`)."""

    app: str
    deployment: str | None = None  # None: the current one
    baseline_snapshot: str | None = None  # the snapshot that its figures are compared with
    batches: int = 2  # that each query must have committed
    run_for: float = 0.0  # seconds that it must have run
    slo: Iterable[str] | None = None  # how much worse than before its update it may do (`parse_slo`); None: any
    longest: float = LONGEST_SECONDS  # after `run_for`, at most, to wait for batches to judge by (`slo.Gate`)
    timeout: float = 300.0  # seconds to wait for it (`wait_healthy`), in addition to `run_for`
    progress: Progress = discard_progress


def health(context: Context, options: HealthOptions) -> Health:
    """Return the health of a deployment, compared with a snapshot."""
    return _health(context, options, _gate(context, options, options.longest))


def _gate(context: Context, options: HealthOptions, longest: float) -> slo_gate.Gate:
    return slo_gate.Gate(
        registry=context.registry.existing(options.app),
        limits=NO_LIMITS if options.slo is None else parse_slo(options.slo),
        run_for=options.run_for,
        longest=longest,
        storage_options=context.storage_options,
    )


def _health(context: Context, options: HealthOptions, gate: slo_gate.Gate) -> Health:
    registry, saved = context.registry.existing(options.app), options.baseline_snapshot
    deployment = options.deployment or registry.running()[0]
    registry.spec(deployment)
    drivers = context.drivers(registry)
    baseline = under_new_names(registry, deployment, saved) if saved else None
    state = drivers.state(deployment)
    apart = uncounted(registry, deployment) if baseline and state in (RUNNING, FINISHED) else ()
    status = drivers.status(deployment)
    found = assess(deployment, state, status, baseline, options.batches, options.run_for, apart)
    return gate.hold(deployment, found) if found.healthy else found


def wait_healthy(context: Context, options: HealthOptions) -> Health:
    """Wait until the deployment is healthy; StreamUpdateError, with the reasons, when it fails or takes too long."""
    app, timeout = options.app, options.timeout + options.run_for
    last: list[Health] = []
    gate = _gate(context, options, min(options.longest, options.timeout / 2))

    def poll() -> Health | None:
        found = _health(context, options, gate)
        if not last or last[-1].reasons != found.reasons:
            options.progress(Phase(f"verifying {options.deployment or app}", "; ".join(found.reasons)))
            if found.healthy:
                options.progress(found.lines(app))
        last.append(found)
        if found.failed:
            raise StreamUpdateError(f"{app} is not healthy: {'; '.join(found.reasons)}")
        return found if found.healthy else None

    try:
        return wait_for(poll, f"the health of {app}", timeout)
    except TimeoutError as error:
        reasons = "; ".join(last[-1].reasons) if last else "no status"
        raise StreamUpdateError(f"{app} is not healthy after {timeout:g} s: {reasons}") from error
