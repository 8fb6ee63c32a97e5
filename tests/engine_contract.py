"""What the lifecycle of a driver relies on in every `QueryEngine`: the tests in CONTRACT, each given a `Ground`.
tests/spark/test_engine.py runs them with Spark's engine, tests/airflow/test_fake_engine.py with the one without Spark.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.checkpoint import fence
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import CorruptError, DriverError, RefusedError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec, QueryStatus
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.streaming.engine.port import QueryEngine
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

APP, QUERY = "alarm", "events"
PARAMS = {"mark": "one", "path": "in"}
SECONDS = 120.0


class Ground(ABC):
    """Where an engine is tried: an app `APP` with the one query `QUERY`, whose parameter ``mark`` may change in flight,
    and fails the query when it is ``bad``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry: AppRegistry = Registry(str(folder / "root")).app(APP)
        self.engines: list[QueryEngine] = []

    @abstractmethod
    def make(self, deployment: str) -> QueryEngine: ...

    @abstractmethod
    def more(self) -> None:
        """Have the query find input it has not read."""

    def engine(self, deployment: str = "d1", mark: str = "one", **spec: Any) -> QueryEngine:
        """Of a new deployment, planned, as the lifecycle has it before it restores or starts."""
        application = Application(file="app.py", params={**PARAMS, "mark": mark})
        moment = "2026-01-01T00:00:00+00:00"
        self.registry.create_deployment(
            DeploymentSpec(
                app=APP, deployment=deployment, application=application, digest="", submitted_at=moment, **spec
            )
        )
        made = self.make(deployment)
        self.engines.append(made)
        assert made.app == APP
        session = made.open("a title")
        assert session.version and session.application_id
        assert made.build(application.params) == (QUERY,)
        plan = made.make_plan({})
        assert plan == made.plan and [q.name for q in plan.queries] == [QUERY]
        self.registry.deployment_folder(deployment).write("plan.json", to_json(plan))
        return made

    def running(self, deployment: str = "d1", batches: int = 1, **spec: Any) -> QueryEngine:
        """Started, with at least so many batches committed."""
        made = self.engine(deployment, **spec)
        made.start()
        for n in range(batches):
            self.more()
            until(lambda n=n: made.committed()[QUERY] >= n)  # type: ignore[misc]
        return made

    def checkpoint(self, deployment: str = "d1") -> Checkpoint:
        return Checkpoint(self.registry.checkpoint(deployment, QUERY))

    @contextlib.contextmanager
    def passes(self, *names: str) -> Iterator[None]:
        """What is done inside gets to these boundaries."""
        marks = self.folder / f"boundaries-{time.monotonic_ns()}"
        (marks / "armed").mkdir(parents=True)
        (marks / "reached").mkdir()
        for name in names:
            (marks / "armed" / name).write_text("note")
        boundaries._folder = str(marks)
        try:
            yield
        finally:
            boundaries._folder = None
        assert sorted(p.name.split(".")[0] for p in (marks / "reached").iterdir()) == sorted(names)

    def end(self) -> None:
        for engine in self.engines:
            engine.stop()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)


def status(engine: QueryEngine) -> QueryStatus:
    return engine.progress()[QUERY]


def change(mark: str, **params: str) -> ChangeRequest:
    return ChangeRequest(id=f"to-{mark}", params={**PARAMS, "mark": mark, **params}, digest="", asked_by="a test")


def fails(engine: QueryEngine) -> None:
    """Wait until its query has failed."""
    with pytest.raises(Exception, match="bad") as raised:
        until(engine.ended)
    assert "it does not come" not in str(raised.value)


def it_starts_and_tells_what_it_has_committed(ground: Ground) -> None:
    engine = ground.engine()
    engine.check_start(())
    assert engine.skip_used_batch_ids() == {}
    assert engine.committed() == {QUERY: -1}
    engine.start()
    ground.more()
    until(lambda: engine.committed()[QUERY] >= 0)
    with ground.passes("first-commit-seen"):
        found = status(engine)
    assert found.batch >= found.first_batch == 0 and found.active and found.error is None
    assert found.first_commit_at and found.last_commit_at and found.last_commit_at >= found.first_commit_at
    assert not engine.ended()
    engine.start()  # what runs is left alone
    ground.more()
    until(lambda: status(engine).batch >= 1)
    assert status(engine).first_batch == 0 and ground.checkpoint().query_id()


def it_drains_and_goes_on_where_it_was(ground: Ground) -> None:
    engine = ground.running()
    with ground.passes("draining", "drained"):
        engine.drain()
    batch = engine.committed()[QUERY]
    ground.more()
    time.sleep(0.3)
    assert engine.committed()[QUERY] == ground.checkpoint().logged_batch() == batch, "no batch is left half done"
    assert engine.ended() and not status(engine).active and status(engine).batch == batch
    engine.drain()  # asked again, it has nothing to do
    engine.start()
    until(lambda: engine.committed()[QUERY] > batch)
    assert status(engine).active and status(engine).first_batch == 0
    numbers = sorted(int(n) for n in ground.checkpoint().folder.names("commits"))
    assert numbers == list(range(numbers[-1] + 1))


