"""An update by the real hand-over: two agents (streaming/agent/) that share a root, the second one standing by.

Each driver is a thread here, not a process, with a session of its own in one JVM: so a pair takes seconds. All that
they say to each other goes through the root's files, as between processes. What a thread has none of is signals.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import commands, lease
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import (
    FINAL_STATES,
    RUNNING,
    STANDBY,
    Current,
    DeploymentSpec,
)
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.streaming import StreamingApp
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.roles.role import Role
from airflow_provider_streamupdate.streaming.agent.roles.standby import Standby
from airflow_provider_streamupdate.streaming.agent.signals import Signals
from airflow_provider_streamupdate.streaming.engine import spark_engine, warm_up
from airflow_provider_streamupdate.streaming.engine.spark_engine import SparkEngine
from airflow_provider_streamupdate.streaming.spark_internals import activate
from tests.fuzz.session import setting
from tests.spark.bench import Bench

SECONDS = 120.0
OLD, NEW = "old", "new"


class HandOverError(Exception):
    """An agent did not get to where it should be, and why."""


class _NoSignals(Signals):
    @contextlib.contextmanager
    def noted(self, at_once: Callable[[], bool]) -> Iterator[None]:
        yield


class _Sessions:
    """`SparkSession` for the module of the engine: that of the thread."""

    def __init__(self) -> None:
        self.mine = threading.local()
        self.builder = self

    def appName(self, name: str) -> _Sessions:
        return self

    def getOrCreate(self) -> SparkSession:
        found: SparkSession = self.mine.session
        return found


_sessions = _Sessions()


@contextlib.contextmanager
def _threads() -> Iterator[None]:
    """The modules of the driver as they have to be for drivers that are threads."""
    before = spark_engine.SparkSession, warm_up.STARTS, warm_up.ROW_BATCHES
    spark_engine.SparkSession = _sessions  # type: ignore[attr-defined]
    warm_up.STARTS = warm_up.ROW_BATCHES = 1  # how warm a driver is says nothing of its answers
    try:
        yield
    finally:
        spark_engine.SparkSession, warm_up.STARTS, warm_up.ROW_BATCHES = before  # type: ignore[attr-defined]


@cache
def other_session(spark: SparkSession) -> SparkSession:
    """One that shares nothing but the context: Spark ends a query when one with its id is started elsewhere."""
    jvm: Any = spark._jvm
    made = jvm.org.apache.spark.sql.classic.SparkSession(spark.sparkContext._jsc.sc(), jvm.java.util.HashMap())
    return SparkSession(spark.sparkContext, made)


class _Driver:
    """An agent in a thread of its own, on the bench's session."""

    def __init__(self, bench: Bench, deployment: str, epoch: int, app: StreamingApp, stands_by: bool) -> None:
        self.bench, self.deployment = bench, deployment
        engine = SparkEngine(app, bench.registry, deployment)
        self.agent = Agent(bench.registry, deployment, epoch, engine, Standby if stands_by else Role)
        self.agent.driver.signals = _NoSignals()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        _sessions.mine.session = self.bench.spark
        activate(self.bench.spark)  # as it is in a driver's main thread
        self.agent.run()

    def read_all(self) -> None:
        """What its query has before it."""
        for query in self.bench.spark.streams.active:
            query.processAllAvailable()
            if error := query.exception():
                raise error

    def wait_for(self, state: str) -> None:
        deadline = time.monotonic() + SECONDS
        while (status := self.bench.registry.status(self.deployment)) is None or status.state != state:
            if status is not None and status.state in FINAL_STATES:
                raise HandOverError(f"{self.deployment} is {status.state}: {status.error or status.reason}")
            if time.monotonic() > deadline:
                raise HandOverError(f"{self.deployment} was not {state} after {SECONDS:g} s")
            time.sleep(0.02)

    def ask(self, kind: str, **details: object) -> None:
        """Wait until it has carried out that command, or ended by it."""
        box = CommandBox(self.bench.registry.deployment_folder(self.deployment), self.agent.driver.epoch.number)
        command = box.issue(kind, **details)  # type: ignore[arg-type]
        deadline = time.monotonic() + SECONDS
        while (result := box.result(command)) is None and self.thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        if kind in (commands.SNAPSHOT, commands.DRAIN):
            self.thread.join(SECONDS)
            result = box.result(command)
        if result is None or result.error:
            status = self.bench.registry.status(self.deployment)
            raise HandOverError(f"{self.deployment} did not {kind}: {result.error if result else status}")

    def stop(self) -> None:
        if self.thread.is_alive():
            self.agent.driver.signals.number = 15
            self.agent.driver.signals.woken.set()
            self.thread.join(SECONDS)


@attrs.frozen(kw_only=True)
class Version:
    """app: what runs, by the bench it runs on; settings: of its session"""

    app: Callable[[Bench], StreamingApp]
    settings: Mapping[str, str]


def hand_over(
    bench: Bench,
    old: Version,
    new: Version,
    snapshot: str,
    more: Callable[[], None],
    agree: tuple[str, ...] = (),
    renames: Mapping[str, str] | None = None,
) -> None:
    """Have `old` go on from a snapshot, `new` stand by and take over, and read what `more` writes then. HandOverError,
    or what a query of `new` fails with."""
    beside = copy.copy(bench)
    beside.spark = other_session(bench.spark)
    mine, its = old.settings, {**_settings(bench.spark), **new.settings}
    with _threads(), setting(bench.spark, mine), setting(beside.spark, its):
        drivers: list[_Driver] = []
        try:
            bench.registry.create_deployment(_spec(OLD, from_snapshot=snapshot))
            bench.registry.claim(Current(deployment=OLD, epoch=1, promoted=True))
            drivers.append(_Driver(bench, OLD, 1, old.app(bench), stands_by=False))
            drivers[0].wait_for(RUNNING)
            drivers[0].read_all()
            record = UpdateRecord(app="bench", old=OLD, new=NEW, digest="", strategy="standby", started_at=clock.now())
            bench.registry.set_update(record)
            lease.acquire(bench.registry.folder, NEW)
            spec = _spec(NEW, parent=OLD, from_snapshot="before", agree=agree, renames=dict(renames or {}))
            bench.registry.create_deployment(spec)
            drivers.append(_Driver(beside, NEW, 2, new.app(beside), stands_by=True))
            drivers[1].wait_for(STANDBY)
            drivers[0].ask(commands.SNAPSHOT, snapshot="before", cancel=True, successor=NEW)
            drivers[1].wait_for(RUNNING)
            drivers[1].ask(commands.SUSPEND)  # a batch reads what there is: all of `more`, and no file half written
            more()
            drivers[1].ask(commands.RESUME)
            drivers[1].read_all()
            drivers[1].ask(commands.DRAIN)
        finally:
            for driver in drivers:
                driver.stop()


def _settings(spark: SparkSession) -> dict[str, str]:
    """What a session was told."""
    return {k: v for k, v in spark.conf.getAll.items() if k.startswith("spark.sql.") and spark.conf.isModifiable(k)}


def _spec(deployment: str, **details: object) -> DeploymentSpec:
    return DeploymentSpec(
        app="bench",
        deployment=deployment,
        application=Application(file="bench.py"),
        digest="",
        submitted_at=clock.now(),
        **details,  # type: ignore[arg-type]
    )
