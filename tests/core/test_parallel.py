"""Two versions side by side, by their plans and checkpoints; tests/e2e has real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.coordination.parallel import Position, behind, check_side_by_side, positions
from airflow_provider_streamupdate.core.errors import RefusedError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.storage import Folder

from .builders import app_plan, query_plan


def sink(format: str = "kafka", **options: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format=format, options=options))


def source(format: str = "json", location: str = "/in", **options: str) -> QueryPlan:
    read = SourcePlan(name="source-1", named=False, format=format, location=location, options=options)
    return query_plan(sources=(read,))


def problem(old: QueryPlan, new: QueryPlan, *params: dict[str, str]) -> str | None:
    try:
        check_side_by_side(app_plan(old), app_plan(new), *(params or ({}, {"out": "/new"})))
    except RefusedError as error:
        return str(error)
    return None


GROUPS = [source("kafka", **{"kafka.group.id": name}) for name in "gh"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        # each version writes to a place of its own
        (sink(topic="x"), sink(topic="x"), "writes to the same place as the running version (kafka topic=x)"),
        (sink(topic="x"), sink(topic="y"), None),
        (sink("delta", path="/t"), sink("delta", path="/t"), "pass another place as a parameter"),
        (sink("delta", path="/t"), sink("delta", path="/u"), None),
        (sink("console"), sink("console"), None),
        (sink("foreachBatch"), sink("foreachBatch"), None),
        (sink("foreachBatch"), sink(topic="x"), None),
        # neither takes input away from the other
        (source(), source(), None),
        (source(), source(cleansource="delete"), "source windows/source-1 removes the files it has read"),
        (source(cleansource="archive"), source(), "the running version removes the files it has read"),
        (source(cleansource="archive", location="/other"), source(), None),
        (source("kafka"), source("kafka"), None),
        (GROUPS[0], GROUPS[0], "consumer group"),
        (*GROUPS, None),
        (source("socket"), source("socket"), "format socket"),
    ],
)
def test_what_runs_side_by_side(old: QueryPlan, new: QueryPlan, reason: str | None) -> None:
    found = problem(old, new)
    assert found is None if reason is None else reason in str(found)


def test_a_function_with_the_same_parameters_writes_to_the_same_place() -> None:
    same = ({"out": "/x"}, {"out": "/x"})
    assert "is told the same as" in str(problem(sink("foreachBatch"), sink("foreachBatch"), *same))
    assert problem(sink(topic="x"), sink("foreachBatch"), *same) is None, "the running version has no such sink"


FILES = Position(files=frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        (FILES, Position(files=frozenset({"a", "b", "c"})), True),
        (FILES, Position(files=frozenset({"a", "c"})), False),
        (Position(numbers={"t/0": 5, "t/1": 7}), Position(numbers={"t/0": 5, "t/1": 9}), True),
        (Position(numbers={"t/0": 5, "t/1": 7}), Position(numbers={"t/0": 99, "t/1": 6}), False),
        (Position(numbers={"t/0": 5, "t/1": 0}), Position(numbers={"t/0": 5}), False),
        (Position(), Position(), False),
        (FILES, Position(numbers={"": 7}), False),
    ],
)
def test_caught_up_is_to_have_read_all_that_the_other_has_read(old: Position, new: Position, reached: bool) -> None:
    assert behind({("q", "s"): old}, {("q", "s"): new}) == ([] if reached else [("q", "s")])


class Written:
    """A checkpoint's logs, by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder.open(str(folder))

    def commit(self, batch: int, *offsets: str, version: str = "v1") -> Written:
        lines = "\n".join((version, json.dumps({"batchWatermarkMs": 0, "conf": {}}), *offsets))
        self.folder.write(f"offsets/{batch}", lines.encode())
        self.folder.write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        return self

    def files(self, number: int, *paths: str, source: str = "0") -> Written:
        entries = [json.dumps({"path": path, "timestamp": 0, "batchId": number}) for path in paths]
        self.folder.write(f"sources/{source}/{number}", "\n".join(("v1", *entries)).encode())
        return self

    def read(self, **query: Any) -> dict[str, Position]:
        return positions(Checkpoint(self.folder), query_plan(**query))


