"""Which plans the strategy ``follow`` can bring in."""

from __future__ import annotations

from collections.abc import Iterator

from ..compatibility.rules.sources.source_options import FILES, short_format
from ..plan.plan import AppPlan, QueryPlan

# Sources that give a batch again by its offsets alone, and whose memory is brought up to date at the takeover
# (spark_internals/queries/following.py): a file source's, from its log; the others have none.
SOURCES = frozenset({*FILES, "kafka", "rate", "rate-micro-batch"})
# Sinks that are made without an effect, so that they can be made before the takeover.
SINKS = frozenset({*FILES, "foreachbatch", "foreach", "kafka", "noop", "console"})


def unfollowable(plan: AppPlan, old: AppPlan | None = None) -> list[str]:
    """Why a version with this plan cannot follow; empty where it can."""
    return [problem for query in plan.queries for problem in _of(query)]


def _of(query: QueryPlan) -> Iterator[str]:
    for source in query.sources:
        if (kind := short_format(source.format)) not in SOURCES:
            yield f"source {source.name} of query {query.name} is of format {kind}, which was not tried"
    if (kind := short_format(query.sink.format)) not in SINKS:
        yield f"the sink of query {query.name} is of format {kind}, which was not tried"
