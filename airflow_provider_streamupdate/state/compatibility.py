"""The compatibility rules: pure functions from two plans to verdicts.

Spark compares state by position and type only (measured; design.md section 5). Here stages are matched by name and
compared by what their keys, aggregates, windows and watermarks *are*: texts traced through projections to source
columns. Equal texts mean equal meaning; any difference is refused, because it is not known to be harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from .errors import InvalidInputError
from .migration import migration_item
from .plan import PYTHON, RESTORABLE_KINDS, UNKNOWN, AppPlan, QueryPlan, SourcePlan, StagePlan
from .report import CARRIED, EMPTY, IGNORED, REFUSED, CompatibilityReport, ReportItem


def compare(old: AppPlan, new: AppPlan, source: str, agree: Iterable[str] = ()) -> CompatibilityReport:
    """What becomes of every query, stage, source and sink of `old` under `new`.

    `agree` names the losses that are agreed to (report names, e.g. ``windows/daily``); InvalidInputError when one of
    them is not a loss of this change, because agreeing to nothing hides a mistake.
    """
    agreed = set(agree)
    items = [attrs.evolve(i, agreed=i.name in agreed) if i.needs_agreement else i for i in _items(old, new)]
    losses = {i.name for i in items if i.needs_agreement}
    if unknown := sorted(agreed - losses):
        raise InvalidInputError(
            f"agreed losses {', '.join(unknown)} are not losses of this change "
            f"(losses: {', '.join(sorted(losses)) or 'none'}); correct the names"
        )
    return CompatibilityReport(app=new.app, source=source, items=tuple(items))


def _items(old: AppPlan, new: AppPlan) -> Iterator[ReportItem]:
    if old.app != new.app:
        yield _refused("app", new.app, f"the saved state belongs to app {old.app}; submit it as a new app instead")
        return
    if _minor(old.spark_version) != _minor(new.spark_version):
        yield _refused(
            "app",
            new.app,
            f"the state was written by Spark {old.spark_version} and the new version runs on {new.spark_version}; "
            "run it on the same minor version",
        )
    for query in new.queries:
        before = old.query(query.name)
        if before is None:
            yield ReportItem(thing="query", name=query.name, verdict=EMPTY, reason="new query: starts from its source")
        else:
            yield from _query(before, query)
    for query in old.queries:
        if new.query(query.name) is None:
            yield _ignored("query", query.name, "the new version has no such query: its progress and state are left")


def _query(old: QueryPlan, new: QueryPlan) -> Iterator[ReportItem]:
    yield from _sources(old, new)
    yield from _sink(old, new)
    if old.stages and new.stages and old.watermarks != new.watermarks:
        yield _refused("query", new.name, _changed("watermark", old.watermarks, new.watermarks))
    for stage in new.stages:
        name = f"{new.name}/{stage.name}"
        before = old.stage(stage.name)
        if before is None:
            yield _added(name, stage, new)
        else:
            yield migration_item(name, before, stage, old.watermarks) or _stage(name, before, stage)
    for stage in old.stages:
        if new.stage(stage.name) is None:
            hint = "" if stage.named else " (it has no name: name it with stage() so that it can be matched)"
            yield _ignored("stage", f"{new.name}/{stage.name}", f"the new version has no such stage{hint}")


def _added(name: str, stage: StagePlan, query: QueryPlan) -> ReportItem:
    if stage.kind not in RESTORABLE_KINDS:
        return _refused(
            "stage",
            name,
            f"an empty state for a new {stage.kind} stage ({stage.operator}) cannot be made yet",
        )
    return ReportItem(thing="stage", name=name, verdict=EMPTY, reason="new stage: starts without state")


def _stage(name: str, old: StagePlan, new: StagePlan) -> ReportItem:
    if new.kind not in RESTORABLE_KINDS or old.kind not in RESTORABLE_KINDS:
        return _refused("stage", name, f"state of a {old.kind} stage ({old.operator}) is not understood yet")
    if old.kind != new.kind or old.operator != new.operator:
        return _refused("stage", name, _changed("kind of stage", old.operator, new.operator))
    for part in sorted({*old.definition, *new.definition}):
        before, after = old.definition.get(part), new.definition.get(part)
        if before != after:
            return _refused(
                "stage",
                name,
                _changed(part, before, after) + "; give the changed stage another name to start it empty",
            )
    if vague := _not_compared(new):
        return _refused("stage", name, vague)
    if difference := _schema_difference(old, new):
        return _refused("stage", name, difference)
    moved = "" if old.operator_id == new.operator_id else f", moved from {old.operator_id} to {new.operator_id}"
    return ReportItem(
        thing="stage",
        name=name,
        verdict=CARRIED,
        reason=f"same {new.kind} (operator {new.operator_id}{moved})",
    )


def _not_compared(stage: StagePlan) -> str | None:
    """Equal texts say nothing about what the texts leave out."""
    for part, value in sorted(stage.definition.items()):
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if PYTHON in str(text):
                return (
                    f"{part} depend on a Python function ({text}), whose code cannot be compared; use Spark's functions"
                )
            if str(text).startswith(UNKNOWN):
                return f"{part} could not be traced to the source ({text})"
    return None


def _schema_difference(old: StagePlan, new: StagePlan) -> str | None:
    """State rows must have the same types at the same places. Names of aggregate and key columns may differ (an alias
    is no change); names of state variables (column families) may not: Spark finds them by name."""
    by_name = {s.name: s for s in old.schemas}
    names = {s.name for s in new.schemas}
    if set(by_name) != names:
        return _changed("state variables", sorted(by_name), sorted(names))
    variables = new.kind == "transform-with-state"
    for schema in new.schemas:
        before = by_name[schema.name]
        for part, was, now in (("key", before.key, schema.key), ("value", before.value, schema.value)):
            if _types(was, variables) != _types(now, variables):
                label = f"{part} type of the state {schema.name}" if variables else f"{part} type of the state"
                return _changed(label, _show(was), _show(now))
    return None


def _sources(old: QueryPlan, new: QueryPlan) -> Iterator[ReportItem]:
    before = [(s.name, s.format, s.location) for s in old.sources]
    after = [(s.name, s.format, s.location) for s in new.sources]
    if len(before) != len(after):
        yield _refused("source", new.name, _changed("sources", _names(old.sources), _names(new.sources)))
        return
    for was, now in zip(old.sources, new.sources, strict=True):
        name = f"{new.name}/{now.name}"
        for part in ("name", "format", "location"):
            if getattr(was, part) != getattr(now, part):
                yield _refused("source", name, _changed(part, getattr(was, part), getattr(now, part)))
                break
        else:
            yield ReportItem(thing="source", name=name, verdict=CARRIED, reason=f"same {now.format}: offsets continue")


def _sink(old: QueryPlan, new: QueryPlan) -> Iterator[ReportItem]:
    name = f"{new.name}/{new.sink.format}"
    if old.output_mode != new.output_mode:
        yield _refused("sink", name, _changed("output mode", old.output_mode, new.output_mode))
    elif old.sink.format != new.sink.format:
        yield _refused("sink", name, _changed("format", old.sink.format, new.sink.format))
    else:
        yield ReportItem(
            thing="sink", name=name, verdict=CARRIED, reason="same format and output mode: batch ids continue"
        )


def _refused(thing: str, name: str, reason: str) -> ReportItem:
    return ReportItem(thing=thing, name=name, verdict=REFUSED, reason=reason)


def _ignored(thing: str, name: str, reason: str) -> ReportItem:
    return ReportItem(thing=thing, name=name, verdict=IGNORED, reason=reason, needs_agreement=True)


def _changed(what: str, old: object, new: object) -> str:
    return f"{what} changed from {_show(old)} to {_show(new)}"


def _show(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict) and "fields" in value:
        return ", ".join(f"{f['name']} {_show(f['type'])}" for f in value["fields"])
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_show(v) for v in value) + "]"
    return str(value)


def _types(schema: Any, names: bool) -> Any:
    """A Spark JSON type without names (unless they matter), nullability and metadata."""
    if isinstance(schema, dict):
        if schema.get("type") == "struct":
            return [
                "struct",
                *(
                    [f["name"], _types(f["type"], names)] if names else _types(f["type"], names)
                    for f in schema["fields"]
                ),
            ]
        return {k: _types(v, names) for k, v in schema.items() if k not in ("metadata", "containsNull")}
    return schema


def _names(sources: Iterable[SourcePlan]) -> list[str]:
    return [f"{s.name} ({s.format})" for s in sources]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
