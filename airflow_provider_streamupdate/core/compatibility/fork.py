"""The compatibility check of a fork."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..plan.plan import AppPlan
from .agreement import agreements
from .compatibility import compare, report_item
from .report import CompatibilityReport
from .rules import judge, worst
from .rules.fork import FORK_RULES, ForkChange


def compare_fork(
    old: AppPlan, new: AppPlan, source: str, agree: Iterable[str] = (), others: Iterable[AppPlan] = ()
) -> CompatibilityReport:
    """Return the report of `compare` for a version that may belong to another app, plus an item for each query that
    continues as a fork (``query:fork``). `others`: plans that run beside it; writing to their sinks needs agreement."""
    beside = [query for plan in (old, *others) for query in plan.queries]
    agreed, items = agreements(agree), []
    for query in new.queries:
        if old.query(query.name) is None:
            continue
        found = judge(FORK_RULES, ForkChange(new=query, others=tuple(beside)))
        item = report_item("query", f"{query.name}:fork", [f for f in found if f.verdict == worst(found)])
        if item.needs_agreement and item.name in agreed:
            item = attrs.evolve(item, agreed=True, because=agreed.pop(item.name))
        items.append(item)
    rest = (name if reason is None else f"{name}={reason}" for name, reason in sorted(agreed.items()))
    report = compare(attrs.evolve(old, app=new.app), new, source, rest, fork=True)
    return attrs.evolve(report, items=(*report.items, *items))
