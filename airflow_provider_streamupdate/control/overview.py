"""Read-only requests on all apps or on one: what `streamupdate list` and the page in Airflow's UI show."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from ..core.checkpoint.snapshot import DamagedSnapshot, Snapshot
from ..core.compatibility.graph import graph
from ..core.compatibility.report import CompatibilityReport
from ..core.difference.report import DifferenceReport
from ..core.errors import CorruptError, NewerFormatError, NotFoundError, StorageError, StreamUpdateError
from ..core.plan.plan import AppPlan, StagePlan
from ..core.registry.deployment import (
    NEW,
    STARTING,
    Current,
    DeploymentSpec,
    DriverState,
    Status,
)
from ..core.registry.events import latest_lines, parse_event
from ..core.registry.hiding import Hiding
from ..core.registry.hot_standby import snapshot_of
from ..core.registry.registry import AppRegistry
from ..core.registry.update import Step, UpdateRecord
from ..core.serde import to_dict
from ..core.snapshots.snapshots import SnapshotStore
from ..core.storage import Folder
from .attention import Need, assess, rank, unreadable
from .drivers.clusters import Living
from .drivers.drivers import Drivers
from .operations import hot_standby
from .operations.context import Context
from .report_data import report_data
from .status import UNEXPLAINED_STATES, Glance, glance
from .update.record import step_seconds
from .update.rollback_target import versions_before, way_back
from .update.strategies import STRATEGIES

T = TypeVar("T")

APPS_AT_ONCE = 100  # so many are read before the first of them is passed on
EVENTS_SHOWN = 50
EVENTS_READ = 5000
SHOWN = 200  # the latest updates, deployments, snapshots and rollbacks of an app; what is older is counted
DEPLOYMENTS_SHOWN = 30  # the newest, with all the drivers they have had
FILES_KNOWN = 20_000
_OF_UPDATE = ("strategy", "started_at", "step", "outcome", "pause_seconds")
DAMAGED = "damaged"  # in place of a snapshot's kind


@attrs.frozen
class DocumentCache:
    """A cache of what was read: snapshots, whose manifests never change, and the deployments' drivers."""

    known: dict[tuple[str, float], Any] = attrs.field(factory=dict)  # by path and modification time of the file

    def get(self, folder: Folder, path: str, read: Callable[[str], T], argument: str) -> T:
        """Return what `read` returns of a file, or returned before. NotFoundError or FileNotFoundError without it."""
        key = folder.path(path), folder.modified(path)
        if key not in self.known:
            if len(self.known) >= FILES_KNOWN:
                self.known.clear()
            self.known[key] = read(argument)
        value: T = self.known[key]
        return value


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's garbage collection while many apps are read, which makes no cycles: it takes a quarter of the time
    (measured)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def glances(context: Context) -> list[tuple[str, Glance | StreamUpdateError]]:
    """Return every app, or why it cannot be read: those that need somebody first, the most urgent of them first, then
    by name. Reads a handful of files per app, whatever its size. One that is removed meanwhile is left out."""
    return sorted(each_glance(context), key=lambda each: rank(each[0], needs_of(*each)))


def each_glance(context: Context) -> Iterator[tuple[str, Glance | StreamUpdateError]]:
    """Yield what `glances` returns, in no order, as it is read."""
    return each_app(context, lambda registry, alive: _glance(context, registry, alive))


def each_app(
    context: Context, read: Callable[[AppRegistry, Living], T | None]
) -> Iterator[tuple[str, T | StreamUpdateError]]:
    """Yield what `read` returns of every app, or why it cannot be read. Left out are folders of which it returns None,
    or that have no deployments (any more)."""
    alive, folder = Living(), context.registry.folder

    def read_one(app: str) -> tuple[str, T | StreamUpdateError | None]:
        try:
            return app, read(context.registry.app(app), alive)
        except (StreamUpdateError, FileNotFoundError) as error:
            if not folder.names(f"{app}/deployments"):
                return app, None
            if isinstance(error, StreamUpdateError):
                return app, error
            return app, StorageError(f"a file of {app} went while it was read: {error}; look again")

    names = folder.names()
    for start in range(0, len(names), APPS_AT_ONCE):
        for app, found in folder.read_many(read_one, names[start : start + APPS_AT_ONCE]):
            if found is not None:
                yield app, found


