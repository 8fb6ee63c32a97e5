"""An update as a whole: its record, its steps, the way back. Every step looks at what is there and does what is
missing, so that the chain can be run again from the start after a crash anywhere."""

from __future__ import annotations

import contextlib
import getpass
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..state import clock
from ..state.application import Application, default_deployment_id
from ..state.boundaries import boundary
from ..state.checkpoint import Checkpoint
from ..state.commands import CommandBox
from ..state.deployment import CANCELLED, FINAL_STATES, RUNNING
from ..state.errors import (
    AlreadyExistsError,
    CorruptError,
    IncompatibleError,
    InvalidInputError,
    NotFoundError,
    NotRunningError,
    RehearsalError,
    StreamUpdateError,
)
from ..state.in_flight import ChangeRequest
from ..state.names import check_name
from ..state.registry import AppRegistry, used_before
from ..state.rehearsal import RehearsalReport
from ..state.shared import check_shared
from ..state.snapshot import QuerySnapshot
from ..state.snapshots import SnapshotStore
from ..state.update import (
    IN_FLIGHT,
    PARALLEL,
    PROMOTED,
    REFUSED,
    RESTART,
    ROLLED_BACK,
    STANDBY,
    STRATEGIES,
    UpdateRecord,
)
from .drivers import NEW, Drivers
from .holding import holding
from .parallel import SideBySide
from .planning import Planned
from .rehearsing import check_batches
from .submitting import Deployed
from .waiting import Progress, wait_for

if TYPE_CHECKING:
    from .client import StreamUpdateClient


def update(
    client: StreamUpdateClient,
    application: Application,
    deployment: str | None,
    agree: tuple[str, ...],
    snapshot: str | None,
    drain_timeout: float,
    timeout: float,
    progress: Progress,
    renames: Mapping[str, str] | None = None,
    strategy: str = STANDBY,
    rehearse: int = 0,
    asked_by: str | None = None,
    side: SideBySide | None = None,
    run_for: float = 0.0,
) -> UpdateRecord:
    """See StreamUpdateClient.update. `snapshot`: start from this one instead of a fresh one (the results since then are
    computed again). A standby goes on from the running version, so that with a `snapshot` the strategy is restart."""
    application.check()
    strategy = check_strategy(strategy, snapshot, side)
    if rehearse:
        check_batches(rehearse)
    digest = application.digest()
    interrupted = _interrupted(client, digest, deployment)
    planned: Planned | None = None
    if interrupted is not None:
        app = interrupted.app
    else:
        progress(f"planning and checking {application.file}")
        beside = strategy == PARALLEL
        planned = client.plan_and_check(application, None, snapshot, agree, renames, fork=beside, in_place=not beside)
        app = planned.plan.app
    registry = client.registry.existing(app)
    boundary("planned")
    deployment = new_deployment(registry, digest, deployment)
    if planned is not None and strategy == IN_FLIGHT:
        client.check_change(application, planned.plan)
    if planned is not None and strategy == PARALLEL:
        client.check_side_by_side(application, planned.plan)
    with holding(registry, deployment):
        record = begin(client, app, deployment, digest, strategy)
        try:
            if planned is None and registry.current_id() == record.old:
                progress(f"planning and checking {application.file}")
                beside = record.strategy == PARALLEL
                planned = client.plan_and_check(
                    application, app, snapshot, agree, renames, fork=beside, in_place=not beside
                )
            if planned is not None and planned.report is not None:
                client.store_report(planned.report, deployment)
                if not planned.report.compatible:
                    raise IncompatibleError(
                        f"the new version of {app} cannot continue from {planned.report.source}; "
                        f"{record.old} goes on running:\n  " + "\n  ".join(planned.report.problems),
                        planned.report,
                    )
            step(registry, deployment, "checked")
            boundary("checked")
            if rehearse and registry.current_id() == record.old:
                rehearsed(client, app, application, deployment, snapshot, rehearse, agree, renames, progress)
            name = None if record.strategy == IN_FLIGHT else snapshot or stop_snapshot(deployment)
            if name is None:
                change(client, record, application, agree, drain_timeout + timeout, progress, asked_by)
            else:
                if record.strategy in (STANDBY, PARALLEL):
                    stand_by(client, record, application, name, snapshot is None, agree, timeout, progress, renames)
                stop_old(client, registry, record, name, snapshot is None, drain_timeout, progress, side)
                step(registry, deployment, "snapshotted", snapshot=name)
                boundary("snapshotted")
                client.submit(
                    application,
                    deployment,
                    name,
                    agree,
                    owner=f"update {deployment}",
                    timeout=timeout,
                    progress=progress,
                    app=app,
                    renames=renames,
                )
            step(registry, deployment, "submitted")
            boundary("submitted")
            client.wait_healthy(app, record.runs, name, timeout, run_for=run_for, progress=progress)
            boundary("healthy")
            step(registry, deployment, "verified")
            boundary("verified")
            ended = promote(client, app, deployment)
            assert ended is not None  # the record was written above
        except Exception as error:
            progress(f"the update failed: {error}")
            gone_back = rollback(client, app, deployment, timeout, progress, reason=str(error))
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
        asked_by=asked_by or f"{getpass.getuser()}@{socket.gethostname()}",
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


