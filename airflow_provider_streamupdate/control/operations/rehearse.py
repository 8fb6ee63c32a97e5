"""The request to rehearse a new version: its first batches on a clone of a snapshot, beside those of the version the
snapshot is of."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import attrs

from ...core.errors import InvalidInputError, StreamUpdateError
from ...core.names import check_name
from ...core.registry import scratch
from ...core.registry.application import Application
from ...core.snapshots.rehearsal import Rehearsal, RehearsalReport
from ...core.snapshots.snapshots import SnapshotStore
from ..waiting import Progress, quiet
from .check import same_app, store_report
from .context import Context
from .plan import Planned, plan_application

BATCHES = 5


def rehearse(
    context: Context,
    application: Application,
    app: str | None = None,
    snapshot: str | None = None,
    batches: int = BATCHES,
    agree: Iterable[str] = (),
    deployment: str | None = None,
    renames: Mapping[str, str] | None = None,
    timeout: float = 600.0,
    progress: Progress = quiet,
    fork: bool = False,
) -> RehearsalReport:
    """Run the application's first `batches` batches from a snapshot (default: the app's newest), on the input that
    follows it, with muted sinks; then the same with the version the snapshot is of. Nothing of the running app is
    touched, and no lease is needed.

    deployment: store the report for that update. timeout: seconds, for each of the two. fork: it is to run beside
    the app, under query ids of its own. DriverError or WaitTimeoutError when the new version's driver died or was
    not in time.
    """
    check_batches(batches)
    if app is not None and snapshot is not None:
        SnapshotStore(context.registry.existing(app)).get(snapshot)
    elif app is not None:
        SnapshotStore(context.registry.existing(app)).newest()
    against = f"snapshot:{check_name('snapshot', snapshot) if snapshot else ''}"
    progress(f"rehearsing {application.file} on {f'snapshot {snapshot}' if snapshot else 'the newest snapshot'}")
    planned = _play(context, application, against, batches, timeout, agree, renames, fork)
    if app is not None:
        same_app(application, planned.plan, app)
    assert planned.report is not None  # it was compared
    report = RehearsalReport(
        app=planned.plan.app,
        snapshot=planned.report.source.removeprefix("snapshot "),
        newest=snapshot is None,
        wanted=batches,
        compatibility=planned.report,
        new=planned.rehearsal,
    )
    if planned.rehearsal is not None and report.passed:
        report = _beside(context, report, planned.rehearsal, timeout, progress)
    if deployment:
        store_report(context, report, f"{deployment}.rehearsal")
    return report


def _beside(
    context: Context, report: RehearsalReport, new: Rehearsal, timeout: float, progress: Progress
) -> RehearsalReport:
    """The report with the figures of the version the snapshot is of. That it cannot be rehearsed (any more) says
    nothing against the new one."""
    registry = context.registry.existing(report.app)
    if new.deployment not in registry.deployment_ids():
        return attrs.evolve(report, old_missing=f"there is no deployment {new.deployment}, which the snapshot is of")
    progress(f"rehearsing deployment {new.deployment} on the same snapshot, to compare")
    try:
        application = context.drivers(registry).application(registry.spec(new.deployment))
        played = _play(context, application, f"snapshot:{new.snapshot}", report.wanted, timeout)
    except StreamUpdateError as error:
        return attrs.evolve(report, old_missing=f"deployment {new.deployment}: {error}")
    failed = [q.error for q in played.rehearsal.queries if q.error] if played.rehearsal else ["it is refused"]
    missing = f"deployment {new.deployment}: {failed[0]}" if failed else None
    return attrs.evolve(report, old=played.rehearsal, old_missing=missing)


def _play(
    context: Context,
    application: Application,
    against: str,
    batches: int,
    timeout: float,
    agree: Iterable[str] = (),
    renames: Mapping[str, str] | None = None,
    fork: bool = False,
) -> Planned:
    name = uuid.uuid4().hex
    context.registry.folder.check_writable()
    try:
        return plan_application(
            context.need_launcher(),
            application,
            root=context.root,
            storage_options=context.storage_options,
            against=against,
            agree=agree,
            renames=renames,
            fork=fork,
            rehearse=(batches, name),
            timeout=timeout,
        )
    finally:  # the driver has removed it, unless it was killed; Spark's last thread may have written there since
        for app in context.registry.apps():
            scratch.remove(context.registry.app(app), name)


def check_batches(batches: int) -> int:
    """InvalidInputError for less than one."""
    if batches < 1:
        raise InvalidInputError(f"a rehearsal of {batches} batches shows nothing; ask for at least one")
    return batches
