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
from ...core.registry.deployment import (
    CANCELLED,
    FINAL_STATES,
    FINISHED,
    NEW,
    RUNNING,
    SILENT_SECONDS,
    SUSPENDED,
    Cancellation,
    Current,
)
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, REFUSED, ROLLED_BACK, Outcome, RollbackRecord, Step, UpdateRecord
from ...core.snapshots.superseded import check_kept
from ...core.users import user_and_host
from ..app_lease import holding
from ..drivers.drivers import Drivers, not_started
from ..operations.abandoned import supersede_left_behind
from ..operations.batch_ids import check_later_ids, committed_since, ids_used_again
from ..operations.context import Context
from ..operations.stop import stop_deployment
from ..operations.submit import Deployed
from ..waiting import Phase, Progress, discard_progress, wait_for
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
    progress: Progress = discard_progress,
    options: RollbackOptions | None = None,
) -> Deployed | None:
    """Roll back from `deployment` to the one before it, at the state that one was stopped with.

    Returns with the previous deployment running; returns None when it was never stopped. RefusedError, with nothing
    stopped, when the previous one failed and `options.to` names none. AppCancelledError, with nothing started, when
    somebody cancelled the app meanwhile, or during the update: that ends with this.

    deployment: default: the new one of an update under way, else the current one
    """
    options = options or RollbackOptions()
    later_ids, registry = options.later_ids, context.registry.existing(app)
    new, old = _choose_versions(context, registry, deployment, options)
    with holding(registry, new):
        runs_again = registry.current_id() == old and context.drivers(registry).state(old) in (RUNNING, SUSPENDED)
        if later_ids and runs_again:
            raise RefusedError(
                f"{old} of {app} already runs again with its old batch ids; later ids can be given only before it "
                f"starts. If its sinks lack rows, check the batches since {new} took over"
            )
        for warning in ids_used_again(registry, new, old, later_ids):
            progress(warning)
        for batches in written_between(registry, versions_before(new, registry.deployments(), registry.updates()), old):
            progress(f"{old} computes again, too: {batches}")
        leaving = Leaving(
            context=context,
            registry=registry,
            new=new,
            old=old,
            timeout=timeout,
            progress=progress,
            options=options,
            record=registry.update(new),
            before=registry.current(),
        )
        try:
            return _go_back(leaving)
        except AppCancelledError:
            end_cancelled(context, registry, registry.update(new))
            raise


def _choose_versions(
    context: Context, registry: AppRegistry, deployment: str | None, options: RollbackOptions
) -> tuple[str, str]:
    """Return the deployment that is left, and the one to go back to. Raises what speaks against it."""
    app = registry.name
    for name in (deployment, options.to):
        if name is not None:
            check_name("deployment", name)
    new = deployment or _to_leave(registry)
    if new is None:
        raise NotFoundError(f"app {app} has no deployment, so there is nothing to roll back")
    old = _interrupted_target(registry, new, options.to)
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
    check_later_ids(registry, old, options.later_ids)
    return new, old


def _interrupted_target(registry: AppRegistry, new: str, to: str | None) -> str | None:
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
    """A rollback at work."""

    context: Context
    registry: AppRegistry
    new: str  # the deployment that is left
    old: str  # the one that it goes back to
    timeout: float  # seconds, of each wait
    progress: Progress
    options: RollbackOptions
    record: UpdateRecord | None  # the update to `new`; None: it was submitted
    before: Current | None  # who ran when this began

    @property
    def drivers(self) -> Drivers:
        return self.context.drivers(self.registry)

    @property
    def cancelled(self) -> Cancellation | None:
        return self.before.cancelled if self.before is not None else None


