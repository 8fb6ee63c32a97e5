"""Deployments, each one submitted version of an app: spec, driver's status, and which one is current."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .. import clock
from ..difference.figures import BatchFigures
from ..names import named
from ..plan.plan import AppPlan
from ..processes.process_identity import ProcessIdentity
from ..text_enum import TextEnum
from .application import Application


class DriverState(TextEnum):
    """The states of a driver. A driver writes all of them except three, which a reader derives."""

    NEW = "new"  # a reader's: it was never started
    STARTING = "starting"
    STANDBY = "standby"
    RESTORING = "restoring"
    RUNNING = "running"
    DRAINING = "draining"
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"  # somebody asked for it
    STOPPED = "stopped"  # by a signal without a command: at a reboot, for example
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"  # a reader's: it is gone, or was watched in vain for a sign of life
    SILENT = "silent"  # a reader's: it gave no sign of life for long, and was not watched


NEW, STARTING, STANDBY, RESTORING = DriverState.NEW, DriverState.STARTING, DriverState.STANDBY, DriverState.RESTORING
RUNNING, DRAINING, SUSPENDED = DriverState.RUNNING, DriverState.DRAINING, DriverState.SUSPENDED
CANCELLED, FINISHED, FAILED = DriverState.CANCELLED, DriverState.FINISHED, DriverState.FAILED
LOST, SILENT, STOPPED = DriverState.LOST, DriverState.SILENT, DriverState.STOPPED
DEAD_STATES = frozenset({FAILED, LOST, STOPPED})  # ended, and nobody asked for it
FINAL_STATES = DEAD_STATES | {CANCELLED, FINISHED}
STARTED_STATES = (RUNNING, SUSPENDED, FINISHED)  # its queries run, or have run to their end (trigger availableNow)

HEARTBEAT_SECONDS = 1.0
SILENT_SECONDS = 30.0  # a driver whose heartbeat did not change for so long is lost, if its process cannot be inspected


@attrs.frozen(kw_only=True)
class DeploymentSpec:
    """A submitted version of an app; never changed afterwards.

    parent: the deployment it took over from; from_snapshot: the snapshot its state came from
    fork: it goes on with the state under query ids of its own; from_app: the app the snapshot is of (None: its own)
    """

    app: str = attrs.field(validator=named("app"))
    deployment: str = attrs.field(validator=named("deployment"))
    # paths point into the deployment's own folder (a copy, so that a rollback runs the old code)
    application: Application
    digest: str
    submitted_at: str = attrs.field(validator=clock.is_moment)
    parent: str | None = attrs.field(default=None, validator=named("deployment"))
    from_snapshot: str | None = attrs.field(default=None, validator=named("snapshot"))
    agree: tuple[str, ...] = ()  # names of the losses that were agreed to
    # stages and sources of the snapshot under the names they have in this version
    renames: dict[str, str] = attrs.field(factory=dict)
    owner: str = ""  # who submitted it (a token; the same owner may submit again and gets the same deployment)
    fork: bool = False
    from_app: str | None = attrs.field(default=None, validator=named("app"))
    fresh: bool = False  # it starts without state on purpose, although the app had some


@attrs.frozen(kw_only=True)
class Cancellation:
    """The cancellation of an app."""

    by: str  # a user and host, or a task of a DAG's run
    at: str = attrs.field(validator=clock.is_moment)
    drain: bool = False  # batches in flight are committed first

    def __str__(self) -> str:
        return f"cancelled by {self.by} at {clock.format_timestamp(self.at)}"


@attrs.frozen(kw_only=True)
class Deletion:
    """The deletion of an app. While this is there nothing of the app is started."""

    by: str  # a user and host
    at: str = attrs.field(validator=clock.is_moment)
    keep_snapshots: bool = False
    plan: AppPlan | None = None  # of the last deployment, for forks of kept snapshots: its sinks are not theirs
    completed: bool = False  # only the snapshots are left

    def refusal(self, app: str) -> str:
        """Return why nothing can be done with the app, and what can."""
        began = f"by {self.by} at {clock.format_timestamp(self.at)}"
        if not self.completed:
            return f"the deletion of app {app}, begun {began}, is not complete; run streamupdate delete-app {app} again"
        return (
            f"app {app} was deleted {began}, and its snapshots were kept: start another app from one (submit --fork "
            f"--from-app {app}), or delete them, which frees the name (streamupdate delete-app {app})"
        )


@attrs.frozen(kw_only=True)
class Current:
    """The deployment that may commit; replaced atomically under the lease.

    The epoch grows with every start of a driver, and with every cancellation, from 1.
    """

    deployment: str = attrs.field(validator=named("deployment"))
    epoch: int = attrs.field(validator=[attrs.validators.ge(1), attrs.validators.lt(2**53)])
    promoted: bool = False
    claim: str = attrs.field(default="", eq=False)  # the token of the process that claimed the epoch
    cancelled: Cancellation | None = None  # the epoch was claimed so that no driver of the app has one


class DriverRole(TextEnum):
    """How a driver comes to run its deployment's queries."""

    RUN = "run"  # at once
    STANDBY = "standby"  # it gets ready beside the running deployment, which hands over to it
    HOT_STANDBY = "hot-standby"  # it follows the running deployment, and takes over when that one's driver dies
    WITNESS = "witness"  # it follows the running deployment to compare rows, and never takes over
    PARALLEL = "parallel"  # it runs beside the running deployment until it is promoted


