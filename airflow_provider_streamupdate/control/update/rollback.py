"""Roll back an update: the new version ends, and the previous one runs again from the state it was stopped with.

Every step checks what is already done, so that a rollback can be repeated after a crash at any point.
"""

from __future__ import annotations

import contextlib

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination.commands import CommandBox
from ...core.errors import (
    AppCancelledError,
    DriverError,
    LeaseHeldError,
    NotFoundError,
    NotRunningError,
    RefusedError,
    StreamUpdateError,
    WaitTimeoutError,
)
from ...core.names import check_name
from ...core.processes.pulse import Pulse
from ...core.registry.deployment import CANCELLED, FINAL_STATES, FINISHED, NEW, RUNNING, SILENT_SECONDS
from ...core.registry.registry import AppRegistry
from ...core.registry.rollback import RollbackRecord
from ...core.registry.update import PROMOTED, REFUSED, ROLLED_BACK, Outcome, UpdateRecord
from ...core.snapshots.superseded import check_kept
from ...core.users import user_and_host
from ..app_lease import holding
from ..drivers.drivers import Drivers, not_started
from ..operations.abandoned import supersede_left_behind
from ..operations.batch_ids import check_later_ids, committed_since, ids_used_again
from ..operations.context import Context
from ..operations.stop import stop_deployment
from ..operations.submit import Deployed
from ..waiting import Phase, Progress, quiet, wait_for
from .cancellation import end_cancelled
from .record import send_trace
from .rollback_target import choose_version, versions_before, written_between
from .strategies import strategy_named


@attrs.frozen(kw_only=True)
class RollbackOptions:
    """The options of a rollback.

    to: the deployment to go back to; None: the one before
    later_ids: queries whose sink function skips batch ids it has seen, and whose app does not declare it
        (`seen_batch`): what they compute again gets ids after those that the deployment used which is left.
        InvalidInputError for any other query
    asked_by: for the rollback's record; None: this process's user and host
    reason: of the step that failed, for the records; None: a person asks
    """

    to: str | None = None
    later_ids: tuple[str, ...] = ()
    asked_by: str | None = None
    reason: str | None = None


def rollback(
    context: Context,
    app: str,
    deployment: str | None = None,
    timeout: float = 300.0,
    progress: Progress = quiet,
    options: RollbackOptions | None = None,
) -> Deployed | None:
    """Roll back from `deployment` to the one before it, at the state that one was stopped with.

    Returns with the previous deployment running; returns None when it was never stopped. RefusedError, with nothing
    stopped, when the previous one failed and `options.to` names none. AppCancelledError, with nothing started, when
    somebody cancelled the app meanwhile, or during the update: that ends with this.

    deployment: default: the new one of an update under way, else the current one
    """
    options = options or RollbackOptions()
    later_ids = options.later_ids
    for name in (deployment, options.to):
        if name is not None:
            check_name("deployment", name)
    registry = context.registry.existing(app)
    new = deployment or _to_leave(registry)
    if new is None:
        raise NotFoundError(f"app {app} has no deployment, so there is nothing to roll back")
    old = _going_back_to(registry, new, options.to)
    if old is None:
        old = choose_version(registry, context.drivers(registry), new, options.to)
    if (current := registry.current_id()) not in (new, old):
        with contextlib.suppress(LeaseHeldError), holding(registry, new):
            supersede_left_behind(registry, f"{current} runs")
        raise NotRunningError(
            f"deployment {new} of {app} has been replaced by {current}, so it cannot be rolled back; "
            f"roll back {current} instead"
        )
    check_kept(registry, old)
    check_later_ids(registry, old, later_ids)
    with holding(registry, new):
        if later_ids and _has_begun(context, registry, old):
            raise RefusedError(
                f"{old} of {app} already runs again with its old batch ids; later ids can be given only before it "
                f"starts. If its sinks lack rows, check the batches since {new} took over"
            )
        for told in ids_used_again(registry, new, old, later_ids):
            progress(told)
        for batches in written_between(registry, versions_before(new, registry.deployments(), registry.updates()), old):
            progress(f"{old} computes again, too: {batches}")
        leaving = Leaving(context=context, registry=registry, new=new, old=old, progress=progress)
        try:
            return _go_back(leaving, timeout, options)
        except AppCancelledError:
            end_cancelled(context, registry, registry.update(new))
            raise


def _going_back_to(registry: AppRegistry, new: str, to: str | None) -> str | None:
    """Return the deployment that an interrupted rollback of `new` goes back to; None without one."""
    under_way = [r for r in registry.rollbacks() if r.left == new and r.ended_at is None]
    if not under_way:
        return None
    if to not in (None, under_way[-1].back_to):
        raise RefusedError(
            f"the rollback of {new} to {under_way[-1].back_to} is not complete: run it again without another --to, and "
            f"roll back to {to} after it"
        )
    return under_way[-1].back_to


