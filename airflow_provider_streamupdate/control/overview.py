"""Read-only requests on all apps or on one: what `streamupdate list` and the page in Airflow's UI show."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from ..core.checkpoint.snapshot import DamagedSnapshot, Snapshot
from ..core.compatibility.graph import SINK, graph, source_id, stage_id
from ..core.compatibility.picture import QUERY, Figures, picture_of
from ..core.compatibility.report import CompatibilityReport
from ..core.difference.report import DifferenceReport
from ..core.errors import CorruptError, NewerFormatError, NotFoundError, StorageError, StreamUpdateError
from ..core.formats import EVENT
from ..core.plan.plan import AppPlan
from ..core.redaction import redacted
from ..core.registry.deployment import (
    FINAL_STATES,
    NEW,
    SILENT,
    STARTING,
    Current,
    DeploymentSpec,
    DriverState,
    QueryStatus,
    Status,
)
from ..core.registry.events import latest_lines
from ..core.registry.hiding import Hiding
from ..core.registry.hot_standby import snapshot_of
from ..core.registry.registry import AppRegistry
from ..core.registry.update import UpdateRecord
from ..core.serde import parse_json, to_dict
from ..core.snapshots.snapshots import SnapshotStore
from .attention import Attention, Need, assess, rank, unreadable
from .drivers.clusters import Living
from .drivers.drivers import Drivers
from .operations import hot_standby
from .operations.context import Context
from .report_data import report_data
from .status import WITHOUT_WORD, UnpromotedVersion, unpromoted_version
from .update.rollback_target import WayBack, versions_before, way_back
from .update.step import NOTED, Step, step_seconds
from .update.strategies import STRATEGIES

T = TypeVar("T")

APPS_AT_ONCE = 100  # so many are read before the first of them is passed on
EVENTS_SHOWN = 50
EVENTS_READ = 5000
SHOWN = 200  # the latest updates, deployments, snapshots and rollbacks of an app; what is older is counted
DEPLOYMENTS_SHOWN = 30  # the newest, with all the drivers they have had
RUNS_KNOWN = 1000
SNAPSHOTS_KNOWN = 20_000
DAMAGED = "damaged"  # in place of a snapshot's kind


@attrs.frozen(kw_only=True)
class Glance:
    """An app as a list shows it."""

    app: str
    state: DriverState  # its current deployment's
    current: Current | None
    status: Status | None
    last_update: UpdateRecord | None  # the one under way, else the last one
    beside: UnpromotedVersion | None = None  # the new version that runs beside the current deployment
    attention: Attention = attrs.field(factory=Attention)


@attrs.frozen
class Read:
    """A cache of snapshots, whose manifests never change, and of the deployments' drivers.

    The key is the path and the modification time of the file that was read.
    """

    snapshots: dict[tuple[str, float], dict[str, Any]] = attrs.field(factory=dict)
    runs: dict[tuple[str, float], list[dict[str, Any]]] = attrs.field(factory=dict)


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
    return (unreadable(app, str(found)),) if isinstance(found, Exception) else found.attention.needs


def app_document(context: Context, app: str, read: Read | None = None) -> dict[str, Any]:
    """Return everything about an app, as JSON. NotFoundError for an unknown app.

    That is: its deployments, snapshots (oldest first) and updates with their steps, its stages with the verdicts of
    the last report, what the versions of the last update made of the same batches, its hot standby, and its driver's
    latest events.

    read: cache of earlier calls
    """
    read = read or Read()
    registry = context.registry.existing(app)
    drivers = context.drivers(registry, watch=False, alive=Living())
    specs = registry.latest_deployments(SHOWN)
    hiding = Hiding.of(specs)
    current, updates = registry.current(), [hiding.update(record) for record in registry.latest_updates(SHOWN)]
    deployments = [
        {
            **_deployment_document(registry, drivers, spec, current, updates, hiding),
            "runs": _driver_runs(read, registry, spec.deployment) if spec in specs[-DEPLOYMENTS_SHOWN:] else [],
        }
        for spec in specs
    ]
    plan = registry.plan(current.deployment) if current else None
    state, status = drivers.state_and_status(current.deployment) if current else (NEW, None)
    status = status and hiding.status(status)
    checked, report = _current_report(registry, updates, current)
    old_figures = node_figures(state, status) if current and current.deployment != checked else None
    snapshots, rollbacks = snapshot_documents(read, SnapshotStore(registry)), registry.rollbacks()
    difference = registry.difference(updates[-1].new) if updates else None
    return {
        "app": app,
        "state": state,
        **to_dict(assess(registry, current, state, status, updates[-1] if updates else None)),
        "way_back": to_dict(_way_back(registry, drivers, specs, current)),
        "current": to_dict(current),
        "status": to_dict(status),
        "hot_standby": to_dict(hot_standby.wanted_standby(registry, drivers)),
        "deployments": deployments,
        "stages": list(_stages(status, plan, report)),
        "picture": plan and to_dict(picture_of(graph(plan), figures=node_figures(state, status))),
        "report": report and {**report_data(report, old_figures), "deployment": checked},
        "difference": difference and {**difference_document(difference), "deployment": updates[-1].new},
        "snapshots": snapshots[-SHOWN:],
        "updates": [update_document(record) for record in updates],
        "rollbacks": [to_dict(hiding.rollback(record)) for record in rollbacks[-SHOWN:]],
        "left_out": _left_out(registry, snapshots=snapshots, rollbacks=rollbacks),
        "events": [hiding.event(event) for event in events(registry, current.deployment)] if current else [],
    }


def _way_back(
    registry: AppRegistry, drivers: Drivers, specs: list[DeploymentSpec], current: Current | None
) -> WayBack | None:
    """Return where a rollback of the current deployment goes; None: nowhere."""
    before = versions_before(current.deployment, specs, registry.latest_updates(SHOWN)) if current else []
    return way_back(registry, drivers, before) if before else None


def _left_out(registry: AppRegistry, **shown: Sequence[object]) -> dict[str, int]:
    """Return how many older records of each kind an app's document leaves out."""
    all_of = {"deployments": registry.folder.names("deployments"), "updates": registry.update_ids(), **shown}
    return {kind: len(found[:-SHOWN]) for kind, found in all_of.items()}


