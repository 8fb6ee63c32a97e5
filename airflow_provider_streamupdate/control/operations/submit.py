"""Start a new deployment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.compatibility.report import IncompatibleError
from ...core.errors import AlreadyExistsError, AlreadyRunningError, InvalidInputError
from ...core.names import check_name, check_new_id
from ...core.plan.plan import AppPlan
from ...core.registry.application import Application, default_deployment_id
from ...core.registry.deployment import FINAL_STATES, NEW, Current, DeploymentSpec
from ...core.registry.registry import AppRegistry, used_before
from ...core.snapshots.adoption import moved_on
from ...core.snapshots.fresh_start import NOTHING, check_agreed
from ...core.snapshots.snapshots import SnapshotStore
from ..app_lease import holding
from ..drivers.drivers import Drivers
from ..waiting import Phase, Progress, discard_progress
from .abandoned import supersede_left_behind
from .check import CheckOptions, plan_and_check, same_app
from .context import Context
from .plan import PlanOptions, app_named_in, plan_application
from .stateless import check_no_state, check_start
from .version import store_application, update_owner

CHECKED_SECONDS = 600.0  # a snapshot that the same update verified at most so long ago is not verified again


@attrs.frozen(kw_only=True)
class Deployed:
    """A deployment whose driver runs. `reattached`: it was already running."""

    app: str
    deployment: str
    epoch: int
    reattached: bool = False


def find_owned(context: Context, app: str, owner: str) -> DeploymentSpec | None:
    """Return the newest deployment that was submitted with this owner token; None without one."""
    owned = [s for s in context.registry.app(app).deployments() if owner and s.owner == owner]
    return owned[-1] if owned else None


@attrs.frozen
class SubmitOptions:
    """A deployment to start, and what it starts from."""

    application: Application
    deployment: str | None = None  # None: a free id
    snapshot: str | None = None  # None: it starts without state
    agree: Collection[str] = ()
    owner: str = ""  # a token: submitting again with it reattaches to, or restarts, the same deployment. Without one,
    # the same request reattaches to the current deployment while its driver lives
    timeout: float | None = 180.0  # seconds until its queries run; None: return when its driver was started
    progress: Progress = discard_progress
    app: str | None = None  # None: a plan-only driver finds the name
    renames: Mapping[str, str] | None = None  # stages and sources of the saved state: {"old": "new"}
    fork: bool = False  # continue from the snapshot under new query ids, beside the snapshot's app
    from_app: str | None = None  # the snapshot's app, if a fork's is another one
    fresh: bool = False  # leave the app's state behind on purpose
    checked: bool = True  # with `app`: the application was planned and checked before


def submit(context: Context, options: SubmitOptions) -> Deployed:
    """Start a new deployment, from a snapshot or without state, and wait until its queries run.

    Errors with nothing started: CorruptError when a file of the snapshot is not what was stored; RefusedError when the
    app has state and no snapshot is given; ApplicationError when an app without state could never be updated, and that
    was not agreed to; IncompatibleError when the sinks' contents make a fresh start wrong, or it was not agreed to.
    """
    application, snapshot, owner, progress = options.application, options.snapshot, options.owner, options.progress
    application.check()
    if (options.fork and snapshot is None) or (options.from_app and not options.fork):
        raise InvalidInputError("a fork needs a snapshot, and another app's snapshot can only be forked (fork)")
    if options.fresh and snapshot is not None:
        raise InvalidInputError("a fresh start has no state, but a snapshot was given; leave out one of the two")
    context.need_launcher().check()
    context.registry.folder.check_writable()
    if not owner and (before := _submitted_before(context, options)):
        progress(Phase(f"deployment {before.deployment} of {before.app} was submitted before: waiting for it"))
        if options.timeout is not None:
            context.drivers(context.registry.app(before.app)).wait_running(before.deployment, options.timeout)
        return before
    app = _checked_app(context, options)
    registry = context.registry.app(app)
    drivers = context.drivers(registry)
    deployment = _deployment_id(context, registry, options) if options.deployment is None else options.deployment
    check_name("deployment", deployment)
    with holding(registry, deployment, f"submit starts {deployment}"):
        spec = DeploymentSpec(
            app=app,
            deployment=deployment,
            application=application,
            digest=application.digest(),
            submitted_at=clock.now(),
            from_snapshot=snapshot,
            agree=tuple(options.agree),
            renames=dict(options.renames or {}),
            owner=owner,
            fork=options.fork,
            from_app=None if options.from_app == app else options.from_app,
            fresh=options.fresh,
        )
        deployed = _submit(context, registry, drivers, spec, progress)
        # Not before it is current: until then the version that an update left behind is the one to go back to.
        if registry.update(deployment) is None:  # else the update that brings it in has ended the others
            supersede_left_behind(registry, f"deployment {deployment} was submitted")
        progress(f"deployment {deployment} of {app}: driver started in epoch {deployed.epoch}")
        if not deployed.reattached:
            progress(_starting(registry, spec))
        if options.timeout is None:
            return deployed
        drivers.wait_running(deployment, options.timeout)
        boundary("new-running")
        progress(f"deployment {deployment} of {app} is {drivers.state(deployment)}")
        return deployed


def _checked_app(context: Context, options: SubmitOptions) -> str:
    """Return the app's name, after a plan-only driver has checked what was not checked before.

    What this owner has submitted before is only continued.
    """
    app, owner = options.app, options.owner
    if app is not None and ((options.checked and not options.fresh) or find_owned(context, app, owner) is not None):
        return app
    application, agree, snapshot = options.application, options.agree, options.snapshot
    options.progress(Phase(f"planning {application.file}"))
    if snapshot is None:
        against = PlanOptions(root=context.root, storage_options=context.storage_options, against=NOTHING, agree=agree)
        planned = plan_application(context.need_launcher(), application, against)
        if app is not None:
            same_app(application, planned.plan, app)
        for warning in planned.plan.warnings:
            options.progress(f"warning: {warning}")
    else:
        asked = CheckOptions(
            application=application,
            app=app,
            snapshot=snapshot,
            agree=agree,
            renames=options.renames,
            fork=options.fork,
            from_app=options.from_app,
            in_place=not options.fork,
        )
        planned = plan_and_check(context, asked)
    name, report = planned.plan.app, planned.report
    assert report is not None  # it was asked for
    if find_owned(context, name, owner) is not None:
        return name
    registry = context.registry.app(name)
    drivers = context.drivers(registry)
    _check_nothing_runs(registry, drivers, registry.current())
    if snapshot is None:
        if not options.fresh:
            check_no_state(registry, drivers)
        check_agreed(report, tuple(agree))
    if not report.compatible:
        what = "start without state" if snapshot is None else f"continue from {report.source}"
        raise IncompatibleError(
            f"{application.file} cannot {what}; nothing was started:\n  " + "\n  ".join(report.problems), report
        )
    return name


def _deployment_id(context: Context, registry: AppRegistry, options: SubmitOptions) -> str:
    """Return the id that the same owner has used before, or a free one."""
    if (owned := find_owned(context, registry.name, options.owner)) is not None:
        return owned.deployment
    digest = options.application.digest()
    used = set(registry.deployment_ids()) - _unstarted(registry, digest, options.snapshot, options.fresh)
    return default_deployment_id(registry.name, digest, used)


def _submit(
    context: Context, registry: AppRegistry, drivers: Drivers, wanted: DeploymentSpec, progress: Progress
) -> Deployed:
    """Store the deployment and start its driver. wanted: with the caller's file paths, and without a parent."""
    current = registry.current()
    epoch = (current.epoch if current else 0) + 1
    deployment = wanted.deployment
    if deployment in registry.deployment_ids():
        spec = registry.spec(deployment)
        record = registry.update(deployment)
        mine = spec.owner == wanted.owner if wanted.owner else deployment in _unstarted(registry, *_request(wanted))
        if not mine or (record is not None and record.outcome is not None):
            raise AlreadyExistsError(used_before(registry.name, deployment))
        if drivers.state(deployment) not in (*FINAL_STATES, NEW):
            return Deployed(
                app=registry.name,
                deployment=deployment,
                epoch=current.epoch if current else 0,
                reattached=True,
            )
        _check_not_replaced(registry, current, deployment)
        _check_nothing_runs(registry, drivers, current, but=deployment)
        check_start(registry, drivers, spec)
        if unrestored(registry, deployment):
            _verify(registry, spec, progress)
    else:
        check_new_id(deployment)
        _check_nothing_runs(registry, drivers, current)
        check_start(registry, drivers, wanted)
        _verify(registry, wanted, progress)
        if wanted.from_snapshot and not wanted.fork:  # a fork's query ids are its own, and its sink was looked at
            check_adopted(context, registry.name, wanted.from_snapshot)
        kept = store_application(wanted.application, registry.deployment_folder(deployment))
        spec = attrs.evolve(wanted, application=kept, parent=current.deployment if current else None)
        registry.create_deployment(spec)
    update = registry.update(deployment)
    # A person may start a cancelled app; an update may not, and whoever cancelled may have recorded its end.
    asked = update is None or (update.outcome is not None and wanted.owner != update_owner(deployment))
    drivers.start(spec, epoch, after_cancel=asked)
    return Deployed(app=registry.name, deployment=deployment, epoch=epoch)