def test_files_are_told_by_their_paths_up_to_the_committed_offset(tmp_path: Path) -> None:
    written = Written(tmp_path).commit(3, '{"logOffset":1}')
    for number in range(3):
        written.files(number, f"/in/{number}.json")
    assert written.read() == {"source-1": Position(files=frozenset({"/in/0.json", "/in/1.json"}))}


def test_a_source_that_is_used_twice_has_one_folder(tmp_path: Path) -> None:
    written = Written(tmp_path).commit(0, '{"logOffset":0}', '{"logOffset":0}', '{"logOffset":0}')
    written.files(0, "/a").files(0, "/b", source="1")
    sources = tuple(SourcePlan(name=name, named=True, format="json") for name in ("a", "b"))
    found = written.read(sources=sources, source_order=("a", "b", "a"))
    assert {name: position.files for name, position in found.items()} == {"a": {"/a"}, "b": {"/b"}}


def test_spark_s_own_names_are_in_the_offset_log(tmp_path: Path) -> None:
    written = Written(tmp_path).commit(0, 'named:{"logOffset":0}', version="v2").files(0, "/a", source="named")
    source = SourcePlan(name="named", named=True, native=True, format="json")
    assert written.read(sources=(source,)) == {"named": Position(files=frozenset({"/a"}))}


@pytest.mark.parametrize(
    ("format", "offset", "expected"),
    [
        ("kafka", '{"t":{"0":5,"1":7}}', Position(numbers={"/t/0": 5, "/t/1": 7})),
        ("rate", "12", Position(numbers={"": 12})),
        ("rate-micro-batch", '{"offset":10,"timestamp":2000}', Position(numbers={"/offset": 10, "/timestamp": 2000})),
        ("delta", '{"reservoirVersion":5,"index":3}', Position()),
        ("kafka", "-", Position(files=frozenset(), numbers={})),
    ],
)
def test_offsets_that_only_grow_are_compared(tmp_path: Path, format: str, offset: str, expected: Position) -> None:
    read = SourcePlan(name="s", named=True, format=format)
    assert Written(tmp_path).commit(4, offset).read(sources=(read,)) == {"s": expected}


def test_a_query_that_has_committed_nothing_has_read_nothing(tmp_path: Path) -> None:
    read = Written(tmp_path).read()
    assert behind({("q", "source-1"): FILES}, {("q", name): p for name, p in read.items()}) == [("q", "source-1")]
    assert behind({("q", name): p for name, p in read.items()}, {("q", "source-1"): FILES}) == []


def test_an_offset_log_of_another_shape_is_not_compared(tmp_path: Path) -> None:
    assert Written(tmp_path).commit(0, "1", "2").read() == {"source-1": Position()}


def test_a_deployment_that_ran_beside_takes_the_next_epoch_with_its_number(app: AppRegistry) -> None:
    assert app.claim(Current(deployment="v1", epoch=1))
    assert app.claim(Current(deployment="v2", epoch=5), after=1)
    assert app.current() == Current(deployment="v2", epoch=5)
    assert not app.claim(Current(deployment="v1", epoch=2)), "of two who want to follow epoch 1 one wins"
    assert app.claim(Current(deployment="v1", epoch=6)) and app.current_id() == "v1"


def test_such_a_claim_counts_although_its_claimer_died(app: AppRegistry, monkeypatch: Any) -> None:
    app.claim(Current(deployment="v1", epoch=1))
    with monkeypatch.context() as dying:
        dying.setattr(AppRegistry, "set_current", lambda *_: None)
        app.claim(Current(deployment="v2", epoch=5), after=1)
    assert app.current() == Current(deployment="v2", epoch=5)
    assert app.claim(Current(deployment="v3", epoch=6)) and app.current_id() == "v3"
