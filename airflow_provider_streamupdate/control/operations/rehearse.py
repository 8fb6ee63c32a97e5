"""Rehearse a new version: run its first batches on a clone of a snapshot, and compare with the snapshot's version."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

import attrs

from ...core.errors import InvalidInputError, StreamUpdateError
from ...core.names import check_name
from ...core.registry import scratch
from ...core.registry.application import Application
from ...core.snapshots.rehearsal import Rehearsal, RehearsalReport
from ...core.snapshots.snapshots import SnapshotStore
from ..drivers.launch_files import local_application
from ..waiting import Phase, Progress, discard_progress
from .check import same_app, store_report
from .context import Context
from .plan import Planned, PlanOptions, app_named_in, plan_application

BATCHES = 5


@attrs.frozen
class RehearseOptions:
    """A new version, and how it is rehearsed."""

    application: Application
    app: str | None = None  # None: the one that the file defines
    snapshot: str | None = None  # None: the app's newest
    batches: int = BATCHES  # of each query, at most
    agree: Collection[str] = ()
    deployment: str | None = None  # store the report for the update to this deployment
    renames: Mapping[str, str] | None = None  # stages and sources of the saved state: {"old": "new"}
    timeout: float = 600.0  # seconds, for each of the two versions
    progress: Progress = discard_progress
    fork: bool = False  # the new version is to run beside the app, under its own query ids


def rehearse(context: Context, options: RehearseOptions) -> RehearsalReport:
    """Run the application's first batches from a snapshot, with muted sinks, and compare with the snapshot's version.

    Both versions read the input that follows the snapshot. The running app is not touched, and no lease is needed.
    DriverError or WaitTimeoutError when the new version's driver died or took too long.
    """
    application, app, snapshot, progress = options.application, options.app, options.snapshot, options.progress
    check_batches(options.batches)
    if (name := app or app_named_in(application)) is not None:  # else only the plan tells it
        store = SnapshotStore(context.registry.existing(name))
        store.newest() if snapshot is None else store.get(snapshot)
    against = f"snapshot:{check_name('snapshot', snapshot) if snapshot else ''}"
    progress(Phase(f"rehearsing {application.file} on {f'snapshot {snapshot}' if snapshot else 'the newest snapshot'}"))
    planned = _play(
        context,
        application,
        options.batches,
        PlanOptions(
            against=against,
            agree=options.agree,
            renames=options.renames,
            fork=options.fork,
            timeout=options.timeout,
        ),
    )
    if app is not None:
        same_app(application, planned.plan, app)
    assert planned.report is not None  # it was compared
    report = RehearsalReport(
        app=planned.plan.app,
        snapshot=planned.report.source.removeprefix("snapshot "),
        newest=snapshot is None,
        wanted=options.batches,
        compatibility=planned.report,
        new=planned.rehearsal,
    )
    if planned.rehearsal is not None and report.passed:
        report = _with_old_version(context, report, planned.rehearsal, options.timeout, progress)
    if options.deployment:
        store_report(context, report, f"{options.deployment}.rehearsal")
    return report


def _with_old_version(
    context: Context, report: RehearsalReport, new: Rehearsal, timeout: float, progress: Progress
) -> RehearsalReport:
    """Return the report with the figures of the snapshot's version.

    When that version cannot be rehearsed (any more), the report says so; it does not count against the new one.
    """
    registry = context.registry.existing(report.app)
    if new.deployment not in registry.deployment_ids():
        return attrs.evolve(report, old_missing=f"the snapshot's deployment {new.deployment} does not exist any more")
    progress(Phase(f"rehearsing deployment {new.deployment} on the same snapshot, to compare"))
    try:
        application = local_application(registry, new.deployment)
        options = PlanOptions(against=f"snapshot:{new.snapshot}", timeout=timeout)
        played = _play(context, application, report.wanted, options)
    except StreamUpdateError as error:
        return attrs.evolve(report, old_missing=f"deployment {new.deployment}: {error}")
    failed = [q.error for q in played.rehearsal.queries if q.error] if played.rehearsal else ["it is refused"]
    missing = f"deployment {new.deployment}: {failed[0]}" if failed else None
    return attrs.evolve(report, old=played.rehearsal, old_missing=missing)


def _play(context: Context, application: Application, batches: int, options: PlanOptions) -> Planned:
    """Run a version's first batches under the context's root."""
    name = uuid.uuid4().hex
    context.registry.folder.check_writable()
    try:
        return plan_application(
            context.need_launcher(),
            application,
            attrs.evolve(options, root=context.root, storage_options=context.storage_options, rehearse=(batches, name)),
        )
    finally:  # the driver has removed it, unless it was killed; Spark's last thread may have written there since
        for app in context.registry.apps():
            scratch.remove(context.registry.app(app), name)


def check_batches(batches: int) -> int:
    """Return `batches`; InvalidInputError for less than one."""
    if batches < 1:
        raise InvalidInputError(f"a rehearsal of {batches} batches shows nothing; ask for at least one")
    return batches
