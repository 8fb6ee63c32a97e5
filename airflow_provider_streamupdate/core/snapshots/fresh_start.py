"""A start without state of an app that has some, and its effect on the queries' sinks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import attrs

from ..checkpoint.checkpoint import Checkpoint
from ..compatibility.compatibility import report_item
from ..compatibility.report import CompatibilityReport
from ..compatibility.rules import judge, worst
from ..compatibility.rules.batch_ids import FRESH_RULES, BatchIds
from ..errors import InvalidInputError
from ..plan.plan import AppPlan
from ..registry.registry import AppRegistry

NOTHING = "nothing"  # what a plan is checked against for a start without state
SUFFIX = ":fresh"  # of a query's name, in a report


def committed(app: AppRegistry, deployment: str) -> dict[str, int]:
    """The last batch that each query of a deployment has committed, by query; without those that have committed none.
    Found by its checkpoints' folders: a deployment whose driver died early has no plan."""
    found = {}
    for query in app.deployment_folder(deployment).names("checkpoint"):
        batch = Checkpoint(app.checkpoint(deployment, query)).committed_batch()
        if batch is not None:
            found[query] = batch
    return found


def plans_before(app: AppRegistry, deployment: str | None = None) -> list[AppPlan]:
    """The plans of the deployments that have committed batches; of those submitted before `deployment`, when that is
    there."""
    before = itertools.takewhile(lambda name: name != deployment, app.deployment_ids())
    plans = (app.plan(name) for name in before if committed(app, name))
    return [plan for plan in plans if plan]


def compare_fresh(
    before: Iterable[AppPlan], new: AppPlan, logged: Mapping[str, int], agree: Iterable[str] = ()
) -> CompatibilityReport:
    """Judge what starting without state means for each query (``query:fresh``).

    before: of the app's deployments that have written something
    logged: the last batch in the log of the file sink that a query writes to, by query, where there is one
    """
    agreed, items = set(agree), []
    others = tuple(query for plan in before for query in plan.queries)
    for query in new.queries:
        found = judge(FRESH_RULES, BatchIds(new=query, others=others, logged=logged.get(query.name)))
        item = report_item("query", f"{query.name}{SUFFIX}", [f for f in found if f.verdict == worst(found)])
        items.append(attrs.evolve(item, agreed=item.needs_agreement and item.name in agreed))
    return CompatibilityReport(app=new.app, source="a start without state", items=tuple(items))


def check_agreed(report: CompatibilityReport, agree: Iterable[str]) -> None:
    """Raise InvalidInputError for an agreement to a loss that a start without state does not cause."""
    known = {item.name for item in report.items if item.agreed}
    if unknown := sorted(name for name in set(agree) - known if name.endswith(SUFFIX)):
        raise InvalidInputError(
            f"agreed losses {', '.join(unknown)} are not losses of this start: it is refused for that query, or "
            "nothing is lost; remove them"
        )
