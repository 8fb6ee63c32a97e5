"""The changes that people make first: how many of them are carried by themselves, none is a dead end, none is wrong.

Each change of each shape (first_changes.py) is planned and compared. What is carried is run: the new version continues
from a snapshot of the old one, and what it emits is compared with Spark's own answer at rest, over the rows before as
the old version made them and the rows after as the new one does. `make sweep ARGS="-k first_changes"` runs all of it
and prints the table; the other tests run a slice.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from first_changes import PAIRS, SHAPES, Version, changes_of, query, rows
from pyspark.sql import DataFrame

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport

BY_ITSELF, ONE_FLAG, FLAGS, REFUSED, DEAD_END = "by itself", "with one flag", "with flags", "refused", "dead end"
OUTCOMES = (BY_ITSELF, ONE_FLAG, FLAGS, REFUSED, DEAD_END)
CARRIED = 0.75  # of the pairs at least, by themselves
_SLICE = PAIRS[::60]
REFUSALS = Path(__file__).parents[2] / "docs" / "refusals.md"


def outcome(report: CompatibilityReport) -> str:
    """Return how a person gets on: by itself, with flags, with another name or function, or not at all."""
    blocking = [item for item in report.items if item.blocks]
    if not blocking:
        return BY_ITSELF
    flags = [item for item in blocking if any(way.option for way in item.ways_on)]
    if len(flags) == len(blocking):
        return ONE_FLAG if len(flags) == 1 else FLAGS
    return DEAD_END if any(item.is_dead_end for item in blocking) else REFUSED


def event(number: int) -> dict[str, Any]:
    """Return one event. There are two of each id, which are the same."""
    chance, minute = random.Random(number // 2), number // 2
    items = [{"sku": chance.choice("xy"), "n": n} for n in range(chance.randint(0, 2))]
    known = {"id": f"i{minute}", "k": chance.choice("abc"), "country": chance.choice(["de", "fr"]), "note": "x"}
    at = f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
    return {**known, "at": at, "amount": minute + 0.5, "n": chance.choice([0, 2, 11, 20]), "items": items}


def write(bench: Bench, numbers: range, part: int) -> None:
    for half in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
        events = [event(number) for number in half]
        bench.write([{"value": json.dumps(each), "part": part} for each in events])
        bench.write(
            [{"order_id": e["id"], "paid": e["amount"], "paid_at": e["at"], "part": part} for e in events], "payments"
        )


def planned(bench: Bench, v: Version, shape: str) -> Any:
    before = {key: bench.spark.conf.get(key) for key in v.conf}
    try:
        return bench.plan(query(v, shape), SHAPES[shape].mode)[0]
    finally:
        for key, value in before.items():
            bench.spark.conf.set(key, value)


def carried(shape: str, names: list[str], bench: Bench) -> dict[str, str]:
    """Return the outcome of each change."""
    changes = dict(changes_of(shape))
    old = planned(bench, Version(), shape)
    return {name: outcome(compare(old, planned(bench, changes[name](Version()), shape), "test")) for name in names}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slice_of_the_changes_is_no_dead_end(bench: Bench, shape: str) -> None:
    found = carried(shape, ["nothing", *(name for kind, name in _SLICE if kind == shape)], bench)
    assert found["nothing"] == BY_ITSELF and DEAD_END not in found.values(), found


# What was changed, in the words of the page
SHOWN = {
    "A limit in a helper, which a key is computed with": ("totals", "the helper's limit"),
    "Another key": ("totals", "another key"),
    "A key more": ("totals", "a key more"),
    "A maximum in place of a sum": ("totals", "a maximum for a sum"),
    "A minimum more": ("totals", "a minimum more"),
    "Shorter windows": ("windows", "windows half as long"),
    "A longer delay of the watermark": ("windows", "a longer delay"),
    "A row more in a table that rows are looked up in": ("lookup", "a row more"),
    "A column less in a deduplication": ("deduplication", "one column less"),
    "A column more in a join of streams": ("join of streams", "a field more, at the end"),
}


def shown(bench: Bench, title: str) -> str:
    """Return the refusal as docs/refusals.md has it."""
    shape, name = SHOWN[title]
    old, new = (planned(bench, v, shape) for v in (Version(), dict(changes_of(shape))[name](Version())))
    [item] = [i for i in compare(old, new, "snapshot s1").items if i.blocks]
    steps = "".join(f"\n  - {step}" for step in item.next_steps)
    return f"## {title}\n\n```text\n{item.thing} {item.name}: {item.reason}{steps}\n```\n"


@pytest.mark.slow
@pytest.mark.parametrize("title", SHOWN)
def test_a_refusal_reads_as_the_docs_have_it(bench: Bench, title: str) -> None:
    text = shown(bench, title)
    assert text in REFUSALS.read_text()
    assert all(len(line) <= 300 for line in text.splitlines())


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_the_table_of_first_changes(spark, tmp_path, capsys) -> None:
    table: dict[str, Counter[str]] = {}
    for shape in SHAPES:
        found = carried(shape, [name for name, _ in changes_of(shape)], Bench(spark, tmp_path))
        for name, result in found.items():
            table.setdefault(name, Counter())[result] += 1
    total = sum(table.values(), Counter())
    with capsys.disabled():
        print(f"\n{total.total()} pairs of {len(SHAPES)} shapes and {len(table)} changes: {dict(total)}")
        for name, results in table.items():
            print(f"| {name} | {' | '.join(str(results[each] or '') for each in OUTCOMES)} |")
    assert not total[DEAD_END]
    assert total[BY_ITSELF] / total.total() >= CARRIED


def answer(bench: Bench, shape: str, old: Version, new: Version) -> tuple[Counter[tuple], Counter[tuple]]:
    """Return what the new version gives in the end, and what of it was there before: of rows at rest."""
    bench.at_rest = True
    try:
        before, after = rows(bench, old, 0), rows(bench, new, 1)
        types = dict(after.dtypes)  # rows before, whose texts may be of no use in another type
        before = before.selectExpr(*(converted(n, k, types[n]) if n in types else n for n, k in before.dtypes))
        both = before.unionByName(after, allowMissingColumns=True).select(*after.columns)
        before = before.unionByName(after.limit(0), allowMissingColumns=True).select(*after.columns)
        whole = result(SHAPES[shape].above(bench, both, new).selectExpr(*new.result))
        bench.first_part = True
        return whole, result(SHAPES[shape].above(bench, before, new).selectExpr(*new.result))
    finally:
        bench.at_rest = bench.first_part = False


def converted(name: str, old: str, new: str) -> str:
    """Return a column in the new version's type; fields go by their names."""
    inner = f"from_json(to_json({name}), '{new}')" if "<" in old else f"try_cast({name} as {new})"
    return name if old == new else f"{inner} {name}"


def result(made: DataFrame) -> Counter[tuple]:
    return Counter(tuple(row.asDict(recursive=True).values()) for row in made.collect())


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "name"), PAIRS)
def test_what_is_carried_is_right(bench: Bench, shape: str, name: str) -> None:
    mode, old, new = SHAPES[shape].mode, Version(), dict(changes_of(shape))[name](Version())
    write(bench, range(24), 0)
    snapshot = bench.run(query(old, shape), mode)
    for key, value in new.conf.items():
        bench.spark.conf.set(key, value)
    if outcome(bench.check(snapshot, query(new, shape), mode)) != BY_ITSELF:
        pytest.skip("not carried by itself")
    bench.emitted.clear()
    write(bench, range(20, 48), 1)  # four of them have come before
    bench.run(query(new, shape), mode, snapshot=snapshot)
    whole, before = answer(bench, shape, old, new)
    emitted = Counter(tuple(row.values()) for row in bench.all())
    if shape == "sessions":  # those that the watermark has closed
        assert emitted <= whole
    elif mode == "append":
        assert emitted == whole - before
    else:  # the last row of each group that got rows, after others of the same group
        assert whole - before <= emitted
