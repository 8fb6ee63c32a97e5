"""The oracle of `make crash` finds what is wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry

from .builders import spec, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from crashlib.oracle import Oracle

KEYS = ("a", "b")


def row(key: str, last: int, **wrong: int) -> list[Any]:
    n = last + 1
    right = {"count": n, "total": sum(range(n)), "squares": sum(i * i for i in range(n)), "last": last}
    return [key, *{**right, **wrong}.values()]


class Output:
    """Batches 0, 1, 2 of one driver: ten records of each key in each."""

    def __init__(self, folder: Path) -> None:
        self.app: AppRegistry = Registry(str(folder / "root")).app("crash")
        self.folder = folder / "out"
        self.folder.mkdir()
        self.oracle = Oracle(self.app, self.folder, KEYS)
        self.time = 1000.0
        self.epoch("v1", 1, pid=11)
        for batch in range(3):
            self.batch(batch, 10 * batch + 9, pid=11)

    def epoch(self, deployment: str, epoch: int, pid: int) -> None:
        self.deployment(deployment)
        self.app.claim(Current(deployment=deployment, epoch=epoch))
        self.claim(deployment, epoch, pid)
        self.begin(epoch)

    def deployment(self, deployment: str, fork: bool = False) -> None:
        if deployment not in self.app.deployment_ids():
            made = spec(deployment, "crash")
            application = attrs.evolve(made.application, params={"output": str(self.folder)})
            self.app.create_deployment(attrs.evolve(made, application=application, fork=fork))

    def claim(self, deployment: str, number: int, pid: int) -> None:
        """A driver's, of its number."""
        path = f"deployments/{deployment}/drivers/{number}.json"
        write_json(self.app, path, {"pid": pid})
        self.happens(path)

    def begin(self, epoch: int) -> None:
        self.happens(f"epochs/{epoch}.json")

    def happens(self, path: str) -> None:
        self.time += 1
        os.utime(self.app.folder.path(path), (self.time, self.time))

    def batch(self, batch: int, last: int, pid: int, version: str = "1", **wrong: int) -> None:
        for what in ("begins", "ends"):
            self.time += 1
            line = {"pid": pid, "batch": batch, "what": what, "version": version, "at": self.time}
            with open(self.folder / "journal.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")
        (self.folder / f"{batch}.json").write_text(json.dumps([row("a", last, **wrong), row("b", last)]))

    def check(self, written: int = 30, went_back: bool = False) -> tuple[int, int, str]:
        answer = self.oracle.check(written, went_back)
        return answer.lost, answer.duplicated, "; ".join(answer.problems)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    return Output(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "lost", "duplicated"),
    [
        ({"count": 39, "total": sum(range(39))}, 1, 0),
        ({"count": 42}, 0, 2),
        ({"total": sum(range(40)) + 1}, 1, 1),  # one for another
    ],
)
def test_a_count_that_is_wrong(output: Output, wrong: dict[str, int], lost: int, duplicated: int) -> None:
    output.batch(3, 39, pid=11, **wrong)
    assert output.check(40)[:2] == (lost, duplicated)


def test_a_batch_that_never_came(output: Output) -> None:
    output.batch(4, 39, pid=11)
    lost, duplicated, told = output.check(40)
    assert lost == 1 and duplicated == 1 and "never got batches [3]" in told and "batch 4 came after batch 2" in told


def test_nothing_is_wrong_with_what_is_right_and_what_has_not_come_out_is_lost(output: Output) -> None:
    assert output.check(35)[0] == 10
    # nothing is wrong with what is right
    assert output.check() == (0, 0, "")
    output.epoch("v2", 2, pid=12)
    output.batch(3, 39, pid=12)
    assert output.check(40) == (0, 0, "")


def test_a_second_writer(output: Output) -> None:
    output.epoch("v2", 2, pid=12)
    output.batch(3, 39, pid=12)
    output.batch(4, 49, pid=11)
    lost, duplicated, told = output.check(50)
    assert (lost, duplicated) == (0, 2) and "process 11 wrote batch 4 in an epoch that was not its own" in told


def test_a_batch_computed_again(output: Output) -> None:
    """By the version before, after a way back, with other borders; it is none by a version that was to go on."""
    output.epoch("v2", 2, pid=12)
    output.batch(3, 39, pid=12)
    output.epoch("v1", 3, pid=11)
    output.batch(2, 29, pid=11)
    output.batch(3, 44, pid=11)
    assert output.check(45, went_back=True) == (0, 0, "")


def test_a_batch_computed_again_without_a_way_back(output: Output) -> None:
    output.epoch("v2", 2, pid=12)
    output.batch(1, 29, pid=12)
    assert "batch 1 came after batch 2" in output.check()[2]


def test_a_version_that_does_not_write(output: Output) -> None:
    """A change in flight that is said to be made."""
    assert output.oracle.check(30, version="1").problems == ()
    output.batch(3, 39, pid=11)
    assert output.oracle.check(40, version="2").problems == ("version 1 wrote last, instead of 2",)


def test_a_driver_that_was_started_again_in_an_epoch_of_its_own(output: Output) -> None:
    output.epoch("v1", 2, pid=12)
    output.batch(3, 39, pid=12)
    assert output.check(40) == (0, 0, "")
    output.app.claim(Current(deployment="v1", epoch=3))  # by a driver that never came
    output.begin(3)
    output.batch(4, 49, pid=12)
    assert "process 12 wrote batch 4 in an epoch that was not its own" in output.check(50)[2]