def _submitted_before(context: Context, options: SubmitOptions) -> Deployed | None:
    """Return the current deployment if the same request has started it and its driver lives. Needs no plan.

    What would be refused after the plan is refused at once: AlreadyExistsError for a deployment id that was used
    before, AlreadyRunningError when another deployment runs, RefusedError when the app has state that would be left.

    Without the app's name it is taken from the file. Nothing is found where it is not a literal there.
    """
    application, deployment = options.application, options.deployment
    name = options.app or app_named_in(application)
    if name is None:
        return None
    registry = context.registry.app(name)
    registry.check_not_deleted()
    if (current := registry.current()) is None:
        return None
    drivers, spec = context.drivers(registry), registry.spec(current.deployment)
    request = application.digest(), options.snapshot, options.fresh
    same = _request(spec) == request
    lives = drivers.state(spec.deployment) not in (*FINAL_STATES, NEW)
    if same and lives and deployment in (None, spec.deployment):
        return Deployed(app=name, deployment=spec.deployment, epoch=current.epoch, reattached=True)
    if deployment in set(registry.deployment_ids()) - _unstarted(registry, *request):
        raise AlreadyExistsError(used_before(name, str(deployment)))
    _check_nothing_runs(registry, drivers, current)
    if options.snapshot is None and not options.fresh:
        check_no_state(registry, drivers)
    return None


