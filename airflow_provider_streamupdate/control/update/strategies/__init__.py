"""The strategies, a file each. To add one, write its file, and name it in STRATEGIES: command line, form, DAG and page
read that. Nobody outside compares their names; what differs by strategy is a method or a constant of `Strategy`.
"""

from __future__ import annotations

from ....core.errors import InvalidInputError
from .in_flight import InFlight
from .parallel import Parallel
from .restart import Restart
from .standby import Standby
from .strategy import Strategy

__all__ = ["STRATEGIES", "Strategy", "strategy_named"]

STRATEGIES: dict[str, Strategy] = {s.name: s for s in (Restart(), Standby(), Parallel(), InFlight())}


def strategy_named(name: str) -> Strategy:
    """InvalidInputError for a name that no strategy has."""
    if name not in STRATEGIES:
        raise InvalidInputError(f"there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
