"""The fuzz's oracle against input small enough to compute by hand."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.report import CARRIED, EMPTY, MIGRATED
from tests.fuzz.carry import WrongVerdictError, carry
from tests.fuzz.generator import random_batches, random_spec
from tests.fuzz.meaning import goes_on
from tests.fuzz.mutations import mutate
from tests.fuzz.oracle import Clock, Oracle
from tests.fuzz.spec import (
    Aggregate,
    Deduplicate,
    Filter,
    Function,
    Join,
    Session,
    Spec,
    Step,
    Swap,
    Window,
)

N = Function("count", "*", "n")
S = Function("sum", "a", "s")
LATEST = Function("max", "a", "latest")


def row(k: str, a: int, ts: int = 0, k2: str = "x", b: int | None = None) -> dict:
    return {"k": k, "k2": k2, "a": a, "b": b, "ts": ts}


def spec(*steps: Step, mode: str = "append", watermark: int | None = None) -> Spec:
    return Spec(steps=steps, mode=mode, watermark=watermark)


def read(version: Spec, *batches: list[dict], oracle: Oracle | None = None) -> list[list[dict]]:
    return (oracle or Oracle(version)).read([{"in": rows} for rows in batches])


def totals(*functions: Function, keys: tuple[str, ...] = ("k",), window: Window | None = None) -> Aggregate:
    return Aggregate(name="totals", keys=keys, functions=functions, window=window)


def test_a_row_is_late_by_the_watermark_of_the_batch_before() -> None:
    """The second batch's own watermark is 20, but it is the first one's that counts for its row."""
    version = spec(totals(N, window=Window(10, 10)), mode="update", watermark=0)
    assert read(version, [row("a", 1, 20), row("a", 1, 3)], [row("a", 1, 4)], [row("a", 1, 4)]) == [
        [{"k": "a", "w": 20, "n": 1}, {"k": "a", "w": 0, "n": 1}],
        [{"k": "a", "w": 0, "n": 2}],
    ]


def test_sessions_that_overlap_become_one() -> None:
    visits = Session(name="visits", keys=("k",), functions=(N,), gap=5)
    found = read(spec(visits, watermark=0), [row("a", 1, 1), row("a", 1, 8)], [row("a", 1, 4)], [row("b", 1, 50)])
    assert found == [[{"k": "a", "w": 1, "n": 3}]]  # the row of minute 4 puts 1 to 6 and 8 to 13 together


def test_deduplications_remember_and_forget() -> None:
    forever = Deduplicate(name="once", columns=("k",))
    assert read(spec(forever), [row("a", 1), row("a", 2)], [row("a", 3), row("b", 4)]) == [[row("a", 1)], [row("b", 4)]]
    within = Deduplicate(name="fresh", columns=("k",), within=True)
    batches = ([row(k, a, ts)] for k, a, ts in [("a", 1, 1), ("a", 2, 5), ("b", 3, 40), ("c", 4, 41), ("a", 5, 42)])
    assert [r["a"] for rows in read(spec(within, watermark=10), *batches) for r in rows] == [1, 3, 4, 5]


def test_a_join_pairs_rows_of_other_batches() -> None:
    version = spec(Join(name="pairs", within=5), watermark=10)
    batches = [{"left": [row("a", 1, 1)], "right": []}, {"left": [], "right": [row("a", 2, 4, "y"), row("a", 3, 7)]}]
    assert Oracle(version).read(batches) == [[{"k": "a", "k2": "y", "a": 1, "b": 2, "ts": 1}]]


def test_a_left_row_of_a_semi_join_does_not_meet_a_right_row_that_its_own_batch_removes() -> None:
    version = spec(Join(name="pairs", within=6, kind="left_semi"), watermark=0)
    first = {"left": [row("b", 1, 56), row("c", 2, 67)], "right": [row("c", 0, 68)]}
    second = {"left": [row("b", 3, 62)], "right": [row("b", 4, 62)]}
    found = [[r["ts"] for r in rows] for rows in Oracle(version).read([first, second])]
    assert found == [[67], [56]]


def test_a_version_goes_on_with_carried_and_migrated_state() -> None:
    old = spec(totals(N), mode="update")
    new = spec(totals(N, LATEST), mode="update")
    before = Oracle(old)
    read(old, [row("a", 5), row("a", 6)], oracle=before)
    states = carry(old, before.states, new, {"totals": MIGRATED}, before.clock)
    assert read(new, [row("a", 2)], oracle=Oracle(new, states, Clock())) == [[{"k": "a", "n": 3, "latest": 2}]]


def test_windows_and_keys_are_merged() -> None:
    old = spec(totals(N, keys=("k", "k2"), window=Window(10, 10)), mode="update", watermark=60)
    new = spec(totals(N, window=Window(20, 20)), mode="update", watermark=60)
    before = Oracle(old)
    read(old, [row("a", 1, 5), row("a", 1, 15, k2="y")], oracle=before)
    states = carry(old, before.states, new, {"totals": MIGRATED}, before.clock)
    assert read(new, [row("a", 1, 19)], oracle=Oracle(new, states, before.clock)) == [[{"k": "a", "w": 0, "n": 3}]]


@pytest.mark.parametrize(
    "new",
    [
        spec(totals(N, keys=("k2",)), mode="update"),
        spec(totals(S), mode="update"),
        spec(Swap("k", "k2"), totals(N), mode="update"),
    ],
)
def test_state_that_means_something_else_must_not_be_carried(new: Spec) -> None:
    old = spec(totals(N), mode="update")
    assert not goes_on(old, new)
    with pytest.raises(WrongVerdictError):
        carry(old, {"totals": {}}, new, {"totals": CARRIED}, Clock())


def test_a_stage_that_was_there_must_not_start_empty() -> None:
    old = spec(totals(N), mode="update")
    with pytest.raises(WrongVerdictError):
        carry(old, {"totals": {}}, old, {"totals": EMPTY}, Clock())


def test_what_does_not_change_a_stage_goes_on() -> None:
    old = spec(totals(N, S), mode="update")
    assert goes_on(old, spec(Filter("a", ">", 1), Swap("k2", "k"), Swap("k", "k2"), totals(S, N), mode="update"))
    assert goes_on(old, spec(Deduplicate(name="once", columns=("k",)), totals(N), mode="update"))


def test_a_seed_makes_the_same_pair_again() -> None:
    def pair(seed: int) -> tuple:
        rng = Random(seed)
        old = random_spec(rng)
        return old, mutate(old, rng), random_batches(rng, old.sources)

    assert [pair(s) for s in range(20)] == [pair(s) for s in range(20)]
    assert len({str(pair(s)[0]) for s in range(20)}) > 15


def test_a_function_that_is_asked_for_twice_is_kept_once() -> None:
    twice = attrs.evolve(S, alias="more")
    old, new, other = (
        spec(Session(name="visits", keys=("k",), functions=functions, gap=5), watermark=0)
        for functions in ((N, S), (N, S, twice), (N, S, LATEST))
    )
    assert goes_on(old, new) and goes_on(new, old) and not goes_on(old, other)


def test_checkpoint_format_v2_stays_in_rocksdb() -> None:
    old = attrs.evolve(spec(totals(N)), store="rocksdb", checkpoint_format=2)
    assert not goes_on(old, attrs.evolve(old, store="hdfs", checkpoint_format=1))
    assert goes_on(old, attrs.evolve(old, store="changelog"))
