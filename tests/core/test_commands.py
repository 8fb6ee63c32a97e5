"""Commands to a driver: asked for once, answered once, and only by the driver of their epoch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.coordination.commands import (
    CANCEL,
    DRAIN,
    RESUME,
    SNAPSHOT,
    SUSPEND,
    CommandBox,
)
from airflow_provider_streamupdate.core.storage import Folder


@pytest.fixture
def deployment(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path))


def test_commands_wait_in_the_order_they_were_given(deployment: Folder) -> None:
    box = CommandBox(deployment, 1)
    given = [box.issue(SUSPEND), box.issue(SNAPSHOT, snapshot="s1", cancel=True), box.issue(DRAIN)]
    pending = box.pending()
    assert [c.name for c in pending] == given
    assert (pending[1].kind, pending[1].snapshot, pending[1].cancel) == (SNAPSHOT, "s1", True)


def test_a_fulfilled_snapshot_is_not_asked_for_again_but_a_pause_is(deployment: Folder) -> None:
    box = CommandBox(deployment, 1)
    taken = box.issue(SNAPSHOT, snapshot="s1")
    box.answer(taken)
    assert box.issue(SNAPSHOT, snapshot="s1") == taken
    paused = box.issue(SUSPEND)
    box.answer(paused)
    box.answer(box.issue(RESUME))
    assert box.issue(SUSPEND) != paused
    assert [c.kind for c in box.pending()] == [SUSPEND]


def test_a_failed_attempt_can_be_repeated(deployment: Folder) -> None:
    box = CommandBox(deployment, 1)
    first = box.issue(SNAPSHOT, snapshot="s1")
    box.answer(first, error="no space left")
    assert box.result(first).error == "no space left"
    second = box.issue(SNAPSHOT, snapshot="s1")
    assert second != first and [c.name for c in box.pending()] == [second]


def test_the_answers_to_one_command_are_not_those_to_another_of_a_longer_name(deployment: Folder) -> None:
    box = CommandBox(deployment, 1)
    box.answer(box.issue(SNAPSHOT, snapshot="s1.2"), error="of s1.2")
    box.answer(box.issue(SNAPSHOT, snapshot="s1"), error="first of s1")
    assert [a.error for a in box.answers(SNAPSHOT, "s1")] == ["first of s1"]
    box.answer(box.issue(SNAPSHOT, snapshot="s1"))
    assert [a.error for a in box.answers(SNAPSHOT, "s1")] == ["first of s1", None]
    assert box.answers(DRAIN) == []


def test_a_driver_obeys_no_command_of_an_earlier_epoch(deployment: Folder) -> None:
    CommandBox(deployment, 1).issue(CANCEL)
    later = CommandBox(deployment, 2)
    assert later.pending() == [] and not later.issued(CANCEL)
    assert CommandBox(deployment, 1).issued(CANCEL)


def test_many_askers_at_once_give_one_command(deployment: Folder) -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait()
        return CommandBox(deployment, 1).issue(SNAPSHOT, snapshot="s1")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert len(CommandBox(deployment, 1).pending()) == 1


def test_a_command_that_cannot_be_read_is_answered_and_ends_no_driver(deployment: Folder) -> None:
    box = CommandBox(deployment, 1)
    deployment.write("commands/1/drain.1.json", b'{"kind": "dr')
    good = box.issue(RESUME)
    assert [c.name for c in box.pending()] == [good]
    assert box.result("drain.1") is None  # whoever only looks answers nothing
    assert [c.name for c in box.pending(refuse=True)] == [good]
    told = box.result("drain.1")
    assert told and told.error and "the driver cannot read this command and ignored it" in told.error
    assert "commands/1/drain.1.json is not valid JSON" in told.error
