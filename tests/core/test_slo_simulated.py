"""The SLO gate over simulated apps, whole verifications. An outside reviewer found the cases; the numbers in the
comments say how many went wrong then."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tests.levels.simulator import Driver, Habit, verified


def files(every: float, rows: int) -> Habit:
    """A file comes in once in a while; the query is idle between two of them."""
    return Habit(
        rate=lambda at: rows / 0.05 if at % every < 0.05 - 1e-9 else 0.0,
        takes=lambda _, chance: 0.3 * chance.lognormvariate(0, 0.2),
        out=lambda rows: rows // 2,
    )


def stream(use: float, over: float = 0.3, trigger: float = 0.0) -> Habit:
    """1,000 rows a second, which keep it busy for a share of the time."""
    return Habit(
        rate=lambda _: 1000.0,
        takes=lambda rows, chance: (over + use * rows / 1000) * chance.lognormvariate(0, 0.05),
        out=lambda rows: rows,
        gain=lambda rows: rows // 10,
        trigger=trigger,
    )


def groups(keys: int, rate: float) -> Habit:
    """An aggregation: each of its keys comes out of every batch."""
    return Habit(
        rate=lambda _: rate,
        takes=lambda rows, chance: 0.3 * chance.lognormvariate(0, 0.1),
        out=lambda rows: min(rows, keys),
        trigger=1.0,
    )


def pushed(share: float) -> Habit:
    """A filter got into the source: of most batches Spark tells no rows."""
    return Habit(
        rate=lambda _: 20.0,
        takes=lambda _, chance: 0.25 * chance.lognormvariate(0, 0.2),
        out=lambda _: 1,
        trigger=4.0,
        told=lambda _, chance: chance.randrange(1, 5) if chance.random() < share else 0,
        cold=2.0,
    )


def quiet_after(habit: Habit, seconds: float) -> Habit:
    """Nothing comes in any more, soon after the cut-over. Without a trigger it looks for data all the time."""
    return attrs.evolve(habit, rate=lambda at: habit.rate(at) if at < seconds else 0.0)


def timed(habit: Habit, change: Callable[[int, Callable[[], float]], float], **more: float) -> Habit:
    """change: what a batch of the new version takes, by its number and by what it would take"""
    taken = itertools.count(1)
    return attrs.evolve(
        habit, takes=lambda rows, chance: change(next(taken), lambda: habit.takes(rows, chance)), **more
    )


def hangs(habit: Habit, *batches: int, seconds: float = 3600.0) -> Habit:
    """These batches take so long: an executor was replaced, or the code waits for ever."""
    return timed(habit, lambda number, usual: seconds if number in batches else usual(), cold=1.0)


def often(habit: Habit, each: int, times: float) -> Habit:
    """Each so-many-th batch takes so many times as long."""
    return timed(habit, lambda number, usual: usual() * (times if number % each == 0 else 1.0))


def outcome(folder: Path, old: Habit, new: Habit, pause: float, seed: int) -> tuple[bool, tuple[str, ...]]:
    chance = random.Random(seed)
    ran = Driver(old, chance, begin=-3600.0).run(-1.0)
    waits = int(pause * sum(new.rate(at / 20) for at in range(200)) / 200)
    return verified(folder, ran, Driver(new, chance, 0.0, ran.next, backlog=waits, held=ran.held))


WORSE = {
    "nothing comes out": lambda habit: attrs.evolve(habit, out=lambda _: 0),
    "each row ten times": lambda habit: attrs.evolve(habit, out=lambda rows: 10 * habit.out(rows)),
    "six times slower": lambda habit: attrs.evolve(habit, takes=lambda rows, chance: 6 * habit.takes(rows, chance)),
}
WORSE["a bit slower, and five times the rows"] = lambda habit: attrs.evolve(
    habit, takes=lambda rows, chance: 1.5 * habit.takes(rows, chance), out=lambda rows: 5 * habit.out(rows)
)
# Of files 9 of 10 were promoted; of stream, 5 of 5 after a pause of 4 s and more.
APPS = {"files": files(2.0, 200), "stream": stream(0.4), "busy": stream(0.8), "slow trigger": stream(0.1, trigger=10.0)}


@pytest.mark.parametrize("pause", [3.0, 10.0])
@pytest.mark.parametrize("worse", WORSE)
@pytest.mark.parametrize("app", APPS)
def test_a_worse_version_is_not_promoted_at_a_lucky_moment(tmp_path: Path, app: str, worse: str, pause: float) -> None:
    for seed in range(2):
        promoted, why = outcome(tmp_path / str(seed), APPS[app], WORSE[worse](APPS[app]), pause, seed)
        assert not promoted, why


@pytest.mark.parametrize(
    ("app", "batch"), [*((app, batch) for app in APPS for batch in (3, 5, 7)), ("stream", 9), ("busy", 9)]
)
def test_a_version_that_hangs_is_not_promoted(tmp_path: Path, app: str, batch: int) -> None:
    """Enough warm batches were enough to be promoted, whatever came after."""
    promoted, why = outcome(tmp_path, APPS[app], hangs(APPS[app], batch), 3.0, 1)
    assert not promoted and "a batch has not ended" in why[0], why


@pytest.mark.parametrize("each", [2, 3])
@pytest.mark.parametrize("app", ["files", "stream", "busy"])
def test_a_version_with_a_long_batch_now_and_then_is_not_promoted(tmp_path: Path, app: str, each: int) -> None:
    """The median does not show it: it was promoted at a lucky moment."""
    for seed in range(4):
        promoted, why = outcome(tmp_path / str(seed), APPS[app], often(APPS[app], each, 100.0), 3.0, seed)
        assert not promoted, why


@pytest.mark.parametrize("batch", [3, 5, 7, 9])
@pytest.mark.parametrize("app", ["files", "stream"])
def test_a_version_with_one_long_batch_is_promoted(tmp_path: Path, app: str, batch: int) -> None:
    promoted, why = outcome(tmp_path, APPS[app], hangs(APPS[app], batch, seconds=100.0), 3.0, 1)
    assert promoted, why


@pytest.mark.parametrize("batches", [(4, 5), (5, 7), (6, 8), (5, 9), (8, 9), (9, 12)])
@pytest.mark.parametrize("trigger", [2.0, 10.0, 30.0])
def test_two_long_batches_by_chance_are_no_sign(tmp_path: Path, trigger: float, batches: tuple[int, ...]) -> None:
    app = stream(0.01, trigger=trigger)
    for seed in range(2):
        promoted, why = outcome(tmp_path / str(seed), app, hangs(app, *batches, seconds=min(trigger, 10.0)), 3.0, seed)
        assert promoted, why


GOOD = {
    "the same, files": (files(2.0, 200), files(2.0, 200), 3.0),
    "the same after a pause": (stream(0.4), stream(0.4), 10.0),
    "the same, busy": (stream(0.7, 0.2), attrs.evolve(stream(0.7, 0.2), cold=1.0), 30.0),  # 4 of 4 rolled back
    "the same, very busy": (stream(0.8, 0.2), attrs.evolve(stream(0.8, 0.2), cold=1.0), 20.0),
    "the same, busier still": (stream(0.85, 0.2), attrs.evolve(stream(0.85, 0.2), cold=1.0), 30.0),
    "the same, and nothing comes in any more": (files(2.0, 200), quiet_after(files(2.0, 200), 8.0), 3.0),
    "the same, with a long batch now and then": (often(files(2.0, 200), 4, 12.0), often(files(2.0, 200), 4, 12.0), 3.0),
    "the same, with a long batch, more often": (often(stream(0.2), 3, 6.0), often(stream(0.2), 3, 6.0), 10.0),
    "the same, slow trigger": (stream(0.1, trigger=10.0), stream(0.1, trigger=10.0), 20.0),
    "a third of the rows": (groups(20, 3000.0), groups(20, 1000.0), 3.0),  # 3 of 3
    "a tenth of the rows": (groups(20, 3000.0), groups(20, 300.0), 3.0),  # 3 of 3
    "few batches have rows": (pushed(0.05), pushed(0.05), 5.0),  # 20 of 20
    "some batches have rows": (pushed(0.3), pushed(0.3), 5.0),  # 11 of 20
}


@pytest.mark.parametrize("good", GOOD)
def test_a_good_version_is_promoted(tmp_path: Path, good: str) -> None:
    old, new, pause = GOOD[good]
    for seed in range(3):
        promoted, why = outcome(tmp_path / str(seed), old, new, pause, seed)
        assert promoted, why


def some_app(chance: random.Random) -> tuple[str, Habit]:
    """Of any kind that has enough batches, and rows, within the time that is waited for them."""
    kind = chance.choice(["files", "stream", "groups", "trigger", "waves"])
    if kind == "files":
        return kind, files(chance.choice([1.0, 2.0, 5.0]), chance.choice([50, 500]))
    if kind == "stream":
        return kind, stream(chance.uniform(0.05, 0.85), chance.uniform(0.05, 0.6))
    if kind == "groups":
        return kind, groups(chance.choice([3, 20, 300]), chance.choice([50.0, 1000.0]))
    if kind == "trigger":
        every = chance.choice([1.0, 2.0, 5.0, 10.0])
        return kind, stream(chance.uniform(0.02, 0.7), chance.uniform(0.05, 0.6), trigger=every)
    size, phase = chance.uniform(0.2, 0.95), chance.uniform(0.0, 6.0)
    waves = stream(chance.uniform(0.05, 0.45), 0.2)
    return kind, attrs.evolve(waves, rate=lambda at: 1000 * (1 + size * math.sin(at / 600 + phase)))


@pytest.mark.slow
def test_fifty_worse_ones_are_rolled_back_and_fifty_good_ones_promoted(tmp_path: Path) -> None:
    """Any app, any pause up to 15 s, any seed: the same numbers in each run."""
    chance, wrong = random.Random(50), []
    for number in range(50):
        kind, app = some_app(chance)
        cold, pause, seed = chance.choice([1.0, 2.0]), chance.choice([1.0, 3.0, 8.0, 15.0]), chance.randrange(1000)
        new, worse = attrs.evolve(app, cold=cold), chance.choice(list(WORSE))
        for name, version in (("the same", new), (worse, WORSE[worse](new))):
            promoted, why = outcome(tmp_path / f"{number} {name}", app, version, pause, seed)
            if promoted != (name == "the same"):
                wrong.append((kind, name, cold, pause, seed, why))
    assert not wrong
