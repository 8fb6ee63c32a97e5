"""The end of a successful update: promote."""

from __future__ import annotations

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.errors import AppCancelledError, NotRunningError
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, UpdateRecord
from ..app_lease import holding
from ..drivers.drivers import not_started
from ..operations.context import Context
from .record import end, step
from .strategies import strategy_named


def promote(context: Context, app: str, deployment: str) -> UpdateRecord | None:
    """Accept the deployment, so that a later rollback goes back to it, and end its update."""
    registry = context.registry.existing(app)
    with holding(registry, deployment):
        current, record = registry.current(), registry.update(deployment)
        runs = record.runs if record else deployment
        if current is None or current.deployment != runs:
            raise NotRunningError(
                f"deployment {runs} of {app} is not current ({current.deployment if current else 'none'} is); "
                "only the current deployment can be promoted"
            )
        if current.cancelled is not None:
            raise AppCancelledError(not_started(app, current.cancelled))
        if not current.promoted:
            registry.set_current(attrs.evolve(current, promoted=True))
            boundary("promoted")
        if record is not None and record.outcome is None:
            for rollback in registry.rollbacks():
                if rollback.left == deployment and rollback.ended_at is None:  # interrupted; the update went on instead
                    registry.remove_rollback(rollback)
            step(registry, deployment, "promoted")
            noted = registry.update(deployment)
            assert noted is not None
            seconds, since = pause(registry, record) or (None, None)
            registry.set_update(attrs.evolve(noted, pause_seconds=seconds, paused_at=since))
            boundary("pause-noted")
        return end(context, app, deployment, PROMOTED)


def pause(registry: AppRegistry, record: UpdateRecord) -> tuple[float, str] | None:
    """Return the seconds from the old version's last commit to the new one's first, the longest of all queries, and the
    moment (ISO) of that last commit.

    None when the versions ran side by side.
    """
    if not strategy_named(record.strategy).has_pause:
        return None
    old = registry.status(record.old) if record.old else None
    new = registry.status(record.new)
    if old is None or new is None:
        return None
    pauses = [
        (
            (clock.parse(after.first_commit_at) - clock.parse(before.last_commit_at)).total_seconds(),
            before.last_commit_at,
        )
        for name, after in new.queries.items()
        if (before := old.queries.get(name)) and before.last_commit_at and after.first_commit_at
    ]
    if not pauses:
        return None
    longest, since = max(pauses)
    return round(longest, 3), since
