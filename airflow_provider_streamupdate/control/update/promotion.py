"""The end of a successful update: promote."""

from __future__ import annotations

import attrs

from ...core import clock
from ...core.boundaries import boundary
from ...core.coordination.commands import CommandBox
from ...core.errors import NotRunningError
from ...core.registry.deployment import FINISHED, Status
from ...core.registry.registry import AppRegistry
from ...core.registry.update import PROMOTED, Step, UpdateRecord
from ..app_lease import holding
from ..drivers.drivers import check_not_cancelled
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
        check_not_cancelled(app, current)
        if CommandBox(registry.deployment_folder(runs), current.epoch).told_to_end():
            raise NotRunningError(
                f"deployment {runs} of {app} was told to end, perhaps by a rollback that gave up waiting for it, so it "
                f"is not promoted; streamupdate rollback {app} completes the way back"
            )
        if not current.promoted:
            registry.set_current(attrs.evolve(current, promoted=True))
            boundary("promoted")
        if record is not None and record.outcome is None:
            for rollback in registry.rollbacks():
                if rollback.left == deployment and rollback.ended_at is None:  # interrupted; the update went on instead
                    registry.remove_rollback(rollback)
            step(registry, deployment, Step.PROMOTE)
            noted = registry.update(deployment)
            assert noted is not None
            seconds, since = pause(registry, record) or (None, None)
            registry.set_update(attrs.evolve(noted, pause_seconds=seconds, paused_at=since))
            boundary("pause-noted")
        return end(context, app, deployment, PROMOTED)


def pause(registry: AppRegistry, record: UpdateRecord) -> tuple[float, str] | None:
    """Return for how many seconds input waited for either version, the longest of all queries, and since when (ISO).

    None when the versions ran side by side, or the old one had finished by itself.
    """
    if not strategy_named(record.strategy).has_pause:
        return None
    old = registry.status(record.old) if record.old else None
    new = registry.status(record.new)
    if old is None or new is None or old.state == FINISHED:
        return None
    pauses = []
    for name in new.queries:
        began, ended = _pause_began(old, name), _pause_ended(new, name)
        if began is not None and ended is not None:
            pauses.append(((clock.parse(ended) - clock.parse(began)).total_seconds(), began))
    if not pauses:
        return None
    longest, since = max(pauses)
    return round(longest, 3), since


def _pause_began(old: Status, query: str) -> str | None:
    """Return when a query of the old version stopped working: with its last commit; if nothing waited when the drain
    began, not before that."""
    known = old.queries.get(query)
    last = known.last_commit_at if known is not None else None
    drained = old.drain_began_at if query in old.idle_at_drain else None
    return max((at for at in (last, drained) if at is not None), key=clock.parse, default=None)


def _pause_ended(new: Status, query: str) -> str | None:
    """Return when a query of the new version worked: with its first commit, or when it first found nothing to read."""
    moments = (new.queries[query].first_commit_at, new.first_idle_at.get(query))
    return min((at for at in moments if at is not None), key=clock.parse, default=None)
