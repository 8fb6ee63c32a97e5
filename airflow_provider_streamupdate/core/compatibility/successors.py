"""The names that the stages and sources of a saved state have in the new version: those given as renames, and those of
the ones that got or lost a name and have a single plausible successor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import attrs

from ..plan.plan import AppPlan, QueryPlan, SourcePlan, StagePlan
from ..plan.rename import rename_columns, rename_query, renames_of
from .rules.sources.source_options import format_of, reads_the_same
from .rules.stages.change import means_the_same

_CASE_SENSITIVE = "spark.sql.caseSensitive"
_T = TypeVar("_T", SourcePlan, StagePlan)
Names = dict[str, str]  # of one query: the name in the saved state -> the name in the new version


def new_names(old: AppPlan | None, new: AppPlan | None, renames: Mapping[str, str] | None = None) -> dict[str, Names]:
    """Return the names that changed, by query; none without a plan. Renames of names that `old` does not have are left
    out."""
    found: dict[str, Names] = {}
    if old is None or new is None:
        return found
    for query in new.queries:
        before = old.query(query.name)
        if before is not None and (names := _new_names(before, query, renames_of(before, renames or {}))):
            found[query.name] = names
    return found


def under_new_names(old: QueryPlan, new: QueryPlan) -> QueryPlan:
    """Return `old` with the stages and sources that got or lost a name under the names of their successors in `new`."""
    return _renamed(old, new, _new_names(old, new, {}))


def app_under_new_names(old: AppPlan, new: AppPlan, renames: Mapping[str, str] | None = None) -> AppPlan:
    """Return `old` under the names of `new_names`."""
    names = new_names(old, new, renames)
    queries = ((query, new.query(query.name), names.get(query.name, {})) for query in old.queries)
    return attrs.evolve(old, queries=tuple(_renamed(q, now, n) if now else rename_query(q, n) for q, now, n in queries))


def _renamed(old: QueryPlan, new: QueryPlan, names: Names) -> QueryPlan:
    """Return `old` under new names; columns, too, whose case alone changed where a source finds them in any case."""
    old = rename_query(old, names)
    before = {source.name: source for source in old.sources}
    columns: dict[tuple[str, str], str] = {}
    for source in new.sources if {q.conf.get(_CASE_SENSITIVE) for q in (old, new)} == {"false"} else ():
        was = before.get(source.name)
        if was is not None and format_of(was) == format_of(source) and format_of(source).any_case:
            now = {name.lower(): name for name in source.columns}
            columns |= {(source.name, c): now[c.lower()] for c in was.columns if now.get(c.lower(), c) != c}
    return rename_columns(old, columns)


def _new_names(old: QueryPlan, new: QueryPlan, renames: Names) -> Names:
    """Match sources first: the definitions of stages refer to them. A stage may refer to the stages below it, so match
    stages until no more are found."""
    names, taken = dict(renames), set(renames.values())
    known = {s.name for s in old.sources} | {s.name for s in old.stages}
    found = _successions(rename_query(old, names).sources, new.sources, reads_the_same, taken)
    while True:
        names, taken = _followed_by(names, found, known), taken | {*found.values()}
        found = _successions(_renamed(old, new, names).stages, new.stages, means_the_same, taken)
        if not found:
            return names


def _followed_by(names: Names, found: Names, known: set[str]) -> Names:
    """Return both renames in one. What has a name that another one gets now has the name that one leaves."""
    left = sorted((known | {*names.values()}) & {*found.values()} - found.keys())
    found = {**found, **dict(zip(left, sorted(found.keys() - {*found.values()}), strict=False))}
    before = {now: was for was, now in names.items()}
    return {**names, **{before.get(was, was): now for was, now in found.items()}}


def _successions(before: Sequence[_T], after: Sequence[_T], alike: Callable[[_T, _T], bool], taken: set[str]) -> Names:
    """Return the new name of each one without a name that has another place now, and of each one that got or lost a
    name, if it has exactly one successor, which has no other predecessor. Whoever gives something another name may mean
    that it starts anew."""
    now = {thing.name: thing for thing in after}
    free = [b for b in before if b.name not in taken and not (b.named and b.name in now)]
    left = {b.name: b for b in free if b.name not in now or not alike(b, now[b.name])}
    held = {thing.name for thing in before} - left.keys()
    found = {}
    for old in left.values():
        successors = [a for a in after if a.name not in held and not (old.named and a.named) and alike(old, a)]
        if len(successors) == 1 and sum(alike(b, successors[0]) for b in free) == 1:
            found[old.name] = successors[0].name
    return found
