"""The fuzz's oracle against input small enough to compute by hand."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, EMPTY, MIGRATED
from tests.fuzz.carry import WrongVerdictError, carry
from tests.fuzz.meaning import goes_on
from tests.fuzz.oracle import Clock, Oracle
from tests.fuzz.spec import Aggregate, Deduplicate, Filter, Function, Session, Spec, Step, Swap, Window

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


def test_a_version_goes_on_with_what_is_carried_migrated_and_merged() -> None:
    old = spec(totals(N), mode="update")
    new = spec(totals(N, LATEST), mode="update")
    before = Oracle(old)
    read(old, [row("a", 5), row("a", 6)], oracle=before)
    states = carry(old, before.states, new, {"totals": MIGRATED}, before.clock)
    assert read(new, [row("a", 2)], oracle=Oracle(new, states, Clock())) == [[{"k": "a", "n": 3, "latest": 2}]]
    # windows and keys are merged
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
    # a function that is asked for twice is kept once
    twice = attrs.evolve(S, alias="more")
    old, new, other = (
        spec(Session(name="visits", keys=("k",), functions=functions, gap=5), watermark=0)
        for functions in ((N, S), (N, S, twice), (N, S, LATEST))
    )
    assert goes_on(old, new) and goes_on(new, old) and not goes_on(old, other)
    # checkpoint format v2 stays in rocksdb
    old = attrs.evolve(spec(totals(N)), store="rocksdb", checkpoint_format=2)
    assert not goes_on(old, attrs.evolve(old, store="hdfs", checkpoint_format=1))
    assert goes_on(old, attrs.evolve(old, store="changelog"))
