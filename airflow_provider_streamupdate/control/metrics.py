"""The apps under a root as metrics, in OpenMetrics or in Prometheus' own text format.

Everything is read from the root when it is asked for. docs/guides/monitoring.md lists the metrics.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs

from ..core import clock
from ..core.errors import CorruptError, NewerFormatError, NotFoundError, StreamUpdateError
from ..core.history.span import watermark_age
from ..core.names import is_name
from ..core.registry.deployment import FINAL_STATES, NEW, Current, DriverState, Status
from ..core.registry.registry import AppRegistry
from ..core.registry.update import PROMOTED, Outcome, Step, UpdateRecord
from ..core.snapshots.snapshots import SnapshotStore
from .drivers.clusters import Living
from .operations.context import Context
from .overview import each_app, gc_paused
from .update.record import step_seconds

log = logging.getLogger(__name__)

PREFIX = "streamupdate"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
UNREADABLE = "unreadable"  # the state of an app whose files cannot be read
STATES = (*(str(state) for state in DriverState), UNREADABLE)
PAUSES = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds; on a slow store a pause is a minute
GAUGE, COUNTER, HISTOGRAM, SUMMARY = "gauge", "counter", "histogram", "summary"
FAMILIES = {
    "apps": (GAUGE, "Apps under the root."),
    "complete": (GAUGE, "1 when all apps were read, 0 while a large root is read for the first time."),
    "app_state": (GAUGE, "1 for the state that the app's driver is in."),
    "app_info": (GAUGE, "What runs."),
    "heartbeat_age_seconds": (GAUGE, "Since the driver's last heartbeat, by this machine's clock."),
    "requests": (COUNTER, "Calls to the root's storage by the driver, since its start."),
    "batch": (GAUGE, "The last committed batch."),
    "batch_seconds": (GAUGE, "How long the last trigger took."),
    "rows_in_per_second": (GAUGE, "Rows per second that arrive."),
    "rows_per_second": (GAUGE, "Rows per second that a batch processes."),
    "lag_records": (GAUGE, "Records behind the sources' ends."),
    "source_lag_records": (GAUGE, "Records behind the end of a source."),
    "state_rows": (GAUGE, "Rows that a stage holds."),
    "state_bytes": (GAUGE, "The size of the state."),
    "watermark_age_seconds": (GAUGE, "By which the watermark is behind the clock."),
    "query_active": (GAUGE, "1 while the query runs."),
    "snapshots": (GAUGE, "Snapshots, damaged ones included."),
    "damaged_snapshots": (GAUGE, "Snapshots that cannot be read, or failed a verification."),
    "snapshot_age_seconds": (GAUGE, "Since the newest snapshot was taken."),
    "verified_snapshot_age_seconds": (GAUGE, "Since the newest snapshot was taken of those that were verified."),
    "updates": (COUNTER, "Updates by how they ended."),
    "update_under_way_seconds": (GAUGE, "Since the update under way began."),
    "update_pause_seconds": (HISTOGRAM, "For how long input waited for either version."),
    "update_step_seconds": (SUMMARY, "How long a step of an update took."),
    "last_update_pause_seconds": (GAUGE, "The pause of the newest update that had one."),
}


Labels = tuple[tuple[str, str], ...]  # names and values
Lines = dict[str, bytes]  # by family: its samples as both formats write them


@functools.lru_cache(256)  # an app has the same states and outcomes as the one before
def _label(name: str, value: str) -> str:
    """Return a label as text. Half of a surrogate pair cannot be written, so it is escaped: two names stay two."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped.encode("utf-8", "backslashreplace").decode()}"'


class Sample(NamedTuple):
    """The value of one series."""

    family: str
    labels: Labels
    value: float
    suffix: str = ""  # what the series' name has after the family's

    @property
    def name(self) -> str:
        return f"{PREFIX}_{self.family}{self.suffix}"

    def line(self) -> str:
        """Return the sample as both formats write it."""
        family, labels, value, suffix = self
        text = f"{{{','.join([_label(*label) for label in labels])}}}" if labels else ""
        return f"{PREFIX}_{family}{suffix}{text} {float(value)!r}\n"


@attrs.define
class Times:
    """Durations, added up."""

    bounds: tuple[float, ...] = ()
    counts: list[int] = attrs.field(init=False)  # at most each bound, and above the one before; the last is above all
    total: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, seconds: float) -> None:
        """Add one. What is below 0, by the clocks of two machines, took no time."""
        self.counts[bisect.bisect_left(self.bounds, seconds)] += 1
        self.total += max(seconds, 0.0)

    def samples(self, family: str, labels: Labels) -> Iterator[Sample]:
        """Yield a histogram; without bounds a summary."""
        if self.bounds:
            for bound, count in zip((*map(str, self.bounds), "+Inf"), itertools.accumulate(self.counts), strict=True):
                yield Sample(family, (*labels, ("le", bound)), count, "_bucket")
        yield Sample(family, labels, sum(self.counts), "_count")
        yield Sample(family, labels, self.total, "_sum")


