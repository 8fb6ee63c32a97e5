"""Adopt existing checkpoints: they become a snapshot of an app."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ....core import clock
from ....core.checkpoint.snapshot import Snapshot
from ....core.compatibility.report import CompatibilityReport, IncompatibleError
from ....core.errors import AlreadyExistsError
from ....core.names import check_name
from ....core.plan.plan import AppPlan
from ....core.registry.application import Application
from ....core.registry.deployment import DeploymentSpec
from ....core.registry.registry import AppRegistry, used_before
from ....core.serde import to_json
from ....core.snapshots.adoption import ONLY_QUERY, assign, find_checkpoint, save_adopted
from ....core.snapshots.snapshots import SnapshotStore
from ...app_lease import holding
from ...waiting import Phase, Progress, discard_progress
from ..check import same_app
from ..context import Context
from ..plan import PlanOptions, plan_application
from ..version import store_application

_OWNER = "adopt"  # the owner of the deployment that an adopted snapshot belongs to; it never runs


@attrs.frozen(kw_only=True)
class Adopted:
    """The result of an adoption: the snapshot, and the report on each source, stage and sink."""

    snapshot: Snapshot
    report: CompatibilityReport


def adopt(
    context: Context,
    application: Application,
    checkpoints: str | Mapping[str, str] | None,
    app: str,
    snapshot: str = "adopted",
    progress: Progress = discard_progress,
) -> Adopted:
    """Make snapshot `snapshot` of `app` from checkpoints that this package does not manage. They are only read.

    application: the code that wrote them, as an app; its plan must match what they hold
    checkpoints: a path or URI per query, or only the path of the app's single query; None: those that the script names

    InvalidInputError for a folder that is no checkpoint or has no commit; IncompatibleError, with the report, when this
    code did not write them; AlreadyExistsError for a name in use. An interrupted call can be repeated.
    """
    application.check()
    check_name("app", app)
    check_name("snapshot", snapshot)
    launcher = context.need_launcher()
    launcher.check()
    given = {ONLY_QUERY: checkpoints} if isinstance(checkpoints, str) else dict(checkpoints or {})
    uris = {query: find_checkpoint(uri, context.storage_options).address for query, uri in given.items()}
    context.registry.folder.check_writable()
    registry = context.registry.app(app)
    _check_free(registry, snapshot, application)
    checked = ", ".join(uris.values()) or "the checkpoints that it names"
    progress(Phase(f"planning {application.file} and checking {checked}"))
    planned = plan_application(launcher, application, PlanOptions(storage_options=context.storage_options, adopt=uris))
    same_app(application, planned.plan, app)
    report = planned.report
    assert report is not None  # a check was asked for
    if not report.compatible:
        raise IncompatibleError(
            f"{report.source} does not match {application.file}; nothing was adopted:\n  "
            + "\n  ".join(report.problems),
            report,
        )
    with holding(registry, snapshot, f"adopt stores snapshot {snapshot}"):
        _check_free(registry, snapshot, application)
        _keep_deployment(registry, snapshot, application, planned.plan)
        progress(Phase(f"storing snapshot {snapshot} of {app}"))
        queries = [query.name for query in planned.plan.queries]
        uris = uris or dict(planned.checkpoints)
        folders = {q: find_checkpoint(u, context.storage_options) for q, u in assign(queries, uris).items()}
        return Adopted(snapshot=save_adopted(registry, snapshot, snapshot, planned.plan, folders), report=report)


def _check_free(registry: AppRegistry, name: str, application: Application) -> None:
    """Raise AlreadyExistsError when the name is in use, unless by an interrupted adoption of the same application."""
    if SnapshotStore(registry).exists(name):
        raise AlreadyExistsError(f"app {registry.name} already has a snapshot {name!r}; choose another name")
    if name in registry.deployment_ids():
        spec = registry.spec(name)
        if (spec.owner, spec.digest) != (_OWNER, application.digest()):
            raise AlreadyExistsError(used_before(registry.name, name) + " (--snapshot)")


def _keep_deployment(registry: AppRegistry, name: str, application: Application, plan: AppPlan) -> None:
    """Make the deployment that the snapshot belongs to: it holds the code and its plan, and never runs."""
    folder = registry.deployment_folder(name)
    if name not in registry.deployment_ids():
        registry.create_deployment(
            DeploymentSpec(
                app=registry.name,
                deployment=name,
                application=store_application(application, folder),
                digest=application.digest(),
                submitted_at=clock.now(),
                owner=_OWNER,
            )
        )
    folder.write("plan.json", to_json(plan))