def snapshot_documents(read: Read, store: SnapshotStore) -> list[dict[str, Any]]:
    """Return all snapshots of an app as JSON, oldest first, each with what its last verification found."""
    found = []
    for name in store.names():
        try:
            found.append(_snapshot_document(read, store, name))
        except (CorruptError, NewerFormatError) as error:
            damaged = DamagedSnapshot.of(store.app.name, name, error)
            found.append({**damaged_document(damaged), "verified": to_dict(store.verified(name))})
        except (NotFoundError, FileNotFoundError):
            pass  # deleted since it was listed
    return sorted(found, key=lambda s: s.get("created_at") or "")


def _snapshot_document(read: Read, store: SnapshotStore, name: str) -> dict[str, Any]:
    path = f"snapshots/{name}/snapshot.json"
    key = store.folder.path(path), store.folder.modified(path)
    known = read.snapshots.get(key)
    if known is None:
        if len(read.snapshots) >= SNAPSHOTS_KNOWN:
            read.snapshots.clear()
        known = read.snapshots[key] = snapshot_document(store.get(name))
    return {**known, "verified": to_dict(store.verified(name))}


def _driver_runs(read: Read, registry: AppRegistry, deployment: str) -> list[dict[str, Any]]:
    """Return every driver a deployment has had, oldest first: its epoch, first and last event, and last state."""
    path = f"deployments/{deployment}/events.jsonl"
    try:
        key = registry.folder.path(path), registry.folder.modified(path)
    except (NotFoundError, FileNotFoundError):
        return []
    if key not in read.runs:
        if len(read.runs) >= RUNS_KNOWN:
            read.runs.clear()
        read.runs[key] = driver_runs(events(registry, deployment, last=EVENTS_READ))
    return read.runs[key]


def _glance(context: Context, registry: AppRegistry, alive: Living) -> Glance | None:
    """Return a look at an app; None: the folder is of none."""
    current = registry.current()
    if current is None:
        if not registry.folder.names("deployments"):
            return None
        registry.check_not_deleted()
        return Glance(app=registry.name, state=NEW, current=None, status=None, last_update=registry.last_update())
    registry.spec(current.deployment)  # raises here for an app that could not be started again
    drivers = context.drivers(registry, watch=False, alive=alive)
    state, status = drivers.state_and_status(current.deployment)
    update = registry.last_update()
    return Glance(
        app=registry.name,
        state=state,
        current=current,
        status=status,
        last_update=update,
        beside=unpromoted_version(registry, drivers, current, update),
        attention=assess(registry, current, state, status, update),
    )


