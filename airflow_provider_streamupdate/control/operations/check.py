"""Plan an application, and check whether it can continue from saved state. Nothing is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ...core.compatibility.report import CompatibilityReport
from ...core.errors import ApplicationError, NotFoundError
from ...core.names import check_name
from ...core.plan.plan import AppPlan
from ...core.registry.application import Application
from ...core.registry.deployment import FINAL_STATES, NEW
from ...core.serde import to_json
from ...core.snapshots.rehearsal import RehearsalReport
from ...core.snapshots.repeated_batches import add_replayed_batches, batches_again
from ...core.snapshots.snapshots import SnapshotStore
from .context import Context
from .plan import Planned, app_named_in, plan_application


def plan(context: Context, application: Application) -> AppPlan:
    """Return an application's plan, from a plan-only driver (15-30 s). No query is started."""
    return plan_application(context.need_launcher(), application).plan


def check(
    context: Context,
    application: Application,
    app: str | None = None,
    snapshot: str | None = None,
    agree: Iterable[str] = (),
    deployment: str | None = None,
    renames: Mapping[str, str] | None = None,
    fork: bool = False,
    from_app: str | None = None,
    in_place: bool | None = None,
) -> CompatibilityReport:
    """Compare the application's plan with a snapshot, or with what the app's current deployment has committed.

    The state is also restored into a scratch folder, so that Spark checks it too.

    deployment: store the report for the update to this deployment. With a snapshot, that update starts in place, so the
        report says which batches run again
    in_place: the report says which batches run again, even without `deployment`
    fork: the version is to run beside the app (`from_app`, if that is another one), under its own query ids
    """
    if deployment:
        check_name("deployment", deployment)
    if in_place is None:
        in_place = deployment is not None and not fork
    report = plan_and_check(context, application, app, snapshot, agree, renames, fork, from_app, in_place).report
    assert report is not None  # a check was asked for
    if deployment:
        store_report(context, report, deployment)
    return report


def plan_and_check(
    context: Context,
    application: Application,
    app: str | None = None,
    snapshot: str | None = None,
    agree: Iterable[str] = (),
    renames: Mapping[str, str] | None = None,
    fork: bool = False,
    from_app: str | None = None,
    in_place: bool = False,
) -> Planned:
    """`plan` and `check` in one driver start.

    renames: stages and sources of the saved state with new names in this version, ``{"old": "new"}``
    fork, from_app: see `submit`
    in_place: the check covers the batches that run again because the version starts from the snapshot
    """
    if (name := app or from_app or app_named_in(application.file)) is not None:  # else only the plan tells it
        registry = context.registry
        if snapshot is None:
            registry.existing(name)
        else:
            SnapshotStore(registry.with_snapshots(name)).get(snapshot)
    if snapshot is not None:
        check_name("snapshot", snapshot)
    try:
        planned = plan_application(
            context.need_launcher(),
            application,
            root=context.root,
            storage_options=context.storage_options,
            against=f"snapshot:{snapshot}" if snapshot else "current",
            agree=agree,
            renames=renames,
            fork=fork,
            from_app=from_app,
        )
    except NotFoundError as error:
        if app is None:
            raise
        # The app and the snapshot exist, so the file asked for something else.
        raise ApplicationError(
            f"{application.file} defines another app than {app}: {error}; give the file of {app}"
        ) from error
    if app is not None:
        same_app(application, planned.plan, app)
    assert planned.report is not None  # it was checked against something
    report = with_batches_again(context, planned.report, planned.plan, snapshot if in_place else None, agree)
    return attrs.evolve(planned, report=report)


def with_batches_again(
    context: Context, report: CompatibilityReport, plan: AppPlan, snapshot: str | None, agree: Iterable[str]
) -> CompatibilityReport:
    """Return the report, extended by the batches that run again when the version starts in place from the snapshot."""
    registry = context.registry.app(plan.app)
    if snapshot is None:
        return add_replayed_batches(report, plan, plan, {}, agree)
    current = registry.current_id()
    running = current is not None and context.drivers(registry).state(current) not in (*FINAL_STATES, NEW)
    saved = SnapshotStore(registry).get(snapshot)
    return add_replayed_batches(report, saved.plan, plan, batches_again(registry, saved, running), agree)


def store_report(context: Context, report: CompatibilityReport | RehearsalReport, name: str) -> None:
    """Store a report as ``updates/<name>.report.json`` and ``.md``."""
    check_name("report", name)
    folder = context.registry.app(report.app).folder
    folder.write(f"updates/{name}.report.json", to_json(report))
    folder.write(f"updates/{name}.report.md", report.to_markdown().encode())


def same_app(application: Application, plan: AppPlan, app: str) -> None:
    """Raise ApplicationError when the file defines another app than the one asked for."""
    if plan.app != app:
        raise ApplicationError(
            f"{application.file} defines app {plan.app}, not {app}; give the file of {app}, or leave the name out"
        )
