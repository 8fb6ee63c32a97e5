"""The client: every operation on apps, deployments and snapshots, for both the command line and Airflow.

Operations that change something are idempotent: a rerun after a crash continues where the first one stopped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from . import history as past
from . import overview
from . import status as looking
from .drivers.launcher import Launcher
from .metrics import Lines, Metrics
from .operations import check as checking
from .operations import delete_app as deleting
from .operations import hot_standby as standing_by
from .operations import rehearse as rehearsing
from .operations import restart as restarting
from .operations import stop as stopping
from .operations import submit as submitting
from .operations.context import Context
from .operations.snapshots import adopt as adopting
from .operations.snapshots import collect as collecting
from .operations.snapshots import snapshot as saving
from .operations.snapshots.adopt import Adopted
from .operations.submit import Deployed
from .operations.verification import verify as verifying
from .operations.verification.output import batches as writing
from .review import review as reviewing
from .status import AppStatus, UnpromotedVersion
from .supervision import supervise as supervising
from .update import cancellation, engine, inheritance, preflight, promotion
from .update import rollback as going_back
from .update import trial as trying
from .update.options import UpdateOptions

__all__ = ["Adopted", "AppStatus", "Deployed", "StreamUpdateClient", "UnpromotedVersion", "UpdateOptions"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Operation(Generic[P, T]):
    """A function whose first argument is a context, as a method of the client, which passes its own context."""

    def __init__(self, function: Callable[Concatenate[Context, P], T]) -> None:
        self.function = function

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Context, P], T]: ...
    @overload
    def __get__(self, client: StreamUpdateClient, owner: type) -> Callable[P, T]: ...
    def __get__(self, client: StreamUpdateClient | None, owner: type) -> Callable[..., T]:
        return self.function if client is None else MethodType(self.function, client.context)


def from_fields(function: Callable[[Context, R], T], options: Callable[P, R]) -> Callable[Concatenate[Context, P], T]:
    """Return an operation that takes the fields of its options as arguments."""

    @functools.wraps(function)
    def operation(context: Context, /, *args: P.args, **fields: P.kwargs) -> T:
        return function(context, options(*args, **fields))

    return operation


class StreamUpdateClient:
    """All operations under one root.

    root: local path or fsspec URI of the registry; launcher: how drivers are started (None: reading only)
    """

    def __init__(
        self, root: str, launcher: Launcher | None = None, storage_options: dict[str, Any] | None = None
    ) -> None:
        self.context = Context.of(root, launcher, storage_options)
        self.registry, self.root, self.launcher = self.context.registry, self.context.root, launcher
        self._cache = overview.DocumentCache()
        self._metrics = Metrics(self.context)

    apps = Operation(looking.apps)
    status = Operation(looking.status)
    deployments = Operation(looking.deployments)
    deployment_state = Operation(looking.deployment_state)
    drivers = Operation(looking.drivers)
    driver_log = Operation(looking.driver_log)
    follow_log = Operation(looking.follow_log)
    glances = Operation(overview.glances)
    each_glance = Operation(overview.each_glance)
    history = Operation(past.history)
    output = Operation(writing.output)
    review = Operation(reviewing.review)
    code_of_update = Operation(reviewing.code_of_update)

    def app_document(self, app: str) -> dict[str, Any]:
        """Return `overview.app_document`. Files that never change are read only once."""
        return overview.app_document(self.context, app, self._cache)

    def metrics(self) -> Iterator[Lines]:
        """Yield the metrics of each app, for `metrics.text_of`."""
        return self._metrics.lines()

    plan = Operation(checking.plan)
    check = Operation(from_fields(checking.check, checking.CheckOptions))
    try_script = Operation(trying.try_script)
    rehearse = Operation(from_fields(rehearsing.rehearse, rehearsing.RehearseOptions))

    find_owned = Operation(submitting.find_owned)
    submit = Operation(from_fields(submitting.submit, submitting.SubmitOptions))
    restart = Operation(restarting.restart)
    run_until_finished = Operation(restarting.run_until_finished)
    supervise = Operation(from_fields(supervising.supervise, supervising.SuperviseOptions))
    switch_supervision = Operation(supervising.switch)
    stand_by = Operation(standing_by.stand_by)
    stand_down = Operation(standing_by.stand_down)
    health = Operation(from_fields(verifying.health, verifying.HealthOptions))
    wait_healthy = Operation(from_fields(verifying.wait_healthy, verifying.HealthOptions))
    begin_cancel = Operation(cancellation.begin_cancel)
    poll_cancel = Operation(cancellation.poll_cancel)
    cancel = Operation(cancellation.cancel)
    stop_deployment = Operation(stopping.stop_deployment)
    suspend = Operation(stopping.suspend)
    resume = Operation(stopping.resume)
    check_deletable = Operation(deleting.check_deletable)
    delete_app = Operation(deleting.delete_app)

    snapshots = Operation(saving.snapshots)
    damaged_snapshots = Operation(saving.damaged_snapshots)
    snapshot = Operation(saving.snapshot)
    begin_snapshot = Operation(saving.begin_snapshot)
    poll_snapshot = Operation(saving.poll_snapshot)
    save_snapshot = Operation(saving.save_snapshot)
    verify_snapshot = Operation(saving.verify_snapshot)
    delete_snapshot = Operation(saving.delete_snapshot)
    adopt = Operation(adopting.adopt)
    collect = Operation(collecting.collect)
    collect_or_leave = Operation(collecting.collect_or_leave)

    resolve = Operation(inheritance.resolve)
    look_ahead = Operation(preflight.check_before_start)
    update = Operation(engine.update)
    promote = Operation(promotion.promote)
    rollback = Operation(going_back.rollback)
