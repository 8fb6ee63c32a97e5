"""Renames: the plan of saved state with its stages and sources under the names the new version gives them.

Everything after (rules, restore) then matches by equal names. Expressions refer to other stages and to sources by name,
so those references are renamed with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from ..errors import InvalidInputError
from .expressions import Expression
from .plan import AppPlan, Path, QueryPlan, StagePlan, Watermark
from .visitors import renamed, with_columns

_Change = Callable[[Expression], Expression]


def rename(plan: AppPlan, renames: Mapping[str, str]) -> AppPlan:
    """`plan` with stages and sources renamed: ``{"query/old": "new"}``, or ``{"old": "new"}`` where one query has it.

    InvalidInputError for a name the plan does not have (a rename of nothing hides a mistake), for one that several
    queries have, and when two would share a name.
    """
    known = [f"{query.name}/{name}" for query in plan.queries for name in _names(query)]
    for key, new in renames.items():
        owners = sorted({name.rpartition("/")[0] for name in known if key in (name, name.rpartition("/")[2])})
        if not owners:
            raise InvalidInputError(
                f"rename of {key}: the saved state has no such stage or source (known: "
                f"{', '.join(sorted(known)) or 'none'}); correct the name"
            )
        if len(owners) > 1:
            raise InvalidInputError(
                f"rename of {key}: queries {', '.join(owners)} have a stage or source of this name; say which one is "
                f"meant: {' or '.join(f'{owner}/{key}={new}' for owner in owners)}"
            )
    return attrs.evolve(plan, queries=tuple(rename_query(query, renames_of(query, renames)) for query in plan.queries))


def check_new_names(new: AppPlan, renames: Mapping[str, str]) -> None:
    """InvalidInputError for a rename to a name that the new version does not have."""
    known = {f"{query.name}/{name}" for query in new.queries for name in _names(query)}
    for key, name in renames.items():
        if name not in known | {full.rpartition("/")[2] for full in known}:
            raise InvalidInputError(
                f"rename of {key}: the new version has no stage or source {name} (it has: "
                f"{', '.join(sorted(known)) or 'none'}); correct the name"
            )


def renames_of(query: QueryPlan, renames: Mapping[str, str]) -> dict[str, str]:
    """Return those renames that name a stage or source of the query, without the query's name."""
    names = {}
    for key, new in renames.items():
        owner, _, name = key.rpartition("/")
        if owner in ("", query.name) and name in _names(query):
            names[name] = new.removeprefix(f"{query.name}/")
    return names


def rename_query(query: QueryPlan, names: Mapping[str, str]) -> QueryPlan:
    """The query with its stages and sources under other names. InvalidInputError when two would share a name."""
    if not names:
        return query
    if fixed := sorted(s.name for s in query.sources if s.native and s.name in names):
        raise InvalidInputError(
            f"source {', '.join(fixed)} of query {query.name} has its name from Spark's own name(), which is in its "
            "offset log, so it cannot be renamed: keep the name"
        )
    result = _changed(query, names, lambda expression: renamed(expression, names))
    stages, sources = [s.name for s in result.stages], [s.name for s in result.sources]
    for kind, given in (("stages", stages), ("sources", sources)):
        if doubled := sorted({n for n in given if given.count(n) > 1}):
            raise InvalidInputError(
                f"after the renames query {query.name} would have two {kind} named {', '.join(doubled)}; correct them"
            )
    return result


def rename_columns(query: QueryPlan, columns: Mapping[tuple[str, str], str]) -> QueryPlan:
    """Return the query with columns of sources under other names. columns: the new name by source and old name"""
    return _changed(query, {}, lambda expression: with_columns(expression, columns)) if columns else query


def _changed(query: QueryPlan, names: Mapping[str, str], change: _Change) -> QueryPlan:
    def path(of: Path) -> Path:
        stages = (names.get(name, name) for name in of.stages)
        steps = (attrs.evolve(step, expression=change(step.expression)) for step in of.steps)
        return Path(names.get(of.source, of.source), tuple(stages), tuple(steps))

    def watermark(of: Watermark) -> Watermark:
        above = tuple(names.get(name, name) for name in of.above)
        return attrs.evolve(of, column=of.column and change(of.column), above=above)

    def stage(of: StagePlan) -> StagePlan:
        return attrs.evolve(of.changed(change), name=names.get(of.name, of.name), paths=tuple(map(path, of.paths)))

    return attrs.evolve(
        query,
        sources=tuple(attrs.evolve(s, name=names.get(s.name, s.name)) for s in query.sources),
        source_order=tuple(names.get(name, name) for name in query.source_order),
        watermarks=tuple(map(watermark, query.watermarks)),
        stages=tuple(map(stage, query.stages)),
        filters=tuple(map(change, query.filters)),
        paths=None if query.paths is None else tuple(map(path, query.paths)),
    )


def _names(query: QueryPlan) -> list[str]:
    return [*(s.name for s in query.stages), *(s.name for s in query.sources)]
