"""The row comparison of one update, stored in the new deployment's folder."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..errors import InvalidInputError
from ..names import check_name, check_part
from ..serde import read_file, to_json
from ..storage import Folder
from .row_difference import RowDifference

OLD, NEW = "old", "new"


@attrs.frozen(kw_only=True)
class ComparisonRequest:
    """The queries whose rows are compared."""

    keys: dict[str, tuple[str, ...]]  # by query: the columns that pair rows
    tolerance: float = 0.0  # the share by which floating columns of paired rows may differ


@attrs.frozen(kw_only=True)
class ExpectedDifference:
    """A difference that is no problem: rows of a query, or one of its columns."""

    query: str
    column: str | None = None  # it is not compared
    # An SQL predicate over the compared columns. A row for which it is null is not expected to differ.
    where: str | None = None

    def __attrs_post_init__(self) -> None:
        where, column = self.where, self.column
        check_name("query", self.query)
        if column is not None and not (isinstance(column, str) and column):
            raise InvalidInputError(f"column={column!r} is no name of a column")
        if where is not None and column is not None:
            raise InvalidInputError(
                f"where={where!r} and column={column!r} are two expected differences: call expect_difference twice"
            )
        if column is None and not (isinstance(where, str) and where.strip()):
            raise InvalidInputError(
                f"where={where!r} is no condition; write one in SQL over the columns of the rows, e.g. "
                "\"carrier = 'XX'\""
            )


@attrs.frozen(kw_only=True)
class ExpectedDifferences:
    """All differences that the new version's author expects."""

    differences: tuple[ExpectedDifference, ...] = ()

    def predicates(self, query: str) -> list[str]:
        """Return the predicates for rows of a query."""
        return [each.where for each in self.differences if each.query == query and each.where is not None]

    def columns(self, query: str) -> list[str]:
        """Return the columns of a query that are not compared."""
        return [each.column for each in self.differences if each.query == query and each.column is not None]


@attrs.frozen(kw_only=True)
class Findings:
    """The differences found so far."""

    rows: dict[str, RowDifference] = attrs.field(factory=dict)  # by query


class Comparison:
    """The files of a row comparison: the request, the expected differences, the recorded rows, the findings."""

    def __init__(self, deployment: Folder) -> None:
        self.folder = deployment.sub("diff")

    def ask(self, request: ComparisonRequest | None) -> None:
        """Store what to compare (None: nothing). Findings and rows of another request are removed."""
        if self.replaces(request):
            self.folder.remove("found.json")
            self.remove_rows()
            self.folder.remove("asked.json")
        if request is not None:
            self.folder.write("asked.json", to_json(request))

    def replaces(self, request: ComparisonRequest | None) -> bool:
        """Return whether an earlier try of the update asked for something else."""
        before = self.request()
        return before is not None and before != request

    def request(self) -> ComparisonRequest | None:
        """Return what to compare; None: nothing."""
        return read_file(self.folder, "asked.json", ComparisonRequest)

    def expect(self, differences: Sequence[ExpectedDifference]) -> None:
        """Store the differences that the new version expects."""
        self.folder.write("expected.json", to_json(ExpectedDifferences(differences=tuple(differences))))

    def expected(self) -> ExpectedDifferences | None:
        """Return the expected differences; None until the new version has stored them."""
        return read_file(self.folder, "expected.json", ExpectedDifferences)

    def findings(self) -> dict[str, RowDifference]:
        """Return the differences found so far, by query."""
        return (read_file(self.folder, "found.json", Findings) or Findings()).rows

    def add(self, difference: RowDifference) -> None:
        """Store what was found in more batches of a query."""
        found, query = self.findings(), difference.query
        total = found[query].plus(difference) if query in found else difference
        self.folder.write("found.json", to_json(Findings(rows={**found, query: total})))

    def compared(self, query: str) -> set[int]:
        """Return the batches of a query that were compared."""
        found = self.findings()
        return set(found[query].batches) if query in found else set()

    def rows(self, version: str, query: str) -> Folder:
        """Return the folder of a version's rows of a query. Each batch has its own folder, named by `note_rows`."""
        return self.folder.sub(f"rows/{version}/{query}")

    def recorded(self, query: str) -> list[int]:
        """Return the batches that both versions have recorded and that were not compared yet."""
        old, new = (set(_recorded(self.rows(version, query))) for version in (OLD, NEW))
        return sorted((old & new) - self.compared(query))

    def remove_compared(self, query: str) -> None:
        """Remove the rows of compared batches, and the new version's from before the first batch of the old one: a
        waiting new version records many of these."""
        compared = self.compared(query)
        first = min(compared.union(_recorded(self.rows(OLD, query))), default=0)
        for version in (OLD, NEW):
            rows = self.rows(version, query)
            for batch in [each for each in _recorded(rows) if each in compared or each < first]:
                where = rows_of(rows, batch)
                rows.remove(str(batch))
                rows.remove(where)

    def remove_rows(self) -> None:
        """Remove all recorded rows."""
        self.folder.remove("rows")


def note_rows(rows: Folder, batch: int, where: str) -> None:
    """Note that a folder holds all rows of a batch. A batch that runs again is recorded into another folder: the first
    one may be being read."""
    rows.write(str(batch), where.encode())


def rows_of(rows: Folder, batch: int) -> str:
    """Return the folder with the rows of a recorded batch."""
    return check_part((rows.read(str(batch)) or b"").decode(), rows.path(str(batch)))


def _recorded(rows: Folder) -> list[int]:
    return [int(name) for name in rows.names() if name.isdigit()]
