"""Plan an application, and check whether it can continue from saved state. Nothing is started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
from ..explanation import explain
from .context import Context
from .plan import Planned, PlanOptions, app_named_in, plan_application


def plan(context: Context, application: Application) -> AppPlan:
    """Return an application's plan, from a plan-only driver (15-30 s). No query is started."""
    return plan_application(context.need_launcher(), application).plan


@attrs.frozen
class CheckOptions:
    """A new version, and the saved state to check it against."""

    application: Application
    app: str | None = None  # None: the one that the file defines
    snapshot: str | None = None  # None: what the app's current deployment has committed
    agree: Collection[str] = ()
    deployment: str | None = None  # store the report for the update to this deployment
    renames: Mapping[str, str] | None = None  # stages and sources of the saved state: {"old": "new"}
    fork: bool = False  # the version is to run beside the app, under its own query ids
    from_app: str | None = None  # the app whose state a fork uses, if it is another one
    in_place: bool | None = None  # report which batches run again from the snapshot; None: for a `deployment`, no fork

    @property
    def starts_in_place(self) -> bool:
        """The version replaces the running one and starts from the snapshot."""
        return self.deployment is not None and not self.fork if self.in_place is None else self.in_place


def check(context: Context, options: CheckOptions) -> CompatibilityReport:
    """Compare the application's plan with a snapshot, or with what the app's current deployment has committed.

    The state is also restored into a scratch folder, so that Spark checks it too.
    """
    if options.deployment:
        check_name("deployment", options.deployment)
    report = plan_and_check(context, options).report
    assert report is not None  # a check was asked for
    if options.deployment:
        store_report(context, report, options.deployment)
    return report


def plan_and_check(context: Context, options: CheckOptions) -> Planned:
    """`plan` and `check` in one driver start. The report is not stored."""
    application, app, snapshot = options.application, options.app, options.snapshot
    name = options.from_app or app or app_named_in(application)
    if name is not None:  # else only the plan tells it
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
            PlanOptions(
                root=context.root,
                storage_options=context.storage_options,
                against=f"snapshot:{snapshot}" if snapshot else "current",
                agree=options.agree,
                renames=options.renames,
                fork=options.fork,
                from_app=options.from_app,
            ),
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
    starts_from = snapshot if options.starts_in_place else None
    report = with_batches_again(context, planned.report, planned.plan, starts_from, options.agree)
    owner = context.registry.app(options.from_app or planned.plan.app)
    report = explain(owner, report, application, snapshot, options.renames)
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