def _request(spec: DeploymentSpec) -> tuple[str, str | None, bool]:
    """Return what tells one request to submit from another."""
    return spec.digest, spec.from_snapshot, spec.fresh


def _unstarted(registry: AppRegistry, digest: str, snapshot: str | None, fresh: bool) -> set[str]:
    """Return the deployments that the same request has made, and died before a driver of theirs was started."""
    current = registry.current_id()
    return {
        spec.deployment
        for spec in registry.deployments()
        if _request(spec) == (digest, snapshot, fresh)
        and not spec.owner
        and current in (spec.parent, spec.deployment)  # nothing else has run since
        and registry.launch(spec.deployment) is None
        and registry.update(spec.deployment) is None
    }


def _starting(registry: AppRegistry, spec: DeploymentSpec) -> Phase:
    if spec.from_snapshot is None:
        return Phase(f"starting the queries of {spec.deployment}")
    saved = SnapshotStore(registry.sibling(spec.from_app) if spec.from_app else registry).get(spec.from_snapshot)
    return Phase(f"{restoring(saved.plan, spec.deployment)} from snapshot {spec.from_snapshot}")


def restoring(plan: AppPlan | None, deployment: str) -> str:
    """Return what a new driver does with saved state, e.g. ``restoring 2 stages for v2``."""
    count = sum(len(query.stages) for query in plan.queries) if plan else 0
    if not count:
        return f"starting {deployment}"
    return f"restoring {count} {'stage' if count == 1 else 'stages'} for {deployment}"


def check_adopted(context: Context, app: str, snapshot: str) -> None:
    """Raise AlreadyRunningError when a query that the snapshot was adopted from has committed more batches since.

    Its sink has received rows that the app would compute again.
    """
    if went_on := moved_on(SnapshotStore(context.registry.app(app)).get(snapshot), context.storage_options):
        raise AlreadyRunningError(
            f"since snapshot {snapshot} of {app} was adopted, {'; '.join(went_on)}: rows of these batches would "
            "reach the sink twice, or be lost where the sink recognizes batches by their ids. Stop that query, adopt "
            "its checkpoint again under another name (adopt --snapshot), and start from that snapshot"
        )


def _check_nothing_runs(
    registry: AppRegistry, drivers: Drivers, current: Current | None, but: str | None = None
) -> None:
    registry.check_not_deleted()
    if current is None or current.deployment == but:
        return
    state = drivers.state(current.deployment)
    if state not in (*FINAL_STATES, NEW) or not drivers.has_ended(current.deployment):
        raise AlreadyRunningError(
            f"app {registry.name} already runs as deployment {current.deployment} ({state}): replace it with update, "
            "or cancel it first. A fork beside it needs a file that defines another app"
        )


def _check_not_replaced(registry: AppRegistry, current: Current | None, deployment: str) -> None:
    """Raise AlreadyExistsError when another deployment has become current since this one ran.

    The other one has computed batches again after which this one would continue.
    """
    launch = registry.launch(deployment)
    if launch and current and current.deployment != deployment and launch.epoch < current.epoch:
        raise AlreadyExistsError(
            f"deployment {deployment} of {registry.name} cannot be started again: {current.deployment} has taken over "
            f"from it, in epoch {current.epoch}; choose another deployment id"
        )


def _verify(registry: AppRegistry, spec: DeploymentSpec, progress: Progress) -> None:
    """Verify every byte of the snapshot before anything is started from it.

    Not when the update that brings the deployment in did so in the last CHECKED_SECONDS.
    """
    name, update = spec.from_snapshot, registry.update(spec.deployment)
    if name is None:
        return
    checked_at = update.snapshot_checked_at if update is not None and update.snapshot == name else None
    if checked_at is not None and clock.age(checked_at) < CHECKED_SECONDS:
        return
    app = registry.sibling(spec.from_app) if spec.from_app else registry
    progress(Phase(f"verifying snapshot {name} of {app.name}"))
    SnapshotStore(app).verify(name, progress)


def unrestored(registry: AppRegistry, deployment: str) -> bool:
    """Return whether the deployment's next driver has to build a checkpoint first."""
    plan, built = registry.plan(deployment), registry.deployment_folder(deployment).names("restored")
    return plan is None or any(f"{query.name}.json" not in built for query in plan.queries)
