"""The comparison of rows during an update: what was asked for and what was found, as files of the new deployment."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..serde import from_json, to_json
from ..storage import Folder
from .expected import ExpectedDifference
from .row_difference import RowDifference, Sample

OLD, NEW = "old", "new"
WHOLE = "_SUCCESS"  # in the folder of a batch whose rows are all there (Hadoop's FileOutputCommitter)
MOST_SAMPLES = 10  # of a query


@attrs.frozen(kw_only=True)
class Asked:
    """keys: by query, the columns by which rows are paired"""

    keys: dict[str, tuple[str, ...]]


@attrs.frozen(kw_only=True)
class Expected:
    """What the new version's author expects to differ."""

    differences: tuple[ExpectedDifference, ...] = ()

    def of(self, query: str) -> list[str]:
        """The predicates for a query."""
        return [expected.where for expected in self.differences if expected.query == query]


@attrs.frozen(kw_only=True)
class Found:
    """rows: a query each; batches: those that were compared, by query"""

    rows: tuple[RowDifference, ...] = ()
    batches: dict[str, tuple[int, ...]] = attrs.field(factory=dict)

    def also(self, batch: int, found: RowDifference) -> Found:
        """With another batch of a query."""
        before = next((r for r in self.rows if r.query == found.query), None)
        rows = tuple(r for r in self.rows if r.query != found.query)
        batches = (*self.batches.get(found.query, ()), batch)
        together = found if before is None else _together(before, found)
        together = attrs.evolve(together, batches=(min(batches), max(batches)))
        return Found(rows=(*rows, together), batches={**self.batches, found.query: batches})


class Comparison:
    """Of the update to a deployment, whose folder this is."""

    def __init__(self, deployment: Folder) -> None:
        self.folder = deployment.sub("diff")

    def ask(self, keys: dict[str, tuple[str, ...]]) -> None:
        """What was found for other keys, by an earlier try of the update, counts for nothing."""
        before = self.asked()
        if before is not None and before.keys != keys:
            self.folder.remove("found.json")
        self.folder.write("asked.json", to_json(Asked(keys=keys)))

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
        """Where a version's rows of a query are, a folder a batch."""
        return self.folder.sub(f"rows/{version}/{query}")

    def recorded(self, query: str) -> list[int]:
        """The batches whose rows are there of both versions."""
        old, new = ({int(n) for n in self._batches(version, query)} for version in (OLD, NEW))
        return sorted(old & new)

    def _batches(self, version: str, query: str) -> list[str]:
        rows = self.rows(version, query)
        return [name for name in rows.names() if name.isdigit() and rows.exists(f"{name}/{WHOLE}")]

    def remove_rows(self) -> None:
        self.folder.remove("rows")


def _together(one: RowDifference, other: RowDifference) -> RowDifference:
    samples = _some(one.samples, other.samples)
    counts = {n: getattr(one, n) + getattr(other, n) for n in ("equal", "changed", "only_old", "only_new", "expected")}
    unlike = tuple(dict.fromkeys((*one.unlike, *other.unlike)))
    return attrs.evolve(one, **counts, samples=samples, unlike=unlike)


def _some(one: Sequence[Sample], other: Sequence[Sample]) -> tuple[Sample, ...]:
    return (*one, *other)[:MOST_SAMPLES]