@attrs.frozen(kw_only=True)
class Leaving:
    """A rollback at work. new: the deployment that is left; old: the one that it goes back to"""

    context: Context
    registry: AppRegistry
    new: str
    old: str
    progress: Progress


def _go_back(leaving: Leaving, timeout: float, options: RollbackOptions) -> Deployed | None:
    context, registry, new, old = leaving.context, leaving.registry, leaving.new, leaving.old
    progress, reason, later_ids = leaving.progress, options.reason, options.later_ids
    app, drivers, record = registry.name, context.drivers(registry), registry.update(new)
    before = registry.current()
    cancellation = before.cancelled if before is not None else None
    # A failed step asks for no start; whoever cancelled may have ended its update already.
    of_a_step = record is not None and (record.outcome is None or reason is not None)
    if cancellation is not None and of_a_step:
        raise AppCancelledError(f"the update to {new} has ended: {not_started(app, cancellation)}")
    if reason is not None and record is not None and record.outcome == PROMOTED:
        raise RefusedError(
            f"the update of {app} to {new} was completed by another process, so it is not rolled back, although here "
            f"it failed: {reason}; if you want {old} back, streamupdate rollback {app} --deployment {new}"
        )
    interrupted = _earlier_try(registry, new, old, record)
    note = interrupted
    if note is None:
        note = RollbackRecord(
            number=max((each.number for each in registry.rollbacks()), default=0) + 1,
            app=app,
            left=new,
            back_to=old,
            started_at=clock.now(),
            asked_by=options.asked_by or user_and_host(),
            reason=reason,
            from_epoch=before.epoch if before else None,
            later_ids=later_ids,
        )
        registry.set_rollback(note)
        boundary("rollback-noted")
    elif not set(later_ids) <= set(note.later_ids):
        note = attrs.evolve(note, later_ids=tuple(sorted({*note.later_ids, *later_ids})))
        registry.set_rollback(note)
    undone = False
    if record is not None and record.in_place:
        _settled(registry, drivers, old, timeout)
        undone = strategy_named(record.strategy).settle(record, registry, drivers, timeout)
    if new in registry.deployment_ids() and before is not None and before.deployment == new:
        committed = ", ".join(f"{query} {ids}" for query, ids in committed_since(registry, new).items())
        told = f"; downstream has seen its batches {committed}" if committed else ""
        progress(Phase(f"stopping {new}{told}"))
    while True:  # whoever stands still in between may have lost the lease, and finds another epoch, and another driver
        seen = registry.current()
        if new in registry.deployment_ids():
            stop_deployment(context, app, new)  # if it stands by, too
        boundary("new-stopped")
        state = _settled(registry, drivers, old, timeout)
        boundary("old-settled")
        current = registry.current()
        if current == seen:
            break
    assert current is not None  # `old` was current once
    outcome, deployed = ROLLED_BACK, None
    if current.deployment == old and state == RUNNING and undone:
        deployed = Deployed(app=app, deployment=old, epoch=current.epoch)
    elif current.deployment == old and state == RUNNING:
        launch, began = registry.launch(new), note.from_epoch or current.epoch
        in_place = record is not None and record.in_place
        stopped = current.epoch > began if in_place else launch is not None and launch.epoch <= current.epoch
        if not stopped:
            outcome = record.outcome if record and record.outcome else REFUSED
        elif record is None or record.outcome is None or interrupted:
            # It waited for its successor's first batch, and took over again; or an earlier try of this rollback
            # started it.
            deployed = Deployed(app=app, deployment=old, epoch=current.epoch)
    elif current.deployment == old and current.epoch == note.from_epoch and drivers.state(old) == FINISHED:
        outcome = record.outcome if record and record.outcome else REFUSED  # it had finished, and nothing was started
    else:
        progress(Phase(f"starting {old} again, where it was stopped"))
        # Who rolls a cancelled app back asks for its start; what was cancelled meanwhile stays down.
        drivers.start(registry.spec(old), current.epoch + 1, promoted=True, after_cancel=cancellation is not None)
        try:
            drivers.wait_running(old, timeout)
        except DriverError as error:
            if record is None or not record.old_dead:
                raise
            # As before the update; else the app could neither be updated nor rolled back any more.
            progress(f"{old} does not run, as before the update: {error}")
        boundary("old-runs")
        deployed = Deployed(app=app, deployment=old, epoch=current.epoch + 1)
    if deployed is not None:
        progress(f"{app} runs as {old} again")
    if record is not None:
        try:
            strategy_named(record.strategy).clear(context, registry, new)
        except StreamUpdateError as error:  # of no use to the app, which runs
            progress(f"what the update to {new} has made beside its deployments is not all removed: {error}")
    ends_update = record is not None and record.outcome is None
    asked = ends_update and options.reason is None  # somebody ended it, and no step of it failed
    ended = attrs.evolve(note, ended_at=clock.now(), epoch=deployed.epoch if deployed is not None else None)
    if asked and deployed is None:
        ended = attrs.evolve(ended, reason=f"{old} was never stopped, and was left as it was")
    # Whoever runs this again finds it by what is under way, so that is ended last.
    steps = [
        lambda: _end_rollback(registry, ended, keep=asked or deployed is not None),
        lambda: _end_update(registry, record, outcome, reason or f"{note.asked_by} rolled it back"),
    ]
    for step in steps if ends_update else reversed(steps):
        step()
    if record is not None and str(PROMOTED) not in record.step_times:  # else its trace was sent then
        send_trace(registry, new)
    return deployed


