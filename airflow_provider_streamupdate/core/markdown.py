"""Markdown of reports: tables and blocks of code. Values may be anything: a name, an error, a line of code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty line below it.

    rows: of values in the order of the columns; None gives an empty cell
    """
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield a list, one item a line, and an empty line below it where there is an item."""
    items = [f"- {one_line(line)}" for line in lines]
    yield from [*items, ""] if items else []


def fenced(language: str, lines: Sequence[str]) -> list[str]:
    """Return a block of code, within more backticks than any line has in a row."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *lines, fence]


def one_line(text: str) -> str:
    """Return the text with a space in place of each whitespace character: a break would end its item or cell."""
    return re.sub(r"\s", " ", text)


def _cell(value: Any) -> str:
    """Return a value as a cell. A bar would end it."""
    return "" if value is None else one_line(str(value)).replace("|", "\\|")
