"""The comparison of rows during an update: what was asked for and what was found, as files of the new deployment."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..names import check_part
from ..serde import from_json, to_json
from ..storage import Folder
from .expected import ExpectedDifference
from .limits import Asked
from .row_difference import RowDifference, Sample

OLD, NEW = "old", "new"
MOST_SAMPLES = 10  # of a query


@attrs.frozen(kw_only=True)
class Expected:
    """What the new version's author expects to differ."""

    differences: tuple[ExpectedDifference, ...] = ()

    def of(self, query: str) -> list[str]:
        """The predicates for a query."""
        return [each.where for each in self.differences if each.query == query and each.where is not None]

    def columns(self, query: str) -> list[str]:
        """The columns of a query that are not compared."""
        return [each.column for each in self.differences if each.query == query and each.column is not None]


@attrs.frozen(kw_only=True)
class Found:
    """rows: a query each; batches: those that were compared, by query"""

    rows: tuple[RowDifference, ...] = ()
    batches: dict[str, tuple[int, ...]] = attrs.field(factory=dict)

    def also(self, compared: Sequence[int], found: RowDifference) -> Found:
        """With other batches of a query."""
        before = next((r for r in self.rows if r.query == found.query), None)
        rows = tuple(r for r in self.rows if r.query != found.query)
        batches = (*self.batches.get(found.query, ()), *compared)
        together = found if before is None else _together(before, found)
        together = attrs.evolve(together, batches=(min(batches), max(batches)), compared=len(batches))
        return Found(rows=(*rows, together), batches={**self.batches, found.query: batches})


class Comparison:
    """Of the update to a deployment, whose folder this is."""

    def __init__(self, deployment: Folder) -> None:
        self.folder = deployment.sub("diff")

    def ask(self, asked: Asked | None) -> None:
        """What was found for another question, by an earlier try of the update, counts for nothing. None: rows are not
        to be compared"""
        if self.asks_anew(asked):
            self.folder.remove("found.json")
            self.remove_rows()
            self.folder.remove("asked.json")
        if asked is not None:
            self.folder.write("asked.json", to_json(asked))

    def asks_anew(self, asked: Asked | None) -> bool:
        """Whether something else was asked before: what was compared then is gone, and may be needed."""
        before = self.asked()
        return before is not None and before != asked

    def asked(self) -> Asked | None:
        """None: rows are not compared."""
        text = self.folder.read("asked.json")
        return None if text is None else from_json(text, Asked, self.folder.path("asked.json"))

    def expect(self, differences: Sequence[ExpectedDifference]) -> None:
        self.folder.write("expected.json", to_json(Expected(differences=tuple(differences))))

    def expected(self) -> Expected | None:
        """None: the new version has not told yet."""
        text = self.folder.read("expected.json")
        return None if text is None else from_json(text, Expected, self.folder.path("expected.json"))

    def write(self, found: Found) -> None:
        self.folder.write("found.json", to_json(found))

    def found(self) -> Found:
        """What was found so far."""
        text = self.folder.read("found.json")
        return Found() if text is None else from_json(text, Found, self.folder.path("found.json"))

    def rows(self, version: str, query: str) -> Folder:
        """Where a version's rows of a query are: each batch in a folder of its own, which `note_rows` names."""
        return self.folder.sub(f"rows/{version}/{query}")

    def recorded(self, query: str) -> list[int]:
        """The batches whose rows are there of both versions, and that were not compared."""
        old, new = (set(_noted(self.rows(version, query))) for version in (OLD, NEW))
        return sorted((old & new) - set(self.found().batches.get(query, ())))

    def remove_compared(self, query: str) -> None:
        """Remove the rows of the batches that were compared, and those that the new version has from before the first
        one of the old: a new version may wait for long to be let on."""
        compared = set(self.found().batches.get(query, ()))
        first = min(compared.union(_noted(self.rows(OLD, query))), default=0)
        for version in (OLD, NEW):
            rows = self.rows(version, query)
            for batch in [each for each in _noted(rows) if each in compared or each < first]:
                where = rows_of(rows, batch)
                rows.remove(str(batch))
                rows.remove(where)

    def remove_rows(self) -> None:
        self.folder.remove("rows")


def note_rows(rows: Folder, batch: int, where: str) -> None:
    """Note the folder that has all rows of a batch. One that runs again has another folder, so that its rows are not
    taken from under whoever reads them."""
    rows.write(str(batch), where.encode())


def rows_of(rows: Folder, batch: int) -> str:
    """The folder with the rows of a batch that was noted."""
    return check_part((rows.read(str(batch)) or b"").decode(), rows.path(str(batch)))


def _noted(rows: Folder) -> list[int]:
    return [int(name) for name in rows.names() if name.isdigit()]


def _together(one: RowDifference, other: RowDifference) -> RowDifference:
    samples = _some(one.samples, other.samples)
    counts = {n: getattr(one, n) + getattr(other, n) for n in ("equal", "changed", "only_old", "only_new", "expected")}
    unlike = tuple(dict.fromkeys((*one.unlike, *other.unlike)))
    return attrs.evolve(one, **counts, samples=samples, unlike=unlike)


def _some(one: Sequence[Sample], other: Sequence[Sample]) -> tuple[Sample, ...]:
    return (*one, *other)[:MOST_SAMPLES]
