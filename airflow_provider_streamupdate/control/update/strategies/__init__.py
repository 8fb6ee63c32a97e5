"""The strategies, one file each.

To add one, write its file, name it in STRATEGIES and describe it in STRATEGY_SUMMARIES: the command line, the form,
DAGs and the page read these. No other code compares strategy names; what differs by strategy is a method or a constant
of `Strategy`.
"""

from __future__ import annotations

from ....core.errors import InvalidInputError
from ....core.registry.update import STRATEGY_SUMMARIES
from .follow import Follow
from .in_flight import InFlight
from .parallel import Parallel
from .restart import Restart
from .standby import Standby
from .strategy import Strategy

__all__ = ["STRATEGIES", "Strategy", "strategy_named"]

STRATEGIES: dict[str, Strategy] = {s.name: s for s in (Restart(), Standby(), Follow(), Parallel(), InFlight())}
assert tuple(STRATEGIES) == tuple(STRATEGY_SUMMARIES)


def strategy_named(name: str) -> Strategy:
    """Return the strategy of this name. InvalidInputError for an unknown name."""
    if name not in STRATEGIES:
        raise InvalidInputError(f"there is no strategy {name!r}; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
