"""The compatibility check: from two plans to verdicts, by the table of rules.

Spark compares state by position and type only (docs/spark-facts.md). Here stages are matched by name and
compared by what their keys, aggregates, windows and watermarks *are*: expressions traced through projections to source
columns. Equal trees mean the same; a difference that no rule knows to be harmless is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import attrs

from ..plan.differences import changed_functions, shortened
from ..plan.expressions import Expression
from ..plan.plan import PYTHON_IMPORTS, AppPlan, Path, QueryPlan, SourcePlan, StagePlan
from ..plan.rename import check_new_names
from ..plan.visitors import refers_only_to, without_branches
from .agreement import SAME
from .agreement import agree as agreed
from .graph import graph
from .migration import FunctionNeeded, Migration, plan_migration
from .report import CompatibilityReport
from .rules import NEEDS_AGREEMENT, Finding, judge, worst
from .rules.batch_ids import FORK_RULES, BatchIds
from .rules.query import (
    APP_RULES,
    GONE_QUERY_RULES,
    NAME_RULES,
    NEW_QUERY_RULES,
    WATERMARK_RULES,
    AppChange,
    GoneQuery,
    QueryChange,
)
from .rules.rule import MOST_OF_ONE, UNDO
from .rules.settings.setting import OTHER_SETTING_RULES, SETTING_RULES, SettingChange
from .rules.settings.settings_table import MEASURED
from .rules.sink import SINK_RULES, SinkChange
from .rules.sources.source import GONE_SOURCE_RULES, NEW_SOURCE_RULES, SOURCE_RULES, LoneSource, SourceChange
from .rules.stages.change import StageChange
from .rules.stages.layout import same_form
from .rules.stages.lone_stage import GONE_STAGE_RULES, NEW_STAGE_RULES, LoneStage
from .rules.stages.stage import STAGE_RULES
from .rules.stages.store import STORE_RULES
from .successors import app_under_new_names, new_names
from .verdict import CARRIED, IGNORED, LOSS, MIGRATED, REFUSED, CodeChange, Fate, Remedy, ReportItem, Verdict

_T = TypeVar("_T", SourcePlan, StagePlan)


def compare(
    old: AppPlan,
    new: AppPlan,
    source: str,
    agree: Iterable[str] = (),
    renames: Mapping[str, str] | None = None,
    beside: Iterable[AppPlan] | None = None,
) -> CompatibilityReport:
    """Return the report: what becomes of every query, stage, source and sink of `old` under `new`.

    agree: names of the losses that are agreed to (agreement.py); InvalidInputError when one is not a loss of this
        change
    renames: ``{"old": "new"}`` names of stages and sources that `old` has already (rename.py); InvalidInputError when
        `new` does not have one
    beside: of a fork, which may belong to another app, the plans that run beside it: the report has an item for each
        query that continues as a fork (``query:fork``), and writing to their sinks needs agreement. None: no fork
    """
    check_new_names(new, renames or {})
    forked: list[ReportItem] = []
    if beside is not None:
        others = tuple(query for plan in (old, *beside) for query in plan.queries)
        forked = [_forked(query, others) for query in new.queries if old.query(query.name) is not None]
        old = attrs.evolve(old, app=new.app)
    succeeded = {
        f"{query}/{name}": before for query, names in new_names(old, new).items() for before, name in names.items()
    }
    old = app_under_new_names(old, new)
    items = [_with_predecessor(item, succeeded) for item in _items(old, new, beside is not None)]
    return CompatibilityReport(
        app=new.app, source=source, items=agreed((*items, *forked), agree), graph=graph(new, old)
    )


def _forked(query: QueryPlan, others: tuple[QueryPlan, ...]) -> ReportItem:
    found = judge(FORK_RULES, BatchIds(new=query, others=others))
    return report_item("query", f"{query.name}:fork", [f for f in found if f.verdict == worst(found)])


def _with_predecessor(item: ReportItem, succeeded: Mapping[str, str]) -> ReportItem:
    """The item with the stage or source of another name that it was matched with."""
    before = succeeded.get(item.name) if item.thing in ("source", "stage") else None
    if before is None:
        return item
    same = "reads the same place" if item.thing == "source" else "means the same"
    reason = f"{item.reason}; it continues {before}, which {same}"
    return attrs.evolve(item, reason=reason, continues=before)


def _items(old: AppPlan, new: AppPlan, fork: bool) -> Iterator[ReportItem]:
    findings = judge(APP_RULES, AppChange(old=old, new=new))
    if findings:
        yield report_item("app", new.app, findings)
    if old.app != new.app:
        return
    for query in new.queries:
        before = old.query(query.name)
        if before is None:
            yield report_item("query", query.name, judge(NEW_QUERY_RULES, query))
        else:
            yield from _query(before, query, fork)
    for query in old.queries:
        if new.query(query.name) is None:
            added = tuple(q for q in new.queries if old.query(q.name) is None)
            yield report_item("query", query.name, judge(GONE_QUERY_RULES, GoneQuery(query=query, added=added)))


def _query(old: QueryPlan, new: QueryPlan, fork: bool) -> Iterator[ReportItem]:
    yield from _sources(old, new)
    sink = SinkChange(old=old, new=new, fork=fork)
    yield report_item("sink", f"{new.name}/{new.sink.format}", judge(SINK_RULES, sink))
    if findings := judge(NAME_RULES, QueryChange(old=old, new=new)):
        yield report_item("query", f"{new.name}:names", findings)
    if findings := judge(WATERMARK_RULES, QueryChange(old=old, new=new)):
        yield report_item("watermark", f"{new.name}:watermark", findings)
    if old.stages and new.stages:
        unaffected = set(old.unaffected) & set(new.unaffected)
        if PYTHON_IMPORTS in old.unaffected:  # what it has saved holds nothing of Python
            unaffected.add(PYTHON_IMPORTS)
        for key in sorted(old.conf.keys() | new.conf.keys()):
            change = SettingChange(key, _setting_before(old, key), new.conf.get(key), key in unaffected)
            if findings := judge(SETTING_RULES, change):
                yield report_item("setting", f"{new.name}:{key}", findings)
        for before, now in ((old.given, new.given), (old.hadoop, new.hadoop)):
            for key in sorted(before.keys() | now.keys()):
                given = SettingChange(key, before.get(key), now.get(key), unaffected=key in new.unaffected)
                if findings := judge(OTHER_SETTING_RULES, given):
                    yield report_item("setting", f"{new.name}:{key}", findings)
    yield from _stages(old, new)


def _setting_before(old: QueryPlan, key: str) -> str | None:
    """Return a setting's value in the old version. A Spark that does not have the setting leaves it as it was given."""
    if key in old.conf or key not in MEASURED:
        return old.conf.get(key)
    return old.given.get(key, MEASURED[key].default)


