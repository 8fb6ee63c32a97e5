"""Renames: the plan of saved state with its stages and sources under the names the new version gives them.

Everything after (rules, restore) then matches by equal names. A definition's texts refer to other stages and to sources
by name (``daily.count``, ``source-1.origin``), so those references are renamed with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from ..errors import InvalidInputError
from .plan import AppPlan, QueryPlan, quoted_parts


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
    called = _Names(names, query)
    if fixed := sorted(s.name for s in query.sources if s.native and s.name in names):
        raise InvalidInputError(
            f"source {', '.join(fixed)} of query {query.name} has its name from Spark's own name(), which is in its "
            "offset log, so it cannot be renamed: keep the name"
        )
    result = attrs.evolve(
        query,
        sources=tuple(attrs.evolve(s, name=names.get(s.name, s.name)) for s in query.sources),
        source_order=tuple(names.get(name, name) for name in query.source_order),
        watermarks=tuple(_watermark(w, called) for w in query.watermarks),
        stages=tuple(
            attrs.evolve(
                s,
                name=names.get(s.name, s.name),
                definition=_value(s.definition, called),
                types=None if s.types is None else {_text(path, called): kind for path, kind in s.types.items()},
                arguments=tuple(_text(argument, called) for argument in s.arguments),
                windows=tuple(attrs.evolve(w, column=_text(w.column, called)) for w in s.windows),
                filters=_texts(s.filters, called),
                arrivals=_texts(s.arrivals, called),
                paths=_paths(s.paths, called),
                late_rows=_texts(s.late_rows, called),
                hidden=_texts(s.hidden, called),
            )
            for s in query.stages
        ),
        filters=_texts(query.filters, called),
        paths=_paths(query.paths, called),
    )
    stages, sources = [s.name for s in result.stages], [s.name for s in result.sources]
    for kind, given in (("stages", stages), ("sources", sources)):
        if doubled := sorted({n for n in given if given.count(n) > 1}):
            raise InvalidInputError(
                f"after the renames query {query.name} would have two {kind} named {', '.join(doubled)}; correct them"
            )
    return result


def _texts(texts: tuple[str, ...] | None, names: _Names) -> tuple[str, ...] | None:
    return None if texts is None else tuple(sorted(_text(text, names) for text in texts))


def _paths(paths: tuple[tuple[str, ...], ...] | None, names: _Names) -> tuple[tuple[str, ...], ...] | None:
    return None if paths is None else tuple(sorted(tuple(sorted(_text(t, names) for t in path)) for path in paths))


def _names(query: QueryPlan) -> list[str]:
    return [*(s.name for s in query.stages), *(s.name for s in query.sources)]


def _value(value: Any, names: _Names) -> Any:
    if isinstance(value, dict):
        return {k: _value(v, names) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(v, names) for v in value]
    return _text(value, names) if isinstance(value, str) else value


def _watermark(text: str, names: _Names) -> str:
    """``column, above stage, above stage delayed by 5 ms``."""
    where, by, delay = text.partition(" delayed by ")
    column, *above = where.split(", above ")
    return ", above ".join([_text(column, names), *(names.get(stage, stage) for stage in above)]) + by + delay


class _Names(dict[str, str]):
    """The new names by the old ones.

    stages: the names of the query's stages
    reference: a name of any stage or source of the query, where a text refers to it
    """

    def __init__(self, new: Mapping[str, str], query: QueryPlan) -> None:
        super().__init__(new)
        self.stages = {s.name for s in query.stages}
        known = "|".join(map(re.escape, sorted(set(_names(query)), key=len, reverse=True)))
        self.reference = re.compile(rf"({known})(?=\.|: )")


def _text(text: str, names: _Names) -> str:
    """All names at once, so that two may swap; never inside a text literal. A reference is a name with a dot, or with a
    colon where it says of which branch of a union a value is (``a: '1'``). One may follow a stage's, whose output it is
    part of: ``daily.source-1.origin``; what follows a source's is a column, whatever it is called."""
    return "".join(part if quoted else _referring(part, names) for part, quoted in quoted_parts(text))


_BEFORE = re.compile(r"(?<![\w\-.])")  # where a reference may begin: in no longer name, and behind no other


def _referring(text: str, names: _Names) -> str:
    done, at = "", 0
    while at < len(text):
        found = names.reference.match(text, at) if _BEFORE.match(text, at) else None
        while found is not None:
            done, at = done + names.get(found[1], found[1]), found.end()
            chained = found[1] in names.stages and text.startswith(".", at)
            found = names.reference.match(text, at + 1) if chained else None
            if found is not None:
                done, at = done + ".", at + 1
        if at < len(text):
            done, at = done + text[at], at + 1
    return done