@attrs.define
class Ended:
    """The updates of an app that have ended, added up, so that their records are read once, and not kept.

    A later rollback may change a record, but nothing that is shown of it.
    """

    names: set[str] = attrs.field(factory=set)
    outcomes: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(map(str, Outcome), 0))
    pauses: dict[str, Times] = attrs.field(factory=dict)  # by strategy
    steps: dict[tuple[str, str], Times] = attrs.field(factory=dict)  # by strategy and step
    last_pause: tuple[str, float] | None = None  # when its update began, and the seconds

    def add(self, record: UpdateRecord) -> None:
        # One that was promoted stays so, also when it was rolled back later: a counter does not go down.
        self.names.add(record.new)
        self.outcomes[str(PROMOTED if Step.PROMOTE in record.step_times else record.outcome)] += 1
        for name, _, seconds in step_seconds(record):
            self.steps.setdefault((record.strategy, name), Times()).add(seconds)
        if record.pause_seconds is not None:
            self.pauses.setdefault(record.strategy, Times(PAUSES)).add(record.pause_seconds)
            self.last_pause = max(self.last_pause or ("", 0.0), (record.started_at, max(record.pause_seconds, 0.0)))


@attrs.define
class AppFigures:
    """The figures of an app that are kept from one reading to the next."""

    # When each snapshot's manifest was written, and when the snapshot was taken.
    snapshots: dict[str, tuple[float, str]] = attrs.field(factory=dict)
    ended: Ended = attrs.field(factory=Ended)


class Metrics:
    """The metrics of all apps under a root. It holds figures of each app, and neither records nor manifests."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.known: dict[str, AppFigures] = {}
        self._lock = threading.Lock()  # two readings at a time would add up what has ended twice

    def samples(self) -> Iterator[Sample]:
        """Yield all, app by app."""
        apps = 0
        for apps, found in enumerate(self._by_app(), start=1):  # noqa: B007 (their number is needed)
            yield from found
        yield from _of_root(apps, whole=True)

    def lines(self) -> Iterator[Lines]:
        """Yield each app's samples as text."""
        with self._lock, gc_paused():
            for found in self._by_app():
                yield _lines(found)

    def _by_app(self) -> Iterator[list[Sample]]:
        found = set[str]()
        for app, of_app in each_app(self.context, self._of):
            found.add(app)
            yield list(_state(app, UNREADABLE)) if isinstance(of_app, StreamUpdateError) else of_app
        for removed in set(self.known) - found:
            self.known.pop(removed, None)

    def _of(self, registry: AppRegistry, alive: Living) -> list[Sample] | None:
        """Return an app's samples; None: the folder is of none. An app whose samples cannot be written counts as
        unreadable, so that it does not spoil the others."""
        app, known = registry.name, self.known.setdefault(registry.name, AppFigures())
        current = registry.current()
        if current is None and not registry.folder.names("deployments"):
            return None
        try:
            found = list(_of_app(self.context, registry, known, current, alive))
            for sample in found:
                float(sample.value)
            return found
        except (StreamUpdateError, FileNotFoundError):
            raise
        except Exception:
            log.exception("the metrics of app %s", app)
            return list(_state(app, UNREADABLE))


def text_of(apps: Sequence[Lines], content_type: str = OPENMETRICS, whole: bool = True) -> bytes:
    """Return the samples of apps as text: each family's samples together, as both formats want them.

    whole: False: they are not all apps yet
    """
    parts, texts = [*apps, _lines(_of_root(len(apps), whole))], list[bytes]()
    for name, (kind, about) in FAMILIES.items():
        series = f"{PREFIX}_{name}_total" if kind == COUNTER and content_type == PROMETHEUS else f"{PREFIX}_{name}"
        texts.append(f"# HELP {series} {about}\n# TYPE {series} {kind}\n".encode())
        texts += [part[name] for part in parts if name in part]
    return b"".join([*texts, b"# EOF\n"] if content_type == OPENMETRICS else texts)


def content_type_of(accept: str) -> str:
    """Return the format that `accept` (of HTTP) asks for. Empty: OpenMetrics."""
    return OPENMETRICS if not accept or "application/openmetrics-text" in accept else PROMETHEUS


def _of_root(apps: int, whole: bool) -> Iterator[Sample]:
    yield Sample("complete", (), whole)
    if whole:  # fewer would look as if apps had gone
        yield Sample("apps", (), apps)


def _lines(samples: Iterable[Sample]) -> Lines:
    found: Lines = {}
    for sample in samples:
        found[sample.family] = found.get(sample.family, b"") + sample.line().encode()
    return found


