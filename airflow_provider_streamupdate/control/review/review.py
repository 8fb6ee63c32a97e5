"""An update, read afterwards: who asked for it, what it changed, how it went, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from ...core import clock
from ...core.errors import CorruptError, NewerFormatError, NotFoundError
from ...core.names import check_name
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.update import RollbackRecord, UpdateRecord
from ...core.serde import to_dict
from ..operations.context import Context
from ..operations.settings_diff import Changed, as_of, changed, settings_diff
from ..overview import update_document
from .code import CodeDiff, code_diff
from .hours import Hours, hours


@attrs.frozen(kw_only=True)
class Agreed:
    """A loss that was agreed to."""

    name: str
    because: str | None = None  # the reason given with it


@attrs.frozen(kw_only=True)
class Review:
    """The records and reports of one update."""

    update: UpdateRecord
    agreed: tuple[Agreed, ...] = ()
    verdicts: dict[str, int] = attrs.field(factory=dict)  # how many things got each; empty: no report is kept
    problems: tuple[str, ...] = ()  # what the check found
    compared: str | None = None  # the outcome of comparing both versions on the same batches; None: they were not
    rollback: RollbackRecord | None = None  # the one that took the update back
    settings: tuple[Changed, ...] | None = None  # None: a deployment's files are gone, so they cannot be compared
    hours: Hours | None = None  # None: the new version never took over, or nothing is kept of that time


def review(context: Context, app: str, update: str) -> Review:
    """Return what is known of an update. NotFoundError for an unknown one.

    update: the id of the deployment it brings in, or of the change in flight
    """
    registry = context.registry.existing(app)
    record, hiding = _record(registry, update), Hiding.in_app(registry)
    old, new = _versions(registry, record)
    report, difference = registry.report(record.new), registry.difference(record.new)
    reasons = {item.name: item.because for item in report.items if item.agreed} if report else {}
    given = {name.partition("=")[0]: name.partition("=")[2] or None for name in (new.agree if new else ())}
    return Review(
        update=hiding.update(record),
        agreed=tuple(Agreed(name=name, because=because) for name, because in {**given, **reasons}.items()),
        verdicts=dict(Counter(str(item.verdict) for item in report.items)) if report else {},
        problems=tuple(report.problems) if report else (),
        compared=difference.outcome if difference else None,
        rollback=next((hiding.rollback(r) for r in reversed(registry.rollbacks()) if r.left == record.new), None),
        settings=_settings(registry, record, old, new),
        hours=hours(registry, record, clock.utc_now()),
    )


def review_document(found: Review) -> dict[str, Any]:
    """A review as JSON."""
    return {**to_dict(found), "update": update_document(found.update)}


def code_of_update(context: Context, app: str, update: str) -> CodeDiff:
    """Return how the code of an update's two versions differs. NotFoundError for an unknown update, or when the files
    of a version are gone: one that never ran leaves none."""
    registry = context.registry.existing(app)
    record = _record(registry, update)
    if record.in_place:
        return CodeDiff(old=record.runs, new=record.runs, notes=("a change in flight changes parameters only",))
    old, new = _versions(registry, record)
    if missing := [str(name) for name, spec in ((record.old, old), (record.new, new)) if spec is None]:
        raise NotFoundError(
            f"the files of {' and '.join(missing)} of {app} are gone, so the code cannot be compared: a version that "
            "was refused, or dropped before it took over, leaves none"
        )
    assert old is not None and new is not None
    return code_diff(registry, old, new)


def _record(registry: AppRegistry, update: str) -> UpdateRecord:
    record = registry.update(check_name("update", update))
    if record is None:
        known = ", ".join(each.new for each in registry.updates()) or "none"
        raise NotFoundError(f"app {registry.name} has no update {update!r} (known: {known}); choose one of these")
    return record


def _versions(registry: AppRegistry, record: UpdateRecord) -> tuple[DeploymentSpec | None, DeploymentSpec | None]:
    """Return both deployments as they were at the update; None for one whose files are gone or cannot be read."""
    return _spec(registry, record.old, record.started_at), _spec(registry, record.runs, None)


def _spec(registry: AppRegistry, deployment: str | None, at: str | None) -> DeploymentSpec | None:
    if deployment is None:
        return None
    try:
        return as_of(registry, registry.spec(deployment), at)
    except (NotFoundError, CorruptError, NewerFormatError):
        return None


def _settings(
    registry: AppRegistry, record: UpdateRecord, old: DeploymentSpec | None, new: DeploymentSpec | None
) -> tuple[Changed, ...] | None:
    if record.in_place:
        made = [c for c in registry.changes(record.runs) if c.request.id == record.new and c.undoes is None]
        return changed("parameters", made[0].before, made[0].request.params) if made else None
    return None if old is None or new is None else settings_diff(old, new)
