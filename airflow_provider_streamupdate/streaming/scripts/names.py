"""The names of a script's queries: queryName, else what tells their own checkpoint locations apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ...core.errors import ApplicationError
from .run import ScriptQuery

_LONE = "query-1"


def name_queries(queries: Sequence[ScriptQuery]) -> None:
    """Name the queries that have no queryName. A single one is query-1. ApplicationError where nothing tells several
    apart: by their order each would go on with another one's state when one is added."""
    unnamed = [query for query in queries if not query.name]
    found = [_name(part) for part in _parts([query.checkpoint or "" for query in unnamed])]
    if len(unnamed) == 1:
        found = [_LONE]
    elif len({*found} - {""}) < len(unnamed):
        raise ApplicationError(
            f"the queries that {' and '.join(query.place for query in unnamed)} start have neither a queryName nor a "
            "checkpointLocation of their own, so that nothing tells them apart: give each a queryName"
        )
    for query in queries:
        query.name = _name(query.name)
    for query, name in zip(unnamed, found, strict=True):
        query.name = name
    for name, count in Counter(query.name for query in queries).items():
        places = [query.place for query in queries if query.name == name]
        if count > 1 or not name:
            raise ApplicationError(
                f"{' and '.join(places)} {'start' if count > 1 else 'starts'} a query that would be named {name!r} "
                "here: give each a queryName of its own, of letters, digits, and . _ - : + = @"
            )


def _parts(paths: Sequence[str]) -> list[str]:
    """Return what is left of paths without the folders that all begin with, and those that all end with."""
    rest = [[part for part in path.split("/") if part] for path in paths]
    for end in (0, -1):
        while rest and all(rest) and len({parts[end] for parts in rest}) == 1:
            for parts in rest:
                del parts[end]
    return ["-".join(parts) for parts in rest]


def _name(text: str) -> str:
    """Return the text without what a name may not have. A number is no name of a query alone, which would be another
    one's."""
    name = re.sub(r"[^A-Za-z0-9._:+=@ -]+|\.{2,}", "-", text).strip(" .-")
    return f"checkpoint-{name}" if name.isdigit() else name
