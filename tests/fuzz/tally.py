"""What came out of a run of pairs: a record a pair, kept in a file so that a run can be cut and gone on with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs

from .outcome import FALSELY_REFUSED, NO_VERSION, RIGHT, SILENTLY_WRONG, Outcome

ALLOWED_FALSE_REFUSALS = 0.01


@attrs.frozen(kw_only=True)
class Record:
    """What is kept of one pair. code: the commit it ran on; seconds: how long it took."""

    seed: int
    kind: str
    verdicts: Sequence[str]
    mutations: Sequence[str]
    operators: Sequence[str]
    store: str
    code: str
    seconds: float
    details: str = ""
    handed_over: bool = False

    @classmethod
    def of(cls, outcome: Outcome, code: str, seconds: float) -> Record:
        shared = {f.name: getattr(outcome, f.name) for f in attrs.fields(cls) if hasattr(outcome, f.name)}
        return cls(code=code, seconds=round(seconds, 1), **shared)


def read_records(path: Path) -> list[Record]:
    """Those of earlier runs; a last line that a killed run left half written is no record."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        path.write_text("".join(whole))
    return [Record(**json.loads(line)) for line in whole]


def append_record(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps(attrs.asdict(record)) + "\n")


@attrs.define
class Tally:
    records: list[Record] = attrs.field(factory=list)

    @property
    def pairs(self) -> list[Record]:
        return [r for r in self.records if r.kind != NO_VERSION]

    @property
    def failures(self) -> list[Record]:
        return [r for r in self.pairs if r.kind != RIGHT]

    @property
    def passed(self) -> bool:
        refused = sum(r.kind == FALSELY_REFUSED for r in self.failures)
        return len(self.failures) == refused <= ALLOWED_FALSE_REFUSALS * len(self.pairs)

    def lines(self) -> list[str]:
        kinds = Counter(r.kind for r in self.records)
        refused = kinds[FALSELY_REFUSED]
        rest = {k: n for k, n in kinds.items() if k not in (RIGHT, SILENTLY_WRONG, FALSELY_REFUSED)}
        return [
            *(f"{r.kind}: make fuzz SEED={r.seed} N=1" for r in self.failures),
            f"pairs: {len(self.pairs)}",
            *(f"{name}: {_counts(Counter(found))}" for name, found in self._covered().items()),
            f"silently wrong: {kinds[SILENTLY_WRONG]} (must be 0)",
            f"falsely refused: {refused} ({100 * refused / max(len(self.pairs), 1):.1f} %, must be <= 1 %)",
            *(f"{kind}: {n}" + ("" if kind == NO_VERSION else " (must be 0)") for kind, n in rest.items()),
            f"seconds: {sum(r.seconds for r in self.records):.0f}",
        ]

    def _covered(self) -> dict[str, list[str]]:
        return {
            "verdicts": [v for r in self.pairs for v in r.verdicts],
            "operators": [o for r in self.pairs for o in r.operators],
            "stores": [r.store for r in self.pairs],
            "mutations": [m for r in self.pairs for m in r.mutations],
            "way": ["hand-over" if r.handed_over else "snapshot" for r in self.pairs],
            "code": [r.code for r in self.pairs],
        }


def shown(outcome: Outcome) -> list[str]:
    return [
        f"--- {outcome.kind}: replay with make fuzz SEED={outcome.seed} N=1",
        f"old: {outcome.old}",
        f"new: {outcome.new}",
        f"mutations: {', '.join(outcome.mutations)}; renames: {outcome.renames}",
        f"{outcome.details}",
    ]


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.most_common()) or "none"