@attrs.frozen(kw_only=True)
class PodPlace:
    """How the API server of Kubernetes is reached, and the pod's namespace. Nothing of it is secret."""

    server: str  # its address
    namespace: str = "default"
    context: str | None = None  # of the kubeconfig; None: the current one
    kubeconfig: str | None = None  # the paths in KUBECONFIG that spark-submit was given; None: as this process has it
    files: Mapping[str, str] = attrs.field(factory=dict)  # certificates and tokens by what they are for, as paths


@attrs.frozen(kw_only=True)
class Submitted:
    """A driver that was submitted to a cluster, and what finds it there."""

    name: str  # a pod's, or a tag of YARN
    labels: Mapping[str, str] = attrs.field(factory=dict)  # its pod's
    place: PodPlace | None = None  # its pod's; None: it runs in no pod


@attrs.frozen(kw_only=True)
class Launch:
    """The start of one epoch's driver: its process (group) on `host`, and its log."""

    epoch: int
    host: str
    pid: int | None
    log: str
    launched_at: str = attrs.field(validator=clock.is_moment)
    cluster: str = "local"  # the kind of cluster it runs in (control/drivers/clusters)
    submitted: Submitted | None = None  # the process only submitted the driver, which runs elsewhere; None: it leads it
    killed: bool = False  # it was killed from outside, so it could not report it
    process: ProcessIdentity | None = None  # the one that was started, which leads the session of all of the driver
    mark: str | None = None  # what the environment of every process of the driver holds (`control/drivers/process.py`)


@attrs.frozen(kw_only=True)
class DriverClaim:
    """The process that is the only driver of an epoch. token: of the process that created the claim"""

    host: str
    pid: int
    at: str
    token: str


@attrs.frozen(kw_only=True)
class QueryStatus:
    """One query's progress, as its driver sees it. Times are ISO, rates are rows per second, None means unknown."""

    batch: int = -1  # the last committed one
    last_commit_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    first_batch: int | None = None  # the first one that this driver committed
    first_commit_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_seconds: float | None = None
    lag: float | None = None  # rows behind, all sources together
    source_lag: dict[str, float] = attrs.field(factory=dict)  # rows behind, by source
    source_rates: dict[str, float] = attrs.field(factory=dict)  # arriving, by source; empty: not told
    watermark: str | None = None
    state_rows: dict[str, int] = attrs.field(factory=dict)  # by stage
    rows_batch: int | None = None  # the batch of state_rows; None: they may be counted twice or in part
    state_bytes: int | None = None  # of all stages, on the executors' disks (RocksDB) or else in their memory
    removed_rows: dict[str, int] | None = None  # that left each stage after batch `removed_since`
    removed_since: int | None = None
    active: bool = True
    idle: bool = False  # it looked for data, found none, and has found none since
    batch_running: float = 0.0  # seconds for which the batch in flight has been running; 0: it has no data
    error: str | None = None  # None: it did not fail
    figures: tuple[BatchFigures, ...] = ()  # of its last batches


@attrs.frozen(kw_only=True)
class Status:
    """The driver's heartbeat."""

    state: DriverState
    epoch: int
    heartbeat_at: str = attrs.field(validator=clock.is_moment)
    started_at: str = attrs.field(validator=clock.is_moment)
    queries: dict[str, QueryStatus] = attrs.field(factory=dict)
    error: str | None = None
    reason: str | None = None
    spark_ui: str | None = None
    spark_app_id: str | None = None
    spark_version: str | None = None
    host: str | None = None
    pid: int | None = None
    beat: int = 0  # grows with every heartbeat, so that no two are the same
    process: ProcessIdentity | None = None  # the one that writes this
    requests: int | None = None  # calls of the driver's agent to the root's storage
    state_since: str | None = attrs.field(default=None, validator=clock.is_moment)  # None: since it started
    drain_began_at: str | None = attrs.field(default=None, validator=clock.is_moment)  # the last time; None: never
    idle_at_drain: tuple[str, ...] = ()  # the queries for which nothing waited then
    # By query: when it first found nothing to read, before it committed a batch.
    first_idle_at: dict[str, str] = attrs.field(factory=dict, validator=clock.is_moment)

    @property
    def final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def runs_since(self) -> str:
        """The moment when the last of its queries first committed a batch, or found nothing to read. A driver may stand
        by for long before that."""
        moments = [q.first_commit_at or self.first_idle_at.get(name) for name, q in self.queries.items()]
        return max((moment or self.started_at for moment in moments), key=clock.parse, default=self.started_at)

    @property
    def pulse(self) -> tuple[object, ...]:
        """The values that differ from one heartbeat to the next."""
        return self.epoch, self.host, self.pid, self.beat, self.heartbeat_at

    @property
    def recent(self) -> bool:
        """True when it is recent by this machine's clock. This proves nothing: clocks differ and can be set."""
        return abs(clock.age(self.heartbeat_at)) <= SILENT_SECONDS