def _go_back(leaving: Leaving) -> Deployed | None:
    registry, record, options = leaving.registry, leaving.record, leaving.options
    _check_wanted(leaving)
    if leaving.before is not None and leaving.before.deployment == leaving.new:
        registry.check_writable()  # before it is stopped: the old one needs another epoch
    interrupted = _interrupted_record(registry, leaving.new, leaving.old, record)
    note = _write_record(leaving, interrupted)
    undone = False
    if record is not None and record.in_place:
        _await_open_commands(registry, leaving.drivers, leaving.old, leaving.timeout)
        undone = strategy_named(record.strategy).undo_in_place(record, registry, leaving.drivers, leaving.timeout)
    current, state = _stop_new(leaving)
    outcome, epoch = _outcome(leaving, note, interrupted is not None, current, state, undone)
    if outcome is None:
        outcome, epoch = ROLLED_BACK, _start_old(leaving, current.epoch + 1)
    deployed = None if epoch is None else Deployed(app=registry.name, deployment=leaving.old, epoch=epoch)
    if deployed is not None:
        leaving.progress(f"{registry.name} runs as {leaving.old} again")
    if record is not None:
        try:
            strategy_named(record.strategy).clear(leaving.context, registry, leaving.new)
        except StreamUpdateError as error:  # of no use to the app, which runs
            leaving.progress(
                f"what the update to {leaving.new} has made beside its deployments is not all removed: {error}"
            )
    ends_update = record is not None and record.outcome is None
    asked = ends_update and options.reason is None  # somebody ended it, and no step of it failed
    ended = attrs.evolve(note, ended_at=clock.now(), epoch=epoch)
    if asked and deployed is None:
        ended = attrs.evolve(ended, reason=f"{leaving.old} was never stopped, and was left as it was")
    # Whoever runs this again finds it by what is under way, so that is ended last.
    steps = [
        lambda: _end_rollback(registry, ended, keep=asked or deployed is not None),
        lambda: _end_update(registry, record, outcome, note.reason or f"{note.asked_by} rolled it back"),
    ]
    for step in steps if ends_update else reversed(steps):
        step()
    if record is not None and Step.PROMOTE not in record.step_times:  # else its trace was sent then
        send_trace(registry, leaving.new)
    return deployed


def _check_wanted(leaving: Leaving) -> None:
    """Raise AppCancelledError when somebody has cancelled the app, and RefusedError when another process has completed
    the update whose step failed."""
    record, reason, cancelled = leaving.record, leaving.options.reason, leaving.cancelled
    # A failed step asks for no start; whoever cancelled may have ended its update already.
    of_a_step = record is not None and (record.outcome is None or reason is not None)
    if cancelled is not None and of_a_step:
        raise AppCancelledError(
            f"the update to {leaving.new} has ended: {not_started(leaving.registry.name, cancelled)}"
        )
    if reason is not None and record is not None and record.outcome == PROMOTED:
        app = leaving.registry.name
        raise RefusedError(
            f"the update of {app} to {leaving.new} was completed by another process, so it is not rolled back, "
            f"although here it failed: {reason}; if you want {leaving.old} back, streamupdate rollback {app} "
            f"--deployment {leaving.new}"
        )


def _write_record(leaving: Leaving, note: RollbackRecord | None) -> RollbackRecord:
    """Return the rollback's record, once it is written; `note` is that of an earlier try."""
    registry, options = leaving.registry, leaving.options
    if note is None:
        note = RollbackRecord(
            number=max((each.number for each in registry.rollbacks()), default=0) + 1,
            app=registry.name,
            left=leaving.new,
            back_to=leaving.old,
            started_at=clock.now(),
            asked_by=options.asked_by or user_and_host(),
            reason=options.reason,
            from_epoch=leaving.before.epoch if leaving.before else None,
            later_ids=options.later_ids,
        )
        registry.set_rollback(note)
        boundary("rollback-noted")
    elif not set(options.later_ids) <= set(note.later_ids):
        note = attrs.evolve(note, later_ids=tuple(sorted({*note.later_ids, *options.later_ids})))
        registry.set_rollback(note)
    return note


def _stop_new(leaving: Leaving) -> tuple[Current, str]:
    """Stop the deployment that is left, and wait until the old one has nothing left to do; return who is current then,
    and the old one's state."""
    registry, new = leaving.registry, leaving.new
    made = new in registry.deployment_ids()
    if made and leaving.before is not None and leaving.before.deployment == new:
        committed = ", ".join(f"{query} {ids}" for query, ids in committed_since(registry, new).items())
        batches = f"; downstream has seen its batches {committed}" if committed else ""
        leaving.progress(Phase(f"stopping {new}{batches}"))
    while True:  # whoever stands still in between may have lost the lease, and finds another epoch, and another driver
        seen = registry.current()
        if new in registry.deployment_ids():
            stop_deployment(leaving.context, registry.name, new)  # if it stands by, too
        boundary("new-stopped")
        state = _await_open_commands(registry, leaving.drivers, leaving.old, leaving.timeout)
        boundary("old-settled")
        current = registry.current()
        if current == seen:
            assert current is not None  # `old` was current once
            return current, state


