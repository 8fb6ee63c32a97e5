"""The report on a new version that ran the old one's batches along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ..errors import StreamUpdateError
from ..markdown import bullets, table
from .difference import QueryDifference
from .figures import BATCH_COLUMNS, batch_row
from .row_difference import RowDifference


@attrs.frozen(kw_only=True)
class DifferenceReport:
    """The results of both versions of an app for the same batches."""

    app: str
    queries: tuple[QueryDifference, ...] = ()
    rows: tuple[RowDifference, ...] = ()  # of the queries whose rows were to be compared
    uncompared: tuple[str, ...] = ()  # a sentence for each requested comparison that did not happen: a problem
    remarks: tuple[str, ...] = ()  # what the comparison does not cover

    FIGURE_COLUMNS = ("query", "figure", "new", "old", "change", "allowed", "batches")
    ROW_COLUMNS = ("query", "batches", "equal", "changed", "only old", "only new", "expected")
    SAMPLE_COLUMNS = ("query", "batch", "kind", "column", "new", "old")

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def differences(self) -> list[str]:
        """Limits that were exceeded and rows that differ, a line each."""
        limits = [line for query in self.queries for line in query.problems]
        return [*limits, *(line for rows in self.rows for line in rows.problems)]

    @property
    def problems(self) -> list[str]:
        """The differences, and the requested comparisons that did not happen."""
        return [*self.differences, *self.uncompared]

    @property
    def outcome(self) -> str:
        if self.differences:
            return "too different"
        if self.uncompared:
            return "not compared as asked"
        compared = any(q.batches for q in self.queries) or any(r.batches for r in self.rows)
        return "no problem" if compared else "nothing was compared"

    def notes(self) -> Iterator[str]:
        """Yield what was not compared, and why."""
        for query in self.queries:
            yield from query.not_compared
        for rows in self.rows:
            yield from rows.notes()
        yield from self.remarks

    def batch_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a line a batch, in the order of BATCH_COLUMNS."""
        yield from (batch_row(query.query, pair.new, pair.old) for query in self.queries for pair in query.batches)

    def figure_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a line a figure of a query, in the order of FIGURE_COLUMNS."""
        for query in self.queries:
            for f in query.figures:
                batches = str(f.batches[0]) if len(f.batches) == 1 else f"{len(f.batches)} batches"
                yield (query.query, f.name, round(f.new, 3), round(f.old, 3), f.changed, f.allowed, batches)

    def difference_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a line a query whose rows were to be compared, in the order of ROW_COLUMNS."""
        for r in self.rows:
            span = "not compared" if r.not_compared else r.span
            yield (r.query, span, r.equal, r.changed, r.only_old, r.only_new, r.expected)

    def sample_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a line a column of a row that differs, in the order of SAMPLE_COLUMNS: its keys, and what differs."""
        for rows in self.rows:
            for sample in rows.samples:
                for column in dict.fromkeys((*rows.keys, *sample.differ)):
                    values = (_cell(sample.new, column), _cell(sample.old, column))
                    yield (rows.query, sample.batch, sample.kind, column, *values)

    def tables(self) -> dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
        """Return the columns and rows of each table."""
        return {
            "figures": (self.FIGURE_COLUMNS, list(self.figure_rows())),
            "batches": (BATCH_COLUMNS, list(self.batch_rows())),
            "rows": (self.ROW_COLUMNS, list(self.difference_rows())),
            "samples": (self.SAMPLE_COLUMNS, list(self.sample_rows())),
        }

    def to_markdown(self) -> str:
        head = f"The new version of **{self.app}** beside the old one: **{self.outcome}**"
        lines = (line for columns, rows in self.tables().values() if rows for line in table(columns, rows))
        return "\n".join([head, "", *bullets((*self.problems, *self.notes())), *lines])


class DifferenceError(StreamUpdateError):
    """The new version's results differ too much from the old one's; carries the report."""

    def __init__(self, message: str, report: DifferenceReport) -> None:
        super().__init__(message)
        self.report = report


def _cell(row: dict[str, str | None] | None, column: str) -> str:
    """Return a value in a table; empty where that version has no such row."""
    if row is None:
        return ""
    value = row.get(column)
    return "null" if value is None else value
