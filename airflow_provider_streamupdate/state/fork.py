"""The compatibility check of a fork."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .compatibility import compare
from .plan import AppPlan
from .report import CompatibilityReport, ReportItem
from .rules import NEEDS_AGREEMENT, judge, worst
from .rules.fork import FORK_RULES, ForkChange


def compare_fork(
    old: AppPlan, new: AppPlan, source: str, agree: Iterable[str] = (), others: Iterable[AppPlan] = ()
) -> CompatibilityReport:
    """What `compare` says of a version that may be another app's, and for each query that goes on, what being a fork
    means (``query:fork``). `others`: plans that run beside it, whose sinks it must not write to unasked."""
    beside = [query for plan in (old, *others) for query in plan.queries]
    agreed, items = set(agree), []
    for query in new.queries:
        if old.query(query.name) is None:
            continue
        found = judge(FORK_RULES, ForkChange(new=query, others=tuple(beside)))
        verdict, name = worst(found), f"{query.name}:fork"
        shown = [f for f in found if f.verdict == verdict]
        items.append(
            ReportItem(
                thing="query",
                name=name,
                verdict=verdict,
                reason="; ".join(f.reason for f in shown),
                rules=tuple(f.id for f in shown),
                needs_agreement=verdict in NEEDS_AGREEMENT,
                agreed=verdict in NEEDS_AGREEMENT and name in agreed,
            )
        )
    rest = agreed - {i.name for i in items if i.agreed}
    report = compare(attrs.evolve(old, app=new.app), new, source, sorted(rest))
    return attrs.evolve(report, items=(*report.items, *items))
