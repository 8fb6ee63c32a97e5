"""The output of a deployment: its batches, and the files or table versions of each where the sink has a log of them."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .....core import clock
from .....core.checkpoint.checkpoint import Checkpoint
from .....core.names import check_name
from .....core.plan.plan import QueryPlan, SinkPlan
from .....core.registry import hot_standby
from .....core.registry.registry import AppRegistry
from .....core.storage import Folder
from ...batch_ids import committed_batches
from ...context import Context
from .sink_logs import DELTA, batch_files, delta_commits, file_batches

MOST_BATCHES = 1000  # of a query, the last ones: a deployment that has run for months has millions


@attrs.frozen
class WrittenBatch:
    """A committed batch."""

    batch: int
    committed_at: str | None  # ISO, by the storage's clock
    files: tuple[str, ...] | None = None  # what it wrote, below the sink's folder; None: not known
    version: int | None = None  # of the Delta table; None: the sink is none, or the batch has no commit in its log


@attrs.frozen(kw_only=True)
class QueryOutput:
    """The output of a query of a deployment.

    first, last: its batches; first None: not known, because the snapshot that it started from is gone
    sink: its format; place: the folder or table (None: a function, or a sink without a path)
    note: why the files of batches are not known; empty when all are
    """

    deployment: str
    query: str
    first: int | None
    last: int
    sink: str
    place: str | None
    batches: tuple[WrittenBatch, ...] = ()
    note: str = ""


def output(context: Context, app: str, deployment: str | None = None) -> tuple[QueryOutput, ...]:
    """Return what a deployment wrote, a query at a time; default: what was written since the last update, by the
    current deployment and by those whose hot standbys have taken over since. NotFoundError for an unknown one.
    """
    registry = context.registry.existing(app)
    if deployment is not None:
        registry.spec(check_name("deployment", deployment))
    found = [deployment] if deployment else list(_since_update(registry))
    return tuple(
        _query_output(registry, one, query, span, context)
        for one in found
        for name, span in committed_batches(registry, one).items()
        if (plan := registry.plan(one)) and (query := plan.query(name)) is not None
    )


def _since_update(registry: AppRegistry) -> Iterator[str]:
    """Yield the deployments with the current one's code, the first one first."""
    current = registry.current_id()
    chain: list[str] = []
    while current is not None and current not in chain:
        chain.insert(0, current)
        current = hot_standby.leader(registry.spec(current))
    yield from chain


def _query_output(
    registry: AppRegistry, deployment: str, query: QueryPlan, span: tuple[int | None, int], context: Context
) -> QueryOutput:
    first, last = span
    checkpoint = Checkpoint(registry.checkpoint(deployment, query.name))
    since = max(first or 0, last - MOST_BATCHES + 1)
    place = query.sink.place
    notes = [f"the last {MOST_BATCHES} batches are shown"] if since > (first or 0) else []
    logged: dict[int, tuple[tuple[str, ...], int | None]] = {}
    try:
        logged = dict(_logged(query.sink, checkpoint, range(since, last + 1), context))
    except Exception as error:  # another storage, other rights, a damaged log: the batches are known all the same
        notes.append(f"the sink's log cannot be read from here: {error or repr(error)}")
    if not logged and not notes:
        notes.append("its sink has no log of files that can be read from here")
    elif logged and not logged.keys() >= set(range(since, last + 1)):
        notes.append(
            "the log of the others was compacted or removed: what remains does not say which batch wrote a file"
        )
    return QueryOutput(
        deployment=deployment,
        query=query.name,
        first=first,
        last=last,
        sink=query.sink.format,
        place=place,
        batches=tuple(
            WrittenBatch(n, _committed_at(checkpoint, n), *logged.get(n, ())) for n in range(since, last + 1)
        ),
        note="; ".join(notes),
    )


def _logged(
    sink: SinkPlan, checkpoint: Checkpoint, batches: range, context: Context
) -> Iterator[tuple[int, tuple[tuple[str, ...], int | None]]]:
    """Yield each batch that the sink's log names, with its files and the version of the table."""
    place = sink.place
    if place is None:
        return
    folder = Folder.open(place, dict(context.storage_options))
    if sink.format == DELTA:
        for batch, version, added in delta_commits(folder, checkpoint.query_id(), batches):
            yield batch, (tuple(str(file["path"]) for file in added), version)
    elif sink.location is not None:  # Spark's file sinks have a location
        for batch in file_batches(folder, batches):
            yield batch, (tuple(path for path, _ in batch_files(folder, batch)), None)


def _committed_at(checkpoint: Checkpoint, batch: int) -> str | None:
    """Return when a batch was committed; None: Spark has removed the entry (it keeps the last 100)."""
    if not checkpoint.folder.exists(f"commits/{batch}"):
        return None
    return clock.from_epoch_ms(checkpoint.commit_time(batch) * 1000)
