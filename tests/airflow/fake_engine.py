"""An engine without Spark (`QueryEngine`): one query, whose plan is made of an application's constants, and whose
batches are files in its checkpoint. It uses the real state library for all else; tests/engine_contract.py holds it to
what Spark's engine does.

The "application" is a Python file of constants:

    APP = "alarm"; STAGES = {"rooms": ["room"]}   stage name -> its keys
    FAIL = None | "plan" (planning raises) | "start" (dies before running) | "run" (fails in its first batch)
         | "practise" (its restore will raise) | "adopt" (the checkpoint is not this application's)
         | "stuck" (commits nothing) | "never" (never gets to run)
         | "follow" (a followed batch fails) | "lag" (it never catches up with the version that it follows)
    WARNINGS = ()         what it warns of when it is planned
    INPUT = None          how many batches there is input for (None: it never ends); then it is idle
    ENDS = False          whether its query ends by itself when there is no more input (Spark's trigger availableNow)
    DRAIN_SECONDS = 0.0   how long the last batch takes
    RELOADABLE = ()       the parameters that may change in flight; one with the value "bad" fails the query
    REHEARSAL = None      what a query raises in its rehearsal
    SINK = {"format": "noop"}   its sink: format and options
    SOURCE = {"format": "rate"}   its source: format, options and location
    STATE = False         whether its batches leave state files (of which a deployment's snapshots share one)
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import attrs

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.boundaries import boundary
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport, IncompatibleError
from airflow_provider_streamupdate.core.coordination.following import unfollowable
from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.difference.row_difference import RowDifference
from airflow_provider_streamupdate.core.errors import ApplicationError, CorruptError, DriverError, describe
from airflow_provider_streamupdate.core.plan.expressions import Literal
from airflow_provider_streamupdate.core.plan.plan import (
    Aggregation,
    AppPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
)
from airflow_provider_streamupdate.core.plan.plan import Path as RowPath
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest, check_parameters
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.fresh_start import compare_fresh, plans_before
from airflow_provider_streamupdate.core.snapshots.restore import RestoredMark, bring_files, plan_restore, write_commits
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.engine.port import Session
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

QUERY = "events"
BATCH_SECONDS = 0.05
FIGURES = 21  # the last batches that its progress tells of
FAILS_AFTER = 1.5  # so that it is seen to run before
CONF = {"spark.sql.shuffle.partitions": "1"}


def plan_of(application: Mapping[str, Any]) -> AppPlan:
    stages = tuple(
        StagePlan(
            name=name,
            named=True,
            kind="aggregate",
            operator="stateStoreSave",
            operator_id=number,
            definition=Aggregation(keys=tuple(map(Literal, keys))),
            paths=(RowPath("source-1"),),
        )
        for number, (name, keys) in enumerate(application.get("STAGES", {"rooms": ["room"]}).items())
    )
    query = QueryPlan(
        name=QUERY,
        output_mode="update",
        sink=SinkPlan(**application.get("SINK", {"format": "noop"})),
        sources=(SourcePlan(**{"name": "source-1", "named": False, **application.get("SOURCE", {"format": "rate"})}),),
        source_order=("source-1",),
        stages=stages,
        paths=tuple(RowPath("source-1", (stage.name,)) for stage in stages) or (RowPath("source-1"),),
    )
    return AppPlan(
        app=application["APP"],
        spark_version="4.3.0",
        queries=(query,),
        reloadable=tuple(application.get("RELOADABLE", ())),
    )


class FakeEngine:
    """Of deployment `deployment`, whose application file holds these constants."""

    def __init__(self, application: Mapping[str, Any], registry: AppRegistry, deployment: str) -> None:
        self._application = application
        self._registry = registry
        self._deployment = deployment
        self._checkpoint = Checkpoint(registry.checkpoint(deployment, QUERY))
        self._plan: AppPlan
        self._params: Mapping[str, str] = {}
        self._params_before: Mapping[str, str] = {}
        self._rebuilt: Mapping[str, str] | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._before: int | None = None  # the last batch committed before the first start
        self._status = QueryStatus()
        self._made = time.monotonic()
        self._followed: Checkpoint | None = None
        self._only_committed = False
        self._recorded: Folder | None = None

    @property
    def app(self) -> str:
        return str(self._application["APP"])

    @property
    def plan(self) -> AppPlan:
        return self._plan

    def open(self, title: str, practises: bool = False) -> Session:
        if self._fails("start"):
            print("the last words of a driver that dies at start", flush=True)
            os._exit(3)
        print("the driver opens its session", flush=True)
        while self._fails("never"):
            time.sleep(0.1)
        return Session(ui="http://localhost:4040", application_id="local-1", version="4.3.0")

    def on_termination(self, then: Callable[[], None]) -> None:
        self.terminate = then

    def build(self, params: Mapping[str, str]) -> tuple[str, ...]:
        self._params = params
        return (QUERY,)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._application.get("WARNINGS", ()))

    def make_plan(self, recorded: Mapping[str, Mapping[str, str]]) -> AppPlan:
        if self._fails("plan"):
            raise ApplicationError("query events raised ValueError: no such column")
        self._plan = plan_of(self._application)
        return self._plan

    def check_restorable(self, saved: SavedState, report: CompatibilityReport) -> CompatibilityReport:
        return report

    def practise(self, saved: SavedState) -> Generator[None, None, None]:
        """There is nothing that gets faster."""
        if self._fails("practise"):
            raise CorruptError("a migration function raised KeyError: 'room'")
        yield

    def bring_ahead(self, find: Callable[[], SavedState]) -> None:
        """A restore has no state files to copy that would take long."""

    def unfollowable(self, saved: SavedState) -> list[str]:
        return unfollowable(self._plan, saved.plan)

    def follow(
        self,
        find: Callable[[], SavedState],
        committed: bool = False,
        comparison: Comparison | None = None,
        version: str = NEW,
    ) -> None:
        self._only_committed = committed
        request = comparison.request() if comparison else None
        if comparison and version == NEW:
            comparison.expect(())
        if comparison and request and QUERY in request.keys:
            self._recorded = comparison.rows(version, QUERY)
        saved = find()
        if saved.holds(QUERY):
            self._build(saved)
            self._followed = Checkpoint(saved.folders[QUERY])

    def keep_up(self) -> bool:
        if self._fails("follow"):
            raise CorruptError("a followed batch fails")
        if self._followed is None:
            return True
        if self._fails("lag"):
            return False
        there = self._followed.committed_batch() if self._only_committed else self._followed.logged_batch()
        self._follow_to(there or 0)
        return True

    def _follow_to(self, last: int) -> None:
        assert self._followed is not None
        for batch in range(self.committed()[QUERY] + 1, last + 1):
            entry = self._followed.folder.read(f"offsets/{batch}")
            if entry is None:
                raise DriverError(f"{QUERY} fell too far behind: offsets/{batch} is gone")
            self._checkpoint.folder.write(f"offsets/{batch}", entry)
            if self._recorded is not None:
                where = f"{batch}-{os.getpid()}"
                self._recorded.write(f"{where}/rows.json", json.dumps(self._application.get("ROWS", [1, 2])).encode())
                note_rows(self._recorded, batch, where)
            self._commit(batch)

    def compare(self, comparison: Comparison) -> None:
        """Rows are equal or only in one version."""
        for batch in comparison.recorded(QUERY):
            folders = [comparison.rows(version, QUERY) for version in (OLD, NEW)]
            old, new = (Counter(json.loads(rows.read(f"{rows_of(rows, batch)}/rows.json") or b"")) for rows in folders)
            counts: dict[str, Any] = {
                "equal": (old & new).total(),
                "only_old": (old - new).total(),
                "only_new": (new - old).total(),
            }
            comparison.add(RowDifference(query=QUERY, batches=(batch,), **counts))

    def followed(self) -> frozenset[str]:
        return frozenset((QUERY,) if self._followed is not None else ())

    def queries_with_unclear_commit(self, saved: SavedState) -> frozenset[str]:
        return frozenset((QUERY,) if self._is_beyond(saved) else ())

    def _is_beyond(self, saved: SavedState) -> bool:
        return self._followed is not None and self.committed()[QUERY] > saved.queries[QUERY].batch

    def catch_up(self, saved: SavedState) -> None:
        if self._is_beyond(saved):
            self._followed = None  # it is restored
        if self._followed is not None:
            self._follow_to(saved.queries[QUERY].batch)
            assert self.committed()[QUERY] == saved.queries[QUERY].batch
            if (batch := saved.queries[QUERY].in_flight) is not None:
                entry = self._followed.folder.read(f"offsets/{batch}")
                assert entry is not None
                self._checkpoint.folder.write(f"offsets/{batch}", entry)
            self._mark(saved)

    def used_beyond(self, parent: str) -> bool:
        return False

    def restore(self, saved: SavedState) -> None:
        mark = f"deployments/{self._deployment}/restored/{QUERY}.json"
        if not saved.holds(QUERY) or self._registry.folder.exists(mark):
            return
        self._build(saved)
        self._mark(saved)

    def _build(self, saved: SavedState) -> None:
        query, old = self._plan.query(QUERY), saved.plan.query(QUERY)
        if query is None or old is None:
            raise CorruptError(f"{saved.source} holds no plan of query {QUERY}")
        checkpoint, source = self._checkpoint.folder, saved.folders[QUERY]
        checkpoint.remove("")
        plan = plan_restore(saved.queries[QUERY], old, query)
        bring_files(plan, source, checkpoint)
        write_commits(plan, source, checkpoint)
        if saved.fork:
            checkpoint.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())

    def _mark(self, saved: SavedState) -> None:
        mark = f"deployments/{self._deployment}/restored/{QUERY}.json"
        boundary("checkpoint-built")
        self._registry.folder.write(mark, to_json(RestoredMark(source=saved.source, batch=saved.queries[QUERY].batch)))
        boundary("checkpoint-marked")

    def skip_used_batch_ids(self) -> Mapping[str, tuple[int, int]]:
        return {}

    def check_start(self, agree: Iterable[str]) -> None:
        if self._checkpoint.committed_batch() is not None:
            return
        report = compare_fresh(plans_before(self._registry, self._deployment), self._plan, {}, agree)
        if not report.compatible:
            raise IncompatibleError(f"{self._deployment} cannot start without state", report)

    def start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        if self._before is None:
            self._before = self.committed()[QUERY]
        self._ending.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(self._params,), daemon=True)
        self._thread.start()

    def drain(self) -> None:
        boundary("draining")
        time.sleep(self._application.get("DRAIN_SECONDS", 0.0))
        self.stop()
        if self._error is not None:
            raise self._error
        boundary("drained")

    def stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _commit_time(self, batch: int) -> str | None:
        """As Spark's engine tells it: None when the commit was removed since."""
        with contextlib.suppress(FileNotFoundError):
            return clock.from_epoch_ms(self._checkpoint.commit_time(batch) * 1000)
        return None

    def progress(self) -> dict[str, QueryStatus]:
        batch, status = self.committed()[QUERY], self._status
        if batch >= 0 and batch != status.batch:
            if status.first_batch is None and self._before is not None and batch > self._before:
                first = self._before + 1
                began = self._commit_time(first) or self._commit_time(batch)
                status = attrs.evolve(status, first_batch=first, first_commit_at=began)
                boundary("first-commit-seen")
            status = attrs.evolve(status, batch=batch, last_commit_at=self._commit_time(batch))
        self._status = attrs.evolve(
            status,
            active=self._active,
            idle=self._active and batch + 1 == self._application.get("INPUT"),
            error=None if self._error is None else describe(self._error),
            figures=tuple(map(self._figures, range(max(batch + 1 - FIGURES, 0), batch + 1))),
            lag=0.0,
            state_rows={stage.name: 10 for stage in self._plan.queries[0].stages},
        )
        return {QUERY: self._status}

    def _figures(self, batch: int) -> BatchFigures:
        """As its application file says that its batches go."""
        return BatchFigures(
            batch=batch,
            rows_in=10,
            rows_out=self._application.get("ROWS_OUT", 10),
            state_rows={stage.name: self._application.get("STATE_ROWS", 10) for stage in self._plan.queries[0].stages},
            seconds=self._application.get("BATCH_TIME", 0.05),
        )

    def committed(self) -> dict[str, int]:
        batch = self._checkpoint.committed_batch()
        return {QUERY: -1 if batch is None else batch}

    def has_settled(self, since: Mapping[str, int]) -> bool:
        return not self.ended() and (self.committed()[QUERY] > since[QUERY] or self.progress()[QUERY].idle)

    def ended(self) -> bool:
        if self._active:
            return False
        if self._error is not None:
            raise self._error
        return True

    def rebuild(self, request: ChangeRequest) -> None:
        spec = self._registry.spec(self._deployment)
        check_parameters(spec.application.params, request.params, self._plan.reloadable)
        self._params_before, self._rebuilt = self._params, request.params

    def replace(self) -> None:
        assert self._rebuilt is not None
        self._params, self._rebuilt = self._rebuilt, None

    def put_back(self) -> None:
        self._params, self._rebuilt = self._params_before, None

    def ended_part(self, error: BaseException) -> str | None:
        return None

    @property
    def _active(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _fails(self, where: str) -> bool:
        return bool(self._application.get("FAIL") == where)

    def _run(self, params: Mapping[str, str]) -> None:
        """A batch every BATCH_SECONDS, until it is told to end: never in the middle of one."""
        try:
            if "bad" in params.values():
                raise ValueError("bad")
            if self._fails("run"):
                if not self._ending.wait(max(self._made + FAILS_AFTER - time.monotonic(), 0.0)):
                    raise ValueError("a row the new version cannot read")
                return
            while not self._ending.is_set():
                if self._application.get("ENDS") and self.committed()[QUERY] + 1 >= self._application["INPUT"]:
                    return
                last = self._application.get("INPUT")
                if not self._fails("stuck") and (last is None or self.committed()[QUERY] + 1 != last):
                    self._batch()
                self._ending.wait(BATCH_SECONDS)
        except Exception as error:
            self._error = error

    def _batch(self) -> None:
        """As Spark writes it. One that was begun and not committed begins again."""
        folder, batch = self._checkpoint.folder, self.committed()[QUERY] + 1
        if not folder.exists("metadata"):
            folder.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        entry = b"v1\n%s\n%d" % (json.dumps({"batchWatermarkMs": 0, "conf": CONF}).encode(), batch)
        if self._checkpoint.logged_batch() != batch and not folder.create(f"offsets/{batch}", entry):
            raise RuntimeError(f"[CONCURRENT_STREAM_LOG_UPDATE] somebody else has begun batch {batch}")
        self._commit(batch)

    def _commit(self, batch: int) -> None:
        folder = self._checkpoint.folder
        if self._application.get("STATE"):
            from tests.core.builders import CheckpointFiles

            CheckpointFiles(folder).rocksdb(0, 0, batch + 1, ["000001-shared.sst"])
        folder.write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}', lasting=False)
