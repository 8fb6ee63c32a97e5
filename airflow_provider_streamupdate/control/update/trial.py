"""Try a script: run it under a root of its own, writing nothing, and update it to itself."""

from __future__ import annotations

import attrs

from ...core.errors import RefusedError
from ...core.plan.plan import AppPlan
from ...core.registry.application import Application
from ...core.registry.update import UpdateRecord
from ...core.snapshots.fresh_start import NOTHING
from ...core.snapshots.rehearsal import check_harmless
from ...core.snapshots.snapshots import SnapshotStore
from ..operations.context import Context
from ..operations.plan import PlanOptions, plan_application
from ..operations.submit import SubmitOptions, submit
from ..operations.verification.verify import HealthOptions, wait_healthy
from ..waiting import Phase, Progress, discard_progress
from . import engine
from .cancellation import cancel
from .options import UpdateOptions

_FIRST, _SECOND = "first", "second"  # the deployments


@attrs.frozen(kw_only=True)
class Trial:
    """The result of a trial.

    plan: the script's; update: of it to itself
    batches: that each query has run; state_rows: in the snapshot, by query and stage
    """

    plan: AppPlan
    update: UpdateRecord
    batches: dict[str, int]
    state_rows: dict[str, dict[str, int]]


def try_script(
    context: Context, application: Application, timeout: float = 300.0, progress: Progress = discard_progress
) -> Trial:
    """Submit a script with muted sinks, wait for its first batches, update it to itself, and cancel it.

    context: a root that nobody else uses; timeout: seconds, for each step

    Raises what `submit` and `update` raise where the script cannot be managed; RefusedError where reading its sources
    alone would do something.
    """
    script = application.script
    assert script is not None  # an app is tried by its tests (streaming.testing)
    progress(Phase(f"planning {application.file}"))
    against = PlanOptions(root=context.root, storage_options=context.storage_options, against=NOTHING)
    plan = plan_application(context.need_launcher(), application, against).plan
    for warning in plan.warnings:
        progress(f"warning: {warning}")
    if refused := check_harmless(plan):
        raise RefusedError(
            "; ".join(f"{item.thing} {item.name} {item.reason.replace('rehearsed', 'tried')}" for item in refused)
            + ". It can be submitted"
        )
    muted = attrs.evolve(application, script=attrs.evolve(script, muted=True))
    try:
        submit(context, SubmitOptions(muted, _FIRST, app=plan.app, timeout=timeout, progress=progress))
        wait_healthy(context, HealthOptions(plan.app, _FIRST, batches=1, timeout=timeout, progress=progress))
        options = UpdateOptions(
            application=muted, deployment=_SECOND, strategy="restart", verify_for=0, submit_timeout=timeout
        )
        updated = engine.update(context, options, progress)
    finally:
        if plan.app in context.registry.apps():
            cancel(context, plan.app, drain=False, progress=progress)
    registry = context.registry.existing(plan.app)
    saved = SnapshotStore(registry).get(updated.snapshot).queries if updated.snapshot else {}
    return Trial(
        plan=plan,
        update=updated,
        batches={name: query.batch + 1 for name, query in saved.items()},
        state_rows={name: dict(query.state_rows) for name, query in saved.items()},
    )
