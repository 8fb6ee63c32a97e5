"""The SLO gate with real figures: versions of five apps that do worse, and versions that do not, each from the same
snapshot of a running app. Only the processes are missing, and the clock of the minutes is made up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import attrs
import pytest
from bench import Bench, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.registry.deployment import RUNNING, QueryStatus, Status
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.slo.baseline import read_baselines
from airflow_provider_streamupdate.core.slo.limits import LONGEST_SECONDS, SloLimits
from airflow_provider_streamupdate.core.slo.rules import SLACK_SECONDS, Finding, judge
from airflow_provider_streamupdate.streaming.agent.recording import Recorder
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from tests.levels.queries import build
from tests.levels.versions import APPS, AS_GOOD, MODES, NO_CLAIM, OLD, WORSE, Version, row

FILES_BEFORE, FILES_AFTER, ROWS, KEYS = 75, 14, 300, 300_000
SECONDS_A_BATCH = 6.0  # of the clock that is made up


def wait(poll: Callable[[], object | None]) -> None:
    deadline = time.monotonic() + 600
    while poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Running(Bench):
    """An app whose version before has run, for versions that go on from there."""

    def __init__(self, spark, folder: Path, app: str) -> None:
        super().__init__(spark, folder)
        self.name, self.mode = app, MODES.get(app, "append")
        self.chance = random.Random(7)
        self.found: QueryStatus | None = None
        self.sink = lambda writer: writer.format("noop")  # Spark tells how many rows each batch of it had
        self.add(FILES_BEFORE, 1.0)
        self.snapshot = self.run(lambda b: self.rows_of(b, OLD), self.mode)
        assert self.found is not None
        self.slowest = sorted(f.seconds for f in self.found.figures)[-5]
        self.write_down("d1", datetime.now(timezone.utc) - timedelta(hours=1))

    def rows_of(self, b: Bench, version: Version, slower: float = 0.0) -> DataFrame:
        source = b.source()
        if slower:
            source = self.slowed(source.where(version.below), slower)  # where all rows come by
        return build(self.name, stage, source, **version.code)

    def slowed(self, df: DataFrame, seconds: float) -> DataFrame:
        """A batch of it takes so many seconds longer, or a little more: its rows are in two tasks."""
        each = seconds / (ROWS / 5)
        return df.where(F.udf(lambda _: time.sleep(each) is None, "boolean")("a"))

    def _read_all(self, writers, checkpoint, plan):
        """It is looked at as often as a driver is: Spark tells the rows of the last batch only."""
        self.rows: dict[int, int] = {}
        queries = RunningQueries(self.spark, writers, {"q": checkpoint}, plan)
        queries.start()
        try:
            wait(lambda: self._read(queries) >= self.unread or None)
            queries.drain()
        finally:
            queries.stop()
        self.found, self.unread = queries.progress()["q"], 0
        return queries

    def _read(self, queries: RunningQueries) -> int:
        """Rows so far."""
        self.rows |= {f.batch: f.rows_in or 0 for f in queries.progress()["q"].figures}
        return sum(self.rows.values())

    def add(self, files: int, rows: float) -> None:
        for _ in range(files):
            at = datetime(2026, 1, 1) + timedelta(seconds=10 * self.files)
            self.write(row(self.chance, n, at.isoformat(), KEYS) for n in range(max(1, round(ROWS * rows))))

    def write_down(self, deployment: str, begin: datetime) -> None:
        """As its driver would: the status, and the minutes of the history."""
        assert self.found is not None
        now = [begin]
        recorder = Recorder(self.registry.folder, deployment, 1, lambda: now[0])
        first = self.found.batch if self.found.first_batch is None else self.found.first_batch
        for batch in range(first, self.found.batch + 1):
            known = tuple(f for f in self.found.figures if f.batch <= batch)
            held = known[-1].state_rows if known else None
            recorder.note({"q": attrs.evolve(self.found, batch=batch, figures=known, state_rows=held or {})})
            now[0] += timedelta(seconds=SECONDS_A_BATCH)
        recorder.write(over=True)
        self.registry.deployment_folder(deployment).write("status.json", to_json(self.status()))

    def status(self) -> Status:
        assert self.found is not None
        now = clock.now()
        return Status(state=RUNNING, epoch=1, heartbeat_at=now, started_at=now, queries={"q": self.found})

    def findings(self, version: Version) -> list[Finding]:
        """What the gate says of a version that goes on from the snapshot."""
        for file in self.input().iterdir():
            file.unlink()
        self.add(FILES_AFTER, version.rows)
        more = version.slower * self.slowest + (SLACK_SECONDS if version.slower > 1 else 0.0)
        self.run(lambda b: self.rows_of(b, version, more), self.mode, self.snapshot)
        assert self.found is not None
        new = f"d{self.deployments}"
        report = CompatibilityReport(app="bench", source="deployment d1", items=())
        self.registry.folder.write(f"updates/{new}.report.json", to_json(report))
        record = UpdateRecord(app="bench", old="d1", new=new, started_at=clock.now())
        before = read_baselines(self.registry, record)["q"]
        return list(judge(self.found, before, SloLimits(), LONGEST_SECONDS, LONGEST_SECONDS))


def cases(given: Iterable[str], fast: str, slow: Collection[str] = ()) -> list[object]:
    """All of them with `make sweep`; one with every run, and some with the slow tests."""
    marks = {fast: (), **dict.fromkeys(slow, pytest.mark.slow)}
    return [pytest.param(name, marks=marks.get(name, pytest.mark.sweep)) for name in given]


@pytest.fixture(scope="module", params=cases(APPS, "counts"))
def running(request: pytest.FixtureRequest, spark_session, tmp_path_factory: pytest.TempPathFactory) -> Running:
    return Running(spark_session, tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("worse", cases(WORSE, "each row twice", {"few rows pass"}))
def test_one_that_does_worse_is_found(running: Running, worse: str) -> None:
    if worse in NO_CLAIM.get(running.name, ()):
        pytest.skip("no claim")
    found = running.findings(WORSE[worse])
    assert any(finding.exceeded for finding in found), found


@pytest.mark.parametrize("good", cases(AS_GOOD, "", {"the same", "a column more", "twice as much input"}))
def test_one_that_does_as_well_is_not_stopped(running: Running, good: str) -> None:
    found = running.findings(AS_GOOD[good])
    assert not any(finding.exceeded for finding in found), found
    assert any(finding.exceeded is False for finding in found), "something was compared"
