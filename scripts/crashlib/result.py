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

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.duplicated or self.stuck or self.problems)
