"""The key of a session window in a stage's definition: ``session_window(column, gap ..., #digest)``, or one such text
for each branch of a union (streaming/planning/expressions/windows.py writes it, union_branches.py unites them)."""

from __future__ import annotations

import re

from ..union_branches import CLOSE, OPEN

_WHOLE = re.compile(rf"{OPEN}*session_window\(.*, #\w+\){CLOSE}*$")
_BEGIN, _GAP, _END = "session_window(", ", gap ", re.compile(r", #\w+\)")


def is_session(key: str) -> bool:
    """Whether the key is a session window, on every branch."""
    return _WHOLE.match(key) is not None


def columns_and_gaps(key: str) -> tuple[list[str], list[str]]:
    """The time columns and the gaps of a session window, by branch; none of another key."""
    columns, gaps, end, session = list[str](), list[str](), 0, is_session(key)
    while session and (begin := key.find(_BEGIN, end)) >= 0:
        column = begin + len(_BEGIN)
        gap = key.find(_GAP, column)
        digest = _END.search(key, gap) if gap >= 0 else None
        if digest is None:
            break
        columns.append(key[column:gap])
        gaps.append(key[gap + len(_GAP) : digest.start()])
        end = digest.end()
    return columns, gaps