def _outcome(
    leaving: Leaving, note: RollbackRecord, interrupted: bool, current: Current, state: str, undone: bool
) -> tuple[Outcome | None, int | None]:
    """Return what has become of the update, and the epoch in which the old deployment runs again (None: it was never
    stopped). No outcome: the old one has to be started.

    undone: a change in flight was taken back
    """
    record, old = leaving.record, leaving.old
    untouched = record.outcome if record and record.outcome else REFUSED
    if current.deployment != old:
        return None, None
    if state == RUNNING and undone:
        return ROLLED_BACK, current.epoch
    if state == RUNNING:
        launch, began = leaving.registry.launch(leaving.new), note.from_epoch or current.epoch
        in_place = record is not None and record.in_place
        stopped = current.epoch > began if in_place else launch is not None and launch.epoch <= current.epoch
        if not stopped:
            return untouched, None
        # It waited for its successor's first batch, and took over again; or an earlier try of this rollback started it.
        again = record is None or record.outcome is None or interrupted
        return ROLLED_BACK, current.epoch if again else None
    if current.epoch == note.from_epoch and leaving.drivers.state(old) == FINISHED:
        return untouched, None  # it had finished, and nothing was started
    return None, None


def _start_old(leaving: Leaving, epoch: int) -> int:
    """Start the old deployment where it was stopped, and return its epoch."""
    drivers, old = leaving.drivers, leaving.old
    leaving.progress(Phase(f"starting {old} again, where it was stopped"))
    # Who rolls a cancelled app back asks for its start; what was cancelled meanwhile stays down.
    drivers.start(leaving.registry.spec(old), epoch, promoted=True, after_cancel=leaving.cancelled is not None)
    try:
        drivers.wait_running(old, leaving.timeout)
    except DriverError as error:
        if leaving.record is None or not leaving.record.old_dead:
            raise
        # As before the update; else the app could neither be updated nor rolled back any more.
        leaving.progress(f"{old} does not run, as before the update: {error}")
    boundary("old-runs")
    return epoch


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


def _to_leave(registry: AppRegistry) -> str | None:
    """Return the deployment to roll back from when none is named.

    That is the new one of an update under way, or the one an interrupted rollback leaves; else the current one.
    RefusedError when an update has not ended that is not about what runs: who asks may mean that one.
    """
    if update := registry.update_under_way():
        return update.new
    current, rollbacks = registry.current_id(), registry.rollbacks()
    if rollbacks and rollbacks[-1].under_way(registry.current()):
        return rollbacks[-1].left
    if left_behind := [update for update in registry.updates() if update.outcome is None]:
        raise RefusedError(
            f"{registry.name} runs as {current}, which the update to {left_behind[-1].new} that did not end is not "
            f"about, so nothing was stopped. To end {current} and go back to the version before it, name it: "
            f"streamupdate rollback {registry.name} --deployment {current}"
        )
    return current


def _interrupted_record(
    registry: AppRegistry, new: str, old: str, update: UpdateRecord | None
) -> RollbackRecord | None:
    """Return the record of an earlier try of this rollback, which was interrupted: before its end, or before the
    update's."""
    under_way = update is not None and update.outcome is None
    found = [r for r in registry.rollbacks() if (r.left, r.back_to) == (new, old) and (under_way or r.ended_at is None)]
    return found[-1] if found else None


def _await_open_commands(registry: AppRegistry, drivers: Drivers, deployment: str, timeout: float) -> str:
    """Wait until a deployment's open commands are done, and return its state then.

    That is RUNNING (also of a suspended one), or CANCELLED when it has ended and its driver is gone. It may have been
    told to end, or to hand over, just before the caller decided to roll back. WaitTimeoutError, with why, after the
    timeout, or as soon as a driver that lives gives no sign of life: when it goes on, it obeys.
    """
    pulse = Pulse()

    def poll() -> str | None:
        status = drivers.status(deployment)
        pending = status and CommandBox(registry.deployment_folder(deployment), status.epoch).pending()
        state = drivers.state(deployment)  # last: the driver may answer, and then end, while a call here hangs
        if state in (*FINAL_STATES, NEW):
            return CANCELLED if drivers.has_ended(deployment) else None
        if status is None:
            return None
        if pulse.observe(deployment, status.pulse).quiet >= SILENT_SECONDS and (why := drivers.silence(deployment)):
            raise WaitTimeoutError(f"{deployment} of {registry.name} neither runs on nor ends: {why}")
        return RUNNING if state in (RUNNING, SUSPENDED) and not pending else None

    return wait_for(
        poll,
        f"deployment {deployment} of {registry.name} to run or to end",
        timeout,
        why=lambda: drivers.silence(deployment),
    )
