"""Timeouts of a state function under other code: what the old version set stays as it was set, what the new one sets is
its own; another kind of time is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from bench import Bench, row

from airflow_provider_streamupdate.streaming import stage

pytestmark = pytest.mark.slow


def watching(timeout: str, minutes: int) -> Callable:
    """Tells of a key that has had no row for some minutes, of event time or of the clock."""

    def watch(key, frames, state) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            (n,) = state.get
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [n]})
            return
        rows = pd.concat(list(frames))
        state.update(((state.get[0] if state.exists else 0) + len(rows),))
        if timeout == "EventTimeTimeout":
            state.setTimeoutTimestamp(int(rows["ts"].max().timestamp() * 1000) + minutes * 60_000)
        else:
            state.setTimeoutDuration(minutes * 60_000)

    def build(bench: Bench):
        grouped = bench.source().withWatermark("ts", "0 minutes").groupBy("k")
        made = grouped.applyInPandasWithState(watch, "k string, n long", "n long", "update", timeout)
        return stage("watch", made).select("k", "n")

    return build


def test_another_kind_of_timeout_never_fires(bench: Bench) -> None:
    """Milliseconds of the clock, read as event time: long after the rows' own time."""
    by_clock, by_time = watching("ProcessingTimeTimeout", 10), watching("EventTimeTimeout", 10)
    bench.write([row("a", 1, minute=1)])
    snapshot = bench.run(by_clock)
    bench.write([row("b", 1, minute=30)])
    bench.write([row("b", 1, minute=31)])
    bench.spark_alone(by_time)
    assert bench.all() == []  # a has had no row for half an hour of event time
    assert bench.rules(snapshot, by_time) >= {"stage.function"}


def test_a_longer_timeout_holds_for_what_is_set_from_now_on(bench: Bench) -> None:
    short, long = watching("EventTimeTimeout", 10), watching("EventTimeTimeout", 60)
    bench.write([row("a", 1, minute=1), row("b", 1, minute=1)])
    snapshot = bench.run(short)
    assert bench.rules(snapshot, long) == {"stage.code"}
    bench.write([row("b", 1, minute=5)])  # b's is set anew by the new code, to 65; a's stays at 11
    bench.write([row("c", 1, minute=40)])
    bench.write([row("c", 1, minute=41)])
    bench.run(long, snapshot=snapshot, agree=("q/watch",))
    assert bench.all() == [{"k": "a", "n": 1}]
