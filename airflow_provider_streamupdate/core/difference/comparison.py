"""The row comparison of one update, stored in the new deployment's folder."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..names import check_part
from ..serde import read_file, to_json
from ..storage import Folder
from .request import ComparisonRequest, ExpectedDifference, ExpectedDifferences
from .row_difference import RowDifference

OLD, NEW = "old", "new"


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
