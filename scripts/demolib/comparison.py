"""Rows that must be there against rows that are there, both as multisets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Comparison(NamedTuple):
    """missing: expected rows that are not there; unexpected: rows too many."""

    expected: int
    found: int
    missing: list[Any]
    unexpected: list[Any]

    @property
    def differences(self) -> int:
        return len(self.missing) + len(self.unexpected)

    def examples(self, count: int = 5) -> list[str]:
        """A few differences, one a line."""
        return [f"missing:    {row}" for row in self.missing[:count]] + [
            f"unexpected: {row}" for row in self.unexpected[:count]
        ]


def compare(expected: Counter[Any], found: Counter[Any]) -> Comparison:
    return Comparison(
        expected=expected.total(),
        found=found.total(),
        missing=sorted((expected - found).elements(), key=str),
        unexpected=sorted((found - expected).elements(), key=str),
    )


def sink_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows the apps' sinks wrote, in the order of the batches; each has the ``batch`` it came with."""
    for file in sorted(folder.glob("batch=*.json"), key=_batch):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield {"batch": _batch(file), **json.loads(line)}


def _batch(file: Path) -> int:
    return int(file.stem.removeprefix("batch="))
