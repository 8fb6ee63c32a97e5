"""Names of apps, queries, stages, deployments and snapshots. They become path segments, so they are plain."""

from __future__ import annotations

import re

from .errors import InvalidInputError

MAX_LENGTH = 200  # leaves room under the 255 bytes most file systems allow for one path segment
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
