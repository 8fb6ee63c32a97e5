"""A change in flight: the driver goes on with other parameters in the same session, and no row is lost or counted
twice; what does not fit is refused while the queries run, and what fails is taken back. And a driver beside the
current deployment (strategy parallel), until its update ends or makes it the current one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import attrs
import pytest
from bench import Bench, counts, deploy, row, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.commands import CHANGE, DRAIN, RESUME, CommandBox
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import RUNNING, STANDBY, Current
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest
from airflow_provider_streamupdate.core.registry.update import PROMOTED, REFUSED, UpdateRecord
from airflow_provider_streamupdate.core.snapshots.plan_answer import read_answer
from airflow_provider_streamupdate.streaming import StreamingApp
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.roles.standby import Parallel
from airflow_provider_streamupdate.streaming.engine.spark_engine import SparkEngine

PARAMS = {"mark": "one", "files": "1", "key": "k", "path": "in", "trigger": "0 seconds"}


class Changing:
    """An app whose sink keeps what each batch brought, without idempotence: (batch, mark, {key: count})."""

    def __init__(self, spark, folder) -> None:
        self.bench = Bench(spark, folder)
        self.seen: list[tuple[int, str, dict[str, int]]] = []
        self.registry = self.bench.registry
        deploy(self.registry, "d", application=Application(file="bench.py", params=PARAMS), digest="submitted")
        self.app = StreamingApp("bench", reloadable={"mark", "files", "key", "trigger"})
        self.app.query("q", seen_batch="adds")(self.query)
        self.epoch = 0
        self.written = 0

    def query(self, spark, params):
        """A file has a row of its own key and one of all files' key."""
        spark.conf.set("spark.tests.sessionMark", params["mark"])
        mark = params["mark"]

        def keep(batch, number: int) -> None:
            counts = {r.k: r.n for r in batch.collect()}
            if mark == "bad":
                raise ValueError(f"batch {number} cannot be written with mark {mark}")
            self.seen.append((number, mark, counts))

        rows = self.bench.source(name=params["path"], maxFilesPerTrigger=params["files"])
        counts = rows.groupBy(F.col(params["key"]).alias("k")).agg(F.count("*").alias("n"))
        writer = stage("counts", counts).writeStream.outputMode("update").trigger(processingTime=params["trigger"])
        return writer.foreachBatch(keep)

    def write(self) -> None:
        self.bench.write([row(f"file{self.written}", 1), row("all", 1)])
        self.written += 1

    def drive(self, control, files_coming: bool = True) -> int:
        """Run a driver of the next epoch here, and `control` beside it; the exit code."""
        self.epoch += 1
        assert self.registry.claim(Current(deployment="d", epoch=self.epoch))
        box = CommandBox(self.registry.deployment_folder("d"), self.epoch)
        failures: list[BaseException] = []
        over = threading.Event()

        def write() -> None:
            while files_coming and not over.wait(0.2):
                self.write()

        def run_control() -> None:
            try:
                control(box)
            except BaseException as error:
                failures.append(error)
            finally:
                over.set()
                box.issue(DRAIN)

        threads = [threading.Thread(target=target) for target in (write, run_control)]
        for thread in threads:
            thread.start()
        code = Agent(self.registry, "d", self.epoch, SparkEngine(self.app, self.registry, "d")).run()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return code

    def change(self, box: CommandBox, id: str, **params: str) -> str | None:
        """The driver's answer: why it did not change; None when it did."""
        request = ChangeRequest(id=id, params={**PARAMS, **params}, digest=f"digest {id}", asked_by="a test")
        name = box.issue(CHANGE, change=request)
        return wait(lambda: box.result(name)).error

    def wait_for_mark(self, mark: str, since: int = 0) -> None:
        wait(lambda: any(m == mark for _, m, _ in self.seen[since:]) or None)


