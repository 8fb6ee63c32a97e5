"""Test updates of an app with pytest: its versions run one after the other over rows, in one local Spark session.

The plan, the check, the restore and the migration of state are those of a real update. The sinks are not: the rows that
a query would write are returned instead, and no foreachBatch function is called.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ..core import clock
from ..core.compatibility.report import CompatibilityReport
from ..core.compatibility.self_update import check_updatable
from ..core.compatibility.verdict import Verdict
from ..core.errors import ApplicationError, NotFoundError
from ..core.plan.plan import AppPlan
from ..core.registry.application import Application
from ..core.registry.deployment import DeploymentSpec
from ..core.registry.registry import AppRegistry, Registry
from ..core.serde import to_json
from . import spark_internals
from .app import StreamingApp
from .planning.planner import plan_app
from .restore.restorer import check_restorable, restore_app
from .restore.saved_state import SavedState

Rows = dict[str, list[dict[str, Any]]]
POLL_SECONDS = 0.1


@attrs.frozen(kw_only=True)
class LocalUpdate:
    """The outcome of an update.

    report: what `streamupdate check` prints, as data
    rows: what each query of the new version would write; empty when the report is not compatible
    """

    report: CompatibilityReport
    rows: Rows

    def verdict(self, name: str) -> Verdict:
        """Return the verdict on a stage, source or sink, e.g. ``totals/by_customer``. NotFoundError names all."""
        verdicts = {item.name: item.verdict for item in self.report.items}
        if name not in verdicts:
            raise NotFoundError(f"the report has no {name!r}; it has {', '.join(sorted(verdicts))}")
        return verdicts[name]


class LocalApp:
    """An app whose versions run over rows in a folder, which must be empty.

    params: the parameters of the app, without those that `write` gives
    """

    def __init__(self, spark: SparkSession, folder: str | Path, params: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._folder = Path(folder)
        self._params = dict(params or {})
        self._files = 0
        self._unread = 0
        self._deployments: list[str] = []

    def write(self, parameter: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as one file of JSON lines into the folder whose path the app gets as `parameter`."""
        folder = self._folder / "input" / parameter
        folder.mkdir(parents=True, exist_ok=True)
        self._params[parameter] = str(folder)
        lines = [json.dumps(dict(row), default=str) for row in rows]
        hidden = folder / f".{self._files:06}.json"  # Spark lists no hidden file, so it sees a file whole
        hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.utime(hidden, (1_700_000_000 + self._files,) * 2)  # Spark reads files in the order of their times
        hidden.rename(folder / hidden.name[1:])
        self._files += 1
        self._unread += len(lines)

    def start(self, file: str | Path, agree: Iterable[str] = ()) -> Rows:
        """Start the first version without state, and return what it writes until it has read all rows.

        ApplicationError when it could never be updated, as `streamupdate submit` says.
        """
        with _loaded(Path(file)) as app:
            session = self._spark.newSession()
            writers = app.build(session, self._params)
            plan = _plan(session, app, writers)
            check_updatable(plan, agree, again=_plan(session, app, app.build(session, self._params)))
            return self._run(self._deploy(app.name, Path(file), plan), plan, writers)

    def update(
        self, file: str | Path, agree: Iterable[str] = (), renames: Mapping[str, str] | None = None
    ) -> LocalUpdate:
        """Check a version against the state of the one before, and run it from there until it has read all rows.

        One that is not compatible is not run: the next update continues from the same state.
        """
        if not self._deployments:
            raise NotFoundError("no version has run yet: call start() with the first one")
        with _loaded(Path(file)) as app:
            session, registry = self._spark.newSession(), self._registry(app.name)
            writers = app.build(session, self._params)
            saved = SavedState.find(registry, f"drained:{self._deployments[-1]}").renamed(renames)
            plan = _plan(session, app, writers, saved)
            report = saved.compare(plan, agree)
            if report.compatible:
                with tempfile.TemporaryDirectory(prefix="streamupdate-check-") as restored:
                    report = check_restorable(saved, report, plan, writers, Path(restored))
            if not report.compatible:
                return LocalUpdate(report=report, rows={})
            deployment = self._deploy(app.name, Path(file), plan)
            restore_app(saved, plan, writers, registry, deployment, app.migrations)
            return LocalUpdate(report=report, rows=self._run(deployment, plan, writers))

    def _registry(self, app: str) -> AppRegistry:
        return Registry(str(self._folder / "root")).app(app)

    def _deploy(self, app: str, file: Path, plan: AppPlan) -> str:
        deployment = f"v{len(self._deployments) + 1}"
        registry = self._registry(app)
        spec = DeploymentSpec(
            app=app,
            deployment=deployment,
            application=Application(file=str(file), params=self._params),
            digest="",
            submitted_at=clock.now(),
        )
        registry.create_deployment(spec)
        registry.deployment_folder(deployment).write("plan.json", to_json(plan))
        self._deployments.append(deployment)
        return deployment

    def _run(self, deployment: str, plan: AppPlan, writers: Mapping[str, DataStreamWriter]) -> Rows:
        registry, rows = self._registry(plan.app), dict[str, list[dict[str, Any]]]()
        running: list[StreamingQuery] = []
        try:
            for query in plan.queries:
                frame = spark_internals.writer_frame(writers[query.name])
                found = rows.setdefault(query.name, [])
                collecting = frame.writeStream.outputMode(query.output_mode).foreachBatch(_collecting(found))
                checkpoint = registry.checkpoint(deployment, query.name).uri
                running.append(collecting.option("checkpointLocation", checkpoint).queryName(query.name).start())
            for query, stream in zip(plan.queries, running, strict=True):
                clocked = any("ProcessingTime" in str(stage.definition) for stage in query.stages)
                _read_all(stream, self._unread if clocked else None)
        finally:
            for stream in running:
                stream.stop()
        self._unread = 0
        return rows