def _sources(old: QueryPlan, new: QueryPlan) -> Iterator[ReportItem]:
    alone = len(old.sources) == len(new.sources) == 1 and old.sources[0].name == new.sources[0].name
    before = {s.name: s for s in old.sources}
    stateful = bool(old.stages and new.stages)
    for source in new.sources:
        name = f"{new.name}/{source.name}"
        if source.name in before:
            others = tuple(s for s in new.sources if s is not source)
            change = SourceChange(old=before[source.name], new=source, alone=alone, stateful=stateful, others=others)
            yield report_item("source", name, judge(SOURCE_RULES, change))
        else:
            yield report_item("source", name, judge(NEW_SOURCE_RULES, LoneSource(source=source, others=old.sources)))
    added = tuple(_without_successor(new.sources, old.sources))
    for source in _without_successor(old.sources, new.sources):
        gone = LoneSource(source=source, others=added, query=new.name)
        yield report_item("source", f"{new.name}/{source.name}", judge(GONE_SOURCE_RULES, gone))


def _stages(old: QueryPlan, new: QueryPlan) -> Iterator[ReportItem]:
    lost = _without_successor(old.stages, new.stages)
    old, new = _shared_branches(old, new), _shared_branches(new, old)
    for stage in new.stages:
        name = f"{new.name}/{stage.name}"
        before = old.stage(stage.name)
        if before is None:
            yield report_item("stage", name, judge(NEW_STAGE_RULES, LoneStage(stage=stage, query=new)))
        else:
            change = StageChange(old=before, new=stage, before=old, after=new)
            findings = [*_migrated(judge(STAGE_RULES, change), _migration(change)), *judge(STORE_RULES, change)]
            item = attrs.evolve(report_item("stage", name, findings), code=_changed_code(before, stage))
            refusals = [f for f in findings if f.verdict == REFUSED]
            known = refusals and all(f.agreeable for f in refusals) and same_form(before, stage)
            yield attrs.evolve(item, offer=f"{name}{SAME}") if known else item
    for stage in lost:
        lone = LoneStage(stage=stage, query=new, added=tuple(_without_successor(new.stages, old.stages)))
        yield report_item("stage", f"{new.name}/{stage.name}", judge(GONE_STAGE_RULES, lone))


def _changed_code(old: StagePlan, new: StagePlan) -> tuple[CodeChange, ...]:
    parts = [
        [*(e for part in stage.expressions.values() for e in part), *stage.filters, *stage.arrivals]
        for stage in (old, new)
    ]
    return tuple(CodeChange(function=name) for name in changed_functions(*parts))


def _shared_paths(paths: Iterable[Path], own: set[str], kept: set[str]) -> tuple[Path, ...]:
    """Return the paths without sources and stages that only this version has."""
    found = []
    for path in (path for path in paths if path.source not in own):
        steps = (attrs.evolve(s, expression=without_branches(s.expression, own, kept)) for s in path.steps)
        shared = tuple(step for step in steps if not refers_only_to(step.expression, own, kept))
        found.append(Path(path.source, tuple(name for name in path.stages if name not in own), shared))
    return tuple(found)