def needs_of(app: str, found: Glance | Exception) -> tuple[Need, ...]:
    """Return what an app needs a person for. One that cannot be read always does."""
    return (unreadable(app, str(found)),) if isinstance(found, Exception) else found.needs


def app_document(context: Context, app: str, cache: DocumentCache | None = None) -> dict[str, Any]:
    """Return everything about an app, as JSON. NotFoundError for an unknown app.

    That is: its deployments, snapshots (oldest first) and updates with their steps, its stages with the verdicts of
    the last report, what the versions of the last update made of the same batches, its hot standby, and its driver's
    latest events.

    cache: of earlier calls
    """
    cache = cache or DocumentCache()
    registry = context.registry.existing(app)
    drivers = context.drivers(registry, watch=False, alive=Living())
    specs = registry.latest_deployments(SHOWN)
    hiding = Hiding.of(specs)
    current, updates = registry.current(), [hiding.update(record) for record in registry.latest_updates(SHOWN)]
    deployments = [_deployment_document(registry, drivers, spec, current, updates, hiding) for spec in specs]
    for shown in deployments:
        newest = shown in deployments[-DEPLOYMENTS_SHOWN:]
        shown["runs"] = _driver_runs(cache, registry, shown["deployment"]) if newest else []
    plan = registry.plan(current.deployment) if current else None
    state, status = drivers.state_and_status(current.deployment) if current else (NEW, None)
    status = status and hiding.status(status)
    checked, report = _current_report(registry, updates, current)
    snapshots, rollbacks = _snapshots(cache, SnapshotStore(registry)), registry.rollbacks()
    difference = registry.difference(updates[-1].new) if updates else None
    before = versions_before(current.deployment, specs, updates) if current else []
    names = {"deployments": registry.folder.names("deployments"), "updates": registry.update_ids()}
    every: dict[str, Sequence[object]] = {**names, "snapshots": snapshots, "rollbacks": rollbacks}
    return {
        "app": app,
        "state": state,
        "needs": to_dict(assess(registry, current, state, status, updates[-1] if updates else None)),
        "way_back": to_dict(way_back(registry, drivers, before)) if before else None,
        "current": to_dict(current),
        "status": to_dict(status),
        "hot_standby": to_dict(hot_standby.wanted_standby(registry, drivers)),
        "deployments": deployments,
        "stages": list(stages(status, plan, report)),
        "picture": plan and to_dict(graph(plan)),
        "report": report and {**report_data(report), "deployment": checked},
        "difference": difference and {**_difference_document(difference), "deployment": updates[-1].new},
        "snapshots": snapshots[-SHOWN:],
        "updates": [update_document(record) for record in updates],
        "rollbacks": [to_dict(hiding.rollback(record)) for record in rollbacks[-SHOWN:]],
        "left_out": {kind: len(found[:-SHOWN]) for kind, found in every.items()},
        "events": [hiding.event(event) for event in events(registry, current.deployment)] if current else [],
    }


def deployments(context: Context, app: str) -> list[dict[str, Any]]:
    """Return the deployments of an app as JSON, oldest first. NotFoundError for an unknown app."""
    registry = context.registry.existing(app)
    drivers, specs = context.drivers(registry, watch=False, alive=Living()), registry.deployments()
    current, updates, hiding = registry.current(), registry.updates(), Hiding.of(specs)
    return [_deployment_document(registry, drivers, spec, current, updates, hiding) for spec in specs]


def _snapshots(cache: DocumentCache, store: SnapshotStore) -> list[dict[str, Any]]:
    """Return all snapshots of an app as JSON, oldest first, each with what its last verification found."""
    found = []
    for name in store.names():
        try:
            path = f"snapshots/{name}/snapshot.json"
            document = cache.get(store.folder, path, lambda each: snapshot_document(store.get(each)), name)
        except (CorruptError, NewerFormatError) as error:
            document = damaged_document(DamagedSnapshot.of(store.app.name, name, error))
        except (NotFoundError, FileNotFoundError):
            continue  # deleted since it was listed
        found.append({**document, "verified": to_dict(store.verified(name))})
    return sorted(found, key=lambda s: s.get("created_at") or "")


