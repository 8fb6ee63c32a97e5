"""Write and read an update's record: its beginning, steps, pause and end. All of it under the app's lease."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.errors import (
    AlreadyExistsError,
    CorruptError,
    NewerFormatError,
    NotRunningError,
    StreamUpdateError,
    describe,
)
from ...core.names import check_name, check_new_id
from ...core.registry.application import default_deployment_id
from ...core.registry.deployment import DEAD_STATES, FINISHED, NEW, RUNNING, DriverState
from ...core.registry.registry import AppRegistry, used_before
from ...core.registry.update import PROMOTED, Attempt, Outcome, Step, UpdateRecord
from ..app_lease import holding
from ..drivers.drivers import not_started
from ..operations.abandoned import supersede
from ..operations.context import Context

MOST_ATTEMPTS = 100  # of the steps of an update that are noted; no more, so that its record stays small
TRACE_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACE_SECONDS = 5.0  # that an update which has ended waits for the collector of its trace
log = logging.getLogger(__name__)


def new_deployment(registry: AppRegistry, digest: str, wanted: str | None = None) -> str:
    """Return the id of the deployment an update brings in.

    That is the id of an update of the same application under way, else the wanted id, else one made from the digest.
    AlreadyExistsError when the wanted one was used before or belongs to another update.
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
                "end that one (run it again with its application, or roll back), or choose another deployment id"
            )
    elif wanted in used:
        raise AlreadyExistsError(used_before(registry.name, wanted))
    else:
        check_new_id(wanted)
    return wanted


def check_can_begin(context: Context, registry: AppRegistry, dead_too: bool) -> tuple[str, DriverState]:
    """Return the deployment that an update would replace, and its driver's state. NotRunningError when it does not run.

    dead_too: see `begin`
    """
    app = registry.name
    if cancellation := registry.cancellation():
        raise NotRunningError(not_started(app, cancellation))
    old = registry.current_id()
    state = context.drivers(registry).state(old) if old else NEW
    if old is None or (state != RUNNING and not (dead_too and state in (*DEAD_STATES, FINISHED))):
        raise NotRunningError(
            f"app {app} is not running (deployment {old} is {state}), so there is nothing to update. "
            f"{_remedy(app, state)}"
        )
    return old, state


def begin(context: Context, wanted: UpdateRecord, dead_too: bool = False) -> UpdateRecord:
    """Write the record `wanted` and return it; return the existing one when the update had begun.

    LeaseHeldError when another update is under way, AlreadyExistsError when this one has ended, NotRunningError when
    the app does not run.

    dead_too: the strategy can also replace a version whose driver failed, was lost or has finished
    """
    app, deployment = wanted.app, wanted.new
    registry = context.registry.existing(app)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is not None:
            raise _ended(record)
        if record is not None:
            return record
        if deployment in registry.deployment_ids():
            raise AlreadyExistsError(used_before(app, deployment))
        old, state = check_can_begin(context, registry, dead_too)
        wanted = attrs.evolve(wanted, old=old, old_dead=state != RUNNING)
        others = [other for other in registry.updates() if other.outcome is None and other.new != deployment]
        supersede(registry, others, f"the update to {deployment} was begun")
        for other in others:
            send_trace(registry, other.new)
        registry.set_update(wanted)
        boundary("begun")
        return wanted


def check_not_undone(registry: AppRegistry, deployment: str) -> None:
    """Raise AlreadyExistsError when the update has ended otherwise than by its promotion: another process of the same
    update may have gone back, or somebody has cancelled the app. The caller holds the lease."""
    record = registry.update(deployment)
    if record is not None and record.outcome not in (None, PROMOTED):
        raise _ended(record)


def _ended(record: UpdateRecord) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"the update of {record.app} to {record.new} has ended ({record.outcome}); choose another deployment id"
    )


def _remedy(app: str, state: DriverState) -> str:
    """Return what can be done for an app that cannot be updated as it is."""
    if state in DEAD_STATES:
        return (
            "Strategy restart replaces a version whose driver is dead, with the state it has committed; or start it "
            f"with streamupdate restart {app}, and then update it"
        )
    return (
        f"Start it with streamupdate restart {app}, and then update it; or save its state with save-snapshot --cancel, "
        "and start the new version with submit --snapshot"
    )


def step(
    registry: AppRegistry, deployment: str, done: Step, snapshot: str | None = None, verified: tuple[str, ...] = ()
) -> None:
    """Record a completed step, and renew the lease for the next one.

    verified: the conditions of health that were met
    """
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None:
            times = {**record.step_times, done: record.step_times.get(done, clock.now())}
            record = attrs.evolve(record, step=done, step_times=times, snapshot=snapshot or record.snapshot)
            registry.set_update(attrs.evolve(record, verified=verified or record.verified))


