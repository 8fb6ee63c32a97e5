"""The queries of a driver, run by Spark."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.compatibility.report import CompatibilityReport
from ...core.coordination.following import unfollowable
from ...core.difference.comparison import NEW, Comparison
from ...core.errors import RefusedError, describe
from ...core.plan.plan import AppPlan
from ...core.registry.deployment import QueryStatus
from ...core.registry.in_flight import ChangeRequest
from ...core.registry.registry import AppRegistry
from .. import spark_internals
from ..planning.planner import App, plan_app
from ..restore.fresh_start import check_start
from ..restore.restorer import MetadataAhead, check_restorable, copy_ahead, metadata_ahead, restore_app
from ..restore.saved_state import SavedState
from .followers import Followers
from .port import Session
from .queries import RunningQueries
from .rebuilding import Built, Rebuilding
from .renumbering import skip_used_batch_ids, used_beyond
from .row_comparison import compare_recorded
from .warm_up import count_rows, scratch_folder, warm_up

_JVM_ENDS = 10.0  # seconds that a JVM may take to end once its connections are closed


class SparkEngine:
    """The engine (`QueryEngine`) of deployment `deployment`, whose application file defines `app`."""

    def __init__(self, app: App, registry: AppRegistry, deployment: str) -> None:
        self._app = app
        self._registry = registry
        self._deployment = deployment
        self._parent = os.getppid()  # spark-submit's JVM; when it dies, calls fail in many ways (measured)
        self._spark: SparkSession
        self._writers: dict[str, DataStreamWriter] = {}
        self._warnings: tuple[str, ...] = ()
        self._queries: RunningQueries
        self._rebuilding: Rebuilding
        self._before: Built
        self._rebuilt: Built
        self._ahead: dict[str, MetadataAhead] = {}
        self._copied: dict[str, dict[str, int]] = {}
        self._followers: Followers | None = None  # until the takeover
        self._counting: threading.Thread | None = None  # gets fast with rows of its own

    @property
    def app(self) -> str:
        return self._app.name

    @property
    def plan(self) -> AppPlan:
        return self._queries.plan

    def open(self, title: str, practises: bool = False) -> Session:
        self._spark = SparkSession.builder.appName(title).getOrCreate()
        if practises:
            self._counting = InheritableThread(target=self._count_rows, name="streamupdate-warm-up", daemon=True)
            self._counting.start()
        self._rebuilding = Rebuilding(self._app, self._spark, self._registry, self._deployment)
        context = self._spark.sparkContext
        return Session(ui=context.uiWebUrl, application_id=context.applicationId, version=self._spark.version)

    def on_termination(self, then: Callable[[], None]) -> None:
        spark_internals.on_termination(self._spark, then)

    def build(self, params: Mapping[str, str]) -> tuple[str, ...]:
        self._writers = self._app.build(self._spark, dict(params))
        self._warnings = tuple(self._app.unread(params))
        for warning in self._warnings:
            print(f"WARNING: {warning}", file=sys.stderr)
        return tuple(self._writers)

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    def make_plan(self, recorded: Mapping[str, Mapping[str, str]]) -> AppPlan:
        app, writers = self._app, self._writers
        plan = plan_app(self._spark, app.declarations(), writers, recorded)
        checkpoints = {query: self._registry.checkpoint(self._deployment, query) for query in writers}
        self._queries = RunningQueries(self._spark, writers, checkpoints, plan)
        return plan

    def check_restorable(self, saved: SavedState, report: CompatibilityReport) -> CompatibilityReport:
        with tempfile.TemporaryDirectory(prefix="streamupdate-standby-") as checked:
            return check_restorable(saved, report, self.plan, self._writers, Path(checked))

    def practise(self, saved: SavedState) -> Generator[None, None, None]:
        """Keep what the restore then does not have to do again."""
        if self._counting is not None:
            self._counting.join()
            yield
        with scratch_folder(self._registry, self._deployment) as folder:
            yield from warm_up(self._spark, self._writers, saved, self.plan, folder, self._app.migrations)
        self._ahead = metadata_ahead(saved, self.plan, self._writers)

    def _count_rows(self) -> None:
        try:
            with scratch_folder(self._registry, self._deployment) as folder:
                count_rows(self._spark, folder)
        except Exception as error:
            print(f"WARNING: the driver could not be warmed up with rows: {describe(error)}", file=sys.stderr)

    def bring_ahead(self, find: Callable[[], SavedState]) -> None:
        self._copied = copy_ahead(find, self.plan, self._registry, self._deployment)

    def unfollowable(self, saved: SavedState) -> list[str]:
        problems = unfollowable(self.plan, saved.plan)
        try:
            spark_internals.check_followable_here(self._spark)
        except RefusedError as error:
            problems.append(str(error))
        for name, writer in self._writers.items():
            try:
                spark_internals.check_trigger(writer)
            except RefusedError as error:
                problems.append(f"query {name}: {error}")
        known = {query.name for query in self.plan.queries}
        problems += [
            f"expect_difference names query {expected.query!r}, which {self.app} does not have"
            for expected in self._app.expected_differences
            if expected.query not in known
        ]
        return problems

    def follow(
        self,
        find: Callable[[], SavedState],
        committed: bool = False,
        comparison: Comparison | None = None,
        version: str = NEW,
    ) -> None:
        if comparison is not None and version == NEW:
            comparison.expect(self._app.expected_differences)
        self._followers = Followers(
            self._spark, self.plan, self._writers, self._registry, self._deployment, self._app.migrations, committed
        )
        request = comparison.request() if comparison is not None else None
        if comparison is not None and request is not None:
            self._followers.record({name: comparison.rows(version, name) for name in request.keys})
        self._followers.begin(find)

    def compare(self, comparison: Comparison) -> None:
        compare_recorded(self._spark, comparison)

    def keep_up(self) -> bool:
        assert self._followers is not None  # `follow` was called
        return self._followers.keep_up()

    def followed(self) -> frozenset[str]:
        assert self._followers is not None  # `follow` was called
        return self._followers.queries()

    def queries_with_unclear_commit(self, saved: SavedState) -> frozenset[str]:
        assert self._followers is not None  # `follow` was called
        return self._followers.queries_with_unclear_commit(saved)

    def catch_up(self, saved: SavedState) -> None:
        assert self._followers is not None  # `follow` was called
        self._followers.catch_up(saved)

    def used_beyond(self, parent: str) -> bool:
        return used_beyond(self._registry, parent, self.plan)

    def restore(self, saved: SavedState) -> None:
        app, deployment = self._registry, self._deployment
        restore_app(saved, self.plan, self._writers, app, deployment, self._app.migrations, self._ahead, self._copied)

    def skip_used_batch_ids(self) -> dict[str, tuple[int, int]]:
        return skip_used_batch_ids(self._registry, self._deployment, self.plan)

    def check_start(self, agree: Iterable[str]) -> None:
        check_start(self._registry, self.plan, agree, self._deployment)

    def start(self) -> None:
        if self._followers is not None:
            followers, self._followers = self._followers, None
            followers.take_over(self._queries)
        self._queries.start()
        self._app.begin()

    def drain(self) -> None:
        self._queries.drain()

    def stop(self) -> None:
        if self._followers is not None:
            self._followers.stop()
        self._queries.stop()

    def progress(self) -> dict[str, QueryStatus]:
        self._app.check()
        return self._followers.progress() if self._followers else self._queries.progress()

    def committed(self) -> dict[str, int]:
        return self._queries.committed()

    def has_settled(self, since: Mapping[str, int]) -> bool:
        return self._queries.has_settled(since)

    def ended(self) -> bool:
        return self._queries.ended()

    def rebuild(self, request: ChangeRequest) -> None:
        self._before = self._queries.writers, self._queries.plan
        self._rebuilt = self._rebuilding.build(request)

    def replace(self) -> None:
        self._queries.replace(*self._rebuilt)

    def put_back(self) -> None:
        self._rebuilding.put_back()
        self._queries.replace(*self._before)

    def ended_part(self, error: BaseException) -> str | None:
        """The JVM's connections close before it is gone (a busy machine takes seconds to give back its memory), so that
        after a call without an answer its end is waited for."""
        deadline = time.monotonic() + (_JVM_ENDS if spark_internals.unanswered(error) else 0)
        while os.getppid() == self._parent and time.monotonic() < deadline:
            time.sleep(0.05)
        return "the driver's JVM ended" if os.getppid() != self._parent else None
