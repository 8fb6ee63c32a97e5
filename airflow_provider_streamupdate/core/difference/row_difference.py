"""The rows of two versions for the same batches, beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from ..secret_names import HIDDEN, is_secret

CHANGED, ONLY_OLD, ONLY_NEW = "changed", "only old", "only new"
SHOWN = 200  # characters of a value in a sample
IN_A_LINE = 80  # of one in a sentence
BEFORE = 20  # of them in front of the first one that differs
Texts = Mapping[str, str | None] | None  # of a row, by column


@attrs.frozen(kw_only=True)
class Sample:
    """A row that differs.

    kind: CHANGED, ONLY_OLD or ONLY_NEW
    old, new: its columns as text (None: null); of long texts the part where they differ, of secrets HIDDEN
    differ: the columns that differ (None: those whose texts do); all of them where one version has no such row
    batch: whose row it is
    """

    kind: str
    old: dict[str, str | None] | None = None
    new: dict[str, str | None] | None = None
    differ: tuple[str, ...] | None = None
    batch: int | None = None

    @classmethod
    def of(cls, kind: str, old: Texts, new: Texts, differ: Sequence[str], batch: int | None = None) -> Sample:
        """From long texts."""
        if old is None or new is None:
            row = {name: _shown(name, text) for name, text in (old or new or {}).items()}
            return cls(kind=kind, old=None if old is None else row, new=None if new is None else row, batch=batch)
        both = {name: _where_unlike(old[name], new[name], SHOWN) for name in old}
        return cls(
            kind=kind,
            old={name: _shown(name, before) for name, (before, _) in both.items()},
            new={name: _shown(name, after) for name, (_, after) in both.items()},
            differ=tuple(differ),
            batch=batch,
        )

    def differing(self) -> list[str]:
        names = list(self.old or self.new or {})
        if self.old is None or self.new is None:
            return names
        if self.differ is not None:
            return list(self.differ)
        return [name for name in names if self.old[name] != self.new[name]]


@attrs.frozen(kw_only=True)
class RowDifference:
    """Rows as a multiset: a row that one version has twice and the other once differs once.

    batches: the first and the last one compared (None: not of batches)
    compared: how many of these (0: not of batches)
    keys: the columns by which rows are paired
    equal: rows that both versions have
    changed: pairs of rows with the same keys; only_old, only_new: rows without a counterpart. Without those expected
    expected: pairs and single rows that the new version's author expects to differ
    samples: of those that are not expected
    old_columns, new_columns: columns that only that version has, which are not compared; one that is gone is a problem
    unlike: columns whose types cannot be compared, in words; where they are not null, their rows differ
    left_out: columns that the new version's author expects to differ, and that are not compared
    """

    query: str
    batches: tuple[int, int] | None = None
    compared: int = 0
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
    left_out: tuple[str, ...] = ()

    @property
    def differ(self) -> int:
        """Pairs and single rows that differ and are not expected to."""
        return self.changed + self.only_old + self.only_new

    @property
    def span(self) -> str | None:
        """``8``, ``8-12``, or ``8-101, 14 of them``; None: not of batches."""
        if self.batches is None:
            return None
        first, last = self.batches
        of_them = f", {self.compared} of them" if 0 < self.compared <= last - first else ""
        return f"{first}{f'-{last}' if last > first else ''}{of_them}"

    @property
    def told(self) -> str:
        """What was found, in a line."""
        counts = (
            (self.equal, "equal"), (self.changed, "changed"), (self.only_old, "only old"), (self.only_new, "only new"),
            (self.expected, "different as expected"),
        )  # fmt: skip
        found = ", ".join(f"{number} {what}" for number, what in counts if number) or "none in either version"
        batches = "" if self.compared == 0 else f" of {self.compared} {'batch' if self.compared == 1 else 'batches'}"
        return f"rows of query {self.query}{batches}: {found}"

    @property
    def problems(self) -> list[str]:
        """A sentence, with a row as an example; none when every difference is expected."""
        return list(self._problems())

    def notes(self) -> Iterator[str]:
        """What was not compared."""
        if self.batches is not None and not (self.equal or self.differ or self.expected):
            yield f"query {self.query}: {_span(*self.batches)} gave no row in either version, so that none was compared"
        if self.new_columns:
            yield f"query {self.query}: only the new version's rows have {', '.join(self.new_columns)}"
        if self.left_out:
            yield f"query {self.query}: {', '.join(self.left_out)} were not compared: the application expects that"
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


def _shown(name: str, text: str | None) -> str | None:
    return HIDDEN if is_secret(name) else text if text is None or len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _where_unlike(one: str | None, other: str | None, most: int) -> tuple[str | None, str | None]:
    """Two texts, of those with more characters than `most` the part where they differ."""
    if one is None or other is None or one == other or max(len(one), len(other)) <= most:
        return one, other
    unlike = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    start = next(unlike, min(len(one), len(other))) - BEFORE
    return (f"...{one[start:]}", f"...{other[start:]}") if start > 0 else (one, other)


def _words(sample: Sample, keys: tuple[str, ...]) -> str:
    """A sample in a line."""
    row = sample.new if sample.old is None else sample.old
    if sample.kind != CHANGED or sample.old is None or sample.new is None:
        return f"{sample.kind}: {_texts(row or {})}"
    whose = _texts({key: sample.old.get(key) for key in keys})
    both = ((c, *_where_unlike(sample.old[c], sample.new[c], IN_A_LINE)) for c in sample.differing())
    changes = (f"{column} was {_text(old)} and is {_text(new)}" for column, old, new in both)
    return f"{whose}: {', '.join(changes)}"


def _texts(row: dict[str, str | None]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: str | None) -> str:
    return "null" if value is None else value if len(value) <= IN_A_LINE else f"{value[: IN_A_LINE - 3]}..."