def summary(app: str, found: Glance | Exception) -> dict[str, Any]:
    """A glance as JSON: rates in rows a second, lag in rows, durations in seconds; None: not known."""
    if isinstance(found, Exception):
        error = {"type": type(found).__name__, "message": str(found)}
        return {"app": app, "state": "unreadable", "error": error, "needs": to_dict(needs_of(app, found))}
    update = found.last_update
    return {
        "app": app,
        "state": found.state,
        "deployment": found.current.deployment if found.current else None,
        "epoch": found.current.epoch if found.current else None,
        **figures(found.status),
        "beside": {"deployment": found.beside.deployment, "state": found.beside.state} if found.beside else None,
        **to_dict(found.attention),
        "updating_to": update.new if update and found.current and update.under_way(found.current.deployment) else None,
        "last_update": {
            "deployment": update.new,
            "strategy": update.strategy,
            "started_at": update.started_at,
            "step": update.step,
            "outcome": update.outcome,
            "pause_seconds": update.pause_seconds,
        }
        if update
        else None,
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


def node_figures(state: DriverState, status: Status | None) -> Figures:
    """Return the figures that a driver last reported. Of a driver that ended, only the state is still there."""
    alive = state not in FINAL_STATES and state != SILENT
    return {name: _node_figures(query, alive) for name, query in (status.queries if status else {}).items()}


def _node_figures(query: QueryStatus, alive: bool) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float | None]] = {QUERY: {"state_bytes": query.state_bytes}, SINK: {}}
    found |= {stage_id(name): {"state_rows": rows} for name, rows in query.state_rows.items()}
    if alive:
        found[QUERY] |= {
            "rows_per_second": query.input_rows_per_second,
            "processed_per_second": query.processed_rows_per_second,
            "lag": query.lag,
        }
        found[SINK] = {"batch_rows": query.figures[-1].rows_out if query.figures else None}
        for name in {*query.source_rates, *query.source_lag}:
            rate, lag = query.source_rates.get(name), query.source_lag.get(name)
            found[source_id(name)] = {"rows_per_second": rate, "lag": lag}
    return {name: {key: n for key, n in of_node.items() if n is not None} for name, of_node in found.items()}


def update_document(record: UpdateRecord) -> dict[str, Any]:
    """Return an update with its steps in order, each with the seconds since the step before it, and the steps it has
    `left`, without the rehearsal, which few updates have. Its attempts, most of a record, are for its trace, and left
    out."""
    steps = [{"step": name, "at": at, "seconds": seconds} for name, at, seconds in step_seconds(record)]
    strategy = STRATEGIES.get(record.strategy) if record.outcome is None else None
    left = [n for n in strategy.noted if n not in record.step_times and n != NOTED[Step.REHEARSE]] if strategy else []
    noted = {name: value for name, value in to_dict(record).items() if name != "attempts"}
    found: dict[str, Any] = {**noted, "steps": steps, "left": left, "runs": record.runs}
    return found


def difference_document(report: DifferenceReport) -> dict[str, Any]:
    """Return the comparison of an update's versions: outcome, problems, uncompared things, and all tables
    but that of the batches."""
    found: dict[str, Any] = {
        "outcome": report.outcome,
        "problems": report.problems,
        "notes": list(report.notes()),
    }
    for name, columns, rows in (
        ("figures", report.FIGURE_COLUMNS, report.figure_rows()),
        ("rows", report.ROW_COLUMNS, report.difference_rows()),
        ("samples", report.SAMPLE_COLUMNS, report.sample_rows()),
    ):
        keys = [column.replace(" ", "_") for column in columns]
        found[name] = [dict(zip(keys, row, strict=True)) for row in rows]
    return found


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot without its list of files and its plan."""
    return {
        "app": snapshot.app,
        "name": snapshot.name,
        "created_at": snapshot.created_at,
        "deployment": snapshot.deployment,
        "kind": snapshot.kind,
        "size": snapshot.size,
        "bytes_new": snapshot.bytes_new,
        "queries": {
            name: {
                "batch": query.batch,
                "committed_at": query.committed_at,
                "in_flight": query.in_flight,
                "watermark_ms": query.watermark_ms,
                "state_rows": query.state_rows,
                "files": len(query.files),
            }
            for name, query in snapshot.queries.items()
        },
    }


def damaged_document(damaged: DamagedSnapshot) -> dict[str, Any]:
    """A snapshot that cannot be read."""
    error = {"type": damaged.error, "message": damaged.problem}
    return {"app": damaged.app, "name": damaged.name, "kind": DAMAGED, "error": error}


def events(registry: AppRegistry, deployment: str, last: int = EVENTS_SHOWN) -> list[dict[str, Any]]:
    """Return the latest events of a deployment's driver, oldest first."""
    path = f"deployments/{deployment}/events.jsonl"
    lines = latest_lines(registry.deployment_folder(deployment))[-last:]
    where = registry.folder.path(path)
    return [_event(line, where) for line in lines]


