"""An update as a whole: its steps, one after the other. Every step looks at what is there and does what is
missing, so that the chain can be run again from the start after a crash anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..state import clock
from ..state.application import Application
from ..state.boundaries import boundary
from ..state.deployment import FINAL_STATES
from ..state.errors import (
    IncompatibleError,
    InvalidInputError,
    RehearsalError,
    StreamUpdateError,
)
from ..state.in_flight import ChangeRequest
from ..state.registry import AppRegistry
from ..state.report import CompatibilityReport
from ..state.shared import check_shared
from ..state.update import (
    IN_FLIGHT,
    PARALLEL,
    RESTART,
    STANDBY,
    STRATEGIES,
    UpdateRecord,
)
from . import preflight, recording, reverting
from .holding import holding
from .parallel import SideBySide
from .planning import Planned
from .rehearsing import check_batches
from .usual import usually
from .version import NewVersion
from .waiting import Progress

if TYPE_CHECKING:
    from .client import StreamUpdateClient


@attrs.frozen(kw_only=True)
class UpdateRequest:
    """What is asked for; see StreamUpdateClient.update. `snapshot`: start from this one instead of a fresh one (the
    results since then are computed again)."""

    application: Application
    deployment: str | None
    agree: tuple[str, ...]
    snapshot: str | None
    drain_timeout: float
    timeout: float
    renames: Mapping[str, str] | None
    strategy: str
    rehearse: int
    asked_by: str | None
    side: SideBySide | None
    run_for: float

    def __attrs_post_init__(self) -> None:
        self.application.check()
        if self.rehearse:
            check_batches(self.rehearse)


def update(client: StreamUpdateClient, request: UpdateRequest, progress: Progress) -> UpdateRecord:
    """The whole chain. Run again after a crash, it continues."""
    digest = request.application.digest()
    interrupted = recording.interrupted(client, digest, request.deployment)
    planned: Planned | None = None
    if interrupted is not None:
        app = interrupted.app
    else:
        preflight.look(client, request.application, request.deployment, request.snapshot)
        planned = _checked(client, request, None, request.strategy, progress)
        app = planned.plan.app
    registry = client.registry.existing(app)
    boundary("planned")
    deployment = recording.new_deployment(registry, digest, request.deployment)
    if planned is not None and request.strategy == IN_FLIGHT:
        client.check_change(request.application, planned.plan)
    if planned is not None and request.strategy == PARALLEL:
        client.check_side_by_side(request.application, planned.plan)
    with holding(registry, deployment):
        record = recording.begin(client, app, deployment, digest, request.strategy)
        if usual := usually(registry.updates(), record.strategy):
            progress(usual)
        try:
            if planned is None and registry.current_id() == record.old:
                planned = _checked(client, request, app, record.strategy, progress)
            if planned is not None and planned.report is not None:
                _accepted(client, record, planned.report)
            recording.step(registry, deployment, "checked")
            boundary("checked")
            name = _brought_in(client, request, record, progress)
            recording.step(registry, deployment, "submitted")
            boundary("submitted")
            health = client.wait_healthy(
                app, record.runs, name, request.timeout, run_for=request.run_for, progress=progress
            )
            boundary("healthy")
            recording.step(registry, deployment, "verified", verified=health.holds)
            boundary("verified")
            ended = recording.promote(client, app, deployment)
            assert ended is not None  # the record was written above
        except Exception as error:
            progress(f"the update failed: {error}")
            gone_back = reverting.rollback(
                client, app, deployment, request.timeout, progress, str(error), request.asked_by
            )
            if gone_back is None:
                told = "goes on running" if record.strategy == IN_FLIGHT else "was not touched and goes on running"
                progress(f"{record.old} {told}")
            if gone_back is None or isinstance(error, IncompatibleError):
                raise
            raise StreamUpdateError(
                f"the update of {app} to {deployment} failed and was rolled back; "
                f"{gone_back.deployment} runs again: {error}"
            ) from error
    paused = "" if ended.pause_seconds is None else f"; the pause was {ended.pause_seconds} s"
    progress(f"{app} runs as {record.runs}{paused}")
    return ended


def _checked(
    client: StreamUpdateClient, request: UpdateRequest, app: str | None, strategy: str, progress: Progress
) -> Planned:
    progress(f"planning and checking {request.application.file}")
    beside = strategy == PARALLEL
    return client.plan_and_check(
        request.application,
        app,
        request.snapshot,
        request.agree,
        request.renames,
        fork=beside,
        in_place=not beside,
    )


def _accepted(client: StreamUpdateClient, record: UpdateRecord, report: CompatibilityReport) -> None:
    """Keep the report; IncompatibleError when it says no."""
    client.store_report(report, record.new)
    if not report.compatible:
        raise IncompatibleError(
            f"the new version of {record.app} cannot continue from {report.source}; "
            f"{record.old} goes on running:\n  " + "\n  ".join(report.problems),
            report,
        )


def _brought_in(
    client: StreamUpdateClient, request: UpdateRequest, record: UpdateRecord, progress: Progress
) -> str | None:
    """Have the new version run in the old one's place; the name of the snapshot it started from, None in flight."""
    registry, timeout = client.registry.existing(record.app), request.timeout
    version = NewVersion(
        application=request.application,
        deployment=record.new,
        snapshot=request.snapshot or stop_snapshot(record.new),
        fresh=request.snapshot is None,
        agree=request.agree,
        renames=request.renames,
    )
    if request.rehearse and registry.current_id() == record.old:
        _rehearse(client, record, version, request.rehearse, progress)
    if record.strategy == IN_FLIGHT:
        change(
            client,
            record,
            request.application,
            request.agree,
            request.drain_timeout + timeout,
            progress,
            request.asked_by,
        )
        return None
    if record.strategy in (STANDBY, PARALLEL):
        stand_by(client, record, version, timeout, progress)
    stop_old(client, record, version.snapshot, version.fresh, request.drain_timeout, progress, request.side)
    recording.step(registry, record.new, "snapshotted", snapshot=version.snapshot)
    boundary("snapshotted")
    client.submit(
        version.application,
        version.deployment,
        version.snapshot,
        version.agree,
        owner=version.owner,
        timeout=timeout,
        progress=progress,
        app=record.app,
        renames=version.renames,
    )
    return version.snapshot


