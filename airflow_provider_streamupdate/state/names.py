"""Names of apps, queries, stages, deployments and snapshots. They become path segments, so they are plain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .branches import mistaken
from .errors import InvalidInputError

MAX_LENGTH = 200  # leaves room under the 255 bytes most file systems allow for one path segment
# How texts of definitions begin that are of no source and no stage (lineage.py).
_RESERVED = ("static:", "python:")
_ALLOWED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:+=@-]*")


def check_name(kind: str, name: object) -> str:
    """Return `name` when it can be a name of `kind` (e.g. ``"snapshot"``), else raise InvalidInputError."""
    allowed = "use letters, digits and . _ - : + = @, starting with a letter, a digit or _"
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"the {kind} name is empty; {allowed}")
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    if len(name) > MAX_LENGTH:
        raise InvalidInputError(f"{kind} name {shown!r} has {len(name)} characters; at most {MAX_LENGTH} are allowed")
    if "/" in name or ".." in name or not _ALLOWED.fullmatch(name):
        raise InvalidInputError(f"{kind} name {shown!r} is not allowed; {allowed}")
    return name


def confused(sources: Iterable[str], stages: Iterable[str]) -> Iterator[str]:
    """What is wrong with a query's names, each in words: texts of definitions refer to sources and stages alike as
    ``name.``, so that one name must not be read as another one."""
    sources, stages = list(sources), list(stages)
    for name in sorted(set(sources) & set(stages)):
        yield f"a source and a stage are both named {name!r}"
    names = sorted({*sources, *stages})
    for name in names:
        if prefix := next((p for p in _RESERVED if name.startswith(p)), None):
            yield f"the name {name!r} begins with {prefix!r}, which means something else in a plan"
        for other in names:
            if mistaken(name, other):
                yield f"the name {name!r} can be read as {other!r}"