def _event(line: bytes, where: str) -> dict[str, Any]:
    found = EVENT.understood(parse_json(line, where, finite=True), where)
    if not isinstance(found, dict) or not isinstance(found.get("epoch"), int | None):
        raise CorruptError(f"{where} holds a line that is no event of a driver: {line[:60]!r}; remove that line")
    return found


def driver_runs(noted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per driver of a deployment, from its events (oldest first)."""
    found: dict[Any, dict[str, Any]] = {}
    for event in noted:
        run = found.setdefault(
            event.get("epoch"), {"epoch": event.get("epoch"), "from": event.get("at"), "to": None, "state": None}
        )
        run["to"] = event.get("at")
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
    application = {
        **to_dict(spec.application),
        **{part: redacted(getattr(spec.application, part)) for part in ("params", "conf", "env_vars")},
    }
    commits = [q.first_commit_at for q in status.queries.values() if q.first_commit_at] if status else []
    return {
        **to_dict(spec),
        "from_snapshot": snapshot_of(spec),
        "application": application,
        "current": current is not None and current.deployment == spec.deployment,
        "state": state,
        "epoch": launch.epoch if launch else None,
        "started_at": status.started_at if status else None,
        "first_commit_at": max(commits, default=None),
        "heartbeat_at": status.heartbeat_at if status else None,
        "batches": {name: q.batch for name, q in status.queries.items()} if status else {},
        "spark_ui": status.spark_ui if status else None,
        "spark_version": status.spark_version if status else None,
        "host": status.host if status else None,
        "reason": status.reason if status else None,
        "error": (status.error if status else None) or _told_by_cluster(drivers, spec, state, current),
        "driver_log": launch.log if launch else None,
        "update": (record.outcome or f"under way ({record.step})") if record else None,
        "changes": [
            {
                "at": change.at,
                "by": change.request.asked_by,
                "undoes": change.undoes,
                "before": redacted({k: change.before.get(k, "") for k in change.changed}),
                "after": redacted({k: change.request.params.get(k, "") for k in change.changed}),
            }
            for change in registry.changes(spec.deployment)
            if change.changed  # else it kept another one out
        ],
    }


def _told_by_cluster(drivers: Drivers, spec: DeploymentSpec, state: DriverState, current: Current | None) -> str | None:
    """Ask the cluster only about expected drivers: each query is a request."""
    wanted = current is None or current.deployment == spec.deployment or state == STARTING
    return drivers.told_by_cluster(spec.deployment) if wanted and state in WITHOUT_WORD else None


def _stages(
    status: Status | None, plan: AppPlan | None, report: CompatibilityReport | None
) -> Iterator[dict[str, Any]]:
    """Yield the stages of the running version, and those named only in the last report."""
    items = {item.name: item for item in report.items if item.thing == "stage"} if report else {}
    for query in plan.queries if plan else ():
        reported = status.queries.get(query.name) if status else None
        for stage in query.stages:
            item = items.pop(f"{query.name}/{stage.name}", None)
            yield {
                "name": f"{query.name}/{stage.name}",
                "kind": stage.kind,
                "operator_id": stage.operator_id,
                "state_rows": reported.state_rows.get(stage.name) if reported else None,
                "verdict": item.verdict if item else None,
                "reason": item.reason if item else None,
            }
    for item in items.values():
        yield {
            "name": item.name,
            "kind": None,
            "operator_id": None,
            "state_rows": None,
            "verdict": item.verdict,
            "reason": item.reason,
        }


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
