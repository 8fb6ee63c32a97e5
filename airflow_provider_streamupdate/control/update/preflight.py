"""Checks of an update that need no driver, so that it can be refused before one starts (tens of seconds)."""

from __future__ import annotations

import attrs

from ...core import clock
from ...core.registry.application import Application
from ...core.registry.deployment import RUNNING
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, Step, UpdateRecord
from ...core.snapshots.snapshots import SnapshotStore
from ..app_lease import check_free
from ..operations.context import Context
from ..operations.plan import app_named_in
from . import record as records


@attrs.frozen(kw_only=True)
class Unchanged:
    """The app already runs this exact application.

    record: of the update that brought it in; None: it was submitted
    """

    app: str
    deployment: str
    record: UpdateRecord | None

    def __str__(self) -> str:
        how = "was submitted with this application"
        if self.record is not None and self.record.outcome == PROMOTED:
            at = self.record.step_times.get(Step.PROMOTE, self.record.started_at)
            how = f"was promoted by this update at {clock.format_timestamp(at)}"
        return (
            f"{self.app}: {self.deployment} {how} and runs; nothing to do (give another deployment id to run the same "
            "application as a new deployment)"
        )


def known_app(context: Context, application: Application) -> str | None:
    """Return the app that a file defines, where the name is a literal and the app exists."""
    name = app_named_in(application)
    return name if name is not None and name in context.registry.apps() else None


def check_before_start(
    context: Context,
    application: Application,
    deployment: str | None = None,
    snapshot: str | None = None,
    app: str | None = None,
) -> Unchanged | None:
    """Check an update before a driver is started, and refuse what would fail.

    Returns Unchanged when there is nothing to update, None when it can be planned. AlreadyExistsError for a deployment
    id that was used before; LeaseHeldError while another update holds the app; NotFoundError or CorruptError for a
    snapshot that cannot be used; NewerFormatError where a newer version of this package worked on the app.

    app: its name; None: taken from the file, where it is a literal
    """
    name = app or known_app(context, application)
    if name is None or name not in context.registry.apps():
        return None
    registry, digest = context.registry.existing(name), application.digest()
    registry.check_readable()
    if snapshot is not None:
        SnapshotStore(registry).get(snapshot)
    if snapshot is None and (found := _unchanged(context, registry, digest, deployment)):
        return found
    check_free(registry, records.new_deployment(registry, digest, deployment))
    return None


def _unchanged(context: Context, registry: AppRegistry, digest: str, deployment: str | None) -> Unchanged | None:
    current = registry.current_id()
    if current is None or deployment not in (None, current) or registry.update_under_way() is not None:
        return None
    if (
        registry.spec(current).digest != digest
        or context.drivers(registry, watch=False).state_and_status(current)[0] != RUNNING
    ):
        return None
    return Unchanged(app=registry.name, deployment=current, record=registry.update(current))
