"""Adopting: the checkpoint of a query that this package did not start becomes a snapshot of an app.

The checkpoint is only read. Its query may continue, but not beside the app: `moved_on` detects that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .. import clock
from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.snapshot import Snapshot, SnapshotKind
from ..errors import InvalidInputError
from ..plan.plan import AppPlan
from ..registry.registry import AppRegistry
from ..storage import Folder
from .snapshots import SnapshotStore

ONLY_QUERY = "*"  # in place of a query's name, where the app has but one


def find_checkpoint(uri: str, storage_options: dict[str, Any] | None = None) -> Folder:
    """Return the folder of a checkpoint in which a batch has committed; InvalidInputError when it is not one."""
    folder = Folder.open(uri, storage_options)
    names = set(folder.names())
    if missing := [part for part in ("metadata", "offsets") if part not in names]:
        newest = max((name for name in names if name.isdecimal()), key=int, default=None)
        if newest is not None and folder.exists(f"{newest}/metadata"):  # SystemMetadata.getLatestCheckpointDir
            raise InvalidInputError(
                f"{folder.path()} holds numbered folders, a checkpoint each, as a flow of a Spark Declarative "
                f"Pipeline has them; give the one in use, {folder.path()}/{newest}"
            )
        raise InvalidInputError(
            f"{folder.path()} is not a checkpoint: it has no {' and no '.join(missing)}; give the query's "
            "checkpointLocation, as in the code that wrote it"
        )
    if Checkpoint(folder).committed_batch() is None:
        raise InvalidInputError(
            f"no batch has committed in checkpoint {folder.path()}, so there is nothing to adopt; let the query finish "
            "a batch, or submit the app without a snapshot"
        )
    return folder


def assign(queries: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the checkpoint of each query; ONLY_QUERY stands for the only one. InvalidInputError when a query has none
    or is unknown: a query without its checkpoint would start without state."""
    if set(given) == {ONLY_QUERY} and len(queries) == 1:
        return {queries[0]: given[ONLY_QUERY]}
    if set(given) != set(queries):
        wanted = " ".join(f"{name}=PATH" for name in queries)
        raise InvalidInputError(f"the app's queries are {', '.join(queries)}; give the checkpoint of each: {wanted}")
    return dict(given)


def save_adopted(
    app: AppRegistry, deployment: str, name: str, plan: AppPlan, checkpoints: Mapping[str, Folder]
) -> Snapshot:
    """Snapshot `name` of the checkpoints' last committed batches. A batch that is logged but did not commit keeps its
    offsets: its rerun must be the same batch, whoever runs it."""
    exports = {}
    for query in plan.queries:
        checkpoint = Checkpoint(checkpoints[query.name])
        export = checkpoint.export(carry_in_flight=True, source_order=query.source_order)
        committed = clock.from_epoch_ms(checkpoint.commit_time(export.batch) * 1000)
        exports[query.name] = attrs.evolve(export, committed_at=committed)
    ids = {query: export.query_id for query, export in exports.items()}
    if copies := sorted(query for query, found in ids.items() if [*ids.values()].count(found) > 1):
        raise InvalidInputError(
            f"the checkpoints of {' and '.join(copies)} have the same query id: one is a copy of another; give each "
            "query its own"
        )
    uris = {query: folder.address for query, folder in checkpoints.items()}
    return SnapshotStore(app).save(
        name, deployment, SnapshotKind.ADOPTED, plan, exports, checkpoints, adopted_from=uris
    )


def moved_on(snapshot: Snapshot, storage_options: dict[str, Any] | None = None) -> list[str]:
    """The adopted queries that logged another batch since: their sinks have had rows that the app would compute again,
    in other batches."""
    found = []
    for query, uri in snapshot.adopted_from.items():
        saved, checkpoint = snapshot.queries[query], Checkpoint(Folder.open(uri, storage_options))
        logged = checkpoint.logged_batch()  # None: the checkpoint is gone, so nothing goes on with it
        then = (saved.batch, saved.batch if saved.in_flight is None else saved.in_flight)
        if logged is not None and (checkpoint.committed_batch(), logged) != then:
            found.append(f"query {query} (checkpoint {uri}) has continued from batch {saved.batch} to batch {logged}")
    return found
