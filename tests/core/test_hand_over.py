"""The old driver in a hand-over while the storage fails: from the claim on it runs no batch unless it has claimed
the epoch back, since somebody else may. No Spark runs: what is looked at is when it lets its queries start."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import commands, lease
from airflow_provider_streamupdate.core.errors import FencedError, StorageError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.deployment import Current, Status
from airflow_provider_streamupdate.core.registry.driver_settings import DriverSettings
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.patience import tried_again
from airflow_provider_streamupdate.streaming.agent import command_execution as module
from airflow_provider_streamupdate.streaming.agent.command_execution import execute
from airflow_provider_streamupdate.streaming.agent.context import Pace
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.roles.standby import Standby
from airflow_provider_streamupdate.streaming.agent.serving import serve
from tests.core.builders import app_plan, deploy, set_status, spec

QUICK = Pace(commands=0.01)
EAGER = Pace(commands=0.01, heartbeat=0.0)  # it looks at the root each time


class Queries:
    """What an engine's queries are for a hand-over. Notes who may commit when it is started."""

    plan = app_plan()

    def __init__(self, app: AppRegistry) -> None:
        self.app = app
        self.running = True
        self.started: list[str | None] = []

    def drain(self) -> None:
        self.running = False

    def start(self) -> None:
        self.running = True
        self.started.append(self.app.current_id())

    def progress(self) -> dict[str, Any]:
        return {}

    def skip_used_batch_ids(self) -> dict[str, Any]:
        return {}


class Serving(Queries):
    """Runs until the storage has been asked in vain so often, and then `ends` is called."""

    def __init__(self, app: AppRegistry, looks: int) -> None:
        super().__init__(app)
        self.looks = looks
        self.ends: Callable[[], None]

    def ended(self) -> bool:
        self.looks -= 1
        if self.looks == 0:
            self.ends()
        return False


class Failing:
    """Has the first call fail, or all of them, whose path ends so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def __call__(self, method: str, path: str, times: int = 1, after: bool = False) -> None:
        """after: the call has its effect all the same."""
        real = getattr(Folder, method)
        left = [times]

        def call(folder: Folder, relative: str = "", *arguments: Any, **options: Any) -> Any:
            if not folder.path(relative).endswith(path) or left[0] == 0:
                return real(folder, relative, *arguments, **options)
            left[0] -= 1
            if after:
                real(folder, relative, *arguments, **options)
            raise StorageError(f"cannot {method} {relative}")

        self.monkeypatch.setattr(Folder, method, tried_again(call))


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """`one` runs in epoch 1, `two` stands by for epoch 2."""
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "one")
    registry.create_deployment(spec("two", parent="one"))
    set_status(registry, "two", successor("standby"))
    return registry


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


def successor(state: str) -> Status:
    now, here = clock.now(), socket.gethostname()
    return Status(state=state, epoch=2, heartbeat_at=now, started_at=now, host=here, pid=os.getpid())


def driver(app: AppRegistry, engine: Queries | None = None, pace: Pace = QUICK) -> Agent:
    """Of deployment `one`."""
    return Agent(app, "one", 1, engine or Queries(app), pace=pace)


def standing_by(app: AppRegistry, pace: Pace = QUICK) -> Agent:
    """The driver of deployment `two`."""
    return Agent(app, "two", 2, Queries(app), Standby, pace)


def hand_over(app: AppRegistry, agent: Agent | None = None) -> tuple[Agent, Queries, Exception | None]:
    agent = agent or driver(app)
    queries: Queries = agent.driver.engine
    agent.driver.box.issue(commands.SNAPSHOT, snapshot="s", cancel=True, successor="two")
    (command,) = agent.driver.box.pending()
    try:
        execute(agent.driver, command)
    except StreamUpdateError as error:
        return agent, queries, error
    return agent, queries, None


def dies_when_it_begins(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = AppRegistry.claim

    def claimed(registry: AppRegistry, current: Current) -> bool:
        made = claim(registry, current)
        if current.deployment == "two":
            set_status(app, "two", successor("failed"))
        return made

    monkeypatch.setattr(AppRegistry, "claim", claimed)


def test_no_query_goes_on_into_a_sink_that_would_skip_its_batches(
    app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken back, and the batches cannot be called otherwise (a damaged file): it ends, and says why."""

    def cannot(*_: object) -> None:
        raise StreamUpdateError("its sink would skip them")

    dies_when_it_begins(app, monkeypatch)
    monkeypatch.setattr(Queries, "skip_used_batch_ids", cannot)
    agent, queries, error = hand_over(app)
    assert isinstance(error, StreamUpdateError) and "would skip" in str(error)
    assert queries.started == [] and agent.driver.reporter.state == "restoring"