def it_stops_at_once_and_starts_again(ground: Ground) -> None:
    engine = ground.running()
    engine.stop()
    engine.stop()
    batch = engine.committed()[QUERY]
    assert engine.ended()
    engine.start()
    ground.more()
    until(lambda: engine.committed()[QUERY] > batch)


def it_settles_with_the_next_batch(ground: Ground) -> None:
    engine = ground.running()
    engine.drain()
    since = engine.committed()
    ground.more()
    engine.start()
    until(lambda: engine.has_settled(since))
    assert engine.committed()[QUERY] > since[QUERY]


def it_tells_of_a_query_that_fails(ground: Ground) -> None:
    engine = ground.engine(mark="bad")
    engine.start()
    ground.more()
    fails(engine)
    assert engine.committed() == {QUERY: -1}
    assert not status(engine).active and "bad" in str(status(engine).error)
    with pytest.raises(Exception, match="bad"):
        engine.drain()
    with pytest.raises(Exception, match="bad") as raised:
        engine.has_settled({QUERY: -1})
    assert engine.ended_part(raised.value) is None


def it_goes_on_with_other_parameters(ground: Ground) -> None:
    engine = ground.running()
    with pytest.raises(RefusedError, match="path cannot change in flight"):
        engine.rebuild(change("two", path="elsewhere"))
    assert not engine.ended(), "nothing was stopped"
    engine.rebuild(change("two"))
    assert not engine.ended(), "nor is it before it is drained"
    engine.drain()
    since = engine.committed()
    engine.replace()
    assert [q.name for q in engine.plan.queries] == [QUERY]
    engine.start()
    ground.more()
    until(lambda: engine.has_settled(since) and engine.committed()[QUERY] > since[QUERY])


def it_goes_back_to_the_parameters_before(ground: Ground) -> None:
    engine = ground.running()
    before = engine.plan
    engine.rebuild(change("bad"))
    engine.drain()
    since = engine.committed()
    engine.replace()
    engine.start()
    ground.more()
    with pytest.raises(Exception, match="bad"):
        until(lambda: engine.has_settled(since) and engine.committed()[QUERY] > since[QUERY])
    assert engine.committed() == since
    engine.stop()
    engine.put_back()
    assert engine.plan == before
    engine.start()
    until(lambda: engine.committed()[QUERY] > since[QUERY])


def it_restores_from_a_snapshot(ground: Ground) -> None:
    old = ground.running(batches=2)
    old.drain()
    batch = old.committed()[QUERY]
    export(ground.registry, "d1", "s1", old.plan, True, old.progress())
    new = ground.engine("d2", parent="d1", from_snapshot="s1")
    saved = SavedState.find(ground.registry, "snapshot:s1")
    report = saved.compare(new.plan, ())
    assert report.compatible and new.check_restorable(saved, report).compatible
    with ground.passes("checkpoint-built", "checkpoint-marked"):
        new.restore(saved)
    assert new.committed() == {QUERY: batch}
    assert ground.checkpoint("d2").query_id() == ground.checkpoint("d1").query_id()
    assert ground.registry.deployment_folder("d2").exists(f"restored/{QUERY}.json")
    with ground.passes():
        new.restore(saved)  # what is marked is left alone
    assert new.skip_used_batch_ids() == {}
    new.start()
    ground.more()
    until(lambda: status(new).first_batch == batch + 1)


def it_practises_and_takes_over_from_one_that_was_drained(ground: Ground) -> None:
    old = ground.running(batches=2)

    def running() -> SavedState:
        return SavedState.find(ground.registry, "deployment:d1")

    new = ground.engine("d2", parent="d1", from_snapshot="s1")
    list(new.practise(running()))
    new.bring_ahead(running)
    assert new.used_beyond("d1") is False
    assert new.committed() == {QUERY: -1}
    old.drain()
    batch = old.committed()[QUERY]
    with ground.passes("checkpoint-built", "checkpoint-marked"):
        new.restore(SavedState.find(ground.registry, "drained:d1"))
    assert new.committed() == {QUERY: batch}
    new.start()
    ground.more()
    until(lambda: status(new).first_batch == batch + 1)


