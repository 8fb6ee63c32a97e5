"""Plan what a driver is to run, and check that it can continue from the saved state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import attrs

from ...core.boundaries import boundary
from ...core.compatibility.report import CompatibilityReport, IncompatibleError
from ...core.compatibility.self_update import check_updatable
from ...core.errors import ApplicationError
from ...core.plan.plan import AppPlan
from ...core.snapshots.plan_answer import PlanAnswer, PlanError, write_answer
from ..restore.saved_state import SavedState, recorded_settings
from .context import DriverContext

Find = Callable[[], SavedState | None]
Check = Callable[[SavedState], None]


@attrs.frozen(kw_only=True)
class Start:
    """The plan and the state with which a driver's queries start."""

    queries: tuple[str, ...]
    plan: AppPlan
    saved: SavedState | None  # the state to continue from; None: there is none
    later_ids: bool = True  # a sink may have later batch ids, of another version; False: it is known that none has
    followed: bool = False  # the engine has followed the running version's batches


def plan_start(driver: DriverContext, find: Find, practises: bool = False) -> Start:
    """Open the engine's session, build the queries, and plan them for the saved state that `find` returns."""
    spec, engine = driver.spec, driver.engine
    if engine.app != spec.app:
        raise ApplicationError(
            f"the application file defines app {engine.app}, not {spec.app}; give the file of {spec.app}"
        )
    session = engine.open(f"{spec.app} {spec.deployment}", practises)
    driver.report(spark_ui=session.ui, spark_app_id=session.application_id, spark_version=session.version)
    engine.on_termination(driver.evict)
    queries = engine.build(spec.application.params)
    saved = find()
    return Start(queries=queries, plan=_plan(driver, queries, saved), saved=saved)


def answer_plan(driver: DriverContext, find: Find, check: Check = lambda _: None, practises: bool = False) -> Start:
    """Plan like `plan_start`, and tell the update: the plan is compared with the present state, which is restored into
    a scratch folder; the result is written before anything else is done. An update that cannot succeed ends here.

    check: raises what the driver's role finds wrong with the state
    """
    try:
        start = plan_start(driver, find, practises)
        assert start.saved is not None  # it continues from a deployment or its snapshot
        report = start.saved.compare(start.plan, driver.spec.agree)
        check(start.saved)  # before the restore into a scratch folder, which takes long
        if report.compatible:
            report = driver.engine.check_restorable(start.saved, report)
    except Exception as error:
        write_answer(driver.app, driver.spec.deployment, PlanAnswer(error=PlanError.of(error, driver.reporter.hiding)))
        raise
    answer = PlanAnswer(plan=start.plan, report=report, warnings=driver.engine.warnings)
    write_answer(driver.app, driver.spec.deployment, answer)
    driver.reporter.events.add("planned", since=driver.reporter.started_at)
    boundary("plan-answered")
    check_report(driver, report, start.saved)
    return start


def check_report(driver: DriverContext, report: CompatibilityReport, saved: SavedState) -> None:
    """Raise IncompatibleError when the deployment cannot continue from the saved state."""
    if not report.compatible:
        raise IncompatibleError(
            f"deployment {driver.spec.deployment} cannot continue from {saved.source}: {'; '.join(report.problems)}",
            report,
        )


def _plan(driver: DriverContext, queries: Sequence[str], saved: SavedState | None) -> AppPlan:
    recorded = recorded_settings(driver.app, driver.spec.deployment, queries, saved)
    plan = driver.engine.make_plan(recorded)
    if saved is None and not any(recorded.values()):  # it has no state yet
        check_updatable(plan, driver.spec.agree)
    for warning in plan.warnings:
        print(f"WARNING: {warning}", file=sys.stderr)
    driver.note_plan()
    return plan