def _plan(
    session: SparkSession, app: StreamingApp, writers: Mapping[str, DataStreamWriter], saved: SavedState | None = None
) -> AppPlan:
    return plan_app(session, app.declarations(), writers, saved.recorded() if saved else None)


def _collecting(rows: list[dict[str, Any]]) -> Any:
    def collect(batch: DataFrame, _batch_id: int) -> None:
        rows.extend(row.asDict(recursive=True) for row in batch.collect())

    return collect


def _read_all(stream: StreamingQuery, rows: int | None) -> None:
    """Wait until a query has read all input.

    rows: how many those are, for a query that has batches made without input and is never done
    """
    if rows is None:
        stream.processAllAvailable()
        return
    while stream.isActive and sum(p["numInputRows"] for p in stream.recentProgress) < rows:
        time.sleep(POLL_SECONDS)
    if error := stream.exception():
        raise error


@contextlib.contextmanager
def _loaded(file: Path) -> Iterator[StreamingApp]:
    """Load the app that a file defines as spark-submit does: as ``__main__``, with its folder first on the path.

    Modules beside it are forgotten afterwards: another version may have others of the same names.
    """
    started: list[StreamingApp] = []
    file, known, main = file.resolve(), set(sys.modules), sys.modules["__main__"]
    module = types.ModuleType("__main__")
    module.__file__ = str(file)
    sys.modules["__main__"] = module
    sys.path.insert(0, str(file.parent))
    try:
        with mock.patch.object(StreamingApp, "main", lambda app, argv=None: started.append(app)):
            exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
        if len(started) != 1:
            raise ApplicationError(
                f"application file {file} calls main() of {len(started)} apps; end it with "
                "`if __name__ == '__main__': app.main()`"
            )
        yield started[0]
    finally:
        sys.modules["__main__"] = main
        sys.path.remove(str(file.parent))
        for name in set(sys.modules) - known:
            if Path(getattr(sys.modules[name], "__file__", None) or os.devnull).is_relative_to(file.parent):
                del sys.modules[name]
