"""Renames: the plan of saved state with its stages and sources under the names the new version gives them.

Everything after (rules, restore) then matches by equal names. Expressions refer to other stages and to sources by name,
so those references are renamed with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..errors import InvalidInputError
from .plan import AppPlan, Path, QueryPlan, Watermark
from .visitors import renamed


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
    result = attrs.evolve(
        query,
        sources=tuple(attrs.evolve(s, name=names.get(s.name, s.name)) for s in query.sources),
        source_order=tuple(names.get(name, name) for name in query.source_order),
        watermarks=tuple(_watermark(w, names) for w in query.watermarks),
        stages=tuple(
            attrs.evolve(
                s.changed(lambda expression: renamed(expression, names)),
                name=names.get(s.name, s.name),
                paths=tuple(_path(path, names) for path in s.paths),
            )
            for s in query.stages
        ),
        filters=tuple(renamed(each, names) for each in query.filters),
        paths=None if query.paths is None else tuple(_path(path, names) for path in query.paths),
    )
    stages, sources = [s.name for s in result.stages], [s.name for s in result.sources]
    for kind, given in (("stages", stages), ("sources", sources)):
        if doubled := sorted({n for n in given if given.count(n) > 1}):
            raise InvalidInputError(
                f"after the renames query {query.name} would have two {kind} named {', '.join(doubled)}; correct them"
            )
    return result


def _path(path: Path, names: Mapping[str, str]) -> Path:
    stages = (names.get(name, name) for name in path.stages)
    steps = (attrs.evolve(step, expression=renamed(step.expression, names)) for step in path.steps)
    return Path(names.get(path.source, path.source), tuple(stages), tuple(steps))


def _watermark(watermark: Watermark, names: Mapping[str, str]) -> Watermark:
    column = watermark.column and renamed(watermark.column, names)
    return attrs.evolve(watermark, column=column, above=tuple(names.get(name, name) for name in watermark.above))


def _names(query: QueryPlan) -> list[str]:
    return [*(s.name for s in query.stages), *(s.name for s in query.sources)]