def new_deployment(registry: AppRegistry, digest: str, wanted: str | None = None) -> str:
    """The id of the deployment an update brings in: of an update of the same application under way, else the wanted
    one, else one made from the digest. AlreadyExistsError when the wanted one was used before or is another update's.
    """
    records = registry.updates()
    used = {*registry.deployment_ids(), *(r.new for r in records)}
    if wanted is None:
        continued = [r.new for r in records if r.outcome is None and r.digest == digest]
        return continued[-1] if continued else default_deployment_id(registry.name, digest, used)
    check_name("deployment", wanted)
    record = next((r for r in records if r.new == wanted), None)
    if record is not None and record.outcome is None:
        if record.digest not in ("", digest):  # "": it was begun without naming its application
            raise AlreadyExistsError(
                f"an update of app {registry.name} to {wanted!r} with another application is under way; "
                "end it (run it again with its application, or roll back), or choose another deployment id"
            )
    elif wanted in used:
        raise AlreadyExistsError(used_before(registry.name, wanted))
    return wanted


def stop_snapshot(deployment: str) -> str:
    """The name of the snapshot the old version is stopped with for the sake of `deployment`."""
    return f"before-{deployment}"


def stop_old(
    client: StreamUpdateClient,
    registry: AppRegistry,
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


def rehearsed(
    client: StreamUpdateClient,
    app: str,
    application: Application,
    deployment: str,
    snapshot: str | None,
    batches: int,
    agree: tuple[str, ...],
    renames: Mapping[str, str] | None,
    progress: Progress,
) -> RehearsalReport | None:
    """Rehearse the new version, as a step of its update; None when an earlier try did. RehearsalError when it fails."""
    registry = client.registry.existing(app)
    record = registry.update(deployment)
    if record is not None and "rehearsed" in record.step_times:
        return None
    report = client.rehearse(
        application,
        app,
        snapshot,
        batches,
        agree,
        deployment=deployment,
        renames=renames,
        progress=progress,
        fork=record is not None and record.strategy == PARALLEL,
    )
    if not report.passed:
        raise RehearsalError(
            f"the new version of {app} failed its rehearsal on snapshot {report.snapshot}; "
            f"{registry.current_id()} goes on running:\n  " + "\n  ".join(report.problems),
            report,
        )
    for line in report.notes():
        progress(line)
    step(registry, deployment, "rehearsed")
    return report


def stand_by(
    client: StreamUpdateClient,
    record: UpdateRecord,
    application: Application,
    name: str,
    fresh: bool,
    agree: tuple[str, ...],
    timeout: float,
    progress: Progress,
    renames: Mapping[str, str] | None,
) -> None:
    """Have the new version's driver stand by beside the old one, which works on; with strategy parallel it runs beside
    it, from snapshot `name`, which is taken for that when it is to be `fresh`. Nothing when it took over before."""
    registry = client.registry.existing(record.app)
    if registry.current_id() != record.old:
        return
    if record.strategy == PARALLEL:
        client.run_beside(
            record.app,
            application,
            record.new,
            name,
            fresh,
            agree,
            owner=f"update {record.new}",
            timeout=timeout,
            progress=progress,
            renames=renames,
        )
        return step(registry, record.new, "beside", snapshot=name)
    client.stand_by(
        record.app,
        application,
        record.new,
        name,
        agree,
        owner=f"update {record.new}",
        timeout=timeout,
        progress=progress,
        renames=renames,
    )
    step(registry, record.new, "standby")
    boundary("standby-noted")
    return None


def begin(
    client: StreamUpdateClient, app: str, deployment: str, digest: str = "", strategy: str = RESTART
) -> UpdateRecord:
    """See StreamUpdateClient.begin_update."""
    registry = client.registry.existing(app)
    check_name("deployment", deployment)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is not None:
            raise AlreadyExistsError(
                f"the update of {app} to {deployment} has ended ({record.outcome}); choose another deployment id"
            )
        if record is not None:
            return record
        if deployment in registry.deployment_ids():
            raise AlreadyExistsError(used_before(app, deployment))
        old = registry.current_id()
        state = client.drivers(app).state(old) if old else NEW
        if old is None or state != RUNNING:
            raise NotRunningError(
                f"app {app} is not running (deployment {old} is {state}), so there is nothing to update; "
                "take its state with save-snapshot --cancel, then start it with submit --snapshot"
            )
        record = UpdateRecord(
            app=app,
            old=old,
            new=deployment,
            digest=digest,
            strategy=strategy,
            started_at=clock.now(),
            step_times={"planned": clock.now()},
        )
        registry.set_update(record)
        boundary("begun")
        return record


def step(registry: AppRegistry, deployment: str, name: str, snapshot: str | None = None) -> None:
    """Note a completed step, and renew the lease for the next one."""
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None:
            times = {**record.step_times, name: record.step_times.get(name, clock.now())}
            registry.set_update(attrs.evolve(record, step=name, step_times=times, snapshot=snapshot or record.snapshot))


def end(
    client: StreamUpdateClient, app: str, deployment: str, outcome: str, reason: str | None = None
) -> UpdateRecord | None:
    """See StreamUpdateClient.end_update."""
    registry = client.registry.existing(app)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is None:
            record = attrs.evolve(record, outcome=outcome, reason=reason)
            registry.set_update(record)
            boundary("ended")
        return record


def promote(client: StreamUpdateClient, app: str, deployment: str) -> UpdateRecord | None:
    """See StreamUpdateClient.promote."""
    registry = client.registry.existing(app)
    with holding(registry, deployment):
        current, record = registry.current(), registry.update(deployment)
        runs = record.runs if record else deployment
        if current is None or current.deployment != runs:
            raise NotRunningError(
                f"deployment {runs} of {app} is not current ({current.deployment if current else 'none'} is); "
                "only the current deployment can be promoted"
            )
        if not current.promoted:
            registry.set_current(attrs.evolve(current, promoted=True))
            boundary("promoted")
        if record is not None and record.outcome is None:
            step(registry, deployment, "promoted")
            noted = registry.update(deployment)
            assert noted is not None
            registry.set_update(attrs.evolve(noted, pause_seconds=pause(registry, record)))
            boundary("pause-noted")
        return end(client, app, deployment, PROMOTED)


def pause(registry: AppRegistry, record: UpdateRecord) -> float | None:
    """Seconds from the old version's last commit to the new one's first, the longest of all queries; None when they ran
    side by side."""
    if record.strategy == PARALLEL:
        return None
    old = registry.status(record.old) if record.old else None
    new = registry.status(record.new)
    if old is None or new is None:
        return None
    pauses = [
        (clock.parse(after.first_commit_at) - clock.parse(before.last_commit_at)).total_seconds()
        for name, after in new.queries.items()
        if (before := old.queries.get(name)) and before.last_commit_at and after.first_commit_at
    ]
    return round(max(pauses), 3) if pauses else None


def rollback(
    client: StreamUpdateClient,
    app: str,
    deployment: str | None,
    timeout: float,
    progress: Progress,
    reason: str | None = None,
) -> Deployed | None:
    """See StreamUpdateClient.rollback."""
    if deployment is not None:
        check_name("deployment", deployment)
    registry = client.registry.existing(app)
    new = deployment or _under_way(registry) or registry.current_id()
    record = registry.update(new) if new else None
    old = record.old if record else registry.spec(str(new)).parent
    if new is None or old is None:
        raise NotFoundError(f"app {app} has no deployment before {new}, so there is nothing to roll back to")
    if registry.current_id() not in (new, old):
        raise NotRunningError(
            f"deployment {new} of {app} was replaced by {registry.current_id()} since, so it cannot be rolled back; "
            f"roll back {registry.current_id()} instead"
        )
    with holding(registry, new):
        return _go_back(client, registry, new, old, timeout, progress, reason)


def _under_way(registry: AppRegistry) -> str | None:
    """What an update under way brings in, for whom the current deployment is the old or the new one."""
    current = registry.current_id()
    found = [u.new for u in registry.updates() if u.outcome is None and current in (u.old, u.new)]
    return found[-1] if found else None


def _go_back(
    client: StreamUpdateClient,
    registry: AppRegistry,
    new: str,
    old: str,
    timeout: float,
    progress: Progress,
    reason: str | None,
) -> Deployed | None:
    app, drivers, record = registry.name, client.drivers(registry.name), registry.update(new)
    before = registry.current()
    undone = False
    if record is not None and record.strategy == IN_FLIGHT:
        _settled(registry, drivers, old, timeout)
        undone = client.undo_change(app, old, new, timeout)
    if new in registry.deployment_ids():
        if before is not None and before.deployment == new:
            committed = _committed_since(registry, new)
            progress(f"stopping {new}" + (f"; downstream has seen its batches {committed}" if committed else ""))
        client.stop_deployment(app, new)  # if it stands by, too
    boundary("new-stopped")
    state = _settled(registry, drivers, old, timeout)
    boundary("old-settled")
    current = registry.current()
    assert current is not None  # `old` was current once
    outcome, deployed = ROLLED_BACK, None
    if current.deployment == old and state == RUNNING and undone:
        deployed = Deployed(app=app, deployment=old, epoch=current.epoch)
    elif current.deployment == old and state == RUNNING:
        launch = registry.launch(new)
        if launch is None or launch.epoch > current.epoch:  # it was never stopped
            outcome = record.outcome if record and record.outcome else REFUSED
        elif record is None or record.outcome is None:  # it waited for its successor's first batch, and took back
            deployed = Deployed(app=app, deployment=old, epoch=current.epoch)
    else:
        progress(f"starting {old} again, where it was stopped")
        drivers.start(registry.spec(old), current.epoch + 1, promoted=True)
        drivers.wait_running(old, timeout)
        boundary("old-runs")
        deployed = Deployed(app=app, deployment=old, epoch=current.epoch + 1)
    if deployed is not None:
        progress(f"{app} runs as {old} again")
    if record is not None:
        registry.set_update(attrs.evolve(record, outcome=outcome, reason=reason))
        boundary("gone-back")
    return deployed


def _settled(registry: AppRegistry, drivers: Drivers, deployment: str, timeout: float) -> str:
    """The state a deployment comes to when its open commands are done: RUNNING, or a final one with its driver gone.
    It may have been told to end, or to hand over, just before the caller decided to go back."""

    def poll() -> str | None:
        state, status = drivers.state(deployment), drivers.status(deployment)
        if state in (*FINAL_STATES, NEW):
            return CANCELLED if drivers.gone(deployment) else None
        if state != RUNNING or status is None:
            return None
        pending = CommandBox(registry.deployment_folder(deployment), status.epoch).pending()
        return None if pending else RUNNING

    return wait_for(poll, f"deployment {deployment} of {registry.name} to run or to end", timeout)


def _committed_since(registry: AppRegistry, deployment: str) -> str:
    """The batches a deployment committed itself, e.g. ``windows 12-14``; ``windows up to 14`` when the snapshot it
    started from is damaged, which must not stand in the way of going back."""
    spec, plan = registry.spec(deployment), registry.plan(deployment)
    if plan is None:
        return ""
    start: dict[str, QuerySnapshot] | None = {}
    if spec.from_snapshot:
        try:
            start = SnapshotStore(registry).get(spec.from_snapshot).queries
        except (CorruptError, NotFoundError):
            start = None
    parts = []
    for query in plan.queries:
        last = Checkpoint(registry.checkpoint(deployment, query.name)).committed_batch()
        if start is None:
            parts += [] if last is None else [f"{query.name} up to {last}"]
            continue
        first = start[query.name].batch + 1 if query.name in start else 0
        if last is not None and last >= first:
            parts.append(f"{query.name} {first}-{last}")
    return ", ".join(parts)


def _interrupted(client: StreamUpdateClient, digest: str, deployment: str | None) -> UpdateRecord | None:
    """The record of an update that did not come to its end and brings in the same application."""
    for app in client.apps():
        with contextlib.suppress(CorruptError):  # told when that app is the one to update; else it is not of interest
            for record in client.registry.app(app).updates():
                if record.outcome is None and record.digest == digest and deployment in (None, record.new):
                    return record
    return None