def wait(poll):
    deadline = time.monotonic() + 240
    while (found := poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.fixture
def changing(spark, tmp_path) -> Changing:
    return Changing(spark, tmp_path)


def test_no_row_is_lost_or_doubled_over_changes_refusals_failures_and_a_restart(changing: Changing) -> None:
    bench, registry = changing.bench, changing.registry
    bench.input("other")

    def first(box: CommandBox) -> None:
        changing.wait_for_mark("one")
        assert changing.change(box, "c1", mark="two", files="2") is None
        changing.wait_for_mark("two")
        assert changing.change(box, "c1", mark="two", files="2") is None, "asked again: done already"

        settings = dict(bench.spark.conf.getAll)
        refused = changing.change(box, "c2", mark="two", files="2", key="k2")
        assert "keys changed" in refused and "nothing was stopped" in refused
        refused = changing.change(box, "c3", mark="two", files="2", path="other")
        assert "parameter path cannot change in flight" in refused
        assert dict(bench.spark.conf.getAll) == settings

        before = len(changing.seen)
        for _ in range(10):  # a query with nothing to read would be called changed before its first batch
            changing.write()
        failed = changing.change(box, "c4", mark="bad", files="2")
        assert "continues with the old ones" in failed and "cannot be written with mark bad" in failed
        assert dict(bench.spark.conf.getAll) == settings
        changing.wait_for_mark("two", since=before)

    assert changing.drive(first) == 0
    assert registry.spec("d").application.params == {**PARAMS, "mark": "two", "files": "2"}
    assert registry.spec("d").digest == "digest c1"
    changes = registry.changes("d")
    assert [(c.request.id, c.undoes is None) for c in changes] == [("c1", True), ("c4", True), ("c4", False)]
    assert changes[0].changed == {"files": ("1", "2"), "mark": ("one", "two")}
    plan = registry.plan("d")
    assert plan.queries[0].sources[0].options["maxfilespertrigger"] == "2"
    assert plan.reloadable == ("files", "key", "mark", "trigger")

    last = len(changing.seen)
    assert changing.drive(lambda box: changing.wait_for_mark("two", since=last)) == 0
    assert {mark for _, mark, _ in changing.seen[last:]} == {"two"}, "a later driver has what was changed"

    # The oracle: every batch came once, every file was in one batch, and the count of all files is what came so far.
    assert [number for number, _, _ in changing.seen] == list(range(len(changing.seen)))
    files = Counter(key for _, _, brought in changing.seen for key in brought if key != "all")
    read = 0
    for _, mark, brought in changing.seen:
        own = {key: n for key, n in brought.items() if key != "all"}
        read += len(own)
        assert set(own.values()) == {1} and brought["all"] == read
        assert len(own) <= (1 if mark == "one" else 2)
    assert files == Counter(f"file{n}" for n in range(read)) and 0 < read <= changing.written


def test_texts_are_read_under_the_session_s_settings(changing: Changing) -> None:
    """A change is carried out in a thread of its own."""
    found: list[str] = []
    query = changing.query

    def noting(spark, params):
        found.append(spark.readStream.schema("ts timestamp").json(str(changing.bench.input())).dtypes[0][1])
        return query(spark, params)

    changing.app._functions = [("q", noting)]
    changing.bench.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:

        def control(box: CommandBox) -> None:
            changing.wait_for_mark("one")
            assert changing.change(box, "c1", mark="two") is None

        assert changing.drive(control) == 0
    finally:
        changing.bench.spark.conf.unset("spark.sql.timestampType")
    assert found == ["timestamp_ntz"] * 2


def test_a_query_that_waits_for_its_trigger_or_for_data_is_changed_at_once(changing: Changing) -> None:
    changing.write()

    def control(box: CommandBox) -> None:
        changing.wait_for_mark("one")
        assert changing.change(box, "c1", trigger="1 hour") is None
        assert changing.change(box, "c2", mark="two") is None
        assert [mark for _, mark, _ in changing.seen] == ["one"], "there was nothing to read"
        changing.write()
        changing.wait_for_mark("two")

    assert changing.drive(control, files_coming=False) == 0
    first, second = changing.registry.changes("d")
    assert first.before == PARAMS and first.digest_before == "submitted"
    assert second.changed == {"mark": ("one", "two"), "trigger": ("1 hour", "0 seconds")}


class Beside:
    """Deployment d1 has left snapshot s1 and is current in epoch 1; d2 was made to run beside it from there."""

    def __init__(self, spark, folder: Path) -> None:
        self.bench = Bench(spark, folder)
        self.bench.write([row("a", 1), row("b", 1)])
        self.bench.run(counts)
        self.registry = self.bench.registry
        assert self.registry.claim(Current(deployment="d1", epoch=1, promoted=True))
        record = UpdateRecord(app="bench", old="d1", new="d2", started_at=clock.now(), strategy="parallel")
        self.registry.set_update(record)
        lease.acquire(self.registry.folder, "d2")
        deploy(self.registry, "d2", 59, parent="d1", from_snapshot="s1", agree=("q:fork",), fork=True)
        self.bench.write([row("a", 2)])

    def drive(self, epoch: int, control) -> int:
        """Run d2's driver under that number here, and `control` beside it; the exit code."""
        failures: list[BaseException] = []
        before = self.answer()

        def run_control() -> None:
            try:
                wait(lambda: self.state(epoch) == STANDBY or None)
                answer = read_answer(self.registry, "d2")
                assert answer is not None and answer.report is not None and answer.report.compatible
                assert self.answer() == before, "it waits until it is told to run"
                CommandBox(self.registry.deployment_folder("d2"), epoch).issue(RESUME)
                wait(lambda: self.state(epoch) == RUNNING or None)
                control()
            except BaseException as error:
                failures.append(error)
                CommandBox(self.registry.deployment_folder("d2"), epoch).issue(DRAIN)

        thread = threading.Thread(target=run_control)
        thread.start()
        engine = SparkEngine(self.bench.app(counts), self.registry, "d2")
        code = Agent(self.registry, "d2", epoch, engine, Parallel).run()
        thread.join()
        if failures:
            raise failures[0]
        return code

    def state(self, epoch: int) -> str | None:
        status = self.registry.status("d2")
        return status.state if status is not None and status.epoch == epoch else None

    def end(self, outcome: str) -> None:
        record = self.registry.update("d2")
        assert record is not None
        self.registry.set_update(attrs.evolve(record, outcome=outcome))

    def answer(self) -> dict[str, int]:
        return {k: r["n"] for (k,), r in self.bench.last("k").items()}


@pytest.fixture
def beside(spark, tmp_path) -> Beside:
    return Beside(spark, tmp_path)


def test_it_runs_without_the_epoch_and_goes_on_when_it_is_promoted(beside: Beside) -> None:
    registry = beside.registry

    def control() -> None:
        wait(lambda: beside.answer() == {"a": 2, "b": 1} or None)
        assert registry.current() == Current(deployment="d1", epoch=1, promoted=True)
        heard = registry.status("d2").heartbeat_at
        wait(lambda: registry.status("d2").heartbeat_at > heard or None)
        assert registry.claim(Current(deployment="d2", epoch=4), after=1)
        beside.end(PROMOTED)
        beside.bench.write([row("b", 3)])
        wait(lambda: beside.answer() == {"a": 2, "b": 2} or None)
        assert beside.state(4) == RUNNING
        CommandBox(registry.deployment_folder("d2"), 4).issue(DRAIN)

    assert beside.drive(4, control) == 0
    assert registry.status("d2").reason == "drained"


def test_it_ends_with_its_update_and_is_started_again_where_it_was(beside: Beside) -> None:
    registry = beside.registry
    assert beside.drive(2, lambda: beside.end(REFUSED)) == 0
    assert registry.status("d2").reason == "the update for which it ran beside the current deployment has ended"
    record = registry.update("d2")
    registry.set_update(attrs.evolve(record, outcome=None))

    def replaced() -> None:
        wait(lambda: beside.answer() == {"a": 2, "b": 1} or None)
        registry.deployment_folder("d2").create("drivers/4.json", b"{}")

    assert beside.drive(3, replaced) == 1, "it is fenced by a later driver of its deployment"
    assert beside.state(3) == RUNNING, "the status is the later driver's to write"
    assert registry.current() == Current(deployment="d1", epoch=1, promoted=True)

    other = Current(deployment="d3", epoch=2)
    assert beside.drive(5, lambda: registry.claim(other)) == 1
    assert "deployment d3 in epoch 2 may commit now" in registry.status("d2").error
