"""The names that the stages and sources of a saved state have in the new version: those given as renames, and those of
unnamed ones with a single plausible successor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from ..plan.plan import AppPlan, QueryPlan, SourcePlan, StagePlan
from ..plan.rename import rename_query, renames_of
from .rules.sources.source_options import reads_the_same
from .rules.stages.lone_stage import means_the_same

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
    """Return `old` with its unnamed stages and sources under the names of their successors in `new`."""
    return rename_query(old, _new_names(old, new, {}))


def app_under_new_names(old: AppPlan, new: AppPlan, renames: Mapping[str, str] | None = None) -> AppPlan:
    """Return `old` under the names of `new_names`."""
    names = new_names(old, new, renames)
    return attrs.evolve(old, queries=tuple(rename_query(query, names.get(query.name, {})) for query in old.queries))


def _new_names(old: QueryPlan, new: QueryPlan, renames: Names) -> Names:
    """Match sources first: the definitions of stages refer to them. A stage may refer to the stages below it, so match
    stages until no more are found."""
    names = dict(renames)
    renamed = rename_query(old, names)
    names |= dict(_successions(renamed.sources, new.sources, reads_the_same, set(names.values())))
    while True:
        renamed = rename_query(old, names)
        more = dict(_successions(renamed.stages, new.stages, means_the_same, set(names.values())))
        if not more:
            return names
        names |= more


def _successions(
    before: Sequence[_T], after: Sequence[_T], alike: Callable[[_T, _T], bool], taken: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield (old name, new name) for each unnamed one with exactly one named successor, which has no other
    predecessor."""
    known = {thing.name for thing in before}
    now = {thing.name: thing for thing in after}
    unnamed = [b for b in before if not b.named and b.name not in taken]
    left = [b for b in unnamed if b.name not in now or not alike(b, now[b.name])]
    added = [a for a in after if a.named and a.name not in known]
    for old in left:
        successors = [a for a in added if alike(old, a)]
        if len(successors) == 1 and sum(alike(b, successors[0]) for b in unnamed) == 1:
            yield old.name, successors[0].name
