"""The apps under a root as metrics, for Prometheus and whatever else reads OpenMetrics (extra ``metrics``).

Everything is read from the root when it is asked for. docs/guides/monitoring.md lists the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import attrs

from ..core import clock
from ..core.errors import EnvironmentProblem, StreamUpdateError
from ..core.history.span import watermark_age
from ..core.registry.deployment import FINAL_STATES, DriverState, Status
from ..core.registry.registry import AppRegistry
from ..core.registry.update import PROMOTED, Outcome, UpdateRecord
from ..core.snapshots.snapshots import SnapshotStore
from .operations.context import Context
from .overview import Glance, Read, glances, snapshot_documents
from .update.strategies import STRATEGIES
from .update.usual_times import step_seconds

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

log = logging.getLogger(__name__)

PREFIX = "streamupdate"
UNREADABLE = "unreadable"  # the state of an app whose files cannot be read
STATES = (*(str(state) for state in DriverState), UNREADABLE)
# Seconds: a pause is a second, or on a slow store a minute; a step may be a rehearsal.
PAUSES = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
STEPS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


@attrs.frozen
class Known:
    """What need not be read twice: snapshots, and by app the records of updates that have ended. A later rollback may
    change one of these, but nothing that is shown of it."""

    snapshots: Read = attrs.field(factory=Read)
    updates: dict[str, dict[str, UpdateRecord]] = attrs.field(factory=dict)


class Apps:
    """A collector (prometheus_client) of all apps under a root."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.known = Known()

    def collect(self) -> Iterator[Metric]:
        found = glances(self.context)
        for gone in set(self.known.updates) - {app for app, _ in found}:
            self.known.updates.pop(gone, None)
        families = _Families()
        _add(families.gauge("apps", "Apps under the root."), [], len(found))
        for of_app in self.context.registry.folder.each(lambda one: self._of(*one), found):
            families.take(of_app)
        yield from families.made.values()

    def _of(self, app: str, glance: Glance | StreamUpdateError) -> _Families:
        """An app's own; one that cannot be read, or told, does not spoil the others'."""
        families = _Families()
        try:
            _add_app(families, self.context, self.known, app, glance)
        except Exception as error:
            if not isinstance(error, StreamUpdateError):
                log.exception("the metrics of app %s", app)
            families = _Families()
            families.unreadable(app)
        return families


def registry_of(context: Context) -> CollectorRegistry:
    """A registry with the apps' metrics. EnvironmentProblem when prometheus_client is missing."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise EnvironmentProblem(
            "metrics need the library prometheus-client here: pip install 'airflow-provider-streamupdate[metrics]'"
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Apps(context))
    return registry


def text_of(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """All metrics as text, and its content type: OpenMetrics, or Prometheus' own format where `accept` (of HTTP) says
    so."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept or "application/openmetrics-text; version=1.0.0")
    return encode(registry), content_type


def _add(family: Any, labels: Sequence[str], *values: Any) -> None:
    """Add a sample. A name in a file, or of one, may hold what cannot be written (half of a surrogate pair): it is
    escaped, so that two names stay two."""
    shown = [label.encode("utf-8", "backslashreplace").decode() for label in labels]
    family.add_metric(shown, *(float(v) if isinstance(v, int | float) else v for v in values))