def test_it_does_not_go_on_when_another_failure_comes_after_the_claim(
    app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whatever kind it is."""
    dies_when_it_begins(app, monkeypatch)
    monkeypatch.setattr(module.Successor, "death", lambda self: 1 / 0)
    _, queries, error = hand_over(app)
    assert "two may commit now" in str(error) and queries.started == []


def runs(app: AppRegistry, looks: int, patience: int) -> tuple[Agent, Serving]:
    queries = Serving(app, looks)
    agent = driver(app, queries, EAGER)
    queries.ends = lambda: setattr(agent.driver.signals, "number", 15)
    agent.driver.settings = DriverSettings(patience=patience)
    agent.driver.reporter.report(state="running")
    return agent, queries


@pytest.mark.parametrize(
    ("method", "path"), [("read", "current.json"), ("write", "one/status.json"), ("names", "commands/1")]
)
def test_queries_go_on_while_the_storage_fails(app: AppRegistry, fail: Failing, method: str, path: str) -> None:
    agent, queries = runs(app, looks=40, patience=600)
    fail(method, path, times=20)
    serve(agent.driver)
    assert queries.running and queries.looks == 0
    assert agent.driver.final is not None and agent.driver.final[0] == "stopped"


def test_a_driver_ends_when_the_storage_does_not_come_back(app: AppRegistry, fail: Failing) -> None:
    agent, _ = runs(app, looks=10**6, patience=0)
    fail("read", "current.json", times=10**9)
    with pytest.raises(StorageError, match=r"cannot read current\.json"):
        serve(agent.driver)


def test_another_driver_s_epoch_ends_it_as_soon_as_the_storage_answers(app: AppRegistry, fail: Failing) -> None:
    agent, _ = runs(app, looks=10**6, patience=600)
    assert app.claim(Current(deployment="two", epoch=2))
    fail("read", "current.json", times=20)
    with pytest.raises(FencedError, match="epoch 1 of deployment one is over"):
        serve(agent.driver)


def test_a_standby_that_nobody_holds_the_lease_for_ends(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    app.set_update(UpdateRecord(app=app.name, old="one", new="two", started_at=clock.now()))

    def ended(begin: Callable[[Agent], None]) -> str | None:
        agent, looks = standing_by(app, EAGER), []

        def wait(seconds: float) -> None:
            if looks:
                raise TimeoutError("it stands by")
            looks.append(seconds)
            begin(agent)

        monkeypatch.setattr(agent.driver.signals, "woken", SimpleNamespace(wait=wait))
        try:
            agent.role.wait()
        except TimeoutError:
            return None
        return agent.driver.final[1] if agent.driver.final else None

    told = "the app's lease for the update it stood by for is no longer held"
    assert ended(lambda _: None) == told
    held = lease.acquire(app.folder, "two")
    assert ended(lambda _: None) is None
    assert ended(lambda _: lease.release(app.folder, held)) == told
    lease.acquire(app.folder, "three")
    assert ended(lambda _: None) == told


def test_an_answer_that_cannot_be_written_ends_no_driver(app: AppRegistry, fail: Failing) -> None:
    """Whoever made the folder of a command may have closed it to the driver. What was asked for is done once."""
    agent, queries = runs(app, looks=40, patience=0)
    name = agent.driver.box.issue("dance")
    fail("write", f"commands/1/{name}.result.json", times=10)
    serve(agent.driver)
    assert queries.looks == 0 and agent.driver.final is not None and agent.driver.final[0] == "stopped"
    assert "does not know the command 'dance'" in str(agent.driver.box.result(name).error)
    events = (app.deployment_folder("one").read("events.jsonl") or b"").decode()
    assert events.count('"event": "command"') == 1


def test_an_answer_outlasts_a_hand_over_that_was_taken_back(app: AppRegistry, fail: Failing) -> None:
    box = driver(app).driver.box
    fail("write", "commands/1/drain.1.result.json")
    box.answer("drain.1")
    box.of_epoch(3).deliver()
    assert box.result("drain.1") is not None


@pytest.mark.parametrize("path", ["one/status.json", "one/plan.json"])
def test_a_write_that_fails_while_it_starts_or_ends_is_made_again(app: AppRegistry, fail: Failing, path: str) -> None:
    agent = driver(app)
    fail("write", path, times=5)
    with agent.driver.patiently():
        agent.driver.note_plan()
    agent.driver.report_end(state="cancelled", reason="drained")
    assert app.plan("one") is not None
    assert (status := app.status("one")) is not None and status.state == "cancelled"


def test_patience_ends_with_the_epoch_a_signal_a_full_disk_and_the_time(app: AppRegistry, fail: Failing) -> None:
    full = StorageError("cannot write")
    full.__cause__ = OSError(errno.ENOSPC, "no space left on device")
    agent = driver(app)
    assert agent.driver._wait_for_storage(StorageError("cannot write"), 0.0)
    assert not agent.driver._wait_for_storage(full, 0.0)
    assert not agent.driver._wait_for_storage(StorageError("cannot write"), 601.0)
    agent.driver.signals.number = 15
    assert not agent.driver._wait_for_storage(StorageError("cannot write"), 0.0)
    fail("write", "plan.json", times=10**9)
    assert app.claim(Current(deployment="two", epoch=2))
    other = driver(app)
    with pytest.raises(FencedError, match="epoch 1 of deployment one is over"), other.driver.patiently():
        other.driver.note_plan()


def test_the_last_word_is_not_written_over_a_later_driver_s(app: AppRegistry, fail: Failing) -> None:
    agent = driver(app)
    fail("write", "one/status.json", times=3)
    app.deployment_folder("one").create("drivers/2.json", b"{}")
    agent.driver.report_end(state="failed", error="why")
    assert (status := app.status("one")) is not None and status.state == "running"
