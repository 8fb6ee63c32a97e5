"""What only files and drivers know of a report's problems: where code changed, and how many rows of state there are."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import attrs

from ..core.compatibility.report import CompatibilityReport
from ..core.compatibility.rules.rule import UNDO
from ..core.compatibility.verdict import IGNORED, CodeChange, ReportItem
from ..core.errors import StreamUpdateError
from ..core.registry.application import Application
from ..core.registry.registry import AppRegistry
from ..core.snapshots.snapshots import SnapshotStore
from .changed_code import find_changes
from .code_diff import Version

MOST = 300  # characters of a reason
Rows = Mapping[str, Mapping[str, int]]  # of state: query -> stage -> rows


def explain(
    registry: AppRegistry,
    report: CompatibilityReport,
    application: Application,
    snapshot: str | None,
    renames: Mapping[str, str] | None,
) -> CompatibilityReport:
    """Return the report with the place of changed code, and the rows of state of each stage that blocks.

    registry: of the app whose state it is; snapshot: what it was compared with (None: the current deployment)
    """
    if report.compatible and not any(item.code for item in report.items):
        return report
    with contextlib.suppress(StreamUpdateError):  # an explanation that cannot be given changes no verdict
        saved = SnapshotStore(registry).get(snapshot) if snapshot else None
        base = saved.deployment if saved else registry.current_id()
        status = registry.status(base) if base else None
        queries = saved.queries if saved else status.queries if status else {}
        rows = {name: query.state_rows for name, query in queries.items()}
        items = [attrs.evolve(item, rows=_rows(item, rows, renames or {})) for item in report.items]
        report = attrs.evolve(report, items=tuple(items))
        functions = {change.function for item in items for change in item.code}
        if base and functions:
            spec = registry.spec(base)
            old = Version(base, spec.application, registry.deployment_folder(base))
            found = find_changes(functions, old, Version("the new version", application))
            report = attrs.evolve(report, items=tuple(_with_places(item, found) for item in items))
    return report


def _rows(item: ReportItem, rows: Rows, renames: Mapping[str, str]) -> int | None:
    if not item.blocks:
        return None
    query, _, stage = item.name.partition("/")
    if item.thing == "query" and item.verdict == IGNORED and query in rows:
        return sum(rows[query].values())
    before = {new: old for old, new in renames.items()}
    name = item.continues or before.get(stage, before.get(item.name, stage)).rpartition("/")[2]
    return rows.get(query, {}).get(name) if item.thing == "stage" else None


def _with_places(item: ReportItem, found: Mapping[str, CodeChange]) -> ReportItem:
    code, reason, ways = [], item.reason, item.ways
    for change in item.code:
        place = found.get(change.function, change)
        code.append(place)
        longer = reason.replace(str(change), str(place))
        reason = longer if len(longer) <= MOST else reason
        if place.before and len(item.code) == 1:
            text = f"make line {place.line} of {place.file} `{place.before}` again"
            ways = tuple(attrs.evolve(way, text=text) if way.text == UNDO else way for way in ways)
    return attrs.evolve(item, code=tuple(code), reason=reason, ways=ways)
