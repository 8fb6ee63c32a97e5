"""An update: what it will change, and, read afterwards, how it went and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from ...core import clock
from ...core.errors import CorruptError, NewerFormatError, NotFoundError
from ...core.markdown import fenced, table
from ...core.names import check_name
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.update import RollbackRecord, UpdateRecord
from ...core.serde import to_dict
from ..code_diff import CodeDiff, Version, compare_code
from ..operations.context import Context
from ..operations.settings_diff import Changed, as_of, changed, settings_diff
from ..overview import update_document
from .hours import Hours, hours

PREVIEW_LINES = 200  # of code, for the person who approves; the update's page has all of it


@attrs.frozen(kw_only=True)
class Review:
    """The records and reports of one update."""

    update: UpdateRecord
    agreed: tuple[str, ...] = ()  # the losses that were agreed to, each with the reason given with it
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
    old, new = _specs(registry, record)
    report, difference = registry.report(record.new), registry.difference(record.new)
    agreed: dict[str, str | None] = {}
    for name, _, because in (text.partition("=") for text in (new.agree if new else ())):
        agreed[name] = because
    agreed |= {item.name: item.because for item in report.items if item.agreed} if report else {}
    settings = settings_diff(old, new) if old and new else None
    if record.in_place:
        made = [c for c in registry.changes(record.runs) if c.request.id == record.new and c.undoes is None]
        settings = changed("parameters", made[0].before, made[0].request.params, hiding) if made else None
    return Review(
        update=hiding.update(record),
        agreed=tuple(f"{name} ({because})" if because else name for name, because in agreed.items()),
        verdicts=dict(Counter(str(item.verdict) for item in report.items)) if report else {},
        problems=tuple(report.problems) if report else (),
        compared=difference.outcome if difference else None,
        rollback=next((hiding.rollback(r) for r in reversed(registry.rollbacks()) if r.left == record.new), None),
        settings=settings,
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
    versions = []
    for name, spec in zip((record.old, record.new), _specs(registry, record), strict=True):
        if spec is None:
            raise NotFoundError(
                f"the files of {name} of {app} are gone, so the code cannot be compared: a version that was refused, "
                "or dropped before it took over, leaves none"
            )
        versions.append(_version(registry, spec))
    return compare_code(versions[0], versions[1])


def preview_changes(registry: AppRegistry, old: str, application: Application) -> str:
    """Return what differs between the deployment `old` and an application, as Markdown for the person who approves."""
    spec = as_of(registry, registry.spec(old), None)
    settings = settings_diff(spec, attrs.evolve(spec, application=application))
    code = compare_code(_version(registry, spec), Version("the new version", application), PREVIEW_LINES)
    return "\n".join([*_settings_table(settings, old), *_code_blocks(code)])


def _version(registry: AppRegistry, spec: DeploymentSpec) -> Version:
    return Version(spec.deployment, spec.application, registry.deployment_folder(spec.deployment))


def _settings_table(changes: tuple[Changed, ...], old: str) -> Iterator[str]:
    if not changes:
        yield from (f"Parameters, configuration and environment are those of {old}.", "")
        return
    yield f"Parameters, configuration and environment that differ from {old}:"
    yield from ("", *table(("part", "key", "before", "after"), map(attrs.astuple, changes)))


def _code_blocks(code: CodeDiff) -> Iterator[str]:
    yield f"Code that differs from {code.old}:" if code.files or code.notes else f"The code is that of {code.old}."
    for file in code.files:
        yield from ("", f"`{file}`")
        if file.lines:
            yield from fenced("diff", file.lines)
    yield from (f"- {note}" for note in code.notes)


def _record(registry: AppRegistry, update: str) -> UpdateRecord:
    record = registry.update(check_name("update", update))
    if record is None:
        known = ", ".join(each.new for each in registry.updates()) or "none"
        raise NotFoundError(f"app {registry.name} has no update {update!r} (known: {known}); choose one of these")
    return record


def _specs(registry: AppRegistry, record: UpdateRecord) -> Iterator[DeploymentSpec | None]:
    """Yield both deployments as they were at the update; None for one whose files are gone or cannot be read."""
    for deployment, at in ((record.old, record.started_at), (record.runs, None)):
        try:
            yield as_of(registry, registry.spec(deployment), at) if deployment else None
        except (NotFoundError, CorruptError, NewerFormatError):
            yield None