def _state(app: str, state: str) -> Iterator[Sample]:
    return (Sample("app_state", (("app", app), ("state", each)), each == state) for each in STATES)


def _of_app(
    context: Context, registry: AppRegistry, known: AppFigures, current: Current | None, alive: Living
) -> Iterator[Sample]:
    app, state, status = registry.name, NEW, None
    if current is None:
        registry.check_not_deleted()
    else:
        registry.check_spec(current.deployment)  # without it the app could not be started again
        state, status = context.drivers(registry, watch=False, alive=alive).state_and_status(current.deployment)
        runs = (("app", app), ("deployment", current.deployment), ("epoch", str(current.epoch)))
        yield Sample("app_info", runs, 1)
    yield from _state(app, str(state))
    if status is not None:
        yield from _of_driver(app, status)
        if state not in FINAL_STATES:  # the figures of a driver that is gone are of no use
            yield from _of_queries(app, status)
    yield from _of_snapshots(app, registry, known)
    yield from _of_updates(app, registry, known, current.deployment if current else None)


def _of_driver(app: str, status: Status) -> Iterator[Sample]:
    labels = (("app", app),)
    yield Sample("heartbeat_age_seconds", labels, max(clock.age(status.heartbeat_at), 0.0))
    if status.requests is not None:
        yield Sample("requests", labels, max(status.requests, 0), "_total")  # below 0 spoils all apps' metrics


def _of_queries(app: str, status: Status) -> Iterator[Sample]:
    now = clock.utc_now()
    for query, found in status.queries.items():
        labels = (("app", app), ("query", query))
        for name, value in (
            ("batch", found.batch),
            ("batch_seconds", found.batch_seconds),
            ("rows_in_per_second", found.input_rows_per_second),
            ("rows_per_second", found.processed_rows_per_second),
            ("lag_records", found.lag),
            ("state_bytes", found.state_bytes),
            ("watermark_age_seconds", watermark_age(found.watermark, now)),
            ("query_active", found.active),
        ):
            if value is not None:
                yield Sample(name, labels, value)
        for source, behind in found.source_lag.items():
            yield Sample("source_lag_records", (*labels, ("source", source)), behind)
        for stage, rows in found.state_rows.items():
            yield Sample("state_rows", (*labels, ("stage", stage)), rows)


def _of_snapshots(app: str, registry: AppRegistry, known: AppFigures) -> Iterator[Sample]:
    store, before, unreadable, damaged = SnapshotStore(registry), known.snapshots, 0, 0
    known.snapshots, taken, verified = {}, "", ""
    for name in filter(is_name, store.folder.names("snapshots")):
        try:
            modified = store.folder.modified(f"snapshots/{name}/snapshot.json")
            last, created_at = before.get(name, (None, None))
            created_at = created_at if last == modified else store.taken_at(name)
            if created_at is None:
                continue  # deleted
            result = store.verified(name)
        except (CorruptError, NewerFormatError):
            unreadable += 1
            continue
        except (NotFoundError, FileNotFoundError):
            continue  # deleted since it was listed, or no snapshot
        known.snapshots[name] = modified, created_at
        taken = max(taken, created_at)
        if result is not None and result.problem:
            damaged += 1
        elif result is not None:
            verified = max(verified, created_at)
    labels = (("app", app),)
    yield Sample("snapshots", labels, len(known.snapshots) + unreadable)
    yield Sample("damaged_snapshots", labels, unreadable + damaged)
    for family, moment in (("snapshot_age_seconds", taken), ("verified_snapshot_age_seconds", verified)):
        if moment:
            yield Sample(family, labels, max(clock.age(moment), 0.0))


def _of_updates(app: str, registry: AppRegistry, known: AppFigures, current: str | None) -> Iterator[Sample]:
    names, ended, labels = set(registry.update_ids()), known.ended, (("app", app),)
    if not ended.names <= names:  # one was removed
        ended = Ended()
    for name in sorted(names - ended.names):
        record = registry.update(name)
        if record is None:
            continue
        if record.outcome is not None:
            ended.add(record)
        elif record.under_way(current):  # one that was left behind needs nobody
            under_way = (*labels, ("deployment", record.new), ("step", record.step))
            yield Sample("update_under_way_seconds", under_way, max(clock.age(record.started_at), 0.0))
    known.ended = ended
    # All are there from the beginning, so that the first of its kind is an increase.
    for outcome, count in ended.outcomes.items():
        yield Sample("updates", (*labels, ("outcome", outcome)), count, "_total")
    for strategy, times in ended.pauses.items():
        yield from times.samples("update_pause_seconds", (*labels, ("strategy", strategy)))
    for (strategy, step), times in ended.steps.items():
        yield from times.samples("update_step_seconds", (*labels, ("strategy", strategy), ("step", step)))
    if ended.last_pause is not None:
        yield Sample("last_update_pause_seconds", labels, ended.last_pause[1])