def change(
    client: StreamUpdateClient,
    record: UpdateRecord,
    application: Application,
    agree: tuple[str, ...],
    timeout: float,
    progress: Progress,
    asked_by: str | None = None,
) -> None:
    """Have the running deployment go on with the application's parameters. With strategy in_flight this stands in the
    place of standby, stop and submit."""
    request = ChangeRequest(
        id=record.new,
        params=application.params,
        digest=application.digest(),
        asked_by=asked_by or recording.this_user(),
        agree=agree,
    )
    client.change(record.app, request, timeout, progress)


def check_strategy(strategy: str, snapshot: str | None = None, side: SideBySide | None = None) -> str:
    """The strategy an update has: with a given snapshot, restart instead of standby. InvalidInputError for one that is
    not known, or that does not go with what else is given."""
    if strategy == IN_FLIGHT and snapshot:
        raise InvalidInputError("strategy in_flight goes on where the app is; leave the snapshot out")
    if strategy not in STRATEGIES:
        raise InvalidInputError(f"there is no strategy {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    if side is not None and strategy != PARALLEL:
        raise InvalidInputError(
            f"with strategy {strategy} the versions do not run side by side: leave out for how long, or use strategy "
            "parallel"
        )
    return RESTART if snapshot and strategy == STANDBY else strategy


def stop_snapshot(deployment: str) -> str:
    """The name of the snapshot the old version is stopped with for the sake of `deployment`."""
    return f"before-{deployment}"


def stop_old(
    client: StreamUpdateClient,
    record: UpdateRecord,
    name: str,
    fresh: bool,
    timeout: float,
    progress: Progress,
    side: SideBySide | None = None,
) -> None:
    """End the old version: with snapshot `name` when it is to be `fresh`, else by a drain; with strategy standby it
    hands over; with strategy parallel it is drained when both have run `side` by side. Nothing when it was done before
    (the new version is current, or the old one ended with that snapshot).

    What the new version will start from is read and compared with its checksums while the old one runs: a damaged
    snapshot stops nothing, and the pause does not grow with the state."""
    registry = client.registry.existing(record.app)
    if record.old is None or (registry.current_id() != record.old and record.strategy != STANDBY):
        return
    if record.strategy == PARALLEL:
        client.wait_caught_up(registry.name, record.new, name, side or SideBySide(), progress)
        return client.take_over(registry.name, record.new, timeout, progress)
    runs = registry.current_id() == record.old and client.drivers(registry.name).state(record.old) not in FINAL_STATES
    if runs and fresh:
        check_shared(registry, record.old, progress)
    elif runs:
        client.verify_snapshot(registry.name, name, progress)
        client.check_adopted(registry.name, name)
    if record.strategy == STANDBY:
        client.hand_over(registry.name, record.old, record.new, name, timeout, progress)
    elif fresh:
        client.save_snapshot(registry.name, name, cancel=True, timeout=timeout, progress=progress)
    elif runs:
        client.cancel(registry.name, drain=True, timeout=timeout, progress=progress)
    if runs:
        _note_checked(registry, record.new, name)
    return None


def _note_checked(registry: AppRegistry, deployment: str, name: str) -> None:
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None:
            registry.set_update(attrs.evolve(record, snapshot=name, snapshot_checked_at=clock.now()))
            boundary("stop-noted")


def _rehearse(
    client: StreamUpdateClient, record: UpdateRecord, version: NewVersion, batches: int, progress: Progress
) -> None:
    """Rehearse the new version on its snapshot, or the app's newest while there is none for it, unless an earlier try
    did. RehearsalError when it fails."""
    registry = client.registry.existing(record.app)
    if "rehearsed" in record.step_times:
        return
    report = client.rehearse(
        version.application,
        record.app,
        None if version.fresh else version.snapshot,
        batches,
        version.agree,
        deployment=record.new,
        renames=version.renames,
        progress=progress,
        fork=record.strategy == PARALLEL,
    )
    if not report.passed:
        raise RehearsalError(
            f"the new version of {record.app} failed its rehearsal on snapshot {report.snapshot}; "
            f"{registry.current_id()} goes on running:\n  " + "\n  ".join(report.problems),
            report,
        )
    for line in report.notes():
        progress(line)
    recording.step(registry, record.new, "rehearsed")


def stand_by(
    client: StreamUpdateClient, record: UpdateRecord, version: NewVersion, timeout: float, progress: Progress
) -> None:
    """Have the new version's driver stand by beside the old one, which works on; with strategy parallel it runs beside
    it, from its snapshot. Nothing when it took over before."""
    registry = client.registry.existing(record.app)
    if registry.current_id() != record.old:
        return
    if record.strategy == PARALLEL:
        client.run_beside(record.app, version, timeout, progress)
        recording.step(registry, record.new, "beside", snapshot=version.snapshot)
    else:
        client.stand_by(record.app, version, timeout, progress)
        recording.step(registry, record.new, "standby")
        boundary("standby-noted")
