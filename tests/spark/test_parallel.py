"""A driver that runs beside the current deployment's: it needs no epoch of the app, goes on when it is promoted, and
ends when its update ends without it."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs
import pytest
from bench import Bench, deploy, row, stage
from pyspark.sql import functions as F
from test_in_flight import wait

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.commands import DRAIN, RESUME, CommandBox
from airflow_provider_streamupdate.core.registry.deployment import RUNNING, STANDBY, Current
from airflow_provider_streamupdate.core.registry.update import PROMOTED, REFUSED, UpdateRecord
from airflow_provider_streamupdate.core.snapshots.plan_answer import read_answer
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.roles.standby import Parallel
from airflow_provider_streamupdate.streaming.engine.spark_engine import SparkEngine


def counts(bench: Bench):
    return stage("counts", bench.source().groupBy("k").agg(F.count("*").alias("n")))


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
