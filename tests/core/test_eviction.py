"""A driver that its cluster has end (a pod that is deleted, a node that is drained): no batch is cut, and it counts as
failed, so that a supervisor starts it again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.attention import asked_to_end
from airflow_provider_streamupdate.core.errors import DriverError, FencedError
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.streaming.agent.context import Pace
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.serving import TOLD_TO_END, serve
from airflow_provider_streamupdate.streaming.engine.port import Session
from tests.core.builders import app_plan, deploy

QUICK = Pace(commands=0.01)


class Engine:
    """Queries that run until the cluster asks the driver to end, at a moment that a test picks.

    asks: None: never; else the name of the call of the engine during which it does
    """

    app, plan, warnings = "flights", app_plan(), ()

    def __init__(self, asks: str | None = None) -> None:
        self.asks, self.done = asks, list[str]()
        self.then: Callable[[], None] = lambda: pytest.fail("nobody is to be told")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: object) -> Any:
            self.done.append(name)
            if name == self.asks:
                asking = threading.Thread(target=self.then)  # of the JVM's callback
                asking.start()
                asking.join()
            return {"progress": {}, "ended": False, "build": ("q",), "skip_used_batch_ids": {}}.get(name)

        return call

    def open(self, title: str, practises: bool = False) -> Session:
        return Session(ui=None, application_id="1", version="4.3.0")

    def make_plan(self, recorded: object) -> object:
        return self.plan

    def on_termination(self, then: Callable[[], None]) -> None:
        self.then = then

    def ended_part(self, error: BaseException) -> None:
        return None


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "one")
    return registry


def agent(app: AppRegistry, engine: Engine) -> Agent:
    return Agent(app, "one", 1, engine, pace=QUICK)


def end(app: AppRegistry, engine: Engine) -> tuple[str, str, str | None]:
    """The state, error and reason that a driver ended with, as failed."""
    assert agent(app, engine).run() == 1
    status = app.status("one")
    return status.state, status.error, status.reason


def test_its_queries_finish_their_batches_and_it_has_failed(app: AppRegistry) -> None:
    engine = Engine(asks="ended")
    assert end(app, engine) == ("failed", f"{TOLD_TO_END}", "evicted")
    assert engine.done.index("drain") < engine.done.index("stop")
    lines = (app.deployment_folder("one").read("events.jsonl") or b"").splitlines()
    states = [line for line in lines if b"state" in line]
    assert [b"running" in s or b"draining" in s for s in states[-3:]] == [True, True, False]


@pytest.mark.parametrize("during", ["build", "check_start"])
def test_a_start_is_interrupted(app: AppRegistry, during: str) -> None:
    engine = Engine(asks=during)
    assert end(app, engine)[:2] == ("failed", TOLD_TO_END)
    assert "start" not in engine.done and "drain" not in engine.done


def test_a_suspended_one_stays_suspended(app: AppRegistry) -> None:
    """So that no supervisor and no hot standby starts it: its status is what it was."""
    engine = Engine(asks="ended")
    made = agent(app, engine)
    real = engine.on_termination

    def suspended(then: Callable[[], None]) -> None:
        real(lambda: (made.driver.reporter.report(state="suspended"), then()))

    engine.on_termination = suspended
    made.run()
    assert app.status("one").state == "suspended"
    assert asked_to_end(app, app.current(), app.status("one"))


def test_a_command_is_carried_out_first(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a hand-over, whose end says who may commit."""
    engine, order = Engine(), list[str]()
    made = agent(app, engine)
    made.driver.reporter.report(state="running")
    engine.drain = lambda: order.append("drain")
    begun, evicted = threading.Event(), threading.Event()

    def obey(*_: object) -> None:
        begun.set()
        assert evicted.wait(10)
        order.append("obeyed")

    monkeypatch.setattr("airflow_provider_streamupdate.streaming.agent.serving.execute", obey)
    made.driver.box.issue("snapshot", snapshot="s")

    def evict() -> None:
        assert begun.wait(10)
        made.driver.evict()
        evicted.set()

    asking = threading.Thread(target=evict)
    asking.start()
    with pytest.raises(DriverError):
        serve(made.driver)
    asking.join()
    assert order == ["obeyed", "drain"]


def test_a_fenced_one_finishes_no_batch(app: AppRegistry) -> None:
    """Somebody else may commit by now: an orphan that is ended, a node that came back."""
    engine = Engine()
    made = agent(app, engine)
    made.driver.reporter.report(state="running")
    assert app.claim(Current(deployment="two", epoch=2))
    made.driver.evict()
    with pytest.raises(FencedError):
        serve(made.driver)
    assert "drain" not in engine.done


def test_what_else_went_wrong_is_told(app: AppRegistry) -> None:
    engine = Engine(asks="ended")

    def drain() -> None:
        raise RuntimeError("the sink is full")

    engine.drain = drain
    _, error, _ = end(app, engine)
    assert error.startswith(TOLD_TO_END) and "the sink is full" in error