def _driver_runs(cache: DocumentCache, registry: AppRegistry, deployment: str) -> list[dict[str, Any]]:
    """Return every driver a deployment has had, oldest first: its epoch, first and last event, and last state."""
    with contextlib.suppress(NotFoundError, FileNotFoundError):
        path = f"deployments/{deployment}/events.jsonl"
        return cache.get(registry.folder, path, lambda each: _runs(events(registry, each, EVENTS_READ)), deployment)
    return []


def _glance(context: Context, registry: AppRegistry, alive: Living) -> Glance | None:
    """Return an app at a glance; None: the folder is of none."""
    current = registry.current()
    if current is not None:
        registry.spec(current.deployment)  # raises here for an app that could not be started again
    elif not registry.folder.names("deployments"):
        return None
    else:
        registry.check_not_deleted()
    return glance(registry, context.drivers(registry, watch=False, alive=alive), registry.last_update())


def summary(app: str, found: Glance | Exception) -> dict[str, Any]:
    """A glance as JSON: rates in rows a second, lag in rows, durations in seconds; None: not known."""
    if isinstance(found, Exception):
        error = {"type": type(found).__name__, "message": str(found)}
        return {"app": app, "state": "unreadable", "error": error, "needs": to_dict(needs_of(app, found))}
    update = found.last_update
    return {
        "app": app,
        "state": found.state,
        **_fields(found.current, "deployment", "epoch"),
        **figures(found.status),
        "beside": found.beside and _fields(found.beside, "deployment", "state"),
        "needs": to_dict(found.needs),
        "updating_to": found.update.new if found.update else None,
        "last_update": update and {"deployment": update.new, **_fields(update, *_OF_UPDATE)},
    }


def figures(status: Status | None) -> dict[str, Any]:
    """Return what a driver reported, added up over its queries."""
    queries = list(status.queries.values()) if status else []
    return {
        "batches": {name: q.batch for name, q in status.queries.items()} if status else {},
        "rows_in_per_second": total(q.input_rows_per_second for q in queries),
        "rows_per_second": total(q.processed_rows_per_second for q in queries),
        "lag": total(q.lag for q in queries),
        "batch_seconds": max((q.batch_seconds for q in queries if q.batch_seconds is not None), default=None),
        "state_rows": total(n for q in queries for n in q.state_rows.values()),
        "heartbeat_at": status.heartbeat_at if status else None,
    }


def update_document(record: UpdateRecord) -> dict[str, Any]:
    """Return an update with its steps in order, each with the seconds since the step before it, and the steps it has
    `left`, without the rehearsal, which few updates have. Its attempts, most of a record, are for its trace, and left
    out."""
    steps = [{"step": name, "at": at, "seconds": seconds} for name, at, seconds in step_seconds(record)]
    strategy = STRATEGIES.get(record.strategy) if record.outcome is None else None
    left = [s for s in strategy.steps if s not in record.step_times and s != Step.REHEARSE] if strategy else []
    noted = {name: value for name, value in to_dict(record).items() if name != "attempts"}
    found: dict[str, Any] = {**noted, "steps": steps, "left": left, "runs": record.runs}
    return found


def _difference_document(report: DifferenceReport) -> dict[str, Any]:
    """Return the comparison of an update's versions: outcome, problems, uncompared things, and all tables
    but that of the batches."""

    tables = {}
    for name, (columns, rows) in report.tables().items():
        keys = [column.replace(" ", "_") for column in columns]
        tables[name] = [dict(zip(keys, row, strict=True)) for row in rows]
    del tables["batches"]
    return {"outcome": report.outcome, "problems": report.problems, "notes": list(report.notes()), **tables}


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot without its list of files and its plan."""
    of_snapshot = ("app", "name", "created_at", "deployment", "kind", "size", "bytes_new")
    of_query = ("batch", "committed_at", "in_flight", "watermark_ms", "state_rows")
    queries = {n: {**_fields(q, *of_query), "files": len(q.files)} for n, q in snapshot.queries.items()}
    return {**_fields(snapshot, *of_snapshot), "queries": queries}


def _fields(value: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object, each None when there is no object."""
    return {name: getattr(value, name) if value is not None else None for name in names}


def damaged_document(damaged: DamagedSnapshot) -> dict[str, Any]:
    """A snapshot that cannot be read."""
    error = {"type": damaged.error, "message": damaged.problem}
    return {"app": damaged.app, "name": damaged.name, "kind": DAMAGED, "error": error}