def begin_attempt(registry: AppRegistry, deployment: str, attempt: Attempt, again: bool = False) -> None:
    """Note that a step of an update under way is tried.

    again: a try by the same asker that has not ended goes on
    """
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is None or record.outcome is not None or len(record.attempts) >= MOST_ATTEMPTS:
            return
        last = record.attempts[-1] if record.attempts else None
        if last == attempt:
            return  # the update was begun with it
        if again and last and not last.ended_at and (last.step, last.by) == (attempt.step, attempt.by):
            return
        registry.set_update(attrs.evolve(record, attempts=(*record.attempts, attempt)))


def end_attempt(registry: AppRegistry, deployment: str, step: str, error: BaseException | None = None) -> None:
    """Note that the try of a step has ended, unless that is noted."""
    with holding(registry, deployment):
        record = registry.update(deployment)
        last = record.attempts[-1] if record is not None and record.attempts else None
        if record is None or last is None or last.step != step or last.ended_at is not None:
            return
        ended = attrs.evolve(last, ended_at=clock.now(), error=None if error is None else describe(error) or "killed")
        registry.set_update(attrs.evolve(record, attempts=(*record.attempts[:-1], ended)))


@contextlib.contextmanager
def attempting(registry: AppRegistry, deployment: str, attempt: Attempt) -> Iterator[None]:
    """Note the try of a step, which the block is; what it raised, too. A note that cannot be written fails nothing: no
    step needs it."""
    with contextlib.suppress(StreamUpdateError):
        begin_attempt(registry, deployment, attempt)
    failed: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failed = error
        raise
    finally:
        with contextlib.suppress(StreamUpdateError):
            end_attempt(registry, deployment, attempt.step, failed)


def note_checked(registry: AppRegistry, deployment: str, snapshot: str) -> None:
    """Record that every byte of the snapshot was verified just now."""
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None:
            registry.set_update(attrs.evolve(record, snapshot=snapshot, snapshot_checked_at=clock.now()))
            boundary("stop-noted")


def end(
    context: Context, app: str, deployment: str, outcome: Outcome, reason: str | None = None
) -> UpdateRecord | None:
    """Record how the update ended and release the lease; does nothing when it had ended already."""
    registry = context.registry.existing(app)
    with holding(registry, deployment):
        record = registry.update(deployment)
        if record is not None and record.outcome is None:
            now = clock.now()
            attempts = tuple(a if a.ended_at else attrs.evolve(a, ended_at=now) for a in record.attempts[-1:])
            record = attrs.evolve(
                record, outcome=outcome, reason=reason, ended_at=now, attempts=(*record.attempts[:-1], *attempts)
            )
            registry.set_update(record)
            boundary("ended")
            send_trace(registry, deployment)
        return record


def send_trace(registry: AppRegistry, deployment: str) -> None:
    """Send the trace of an update that has ended to where OpenTelemetry's variables say, if anywhere."""
    if os.environ.get("OTEL_TRACES_EXPORTER") == "none" or not any(map(os.environ.get, TRACE_ENDPOINTS)):
        return
    try:
        from .trace import make_spans, send  # the extra otel

        send(make_spans(registry, deployment), TRACE_SECONDS)
    except Exception as error:  # no update fails for its trace
        again = f"streamupdate trace {registry.name} {deployment} --send"
        log.warning("the trace of an update was not sent: %s. Send it with: %s", describe(error), again)


def interrupted(context: Context, digest: str, deployment: str | None, app: str | None = None) -> UpdateRecord | None:
    """Return the record of an update of the same application that has not ended.

    app: where to look; None: in all apps
    """
    for name in context.registry.apps() if app is None else [app]:
        # raised later if that app is the one to update; irrelevant otherwise
        with contextlib.suppress(CorruptError, NewerFormatError):
            for record in context.registry.app(name).updates():
                if record.outcome is None and record.digest == digest and deployment in (None, record.new):
                    return record
    return None


def step_seconds(record: UpdateRecord) -> list[tuple[Step, str, float]]:
    """Return the steps of an update in order: name, time of completion (ISO), and seconds since the step before."""
    found, before = [], record.started_at
    for name, at in sorted(record.step_times.items(), key=lambda item: item[1]):
        found.append((name, at, round((clock.parse(at) - clock.parse(before)).total_seconds(), 3)))
        before = at
    return found
