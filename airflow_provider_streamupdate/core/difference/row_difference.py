"""The rows of two versions for the same batches, beside each other."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

CHANGED, ONLY_OLD, ONLY_NEW = "changed", "only old", "only new"


@attrs.frozen(kw_only=True)
class Sample:
    """A row that differs: its columns as text (None: null). kind: CHANGED, ONLY_OLD or ONLY_NEW."""

    kind: str
    old: dict[str, str | None] | None = None
    new: dict[str, str | None] | None = None

    def differing(self) -> list[str]:
        """The columns whose texts differ; all of them where one version has no such row."""
        names = list(self.old or self.new or {})
        if self.old is None or self.new is None:
            return names
        return [name for name in names if self.old[name] != self.new[name]]


@attrs.frozen(kw_only=True)
class RowDifference:
    """Rows as a multiset: a row that one version has twice and the other once differs once.

    batches: the first and the last one compared (None: not of batches)
    keys: the columns by which rows are paired
    equal: rows that both versions have
    changed: pairs of rows with the same keys; only_old, only_new: rows without a counterpart. Without those expected
    expected: pairs and single rows that the new version's author expects to differ
    samples: of those that are not expected
    old_columns, new_columns: columns that only that version has, which are not compared; one that is gone is a problem
    unlike: columns whose types cannot be compared, in words; where they are not null, their rows differ
    """

    query: str
    batches: tuple[int, int] | None = None
    keys: tuple[str, ...] = ()
    equal: int = 0
    changed: int = 0
    only_old: int = 0
    only_new: int = 0
    expected: int = 0
    samples: tuple[Sample, ...] = ()
    old_columns: tuple[str, ...] = ()
    new_columns: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()

    @property
    def differ(self) -> int:
        """Pairs and single rows that differ and are not expected to."""
        return self.changed + self.only_old + self.only_new

    @property
    def problems(self) -> list[str]:
        """A sentence, with a row as an example; none when every difference is expected."""
        return list(self._problems())

    def notes(self) -> Iterator[str]:
        """What was not compared."""
        if self.new_columns:
            yield f"query {self.query}: only the new version's rows have {', '.join(self.new_columns)}"
        for column in self.unlike:
            yield f"query {self.query}: {column}"

    def _problems(self) -> Iterator[str]:
        if self.old_columns:
            yield f"query {self.query}: the new version's rows have no {', '.join(self.old_columns)}"
        counts = ((self.changed, "differ"), (self.only_old, "are gone"), (self.only_new, "are new"))
        told = [f"{number} {what}" for number, what in counts if number]
        if not told:
            return
        where = "" if self.batches is None else f" of {_span(*self.batches)}"
        first = f"; for example {_words(self.samples[0], self.keys)}" if self.samples else ""
        same = f"{self.equal} are the same"
        yield f"query {self.query}: of the rows{where}, {', '.join((*told, same))}{first}"


def _span(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def _words(sample: Sample, keys: tuple[str, ...]) -> str:
    """A sample in a line."""
    row = sample.new if sample.old is None else sample.old
    if sample.kind != CHANGED or sample.old is None or sample.new is None:
        return f"{sample.kind}: {_texts(row or {})}"
    whose = _texts({key: sample.old.get(key) for key in keys})
    changes = (f"{c} was {_text(sample.old[c])} and is {_text(sample.new[c])}" for c in sample.differing())
    return f"{whose}: {', '.join(changes)}"


def _texts(row: dict[str, str | None]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: str | None) -> str:
    return "null" if value is None else value if len(value) <= 80 else f"{value[:77]}..."