def _shared_branches(query: QueryPlan, other: QueryPlan) -> QueryPlan:
    """Return stages without the branches of unions that only this version has, with sources or stages of its own."""
    kept = _named(query) & _named(other)
    own = _named(query) - kept

    def shared(expression: Expression) -> Expression:
        return without_branches(expression, own, kept)

    def of_both(stage: StagePlan) -> StagePlan:
        stage = stage.changed(shared)
        arrivals = tuple(each for each in stage.arrivals if not refers_only_to(each, own, kept))
        return attrs.evolve(stage, arrivals=arrivals, paths=_shared_paths(stage.paths, own, kept))

    return attrs.evolve(query, stages=tuple(map(of_both, query.stages))) if own else query


def migrations(old: QueryPlan, new: QueryPlan) -> dict[str, Migration]:
    """The migrations by stage name: a restore rewrites the state of exactly these stages."""
    old, new = _shared_branches(old, new), _shared_branches(new, old)
    found = {}
    for stage in new.stages:
        if before := old.stage(stage.name):
            made = _migration(StageChange(old=before, new=stage, before=old, after=new))
            if isinstance(made, Migration):
                found[stage.name] = made
    return found


def _migration(change: StageChange) -> Migration | str | None:
    """The migration, when the rules refuse and a migration may repair each refusal."""
    refusals = [f for f in judge(STAGE_RULES, change) if f.verdict == REFUSED]
    if not refusals or not all(f.migratable for f in refusals):
        return None
    return plan_migration(change.old, change.new, change.before.watermarks)


def _migrated(findings: list[Finding], made: Migration | str | None) -> list[Finding]:
    """The findings, with each refusal replaced by the migration, or with the reason why there is none."""
    if made is None:
        return findings
    refusals = [f for f in findings if f.verdict == REFUSED]
    if isinstance(made, FunctionNeeded):
        return [*findings, Finding(id=refusals[0].id, verdict=REFUSED, reason="", ways=_by(made), agreeable=True)]
    if isinstance(made, str):
        none = Finding(id=refusals[0].id, verdict=REFUSED, reason=f"no migration: {made}", agreeable=True)
        return [*findings, none]
    steps = [Finding(id=f.id, verdict=MIGRATED, reason="; ".join(made.steps)) for f in refusals]
    ways = _by(*made.functions)
    losses = [Finding(id=refusals[0].id, verdict=LOSS, reason=loss, ways=ways) for loss in made.losses]
    return [*(f for f in findings if f.verdict != REFUSED), *steps, *losses]


def _by(*functions: FunctionNeeded) -> tuple[Remedy, ...]:
    return tuple(Remedy(fate=Fate.CARRY, text=str(each)) for each in functions)


def report_item(thing: str, name: str, findings: list[Finding]) -> ReportItem:
    """The worst verdict, with the reasons of all changes; for a refusal, only the reasons for refusing."""
    verdict = worst(findings)
    changes = [f for f in findings if not f.id.endswith(".same")]
    shown = findings if verdict == CARRIED else [f for f in changes if verdict != REFUSED or f.verdict == REFUSED]
    reason = "; ".join(dict.fromkeys(f.reason for f in shown if f.reason))
    details = "; ".join(dict.fromkeys(f.details for f in shown if f.details))
    if len(reason) > MOST_OF_ONE and verdict in (REFUSED, *NEEDS_AGREEMENT):
        details = "; ".join(filter(None, (reason, details)))
        first = sorted(shown, key=lambda f: f.verdict != verdict)  # what decides
        room = MOST_OF_ONE - len("; and 10 more")
        cut = (f.reason if len(f.reason) <= room else f"{f.reason[: room - 3]}..." for f in first)
        reason = shortened(dict.fromkeys(filter(None, cut)), "; ", room)
    return ReportItem(
        thing=thing,
        name=name,
        verdict=verdict,
        reason=reason,
        ways=tuple(_ways_from(thing, name, verdict, shown)),
        rules=tuple(dict.fromkeys(f.id for f in shown)),
        details=details,
        needs_agreement=verdict in NEEDS_AGREEMENT,
    )


def _ways_from(thing: str, name: str, verdict: Verdict, findings: list[Finding]) -> Iterator[Remedy]:
    """Yield how to put it back, where a change of the version can be, and what the rules say."""
    if verdict in (REFUSED, *NEEDS_AGREEMENT) and not (thing == "query" and ":" in name):
        back = [f.back for f in findings if f.verdict == verdict and f.back != UNDO]
        keep = f"keep {thing} {name.rpartition('/')[2]} in the new version"
        yield Remedy(fate=Fate.BACK, text=keep if verdict == IGNORED else back[0] if len(back) == 1 else UNDO)
    yield from dict.fromkeys(way for finding in findings for way in finding.ways)


def _named(query: QueryPlan) -> set[str]:
    """Return the names that expressions may refer to."""
    return {s.name for s in query.sources} | {s.name for s in query.stages}


def _without_successor(before: tuple[_T, ...], after: tuple[_T, ...]) -> list[_T]:
    names = {thing.name for thing in after}
    return [thing for thing in before if thing.name not in names]
