"""What came out of a run of pairs."""

from __future__ import annotations

from collections import Counter

import attrs

from .pair import FALSELY_REFUSED, NO_VERSION, RIGHT, SILENTLY_WRONG, Outcome

ALLOWED_FALSE_REFUSALS = 0.01


@attrs.define
class Tally:
    pairs: int = 0
    verdicts: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    mutations: Counter[str] = attrs.field(factory=Counter)
    operators: Counter[str] = attrs.field(factory=Counter)
    failures: list[Outcome] = attrs.field(factory=list)

    def add(self, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        if outcome.kind == NO_VERSION:
            return
        self.pairs += 1
        self.verdicts.update(outcome.verdicts)
        self.mutations.update(outcome.change.names)
        self.operators.update({type(s).__name__ for spec in (outcome.old, outcome.change.spec) for s in spec.stages})
        if outcome.kind != RIGHT:
            self.failures.append(outcome)

    @property
    def passed(self) -> bool:
        refused = self.kinds[FALSELY_REFUSED]
        others = sum(n for kind, n in self.kinds.items() if kind not in (RIGHT, NO_VERSION, FALSELY_REFUSED))
        return others == 0 and refused <= ALLOWED_FALSE_REFUSALS * self.pairs

    def lines(self, seconds: float) -> list[str]:
        refused = self.kinds[FALSELY_REFUSED]
        rest = {k: n for k, n in self.kinds.items() if k not in (RIGHT, SILENTLY_WRONG, FALSELY_REFUSED)}
        return [
            *(f"{o.kind}: make fuzz SEED={o.seed} N=1" for o in self.failures),
            f"pairs: {self.pairs}",
            f"verdicts: {_counts(self.verdicts)}",
            f"operators: {_counts(self.operators)}",
            f"mutations: {_counts(self.mutations)}",
            f"silently wrong: {self.kinds[SILENTLY_WRONG]} (must be 0)",
            f"falsely refused: {refused} ({100 * refused / max(self.pairs, 1):.1f} %, must be <= 1 %)",
            *(f"{kind}: {n}" + ("" if kind == NO_VERSION else " (must be 0)") for kind, n in rest.items()),
            f"seconds: {seconds:.0f}",
        ]


def shown(outcome: Outcome) -> list[str]:
    return [
        f"--- {outcome.kind}: replay with make fuzz SEED={outcome.seed} N=1",
        f"old: {outcome.old}",
        f"new: {outcome.change.spec}",
        f"mutations: {', '.join(outcome.change.names)}; renames: {outcome.change.renames}",
        f"{outcome.details}",
    ]


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.most_common()) or "none"