class _Families:
    """The metrics that are being collected, by name."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def gauge(self, name: str, about: str, *labels: str) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        return self._family(GaugeMetricFamily, name, about, labels)

    def counter(self, name: str, about: str, *labels: str) -> Any:
        from prometheus_client.core import CounterMetricFamily

        return self._family(CounterMetricFamily, name, about, labels)

    def histogram(self, name: str, about: str, *labels: str) -> Any:
        from prometheus_client.core import HistogramMetricFamily

        return self._family(HistogramMetricFamily, name, about, labels)

    def _family(self, kind: Any, name: str, about: str, labels: Sequence[str]) -> Any:
        return self.made.setdefault(name, kind(f"{PREFIX}_{name}", about, labels=labels))

    def take(self, others: _Families) -> None:
        """Add what others hold."""
        for name, family in others.made.items():
            if name in self.made:
                self.made[name].samples += family.samples
            else:
                self.made[name] = family

    def state(self, app: str, state: str) -> None:
        family = self.gauge("app_state", "1 for the state that the app's driver is in.", "app", "state")
        for each in STATES:
            _add(family, [app, each], float(each == state))

    def unreadable(self, app: str) -> None:
        self.state(app, UNREADABLE)


def _add_app(families: _Families, context: Context, known: Known, app: str, glance: Glance | StreamUpdateError) -> None:
    if isinstance(glance, StreamUpdateError):
        families.unreadable(app)
        return
    registry = context.registry.app(app)
    updates = _updates(registry, known)
    snapshots = snapshot_documents(known.snapshots, SnapshotStore(registry))
    families.state(app, str(glance.state))
    if glance.current is not None:
        info = families.gauge("app_info", "What runs.", "app", "deployment", "epoch")
        _add(info, [app, glance.current.deployment, str(glance.current.epoch)], 1.0)
    if glance.status is not None:
        _add_status(families, app, glance.status)
        if glance.state not in FINAL_STATES:  # the figures of a driver that is gone are of no use
            _add_queries(families, app, glance.status)
    _add_snapshots(families, app, snapshots)
    _add_updates(families, app, updates, glance.current.deployment if glance.current else None)


def _add_status(families: _Families, app: str, status: Status) -> None:
    age = families.gauge("heartbeat_age_seconds", "Since the driver's last heartbeat, by this machine's clock.", "app")
    _add(age, [app], max(clock.age(status.heartbeat_at), 0.0))
    if status.requests is not None:
        requests = families.counter("requests", "Calls to the root's storage by the driver, since its start.", "app")
        _add(requests, [app], max(status.requests, 0))  # a counter below 0 spoils the metrics of all apps


def _add_queries(families: _Families, app: str, status: Status) -> None:
    now = datetime.now(timezone.utc)
    for query, found in status.queries.items():
        for name, about, value in (
            ("batch", "The last committed batch.", found.batch),
            ("batch_seconds", "How long the last trigger took.", found.batch_seconds),
            ("rows_in_per_second", "Rows per second that arrive.", found.input_rows_per_second),
            ("rows_per_second", "Rows per second that a batch processes.", found.processed_rows_per_second),
            ("lag_records", "Records behind the sources' ends.", found.lag),
            ("state_bytes", "The size of the state.", found.state_bytes),
            (
                "watermark_age_seconds",
                "By which the watermark is behind the clock.",
                watermark_age(found.watermark, now),
            ),
            ("query_active", "1 while the query runs.", float(found.active)),
        ):
            family = families.gauge(name, about, "app", "query")
            if value is not None:
                _add(family, [app, query], value)
        lag = families.gauge("source_lag_records", "Records behind the end of a source.", "app", "query", "source")
        for source, behind in found.source_lag.items():
            _add(lag, [app, query, source], behind)
        rows = families.gauge("state_rows", "Rows that a stage holds.", "app", "query", "stage")
        for stage, count in found.state_rows.items():
            _add(rows, [app, query, stage], count)


def _add_snapshots(families: _Families, app: str, snapshots: Sequence[Mapping[str, Any]]) -> None:
    whole = [s for s in snapshots if "error" not in s]
    count = families.gauge("snapshots", "Snapshots, damaged ones included.", "app")
    _add(count, [app], len(snapshots))
    damaged = families.gauge("damaged_snapshots", "Snapshots that cannot be read, or failed a verification.", "app")
    failed = [s for s in whole if (s["verified"] or {}).get("problem")]
    _add(damaged, [app], len(snapshots) - len(whole) + len(failed))
    taken = [s["created_at"] for s in whole]
    verified = [s["created_at"] for s in whole if s["verified"] and not s["verified"].get("problem")]
    for name, about, moments in (
        ("snapshot_age_seconds", "Since the newest snapshot was taken.", taken),
        ("verified_snapshot_age_seconds", "Since the newest snapshot was taken of those that were verified.", verified),
    ):
        family = families.gauge(name, about, "app")
        if moments:
            _add(family, [app], max(clock.age(max(moments)), 0.0))


def _updates(registry: AppRegistry, known: Known) -> list[UpdateRecord]:
    """Oldest first. A record of one that has ended is read once."""
    ended = known.updates.get(registry.name, {})
    read = ((name, ended.get(name) or registry.update(name)) for name in registry.update_ids())
    found = {name: record for name, record in read if record is not None}
    known.updates[registry.name] = {name: record for name, record in found.items() if record.outcome is not None}
    return sorted(found.values(), key=lambda record: record.started_at)


def _add_updates(families: _Families, app: str, updates: Sequence[UpdateRecord], current: str | None) -> None:
    total = families.counter("updates", "Updates by how they ended.", "app", "strategy", "outcome")
    # All are there from the beginning, so that the first of its kind is an increase.
    counts = {(strategy, str(outcome)): 0 for strategy in STRATEGIES for outcome in Outcome}
    for record in updates:
        # One that was promoted stays so, also when it was rolled back later: a counter does not go down.
        outcome = Outcome.PROMOTED if PROMOTED in record.step_times else record.outcome
        if outcome is not None:
            key = record.strategy, str(outcome)
            counts[key] = counts.get(key, 0) + 1
    for (strategy, ended), count in counts.items():
        _add(total, [app, strategy, ended], count)
    under_way = families.gauge(
        "update_under_way_seconds", "Since the update under way began.", "app", "deployment", "step"
    )
    for record in updates:
        if record.under_way(current):  # one that was left behind needs nobody
            _add(under_way, [app, record.new, record.step], max(clock.age(record.started_at), 0.0))
    _add_times(families, app, [record for record in updates if record.outcome is not None])


def _add_times(families: _Families, app: str, ended: Sequence[UpdateRecord]) -> None:
    pause = families.histogram(
        "update_pause_seconds",
        "For how long input waited for either version.",
        "app",
        "strategy",
    )
    step = families.histogram("update_step_seconds", "How long a step of an update took.", "app", "strategy", "step")
    last = families.gauge("last_update_pause_seconds", "The pause of the newest update that had one.", "app")
    pauses: dict[str, list[float]] = {}
    steps: dict[tuple[str, str], list[float]] = {}
    for record in ended:
        if record.pause_seconds is not None:
            pauses.setdefault(record.strategy, []).append(max(record.pause_seconds, 0.0))  # of two clocks
        for name, _, seconds in step_seconds(record):
            steps.setdefault((record.strategy, name), []).append(max(seconds, 0.0))  # of two clocks
    for strategy, found in pauses.items():
        _add(pause, [app, strategy], buckets(found, PAUSES), sum(found))
    for (strategy, name), found in steps.items():
        _add(step, [app, strategy, name], buckets(found, STEPS), sum(found))
    if known := [record.pause_seconds for record in ended if record.pause_seconds is not None]:
        _add(last, [app], max(known[-1], 0.0))


def buckets(values: Sequence[float], bounds: Sequence[float]) -> list[tuple[str, float]]:
    """How many of the values are at most each bound, as a histogram has it; the last bound is infinite."""
    from prometheus_client.utils import floatToGoString

    return [(floatToGoString(bound), float(sum(v <= bound for v in values))) for bound in (*bounds, float("inf"))]
