"""Check that an app can be updated at all: an update without any change must carry everything."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ..errors import ApplicationError
from ..plan.plan import AppPlan, QueryPlan
from .agreement import SAME, agreements
from .compatibility import compare
from .rules.sink import BATCH_AGAIN
from .verdict import CARRIED, ReportItem


def check_updatable(plan: AppPlan, agree: Iterable[str] = (), again: AppPlan | None = None) -> None:
    """Raise ApplicationError with every stage, source and query that an update of the app to itself would not carry,
    and why. Such an app could run, but never be updated or started from a snapshot. Not a sink function that uses its
    batch id undeclared: that is a question of the first update (the plan warns of it).

    agree: the names of those that may run anyway
    again: the same app's plan made a second time (default: the plan itself). What differs each time, such as a key with
        a random number, is not recognised
    """
    agreed = {name.removesuffix(SAME) for name in agreements(agree)}
    changed = [i for i in compare(plan, again or plan, "itself").items if i.verdict != CARRIED]
    found = [i for i in changed if set(i.rules) != {BATCH_AGAIN}]
    problems = [_described(plan, item) for item in found if item.name not in agreed]
    if problems:
        names = " ".join(f"--agree {shlex.quote(item.name)}" for item in found)
        raise ApplicationError(
            f"app {plan.app} could run, but could never be updated or continue from a snapshot; nothing was "
            "started:\n  " + "\n  ".join(problems) + f"\nChange the queries, or run it anyway with {names}"
        )


def _described(plan: AppPlan, item: ReportItem) -> str:
    query = plan.query(item.name.replace(":", "/").split("/")[0])
    where = f" ({query.written})" if query and query.written else ""
    operator = _operator(query, item.name.partition("/")[2]) if query else ""
    return f"{item.thing} {item.name}{where}{operator}: {item.reason}"


def _operator(query: QueryPlan, name: str) -> str:
    stage = query.stage(name)
    return f", a {stage.kind} ({stage.operator})" if stage else ""
