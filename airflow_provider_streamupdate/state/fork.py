"""The compatibility check of a fork."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .compatibility import compare, report_item
from .plan import AppPlan
from .report import CompatibilityReport
from .rules import judge, worst
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
        item = report_item("query", f"{query.name}:fork", [f for f in found if f.verdict == worst(found)])
        items.append(attrs.evolve(item, agreed=item.needs_agreement and item.name in agreed))
    rest = agreed - {i.name for i in items if i.agreed}
    report = compare(attrs.evolve(old, app=new.app), new, source, sorted(rest))
    return attrs.evolve(report, items=(*report.items, *items))
