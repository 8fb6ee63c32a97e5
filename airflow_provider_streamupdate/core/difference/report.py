"""The report on a new version that ran the old one's batches along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from ..errors import StreamUpdateError
from .difference import SECONDS, ComparedFigure, QueryDifference
from .limits import percent
from .row_difference import RowDifference

_FIGURES = ("rows_in", "rows_out", "rows_kept", "seconds")  # of a batch, in the order of BATCH_COLUMNS


@attrs.frozen(kw_only=True)
class DifferenceReport:
    """What both versions of an app made of the same batches.

    rows: of the queries whose rows were compared
    uncompared: each a sentence: what was asked for and did not come about, which is a problem
    remarks: each a sentence: what the comparison does not cover
    """

    app: str
    queries: tuple[QueryDifference, ...] = ()
    rows: tuple[RowDifference, ...] = ()
    uncompared: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    BATCH_COLUMNS = ("query", "batch", "rows in", "old in", "rows out", "old out", "state rows", "old state",
                     "seconds", "old seconds")  # fmt: skip
    FIGURE_COLUMNS = ("query", "figure", "new", "old", "change", "allowed", "batches")
    ROW_COLUMNS = ("query", "batches", "equal", "changed", "only old", "only new", "expected")
    SAMPLE_COLUMNS = ("query", "batch", "kind", "column", "new", "old")

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """What went wrong, a line each."""
        figures = [line for query in self.queries for line in query.problems]
        return [*figures, *(line for rows in self.rows for line in rows.problems), *self.uncompared]

    @property
    def outcome(self) -> str:
        if len(self.problems) > len(self.uncompared):
            return "too different"
        if self.uncompared:
            return "not compared as asked"
        compared = any(q.batches for q in self.queries) or any(r.batches for r in self.rows)
        return "no problem" if compared else "nothing was compared"

    def notes(self) -> Iterator[str]:
        """What was not compared, and why."""
        for query in self.queries:
            yield from query.not_compared
        for rows in self.rows:
            yield from rows.notes()
        yield from self.remarks

    def batch_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a batch, in the order of BATCH_COLUMNS; None where there is no figure."""
        for query in self.queries:
            for pair in query.batches:
                figures = (getattr(side, part) for part in _FIGURES for side in (pair.new, pair.old))
                yield (query.query, pair.batch, *figures)

    def figure_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a figure of a query, in the order of FIGURE_COLUMNS: sums, medians and state rows of stages."""
        for query in self.queries:
            for figure in query.figures:
                number = str(figure.batches[0]) if len(figure.batches) == 1 else f"{len(figure.batches)} batches"
                yield (
                    query.query,
                    figure.name,
                    _short(figure.new),
                    _short(figure.old),
                    figure.changed,
                    _allowed(figure),
                    number,
                )

    def difference_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a query whose rows were compared, in the order of ROW_COLUMNS."""
        for r in self.rows:
            yield (r.query, r.span, r.equal, r.changed, r.only_old, r.only_new, r.expected)

    def sample_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a column of a row that differs, in the order of SAMPLE_COLUMNS: its keys, and what differs."""
        for rows in self.rows:
            for sample in rows.samples:
                old, new = sample.old or {}, sample.new or {}
                for column in dict.fromkeys((*rows.keys, *sample.differing())):
                    yield (rows.query, sample.batch, sample.kind, column, _cell_of(sample.new, new, column),
                           _cell_of(sample.old, old, column))  # fmt: skip

    def to_markdown(self) -> str:
        head = f"The new version of **{self.app}** beside the old one: **{self.outcome}**"
        lines = [f"- {_line(line)}" for line in (*self.problems, *self.notes())]
        tables = (
            (self.FIGURE_COLUMNS, self.figure_rows()),
            (self.BATCH_COLUMNS, self.batch_rows()),
            (self.ROW_COLUMNS, self.difference_rows()),
            (self.SAMPLE_COLUMNS, self.sample_rows()),
        )
        shown = [text for text in (_table(columns, rows) for columns, rows in tables) if text]
        return "\n".join([head, "", *([*lines, ""] if lines else []), *shown])


class DifferenceError(StreamUpdateError):
    """The new version's results differ too much from the old one's; carries the report."""

    def __init__(self, message: str, report: DifferenceReport) -> None:
        super().__init__(message)
        self.report = report


def _allowed(figure: ComparedFigure) -> str | None:
    if figure.limit is None:
        return None
    return f"{percent(figure.limit)} more" if figure.figure == SECONDS else percent(figure.limit)


def _short(number: int | float) -> int | float:
    return round(number, 3) if isinstance(number, float) else number


def _cell_of(row: dict[str, str | None] | None, values: dict[str, str | None], column: str) -> str:
    """A value in a table; empty where that version has no such row."""
    value = values.get(column)
    return "" if row is None else "null" if value is None else value


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _table(columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str | None:
    """None without a row."""
    names = list(columns)
    lines = [
        "| " + " | ".join("" if c is None else _line(str(c)).replace("|", "\\|") for c in row) + " |" for row in rows
    ]
    return "\n".join([f"| {' | '.join(names)} |", "|---" * len(names) + "|", *lines, ""]) if lines else None
