"""Processes that save, delete and verify snapshots of the *same* names. An acknowledged snapshot is there, whole, until
a delete that was acknowledged has removed that one; each delete removes one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.errors import (
    AlreadyExistsError,
    CorruptError,
    InUseError,
    LeaseHeldError,
    NotFoundError,
)
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from tests.core.builders import app_with_snapshots, take

NAMES = ("a", "b", "c")
SAVERS, DELETERS, VERIFIERS = 3, 2, 1
SAVES = 100  # acknowledged, by each saver
SECONDS = 60.0  # at most; a slow machine makes fewer

Said = tuple[str, str, str]  # what was done, to which name, and the checksum of a snapshot or the words of an error


Work = Callable[[AppRegistry, str], "tuple[str, str] | None"]  # what was done, with its checksum; None: nothing


def save(app: AppRegistry, name: str) -> tuple[str, str] | None:
    with contextlib.suppress(AlreadyExistsError):
        return "saved", take(app, name).checksum
    return None


def delete(app: AppRegistry, name: str) -> tuple[str, str] | None:
    with contextlib.suppress(NotFoundError, LeaseHeldError, InUseError):
        StreamUpdateClient(str(app.folder.base).rpartition("/")[0]).delete_snapshot("flights", name)
        return "deleted", ""
    return None


def verify(app: AppRegistry, name: str) -> tuple[str, str] | None:
    store = SnapshotStore(app)
    with contextlib.suppress(NotFoundError):
        before = store.get(name).checksum
        try:
            store.verify(name)
            return "verified", before
        except CorruptError as error:  # of one that is deleted meanwhile files may be missing; of one that stays, none
            if store.get(name).checksum == before:
                return "damaged", f"{before}: {error}"
    return None


def work(do: Work, root: str, seed: int, said: Queue[Said], over: Any) -> None:
    """Do it again and again; savers until they have saved enough, others until they are told that it is over."""
    os.fsync = lambda _: None  # type: ignore[assignment] # nobody pulls the plug
    app, chance, done, until = Registry(root).app("flights"), random.Random(seed), 0, time.monotonic() + SECONDS
    while done < SAVES and time.monotonic() < until if do is save else not over.is_set():
        name = chance.choice(NAMES)
        try:
            if (did := do(app, name)) is None:
                time.sleep(0.001)
                continue
            said.put((did[0], name, did[1]))
            done += 1
        except Exception as error:
            said.put((f"{do.__name__} failed", name, f"{type(error).__name__}: {error}"))
    said.put(("ended", "", ""))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_savers_deleters_and_verifiers_of_the_same_names_lose_and_damage_nothing(tmp_path: Path) -> None:
    app = app_with_snapshots(tmp_path, ["kept"])  # the last one cannot be deleted
    spawn = multiprocessing.get_context("spawn")
    said, over = spawn.Queue(), spawn.Event()
    jobs = [save] * SAVERS + [delete] * DELETERS + [verify] * VERIFIERS
    workers = [spawn.Process(target=work, args=(do, str(tmp_path), n, said, over)) for n, do in enumerate(jobs)]
    heard: list[Said] = []

    def listen(ends: int) -> None:
        while ends:
            heard.append(said.get(timeout=200))
            ends -= heard[-1][0] == "ended"

    try:
        for process in workers:
            process.start()
        listen(SAVERS)
        over.set()
        listen(DELETERS + VERIFIERS)
    finally:
        over.set()
        for process in workers:
            process.join(30)
            process.kill()
    did = Counter(what for what, _, _ in heard)
    print(dict(did))
    wrong = [entry for entry in heard if entry[0].endswith("failed") or entry[0] == "damaged"]
    store = SnapshotStore(app)
    left = Counter(s.name for s in store.all())
    saved, deleted = (Counter(name for what, name, _ in heard if what == which) for which in ("saved", "deleted"))
    lost = {name: saved[name] - deleted[name] - left[name] for name in NAMES}
    damaged = []
    for name in left:
        try:
            store.verify(name)
        except CorruptError as error:
            damaged.append(str(error))
    print(f"acknowledged {saved.total()}, deleted {deleted.total()}, lost {lost}, damaged {len(damaged)}")
    assert not any(lost.values()), lost
    assert not damaged and store.damaged() == []
    assert not wrong, wrong[:5]
    assert saved.total() > 50 and deleted.total() > 50 and did["verified"] > 10
    for name in sorted(set(left) - {"kept"}):
        store.delete(name)
    objects = {f"objects/{path}" for path in app.folder.files("objects")}
    assert objects == {f.object for q in store.get("kept").queries.values() for f in q.files}, "nothing is left behind"
