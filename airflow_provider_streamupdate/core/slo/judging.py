"""Compare a query of the new version with the hours before: pure functions of the figures of batches and minutes.

A limit is exceeded only where the hours before had nothing like it: each is held to the most that was seen, so that a
rush hour, a burst at the end of a window or a cold cache is no reason to roll back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from ..difference.figures import BatchFigures
from ..registry.deployment import QueryStatus
from .batch_time import batch_time, few_batches, hung_batch
from .before import Before
from .finding import FEWEST_BATCHES, LONGEST_SECONDS, Finding, Found, few, warm, with_rows
from .lag import lag_growth
from .limits import SloLimits
from .rows import rows_out, state_growth


@attrs.frozen(kw_only=True)
class Judgement:
    """Of a query by a limit. exceeded: None where it was not compared. why: what was found, or why it was not
    open: it may be exceeded, and more batches would tell; seconds that they are worth waiting for (0: none)
    ends: it is waited for in any case, for it ends by itself: the batch in flight does, or is a fault some time"""

    query: str
    limit: str
    exceeded: bool | None
    why: str
    open: float = 0.0
    ends: bool = False

    @property
    def text(self) -> str:
        return _text(self.query, [self.limit], self.exceeded, self.why)


def _text(query: str, limits: Sequence[str], exceeded: bool | None, why: str) -> str:
    return f"query {query}, {', '.join(limits)}: {'not compared: ' if exceeded is None else ''}{why}"


def told(judged: Iterable[Judgement]) -> list[str]:
    """The texts; of a query's limits that were not compared for one reason, one."""
    groups: dict[tuple[str, bool | None, str], list[str]] = {}
    for j in judged:
        groups.setdefault((j.query, j.exceeded, j.why), []).append(j.limit)
    return [_text(query, limits, exceeded, why) for (query, exceeded, why), limits in groups.items()]


def judge(
    name: str,
    now: QueryStatus,
    before: Before | None,
    limits: SloLimits,
    over: bool = False,
    longest: float = LONGEST_SECONDS,
) -> list[Judgement]:
    """Judge the query `name` by each limit that there is.

    before: None where the old version had none of this name
    over: no more batches are waited for, though enough came before: few are enough to say that it is slow
    longest: seconds that a batch is waited for
    """
    rules: dict[str, Callable[[Sequence[BatchFigures], Before, float], Found]] = {
        "batch-time": batch_time,
        "lag-growth": lambda batches, before, limit: lag_growth(now, batches, before, limit),
        "rows-out": rows_out,
        "state-growth": state_growth,
    }
    found = []
    for limit, rule in rules.items():
        most = getattr(limits, limit.replace("-", "_"))
        if most is None:
            continue
        if before is None:
            judged: Found = [Finding(None, "the version before had no such query")]
        elif limit == "batch-time" and (hung := hung_batch(now, before, most, longest)):
            judged = hung
        elif (known := len(with_rows(warm(now)))) >= FEWEST_BATCHES:
            judged = rule(warm(now), before, most)
        elif limit == "batch-time" and over:
            judged = few_batches(now, before, most)
        else:
            judged = [few(known)]
        found += [Judgement(query=name, limit=limit, **attrs.asdict(finding)) for finding in judged]
    return found
