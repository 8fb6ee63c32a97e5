"""Saved state to start from, as files: nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.compatibility import compare
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.successors import app_under_new_names, under_new_names
from ...core.errors import NotFoundError
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.plan.rename import rename
from ...core.plan.state_stores import as_recorded
from ...core.registry.registry import AppRegistry
from ...core.snapshots.repeated_batches import other_losses
from ...core.snapshots.snapshots import SnapshotStore
from ...core.storage import Folder


@attrs.frozen(kw_only=True)
class SavedState:
    """Saved state to start from: a snapshot, or (for a check) what a running deployment has committed right now.
    `folders` hold the objects each query's files refer to; those that are `stored` in a snapshot outlast a cut of
    power."""

    source: str
    plan: AppPlan
    queries: dict[str, QuerySnapshot]
    folders: dict[str, Folder]
    fork: bool = False
    stored: bool = False
    beside: tuple[AppPlan, ...] = ()  # of a fork: plans that run beside it
    renames: Mapping[str, str] = attrs.field(factory=dict)  # that were made in `plan`

    @classmethod
    def find(cls, app: AppRegistry, reference: str, again: int = 0, without: Collection[str] = ()) -> SavedState:
        """``snapshot:NAME``, ``deployment:ID``, ``drained:ID`` (nothing runs there any more) or ``current``;
        NotFoundError when there is none, or no batch has committed.

        again: of a deployment that runs, so many of the last batches are to be run again
        without: of a deployment: queries whose files are not looked for, so that they cannot be restored
        """
        kind, _, name = reference.partition(":")
        if kind == "current":
            current = app.current()
            name = current.deployment if current else ""
        if kind == "snapshot":
            snapshot = SnapshotStore(app).get(name)
            return cls(
                source=f"snapshot {name}",
                plan=as_recorded(snapshot.plan, {name: q.conf for name, q in snapshot.queries.items()}),
                queries=dict(snapshot.queries),
                folders=dict.fromkeys(snapshot.queries, app.folder),
                stored=True,
            )
        plan = app.plan(name)
        if plan is None:
            raise NotFoundError(
                f"deployment {name!r} of app {app.name} has no plan: its driver ended before it wrote one; name a "
                "snapshot to check against"
            )
        folders = {q.name: app.checkpoint(name, q.name) for q in plan.queries}
        exports = {
            q.name: Checkpoint(folders[q.name]).export(kind == "drained", q.source_order, again, q.name not in without)
            for q in plan.queries
        }
        plan = as_recorded(plan, {query: export.conf for query, export in exports.items()})
        return cls(source=f"deployment {name}", plan=plan, queries=exports, folders=folders)

    def holds(self, query: str) -> bool:
        """Whether there is state to continue from: the query is known and has committed a batch."""
        return query in self.queries and self.queries[query].batch >= 0

    def recorded(self) -> dict[str, dict[str, str]]:
        """The configuration each query's offset log holds; it wins over the session's on a restart."""
        return {name: dict(query.conf) for name, query in self.queries.items() if query.conf}

    def renamed(self, renames: Mapping[str, str] | None) -> SavedState:
        """The same state with its stages and sources under new names."""
        return attrs.evolve(self, plan=rename(self.plan, renames), renames=renames) if renames else self

    def continued_by(self, new: AppPlan) -> SavedState:
        """The same state with its stages and sources under the names of their successors in `new`."""
        return attrs.evolve(self, plan=app_under_new_names(self.plan, new))

    def before(self, query: QueryPlan) -> QueryPlan | None:
        """The saved plan of a query of the new version, under the names that its stages and sources have there."""
        old = self.plan.query(query.name)
        return old and under_new_names(old, query)

    def forked(self, app: AppRegistry, beside: str | None = None) -> SavedState:
        """The same state for a fork of `app`: it continues under its own query ids, beside that deployment (by default
        the current one, or the last one of an app that was deleted)."""
        if (deletion := app.deletion()) is not None:
            plan = deletion.plan
        else:
            current = beside or app.current_id()
            plan = app.plan(current) if current else None
        return attrs.evolve(self, fork=True, beside=(plan,) if plan else ())

    def compare(self, new: AppPlan, agree: Iterable[str]) -> CompatibilityReport:
        beside = self.beside if self.fork else None
        return compare(self.plan, new, self.source, other_losses(agree), self.renames, beside)


def recorded_settings(
    app: AppRegistry, deployment: str, queries: Iterable[str], saved: SavedState | None
) -> dict[str, dict[str, str]]:
    """The configuration each query of a deployment will find in its offset log: of its own checkpoint when it has run
    before, else of the state it starts from. A query that starts anew has none."""
    found = saved.recorded() if saved else {}
    for query in queries:
        checkpoint = Checkpoint(app.checkpoint(deployment, query))
        if (batch := checkpoint.committed_batch()) is not None:
            found[query] = checkpoint.offsets(batch).conf
    return found