def _end_update(registry: AppRegistry, record: UpdateRecord | None, outcome: Outcome, reason: str) -> None:
    if record is not None:
        why = record.reason if record.outcome == outcome else reason  # a rerun keeps what is known
        ended_at = clock.now() if record.outcome is None else record.ended_at
        registry.set_update(attrs.evolve(record, outcome=outcome, reason=why, ended_at=ended_at))
        boundary("gone-back")


def _end_rollback(registry: AppRegistry, ended: RollbackRecord, keep: bool) -> None:
    """Record the end of a rollback; one that nobody asked for and that changed nothing leaves no record."""
    if keep:
        registry.set_rollback(ended)
    else:
        registry.remove_rollback(ended)
    boundary("rollback-ended")


def _has_begun(context: Context, registry: AppRegistry, old: str) -> bool:
    """Return whether the version that a rollback goes back to runs: it was started again, or never stopped."""
    current = registry.current()
    return current is not None and current.deployment == old and context.drivers(registry).state(old) == RUNNING


def _to_leave(registry: AppRegistry) -> str | None:
    """Return the deployment to roll back from when none is named.

    That is the new one of an update under way, or the one an interrupted rollback leaves; else the current one.
    RefusedError when an update has not ended that is not about what runs: who asks may mean that one.
    """
    if update := registry.update_under_way():
        return update.new
    current, updates, rollbacks = registry.current_id(), registry.updates(), registry.rollbacks()
    last = rollbacks[-1] if rollbacks else None
    if (
        last is not None
        and last.ended_at is None
        and current in (last.left, last.back_to)
        and not any(update.started_at > last.started_at for update in updates)
    ):
        return last.left
    if left_behind := [update for update in updates if update.outcome is None]:
        raise RefusedError(
            f"{registry.name} runs as {current}, which the update to {left_behind[-1].new} that did not end is not "
            f"about, so nothing was stopped. To end {current} and go back to the version before it, name it: "
            f"streamupdate rollback {registry.name} --deployment {current}"
        )
    return current


def _earlier_try(registry: AppRegistry, new: str, old: str, update: UpdateRecord | None) -> RollbackRecord | None:
    """Return the record of an earlier try of this rollback, which was interrupted: before its end, or before the
    update's."""
    under_way = update is not None and update.outcome is None
    found = [r for r in registry.rollbacks() if (r.left, r.back_to) == (new, old) and (under_way or r.ended_at is None)]
    return found[-1] if found else None


def _settled(registry: AppRegistry, drivers: Drivers, deployment: str, timeout: float) -> str:
    """Wait until a deployment's open commands are done, and return its state then.

    That is RUNNING, or CANCELLED when it has ended and its driver is gone. It may have been told to end, or to hand
    over, just before the caller decided to roll back. WaitTimeoutError, with why, after the timeout, or as soon as a
    driver that lives gives no sign of life: when it goes on, it obeys.
    """
    pulse = Pulse()

    def poll() -> str | None:
        state, status = drivers.state(deployment), drivers.status(deployment)
        if state in (*FINAL_STATES, NEW):
            return CANCELLED if drivers.gone(deployment) else None
        if status is None:
            return None
        if pulse.look(deployment, status.pulse).quiet >= SILENT_SECONDS and (why := drivers.silence(deployment)):
            raise WaitTimeoutError(f"{deployment} of {registry.name} neither runs on nor ends: {why}")
        if state != RUNNING:
            return None
        pending = CommandBox(registry.deployment_folder(deployment), status.epoch).pending()
        return None if pending else RUNNING

    return wait_for(
        poll,
        f"deployment {deployment} of {registry.name} to run or to end",
        timeout,
        why=lambda: drivers.silence(deployment),
    )