def events(registry: AppRegistry, deployment: str, last: int = EVENTS_SHOWN) -> list[dict[str, Any]]:
    """Return the latest events of a deployment's driver, oldest first."""
    where = registry.folder.path(f"deployments/{deployment}/events.jsonl")
    return [parse_event(line, where) for line in latest_lines(registry.deployment_folder(deployment))[-last:]]


def _runs(noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per driver of a deployment, from its events (oldest first)."""
    found: dict[Any, dict[str, Any]] = {}
    for event in noted:
        epoch, at = event.get("epoch"), event.get("at")
        run = found.setdefault(epoch, {"epoch": epoch, "from": at, "to": at, "state": None})
        run["to"] = at
        if event.get("event") == "state":
            run["state"] = event.get("state")
    return list(found.values())


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None when none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _deployment_document(
    registry: AppRegistry,
    drivers: Drivers,
    spec: DeploymentSpec,
    current: Current | None,
    updates: list[UpdateRecord],
    hiding: Hiding,
) -> dict[str, Any]:
    state, status = drivers.state_and_status(spec.deployment)
    status = status and hiding.status(status)
    launch = registry.launch(spec.deployment)
    record = next((u for u in updates if u.new == spec.deployment), None)
    commits = [q.first_commit_at for q in status.queries.values() if q.first_commit_at] if status else []
    return {
        **to_dict(spec),
        "from_snapshot": snapshot_of(spec),
        "application": to_dict(hiding.application(spec.application)),
        "current": current is not None and current.deployment == spec.deployment,
        "state": state,
        "epoch": launch.epoch if launch else None,
        **_fields(status, "started_at", "heartbeat_at", "spark_ui", "spark_version", "host", "reason"),
        "first_commit_at": max(commits, default=None),
        "batches": figures(status)["batches"],
        "error": (status.error if status else None) or _cluster_message(drivers, spec, state, current),
        "driver_log": launch.log if launch else None,
        "update": (record.outcome or f"under way (after {record.step})") if record else None,
        "changes": [
            {
                "at": change.at,
                "by": change.request.asked_by,
                "undoes": change.undoes,
                "before": {k: before.get(k, "") for k in change.changed},
                "after": {k: after.get(k, "") for k in change.changed},
            }
            for change in registry.changes(spec.deployment)
            if change.changed  # else it kept another one out
            for before, after in [hiding.change(change)]
        ],
    }


def _cluster_message(drivers: Drivers, spec: DeploymentSpec, state: DriverState, current: Current | None) -> str | None:
    """Ask the cluster only about expected drivers: each query is a request."""
    wanted = current is None or current.deployment == spec.deployment or state == STARTING
    return drivers.cluster_message(spec.deployment) if wanted and state in UNEXPLAINED_STATES else None


def stages(
    status: Status | None, plan: AppPlan | None, report: CompatibilityReport | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the stages of the running version, and those named only in the last report."""
    items = {item.name: item for item in report.items if item.thing == "stage"} if report else {}
    running: dict[str, tuple[StagePlan, int | None]] = {}
    for query in plan.queries if plan else ():
        rows = status.queries[query.name].state_rows if status and query.name in status.queries else {}
        running |= {f"{query.name}/{stage.name}": (stage, rows.get(stage.name)) for stage in query.stages}
    for name in {**running, **items}:
        stage, rows_kept = running.get(name, (None, None))
        of_stage, of_item = _fields(stage, "kind", "operator_id"), _fields(items.get(name), "verdict", "reason")
        yield {"name": name, **of_stage, "state_rows": rows_kept, **of_item}


def _current_report(
    registry: AppRegistry, updates: list[UpdateRecord], current: Current | None
) -> tuple[str | None, CompatibilityReport | None]:
    """Return the report of the update under way, else of the update that brought the current deployment in.

    The report of a version that was rolled back is not about the stages that run, so it is left out.
    """
    last = updates[-1] if updates else None
    wanted = [last.new] if last is not None and last.outcome is None else []
    wanted += [current.deployment] if current is not None else []
    for deployment in wanted:
        if (report := registry.report(deployment)) is not None:
            return deployment, report
    return None, None
