"""The key of a session window in a stage's definition: ``session_window(column, gap ..., #digest)``, or one such text
for each branch of a union (streaming/planning/expressions/windows.py writes it, branches.py unites them)."""

from __future__ import annotations

import re

from ..union_branches import CLOSE, OPEN

_WHOLE = re.compile(rf"{OPEN}*session_window\(.*, #\w+\){CLOSE}*$")
_PARTS = re.compile(r"session_window\((.*?), gap (.*?), #\w+\)")


def is_session(key: str) -> bool:
    """Whether the key is a session window, on every branch."""
    return _WHOLE.match(key) is not None


def columns_and_gaps(key: str) -> tuple[list[str], list[str]]:
    """The time columns and the gaps of a session window, by branch; none of another key."""
    found = _PARTS.findall(key) if is_session(key) else []
    return [column for column, _ in found], [gap for _, gap in found]
