"""Early results on and off: what a change of the output mode carries; a declared loss is the one that happens."""

from __future__ import annotations

import pytest
from bench import HDFS, Bench, by, feed, row
from pyspark.sql import functions as F

STORE = HDFS  # of `bench`

FIRST = [row("a", 1, minute=1), row("b", 2, minute=2)]
SECOND = [row("a", 3, minute=3), row("c", 4, minute=4)]


CLOSED = [row("late", 0, minute=100)]  # brings the watermark to 90: the windows before have left the state


totals = by("k", "sum(a) s")


def windows(bench: Bench):
    counted = by("window(ts, '10 minutes'); k", "sum(a) s", name="windows", delay="10 minutes")(bench)
    return counted.select(F.date_format("window.start", "HH:mm").alias("start"), "k", "s")


def verdict(bench: Bench, snapshot: str, build, mode: str) -> tuple[str, str]:
    item = bench.item(snapshot, build, mode, thing="sink")
    return item.verdict, item.name


def answer(rows: list[dict]) -> list[str]:
    return sorted(map(str, rows))


def test_update_to_complete_and_back(bench: Bench) -> None:
    bench.write(FIRST)
    first = bench.run(totals, "update")
    bench.write(SECOND)
    assert verdict(bench, first, totals, "complete")[0] == "carried"
    second = bench.run(totals, "complete", snapshot=first)
    assert answer(bench.emitted[1]) == answer(bench.batch(totals))
    bench.write([row("b", 5)])
    assert verdict(bench, second, totals, "update")[0] == "carried"
    bench.run(totals, "update", snapshot=second)
    assert bench.emitted[2] == [{"k": "b", "s": 7}]


def test_append_to_update_never_emits_what_gets_no_further_row(bench: Bench) -> None:
    bench.write(FIRST)
    first = bench.run(windows, "append")
    found, name = verdict(bench, first, windows, "update")
    assert found == "carried with loss"
    bench.write(SECOND)
    bench.write([row("end", 0, minute=300)])
    bench.write([row("end", 0, minute=301)])
    bench.run(windows, "update", snapshot=first, agree=(name,))
    last = {(r["start"], r["k"]): r["s"] for r in bench.all() if r["k"] != "end"}
    # b is in the batch's answer and was never emitted; a goes on from the state it had
    assert last == {("00:00", "a"): 4, ("00:00", "c"): 4}


def test_update_to_append_emits_open_groups_again_when_they_close(bench: Bench) -> None:
    bench.write(FIRST)
    first = bench.run(windows, "update")
    found, name = verdict(bench, first, windows, "append")
    assert found == "carried with loss"
    bench.write(SECOND)
    bench.write([row("end", 0, minute=300)])
    bench.write([row("end", 0, minute=301)])
    bench.run(windows, "append", snapshot=first, agree=(name,))
    again = [r for b in sorted(bench.emitted) if b >= 1 for r in bench.emitted[b] if r["k"] != "end"]
    assert answer(again) == answer([r for r in bench.batch(windows) if r["k"] != "end"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["update", "append"])
def test_complete_after_groups_have_left_the_state_misses_them(bench: Bench, mode: str) -> None:
    feed(bench, (FIRST, CLOSED, CLOSED))
    first = bench.run(windows, mode)
    found, name = verdict(bench, first, windows, "complete")
    assert found == "carried with loss"
    bench.write([row("a", 3, minute=101)])
    bench.run(windows, "complete", snapshot=first, agree=(name,))
    complete = bench.emitted[max(bench.emitted)]
    assert answer(complete) == answer([r for r in bench.batch(windows) if r["start"] != "00:00"])
    assert len(complete) < len(bench.batch(windows))


@pytest.mark.slow
def test_complete_to_append_emits_every_closed_group_again(bench: Bench) -> None:
    feed(bench, (FIRST, CLOSED, CLOSED))
    first = bench.run(windows, "complete")
    found, name = verdict(bench, first, windows, "append")
    assert found == "carried with loss"
    bench.emitted.clear()
    bench.write([row("late", 0, minute=101)])
    bench.run(windows, "append", snapshot=first, agree=(name,))
    assert answer(bench.all()) == answer([r for r in bench.batch(windows) if r["k"] != "late"])
