"""The differences between the rows that two versions made of the same batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..secret_names import HIDDEN, is_secret

CHANGED, ONLY_OLD, ONLY_NEW = "changed", "only old", "only new"
MAX_SAMPLES = 10  # of a query
MAX_CHARACTERS = 200  # of a value in a sample
MAX_IN_SENTENCE = 80  # of a value in a problem
_COUNTS: dict[str, str] = {  # in words
    "equal": "equal",
    "changed": CHANGED,
    "only_old": ONLY_OLD,
    "only_new": ONLY_NEW,
    "expected": "different as expected",
}


@attrs.frozen(kw_only=True)
class Sample:
    """A row that differs, as texts by column. Values of secrets are hidden, long ones cut."""

    kind: str  # CHANGED, ONLY_OLD or ONLY_NEW
    old: dict[str, str | None] | None = None  # None: only the new version has the row
    new: dict[str, str | None] | None = None
    differ: tuple[str, ...] = ()  # the columns that differ
    batch: int | None = None

    @classmethod
    def of(
        cls,
        old: Mapping[str, str | None] | None,
        new: Mapping[str, str | None] | None,
        batch: int | None = None,
    ) -> Sample:
        """Make a sample of a row's full texts; of a row that only one version has, all columns differ."""
        names = tuple(old or new or {})
        differ = tuple(name for name in names if old is None or new is None or old[name] != new[name])
        kind = ONLY_NEW if old is None else ONLY_OLD if new is None else CHANGED
        shown = [None if row is None else {name: _show(name, text) for name, text in row.items()} for row in (old, new)]
        # Values may differ in a part that their texts do not show.
        return cls(kind=kind, old=shown[0], new=shown[1], differ=differ or names, batch=batch)


@attrs.frozen(kw_only=True)
class RowDifference:
    """The rows of a query, compared as multisets: a row that one version has twice and the other once differs once."""

    query: str
    batches: tuple[int, ...] = ()  # those that were compared
    keys: tuple[str, ...] = ()  # the columns that pair rows
    equal: int = 0
    changed: int = 0  # pairs of rows that differ and have the same keys; without those expected, like the next two
    only_old: int = 0
    only_new: int = 0
    expected: int = 0  # pairs and single rows that differ as the new version's author expects
    samples: tuple[Sample, ...] = ()  # of rows that are not expected to differ
    new_columns: tuple[str, ...] = ()  # only the new version has them: not compared
    left_out: tuple[str, ...] = ()  # the author expects them to differ: not compared
    not_compared: str | None = None  # why the rows cannot be compared

    def plus(self, other: RowDifference) -> RowDifference:
        """Return the sums with those of other batches of the query."""
        counts: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return attrs.evolve(
            self,
            **counts,
            batches=(*self.batches, *other.batches),
            samples=(*self.samples, *other.samples)[:MAX_SAMPLES],
            not_compared=self.not_compared or other.not_compared,
        )

    @property
    def differ(self) -> int:
        """Pairs and single rows that differ and are not expected to."""
        return self.changed + self.only_old + self.only_new

    @property
    def span(self) -> str | None:
        """``8``, ``8-12``, or ``8-101, 14 of them``; None: no batch was compared."""
        if not self.batches:
            return None
        first, last, count = min(self.batches), max(self.batches), len(self.batches)
        gaps = f", {count} of them" if count <= last - first else ""
        return f"{first}{f'-{last}' if last > first else ''}{gaps}"

    @property
    def summary(self) -> str:
        """The findings in a line."""
        return f"rows of query {self.query}, {len(self.batches)} batches: {self._counts() or 'none in either version'}"

    @property
    def problems(self) -> list[str]:
        """A sentence with a row as an example; empty when every difference is expected."""
        if not self.differ:
            return []
        example = f"; for example {_sentence(self.samples[0], self.keys)}" if self.samples else ""
        return [f"query {self.query}, rows of batches {self.span}: {self._counts()}{example}"]

    def notes(self) -> Iterator[str]:
        """Yield what was not compared."""
        if self.batches and not (self.equal or self.differ or self.expected or self.not_compared):
            yield f"query {self.query}: batches {self.span} gave no row in either version, so that none was compared"
        if self.new_columns:
            yield f"query {self.query}: only the new version's rows have {', '.join(self.new_columns)}"
        if self.left_out:
            yield f"query {self.query}: {', '.join(self.left_out)} were not compared: the application expects that"

    def _counts(self) -> str:
        counts = ((getattr(self, name), words) for name, words in _COUNTS.items())
        return ", ".join(f"{number} {words}" for number, words in counts if number)


def _show(name: str, text: str | None) -> str | None:
    return HIDDEN if is_secret(name) else _cut(text, MAX_CHARACTERS)


def _cut(text: str | None, most: int) -> str | None:
    return text if text is None or len(text) <= most else f"{text[: most - 3]}..."


def _sentence(sample: Sample, keys: tuple[str, ...]) -> str:
    if sample.old is None or sample.new is None:
        row = sample.new or sample.old or {}
        return f"{sample.kind}: " + ", ".join(f"{name}={_value(text)}" for name, text in row.items())
    pair = ", ".join(f"{key}={_value(sample.old.get(key))}" for key in keys)
    changes = (f"{name} was {_value(sample.old[name])} and is {_value(sample.new[name])}" for name in sample.differ)
    return f"{pair}: {', '.join(changes)}"


def _value(text: str | None) -> str:
    return "null" if text is None else str(_cut(text, MAX_IN_SENTENCE))
