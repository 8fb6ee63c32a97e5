"""The batches that run again when a version replaces the current one from an older snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.snapshot import Snapshot
from ..compatibility.compatibility import report_item
from ..compatibility.report import CompatibilityReport
from ..compatibility.rules import judge
from ..compatibility.rules.batch_ids import AGAIN_RULES, BatchIds
from ..errors import InvalidInputError
from ..plan.plan import AppPlan
from ..registry.registry import AppRegistry

SUFFIX = ":again"  # of a query's name, in a report


def other_losses(agree: Iterable[str]) -> tuple[str, ...]:
    """The agreements except those to repeated batches, which a driver does not judge: by then the other version has
    ended."""
    return tuple(name for name in agree if not name.partition("=")[0].endswith(SUFFIX))


def batches_again(app: AppRegistry, snapshot: Snapshot, running: bool) -> dict[str, str]:
    """Return, in words by query, the batches that were committed since the snapshot under the query id with which it
    would continue.

    running: whether a deployment is still committing
    """
    found = {}
    for query, saved in snapshot.queries.items():
        last = _committed(app, query, saved.query_id)
        if last is None or saved.batch < 0 or (last <= saved.batch and not running):
            continue
        first = saved.batch + 1
        found[query] = f"all batches from {first} on" if running else f"batches {first} to {last}"
    return found


def _committed(app: AppRegistry, query: str, query_id: str) -> int | None:
    batches = (checkpoint.committed_batch() for checkpoint in checkpoints_of(app, query, query_id))
    return max((batch for batch in batches if batch is not None), default=None)


def checkpoints_of(app: AppRegistry, query: str, query_id: str) -> Iterator[Checkpoint]:
    """The checkpoints of the app's deployments in which the query has this id: what its sink takes for one query."""
    for deployment in app.deployment_ids():
        checkpoint = Checkpoint(app.checkpoint(deployment, query))
        if checkpoint.folder.exists("metadata") and checkpoint.query_id() == query_id:
            yield checkpoint


def add_replayed_batches(
    report: CompatibilityReport, old: AppPlan, new: AppPlan, again: Mapping[str, str], agree: Iterable[str]
) -> CompatibilityReport:
    """Return the report with what running these batches again means for each query (``query:again``). InvalidInputError
    for an agreement to batches that do not run again."""
    agreed, items = {n for n in (name.partition("=")[0] for name in agree) if n.endswith(SUFFIX)}, []
    for query in new.queries:
        before = old.query(query.name)
        if before is None or query.name not in again:
            continue
        change = BatchIds(new=query, others=(before,), batches=again[query.name])
        item = report_item("query", f"{query.name}{SUFFIX}", judge(AGAIN_RULES, change))
        items.append(attrs.evolve(item, agreed=item.needs_agreement and item.name in agreed))
    if unknown := sorted(agreed - {i.name for i in items if i.agreed}):
        raise InvalidInputError(
            f"agreed losses {', '.join(unknown)} are not losses of this change: no batch of that query runs again, or "
            "its sink has none of them; remove them"
        )
    return attrs.evolve(report, items=(*report.items, *items))
