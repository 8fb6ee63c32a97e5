"""The row comparison of one update, stored in the new deployment's folder."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..names import check_part
from ..serde import from_json, to_json
from ..storage import Folder
from .request import ComparisonRequest, ExpectedDifference, ExpectedDifferences
from .row_difference import RowDifference

OLD, NEW = "old", "new"
MAX_SAMPLES = 10  # of a query


@attrs.frozen(kw_only=True)
class Findings:
    """The differences found so far."""

    rows: tuple[RowDifference, ...] = ()  # one a query
    batches: dict[str, tuple[int, ...]] = attrs.field(factory=dict)  # by query: the batches that were compared

    def add(self, batches: Sequence[int], difference: RowDifference) -> Findings:
        """Return the findings with those of more batches of a query."""
        query = difference.query
        before = next((each for each in self.rows if each.query == query), None)
        others = tuple(each for each in self.rows if each.query != query)
        compared = (*self.batches.get(query, ()), *batches)
        total = difference if before is None else _sum(before, difference)
        total = attrs.evolve(total, batches=(min(compared), max(compared)), compared=len(compared))
        return Findings(rows=(*others, total), batches={**self.batches, query: compared})


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
        text = self.folder.read("asked.json")
        return None if text is None else from_json(text, ComparisonRequest, self.folder.path("asked.json"))

    def expect(self, differences: Sequence[ExpectedDifference]) -> None:
        """Store the differences that the new version expects."""
        self.folder.write("expected.json", to_json(ExpectedDifferences(differences=tuple(differences))))

    def expected(self) -> ExpectedDifferences | None:
        """Return the expected differences; None until the new version has stored them."""
        text = self.folder.read("expected.json")
        return None if text is None else from_json(text, ExpectedDifferences, self.folder.path("expected.json"))

    def write(self, findings: Findings) -> None:
        """Store the findings."""
        self.folder.write("found.json", to_json(findings))

    def findings(self) -> Findings:
        """Return the findings so far."""
        text = self.folder.read("found.json")
        return Findings() if text is None else from_json(text, Findings, self.folder.path("found.json"))

    def rows(self, version: str, query: str) -> Folder:
        """Return the folder of a version's rows of a query. Each batch has its own folder, named by `note_rows`."""
        return self.folder.sub(f"rows/{version}/{query}")

    def recorded(self, query: str) -> list[int]:
        """Return the batches that both versions have recorded and that were not compared yet."""
        old, new = (set(_recorded(self.rows(version, query))) for version in (OLD, NEW))
        return sorted((old & new) - set(self.findings().batches.get(query, ())))

    def remove_compared(self, query: str) -> None:
        """Remove the rows of compared batches, and the new version's from before the first batch of the old one: a
        waiting new version records many of these."""
        compared = set(self.findings().batches.get(query, ()))
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


def _sum(one: RowDifference, other: RowDifference) -> RowDifference:
    counts = {n: getattr(one, n) + getattr(other, n) for n in ("equal", "changed", "only_old", "only_new", "expected")}
    samples = (*one.samples, *other.samples)[:MAX_SAMPLES]
    return attrs.evolve(one, **counts, samples=samples, not_compared=one.not_compared or other.not_compared)
