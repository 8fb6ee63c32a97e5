"""Versions of an app that do worse than the one before, and versions that do as well, as data: for the gate by itself
(tests/spark/test_slo_gate.py), and for whole updates (tests/e2e/test_slo_updates.py)."""

from __future__ import annotations

from typing import Any

import attrs

ALL = "true"


@attrs.frozen(kw_only=True)
class Version:
    """below, above: which rows go into the stage, and which of those out of it are written. copies: of each of these.
    more: columns. partitions: of what is written. slower: seconds that a batch takes longer, as a multiple of the
    slowest batches before. rows: in an input file, as a multiple"""

    below: str = "a % 10 < 6"
    above: str = ALL
    copies: int = 1
    more: bool = False
    partitions: int = 0
    slower: float = 0.0
    rows: float = 1.0

    @property
    def code(self) -> dict[str, Any]:
        """What the version does, without its speed and its input: the arguments of `queries.build`."""
        fields = ("below", "above", "copies", "more", "partitions")
        return {name: getattr(self, name) for name in fields}


APPS = ("counts", "windows", "dedup", "stateless", "joined")
MODES = {"counts": "update"}
OLD = Version()  # its new version keeps more rows, or fewer
A_TWENTIETH = "crc32(encode(string(n), 'utf-8')) % 20 = 0 and n > 4"
A_TENTH_LESS = "crc32(encode(string(n), 'utf-8')) % 10 > 0 or n < 5"

WORSE = {
    "five times slower": Version(slower=4.0),
    "eight times slower": Version(slower=7.0),
    "twelve times slower": Version(slower=11.0),
    "no row passes": Version(below="a % 1000 < 0"),
    "few rows pass": Version(below="a % 100 < 6"),
    "a quarter passes": Version(below="a % 100 < 15"),
    "few rows are written": Version(above="n % 100 = 99"),
    "no row is written": Version(above="n % 1000 < 0"),
    "each row twice": Version(copies=2),
    "each row ten times": Version(copies=10),
    "each row three times": Version(copies=3),
    "each row four times": Version(copies=4),
    "each row five times": Version(copies=5),
    "a twentieth is written": Version(above=A_TWENTIETH),
}
# What is no claim of the gate. Less than a day of an app with windows is known, which does not tell how many rows come
# when they close; with fewer rows in, its windows have as many groups; and these are too few to tell a twentieth.
NO_CLAIM = {
    "windows": {
        "few rows pass",
        "a quarter passes",
        "a twentieth is written",
        *(name for name in WORSE if name.startswith("each row")),
    },
    # Its filter gets into the source, which then tells of fewer rows than there are (measured): none waits for them.
    "joined": {"a twentieth is written"},
}
AS_GOOD = {
    "the same": OLD,
    "written otherwise": Version(below="not (a % 10 >= 6)"),
    "a column more": Version(more=True),
    "a little slower": Version(slower=0.2),
    "a tenth of the rows less": Version(above=A_TENTH_LESS),
    "twice as much input": Version(rows=2.0),
    "half as much input": Version(rows=0.5),
    "hardly any input": Version(rows=0.04),
    "other partitions": Version(partitions=3),
    "five times the input": Version(rows=5.0),
}


def row(chance: Any, number: int, at: str, keys: int) -> dict[str, Any]:
    """An input row. chance: a random.Random; number: of the row in its file; at: an ISO time; keys: so many may come"""
    return {"k": f"k{chance.randrange(keys)}", "a": chance.randrange(1000), "b": number % 20, "ts": at}
