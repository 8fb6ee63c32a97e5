"""The queries of a driver that follow the running deployment's, until it takes over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.errors import CorruptError, RefusedError, StorageError
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.registry.deployment import QueryStatus
from ...core.registry.registry import AppRegistry
from ...core.storage import Folder
from ..restore.migrator import MigrationFunctions
from ..restore.restorer import check_room_for, mark_taken_over, restore_query
from ..restore.saved_state import SavedState
from ..restore.skipped import in_sink, may_be_skipped
from ..spark_internals import execution_seconds
from .batch_reports import BatchReports
from .following import Following
from .queries import RunningQueries
from .row_comparison import recorder

RESTORE_TRIES = 5  # of a state that changes meanwhile
POLL_SECONDS = 0.005  # between looks whether a batch has ended


class Followers:
    """Each follows the query of the same name. One that the running deployment does not have starts at the takeover."""

    def __init__(
        self,
        spark: SparkSession,
        plan: AppPlan,
        writers: Mapping[str, DataStreamWriter],
        app: AppRegistry,
        deployment: str,
        migrations: MigrationFunctions,
        committed: bool = False,
    ) -> None:
        """committed: follow batches only once they have committed"""
        self._spark, self._plan, self._writers = spark, plan, writers
        self._app, self._deployment, self._migrations = app, deployment, migrations
        self._committed = committed
        self._recorded: dict[str, Folder] = {}
        self._following: dict[str, Following] = {}
        self._figures: dict[str, BatchReports] = {}

    def record(self, rows: Mapping[str, Folder]) -> None:
        """Have the rows of these queries recorded, each in its folder. Before `begin`."""
        if unknown := [name for name in rows if self._plan.query(name) is None]:
            raise RefusedError(f"the rows of query {unknown[0]} cannot be compared: this version has no such query")
        self._recorded = dict(rows)

    def begin(self, find: Callable[[], SavedState]) -> None:
        """Restore the state that `find` returns, without a mark (it is not the state that the running deployment ends
        with), and follow from there."""
        saved = self._restored(find)
        for query in self._plan.queries:
            if not saved.holds(query.name):
                continue
            old = saved.before(query)
            assert old is not None  # it has state
            self._following[query.name] = Following(
                self._spark,
                self._writers[query.name],
                old,
                query,
                Checkpoint(saved.folders[query.name]),
                Checkpoint(self._app.checkpoint(self._deployment, query.name)),
                self._committed,
                recorder(self._recorded[query.name]) if query.name in self._recorded else None,
            )

    def keep_up(self) -> bool:
        """Begin what the running deployment has logged, without waiting for its end. Whether at most one batch is left.
        Raises the error of a query that failed."""
        for following in self._following.values():
            following.step()
        return all(following.behind <= 1 for following in self._following.values())

    def queries(self) -> frozenset[str]:
        """Return the queries that follow."""
        return frozenset(self._following)

    def queries_with_unclear_commit(self, saved: SavedState) -> frozenset[str]:
        """Return the queries whose batch in flight may be in their sink, while `saved` is without the files that tell,
        and the queries that have begun that batch here."""
        skipped = (n for n in self._following if may_be_skipped(saved.queries[n], self._query(n), ahead=True))
        return frozenset((*skipped, *self._begun_beyond(saved)))

    def _begun_beyond(self, saved: SavedState) -> dict[str, int]:
        """Return the batch of each query that was begun here, and that the other deployment has logged and not
        committed, as it died in it: here its rows went nowhere."""
        begun = {name: following.begun for name, following in self._following.items()}
        return {name: batch for name, batch in begun.items() if batch > saved.queries[name].batch}

    def catch_up(self, saved: SavedState) -> None:
        """Run what is left of the batches that the other deployment has ended with (`saved`), and wait for it.

        Its batch in flight is logged here, too, for the takeover to run. Where the sink has it already, and would skip
        it without making its state, it is run here. Where it may have it, the query is left for the restore, which
        takes the state that the other deployment has made of that batch. So it is where it was followed already.
        """
        beyond = self._begun_beyond(saved)
        self._wait_for(beyond)  # tasks would write into the checkpoint that is made anew
        for name in beyond:
            following = self._following.pop(name)
            if following.query is not None:
                following.query.stop()
        for name in [n for n in self._following if may_be_skipped(saved.queries[n], self._query(n))]:
            following = self._following.pop(name)
            if following.query is not None:
                following.query.stop()
        ends = {name: saved.queries[name].batch for name in self._following}
        self._wait_for(ends)
        for name, following in self._following.items():
            if (batch := saved.queries[name].in_flight) is not None:
                following.log_in_flight(batch)
                if in_sink(self._query(name), batch):
                    ends[name] = batch
        self._wait_for(ends)
        for name in self._following:
            mark_taken_over(saved, name, self._app, self._deployment)

    def _wait_for(self, batches: Mapping[str, int]) -> None:
        while not all(self._following[name].at(batch) for name, batch in batches.items()):
            for name, batch in batches.items():
                self._following[name].step(batch)
            time.sleep(POLL_SECONDS)

    def take_over(self, queries: RunningQueries) -> None:
        """Have them go on by themselves, as `queries`. One that had no batch to follow is left for a start."""
        for name, following in self._following.items():
            if following.query is not None:
                queries.adopt(name, following.query)
                following.take_over()
        self._following = {}

    def stop(self) -> None:
        """Stop at once, even during a batch."""
        for following in self._following.values():
            if following.query is not None:
                following.query.stop()

    def progress(self) -> dict[str, QueryStatus]:
        """Return each query's status: the batches of the running deployment that were committed here."""
        return {name: self._status(name, following) for name, following in self._following.items()}

    def _query(self, name: str) -> QueryPlan:
        query = self._plan.query(name)
        assert query is not None  # it follows
        return query

    def _status(self, name: str, following: Following) -> QueryStatus:
        if name not in self._figures:
            self._figures[name] = BatchReports(seconds=partial(execution_seconds, self._spark))
        committed, figures = following.committed, self._figures[name]
        if following.query is not None:
            figures.update(following.query, self._query(name).stages, committed)
        return QueryStatus(batch=committed, figures=figures.warm)

    def _restored(self, find: Callable[[], SavedState]) -> SavedState:
        for left in reversed(range(RESTORE_TRIES)):
            saved = find()
            try:
                check_room_for(saved, self._plan, self._app, self._deployment)
                for query in self._plan.queries:
                    if saved.holds(query.name):
                        checkpoint = self._app.checkpoint(self._deployment, query.name)
                        checkpoint.remove("")
                        restore_query(saved, query, self._writers[query.name], checkpoint, self._migrations)
                        self._app.folder.sync([f"deployments/{self._deployment}/checkpoint/{query.name}"])
                break
            except (CorruptError, StorageError, FileNotFoundError):  # the running app may have removed files
                if not left:
                    raise
        return saved
