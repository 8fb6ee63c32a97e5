"""Batch ids that a rolled-back version uses a second time, and what its sinks do with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.rules.sinks import is_function
from ...core.errors import CorruptError, InvalidInputError, NotFoundError
from ...core.plan.plan import QueryPlan
from ...core.registry.registry import AppRegistry
from ...core.snapshots.snapshots import SnapshotStore


def check_later_ids(registry: AppRegistry, deployment: str, queries: tuple[str, ...]) -> None:
    """Raise InvalidInputError unless later ids apply to each of these queries.

    They apply where the query's sink is a function whose app does not declare what it does with an id it has seen
    (`seen_batch`).
    """
    plan = registry.plan(deployment)
    for name in queries:
        query = plan.query(name) if plan else None
        if query is None:
            known = ", ".join(q.name for q in plan.queries) if plan else "not known"
            raise InvalidInputError(f"later ids: deployment {deployment} has no query {name!r} (its queries: {known})")
        if not _has_opaque_code(query):
            says = (
                f"seen_batch={query.sink.seen_batch!r}" if query.sink.seen_batch else f"its sink is {query.sink.format}"
            )
            raise InvalidInputError(
                f"later ids: it is known what query {name} of deployment {deployment} does with batch ids it has seen "
                f"({says}), and a rollback handles it; leave this query out"
            )


def ids_used_again(registry: AppRegistry, new: str, old: str, later_ids: tuple[str, ...]) -> Iterator[str]:
    """Yield a message per query of `old` whose function gets batch ids again that `new` used.

    Only for functions whose app does not declare what they do with such ids.
    """
    if new not in registry.deployment_ids() or (plan := registry.plan(old)) is None:
        return
    used = committed_since(registry, new, logged=True)
    for query in plan.queries:
        if query.name not in used or not _has_opaque_code(query):
            continue
        if query.name in later_ids:
            yield f"query {query.name} continues with batch ids after those of {new} ({used[query.name]})"
            continue
        yield (
            f"query {query.name} of {old} gets batch ids again that {new} used ({used[query.name]}), and its app does "
            f"not declare (seen_batch) what its {query.sink.format} function does with such ids. If the function skips "
            f"them, what {new} wrote stays, and what is computed now is not written. In that case interrupt this "
            f"rollback, and roll back with --later-ids {shlex.quote(query.name)}, which gives it ids after those of "
            f"{new}"
        )


def committed_since(registry: AppRegistry, deployment: str, logged: bool = False) -> dict[str, str]:
    """Return the batches that a deployment itself committed, by query: ``12-14``.

    ``up to 14`` when the snapshot it started from is damaged: that must not prevent a rollback.

    logged: include a batch that did not commit but may have reached the sink
    """
    found = committed_batches(registry, deployment, logged)
    return {name: f"up to {last}" if first is None else f"{first}-{last}" for name, (first, last) in found.items()}


def committed_batches(
    registry: AppRegistry, deployment: str, logged: bool = False
) -> dict[str, tuple[int | None, int]]:
    """Return the first and the last batch that a deployment itself committed, by query; see `committed_since`.

    The first is None when the snapshot it started from is damaged or gone.
    """
    spec, plan = registry.spec(deployment), registry.plan(deployment)
    if plan is None:
        return {}
    start: dict[str, QuerySnapshot] | None = {}
    if spec.from_snapshot:
        try:
            start = SnapshotStore(registry).get(spec.from_snapshot).queries
        except (CorruptError, NotFoundError):
            start = None
    found: dict[str, tuple[int | None, int]] = {}
    for query in plan.queries:
        checkpoint = Checkpoint(registry.checkpoint(deployment, query.name))
        last = checkpoint.logged_batch() if logged else checkpoint.committed_batch()
        if start is None:
            found |= {} if last is None else {query.name: (None, last)}
            continue
        first = start[query.name].batch + 1 if query.name in start else 0
        if last is not None and last >= first:
            found[query.name] = (first, last)
    return found


def has_later_ids(registry: AppRegistry, deployment: str, current: str) -> str | None:
    """Return a query whose batch ids in a deployment are ahead of the current one's, as after a rollback; None if none.

    A version that continues from there must know these ids, if its sink skips ids it has seen (`renumbering.py`).
    """
    plan = registry.plan(deployment)
    for query in plan.queries if plan else ():
        used, now = (Checkpoint(registry.checkpoint(each, query.name)) for each in (deployment, current))
        if not (used.folder.exists("metadata") and now.folder.exists("metadata")):
            continue
        if used.query_id() == now.query_id() and (used.logged_batch() or 0) > (now.logged_batch() or 0):
            return query.name
    return None


def _has_opaque_code(query: QueryPlan) -> bool:
    return is_function(query) and query.sink.seen_batch is None
