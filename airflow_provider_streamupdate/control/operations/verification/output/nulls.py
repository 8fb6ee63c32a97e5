"""The nulls that a query wrote to its sink, held to those of the version before: a limit of the SLO gate."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from .....core.checkpoint.checkpoint import Checkpoint
from .....core.difference.limits import percent
from .....core.errors import StreamUpdateError
from .....core.plan.plan import SinkPlan
from .....core.registry.registry import AppRegistry
from .....core.registry.update import UpdateRecord
from .....core.slo.limits import PATIENCE_SECONDS
from .....core.slo.rules import Finding
from .....core.storage import Folder
from .sink_logs import (
    COUNTERS,
    DELTA,
    RowCounts,
    add_up,
    count_added,
    count_batches,
    delta_commits,
    file_batches,
)

FEWEST_ROWS = 100
READ_BATCHES = 20
READ_COMMITS = 200  # of a table, among which the query's batches are looked for: others may write, too
READ_BYTES = 64 * 1024 * 1024  # of files, in one look


def nulls(
    registry: AppRegistry, record: UpdateRecord, query: str, first: int, limit: float, options: Mapping[str, Any]
) -> Finding:
    """Judge the nulls of a query by what can be read of its output.

    first: the first batch of the new version
    options: of the root's storage, which are tried for the sink's, too
    """
    deployments = str(record.old), record.new
    plans = [plan.query(query) for plan in map(registry.plan, deployments) if plan]
    sinks = [planned.sink for planned in plans if planned]
    if len(sinks) < 2:
        return Finding("nulls", None, "a plan is missing")
    before = range(first if sinks[0].place == sinks[1].place else sys.maxsize)
    try:
        old, new = (Checkpoint(registry.checkpoint(deployment, query)) for deployment in deployments)
        after = read_counts(sinks[1], new, range(first, sys.maxsize), options)
        return judge_nulls(read_counts(sinks[0], old, before, options), after, limit)
    except StreamUpdateError as error:
        return Finding("nulls", None, str(error))


def judge_nulls(before: Sequence[RowCounts], after: Sequence[RowCounts], limit: float) -> Finding:
    """Hold the share of nulls of each column to the most of a batch before, or of all batches together, in points."""
    now, old = add_up(after), add_up(before)
    columns = sorted(now.nulls.keys() & old.nulls.keys())
    if min(now.rows, old.rows) < FEWEST_ROWS or not columns:
        why = f"{now.rows} rows of the output and {old.rows} before can be read, with {len(columns)} columns in common"
        return Finding("nulls", None, why)
    large = [batch for batch in (*before, old) if batch.rows >= FEWEST_ROWS]
    for column in columns:
        share, most = now.share(column), max(batch.share(column) for batch in large)
        if share > most + limit:
            why = f"column {column} is null in {percent(share)} of {now.rows} rows; before, in {percent(most)} at most"
            return Finding("nulls", True, why, PATIENCE_SECONDS)
    return Finding("nulls", False, f"none of {len(columns)} columns of {now.rows} rows has more nulls than before")


def read_counts(sink: SinkPlan, checkpoint: Checkpoint, batches: range, options: Mapping[str, Any]) -> list[RowCounts]:
    """Return the counts of the last of these batches. StreamUpdateError when the sink cannot be read."""
    if sink.format not in (*COUNTERS, DELTA) or sink.place is None:
        raise StreamUpdateError(f"nulls in a sink of format {sink.format} are not counted")
    try:
        folder = Folder.open(sink.place, dict(options))
        if sink.format == DELTA:
            commits = delta_commits(folder, checkpoint.query_id(), batches, READ_COMMITS)
            return [add_up(map(count_added, files)) for _, _, files in islice(commits, READ_BATCHES)]
        return list(count_batches(folder, sink, file_batches(folder, batches)[-READ_BATCHES:], READ_BYTES))
    except Exception as error:  # another storage, other rights, a damaged file: nothing depends on it
        raise StreamUpdateError(f"the output cannot be read from here: {error or repr(error)}") from error