def it_follows_until_it_takes_over(ground: Ground) -> None:
    """Batches that the other one has run already: in one JVM Spark runs a query of one id once only."""
    old = ground.running(batches=4)
    old.drain()
    new = ground.engine("d2", parent="d1", from_snapshot="s1")
    assert new.unfollowable(SavedState.find(ground.registry, "deployment:d1")) == []
    batch = old.committed()[QUERY]
    with ground.passes():  # what it builds is not marked as whole
        new.follow(lambda: SavedState.find(ground.registry, "deployment:d1", again=3))
    assert new.progress()[QUERY].batch == batch - 3
    until(lambda: new.keep_up() and new.progress()[QUERY].batch >= batch - 1)
    assert new.progress()[QUERY].first_batch is None, "they are not its own"
    assert new.followed() == frozenset((QUERY,))
    drained = SavedState.find(ground.registry, "drained:d1", without=new.followed())
    assert new.queries_with_unclear_commit(drained) == frozenset()
    with ground.passes("checkpoint-built", "checkpoint-marked"):
        new.catch_up(drained)
    assert new.committed() == {QUERY: batch} and ground.checkpoint("d2").logged_batch() == batch
    assert ground.registry.deployment_folder("d2").exists(f"restored/{QUERY}.json")
    assert ground.checkpoint("d2").query_id() == ground.checkpoint("d1").query_id()
    with ground.passes():
        new.restore(drained)
    new.start()
    found = status(new)
    assert not found.idle or found.batch == batch, "what it reported of the others' batches is not its own"
    ground.more()
    until(lambda: status(new).first_batch == batch + 1)
    new.drain()
    numbers = sorted(int(n) for n in ground.checkpoint("d2").folder.names("commits"))
    assert numbers == list(range(numbers[0], numbers[-1] + 1)) and batch in numbers


def it_restores_a_query_whose_first_batch_came_after_the_following_began(ground: Ground) -> None:
    """Found from outside: it was marked as whole without a file, and began with batch 0 again."""
    old = ground.engine()
    new = ground.engine("d2", parent="d1", from_snapshot="s1")
    new.follow(lambda: SavedState.find(ground.registry, "deployment:d1", again=3))
    assert new.keep_up() and new.followed() == frozenset()
    old.start()
    for batch in range(2):
        ground.more()
        until(lambda batch=batch: old.committed()[QUERY] >= batch)  # type: ignore[misc]
    old.drain()
    last = old.committed()[QUERY]
    assert new.keep_up()
    drained = SavedState.find(ground.registry, "drained:d1", without=new.followed())
    assert new.queries_with_unclear_commit(drained) == frozenset()
    new.catch_up(drained)
    with pytest.raises(CorruptError, match="none of its files is listed"):
        new.restore(SavedState.find(ground.registry, "drained:d1", without=(QUERY,)))
    new.restore(drained)
    assert new.committed() == {QUERY: last} and ground.checkpoint("d2").logged_batch() == last
    assert ground.checkpoint("d2").query_id() == ground.checkpoint("d1").query_id()
    new.start()
    ground.more()
    until(lambda: status(new).first_batch == last + 1)


def it_does_not_follow_what_is_not_logged_any_more(ground: Ground) -> None:
    old = ground.running(batches=2)
    old.drain()
    last = old.committed()[QUERY]
    new = ground.engine("d2", parent="d1", from_snapshot="s1")
    new.follow(lambda: SavedState.find(ground.registry, "deployment:d1", again=1))
    until(lambda: new.keep_up() and new.progress()[QUERY].batch == last)
    folder = ground.checkpoint().folder
    folder.write(f"offsets/{last + 2}", folder.read(f"offsets/{last}") or b"")
    with pytest.raises(DriverError, match="fell too far behind"):
        until(lambda: new.keep_up() and new.progress()[QUERY].batch == last + 2)


def it_gives_a_fork_a_query_id_of_its_own(ground: Ground) -> None:
    old = ground.running(batches=2)
    old.drain()
    export(ground.registry, "d1", "s1", old.plan, True, old.progress())
    new = ground.engine("d2", parent="d1", from_snapshot="s1", fork=True)
    new.restore(SavedState.find(ground.registry, "snapshot:s1").forked(ground.registry, beside="d1"))
    assert ground.checkpoint("d2").query_id() != ground.checkpoint("d1").query_id()


def it_begins_no_batch_that_a_fence_stands_in_the_way_of(ground: Ground) -> None:
    engine = ground.running()
    engine.drain()
    batch = engine.committed()[QUERY]
    assert fence.fence(ground.checkpoint()) == batch + 1
    engine.start()
    ground.more()
    with pytest.raises(Exception, match=r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs|fenced") as raised:
        until(engine.ended)
    assert "it does not come" not in str(raised.value)
    assert engine.committed() == {QUERY: batch}
    fence.unfence(ground.checkpoint())
    engine.start()
    until(lambda: engine.committed()[QUERY] > batch)


CONTRACT = [
    it_starts_and_tells_what_it_has_committed,
    it_drains_and_goes_on_where_it_was,
    it_stops_at_once_and_starts_again,
    it_settles_with_the_next_batch,
    it_tells_of_a_query_that_fails,
    it_goes_on_with_other_parameters,
    it_goes_back_to_the_parameters_before,
    it_restores_from_a_snapshot,
    it_practises_and_takes_over_from_one_that_was_drained,
    it_follows_until_it_takes_over,
    it_restores_a_query_whose_first_batch_came_after_the_following_began,
    it_does_not_follow_what_is_not_logged_any_more,
    it_gives_a_fork_a_query_id_of_its_own,
    it_begins_no_batch_that_a_fence_stands_in_the_way_of,
]
