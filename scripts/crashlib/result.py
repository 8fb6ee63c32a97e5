"""How a case ended."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Result:
    """outcome: of the update. stuck: the app does not run, or the update did not end. faults: injected."""

    case: str
    outcome: str | None = None
    lost: int = 0
    duplicated: int = 0
    stuck: bool = False
    problems: tuple[str, ...] = ()
    tries: int = 1
    faults: int = 1
    seconds: float = 0.0
    log: str = ""

    def and_then(self, other: Result) -> Result:
        """Return both as one, with the outcome of the other."""
        return attrs.evolve(
            other,
            lost=self.lost + other.lost,
            duplicated=self.duplicated + other.duplicated,
            tries=self.tries + other.tries,
            faults=self.faults + other.faults,
            seconds=round(self.seconds + other.seconds, 1),
        )

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.duplicated or self.stuck or self.problems)
