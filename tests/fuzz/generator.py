"""Random first versions and random input."""

from __future__ import annotations

from random import Random

import attrs

from .oracle import Row
from .spec import (
    COLUMNS,
    Aggregate,
    Alarm,
    Counter,
    Deduplicate,
    Filter,
    Function,
    Join,
    Limit,
    Select,
    Session,
    Spec,
    Step,
    Swap,
    Window,
)

FUNCTIONS = ("count", "sum", "min", "max", "avg")
PICKS = ("min_by", "max_by")
KEYS = (("k",), ("k2",), ("k", "k2"), ("k2", "k"), ("m",), ("k", "m"), ("h",))
WINDOWS = (Window(10, 10), Window(20, 20), Window(10, 5), Window(15, 15))
DEDUPLICATIONS = (("k",), ("k2",), ("a",), ("k", "k2"), ("k", "a"), ("k", "k2", "a"), ("k", "ts"))
JOINS = ("inner", "inner", "left_outer", "right_outer", "full_outer", "left_semi")
WAYS = ("value", "list", "map", "pandas", "apply")
STORES = ("rocksdb", "changelog", "hdfs")
CHECKPOINT_FORMATS = (1, 1, 2)  # of RocksDB

# How often. State functions in Python take ten times as long.
SHAPES = {"totals": 8, "windows": 8, "sessions": 4, "rows": 5, "within": 3, "join": 6, "counter": 2, "alarm": 1}


def random_spec(rng: Random) -> Spec:
    found = _random_spec(rng)
    formats = (1,) if found.store == "hdfs" else CHECKPOINT_FORMATS
    return attrs.evolve(found, checkpoint_format=rng.choice(formats))


def _random_spec(rng: Random) -> Spec:
    shape = rng.choices(list(SHAPES), list(SHAPES.values()))[0]
    store = rng.choice(STORES[:2] if shape in ("counter", "alarm") else STORES)
    steps: list[Step] = [_stateless(rng) for _ in range(rng.choice((0, 0, 1, 2)))]
    once = Deduplicate(name="once", columns=rng.choice(DEDUPLICATIONS))
    before = [once] if rng.random() < 0.25 else []
    union = not before and rng.random() < 0.15
    if shape == "totals":
        totals = Aggregate(name="totals", keys=rng.choice(KEYS), functions=random_functions(rng))
        mode = rng.choice(("update", "update", "complete"))
        return Spec(steps=(*steps, *before, totals, *_above(rng)), mode=mode, store=store, union=union)
    watermark = rng.choice((0, 5, 10, 30))
    if shape == "windows":
        counts = Aggregate(
            name="counts", keys=rng.choice((*KEYS, ())), functions=random_functions(rng), window=rng.choice(WINDOWS)
        )
        mode = rng.choice(("append", "update"))
        unique = [Deduplicate(name="unique", columns=(*counts.keys, "w"))] if rng.random() < 0.2 else []
        above = unique if mode == "append" else []
        return Spec(steps=(*steps, *before, counts, *above, *_above(rng)), mode=mode, store=store, watermark=watermark)
    if shape == "sessions":
        visits = Session(
            name="visits", keys=rng.choice(KEYS[:4]), functions=random_functions(rng), gap=rng.choice((3, 5, 8))
        )
        return Spec(steps=(*steps, *before, visits), store=store, watermark=watermark, union=union)
    if shape == "join":
        pairs = Join(name="pairs", within=rng.choice((3, 6, 12)), kind=rng.choice(JOINS))
        above = [s for s in steps if isinstance(s, Select) or (isinstance(s, Filter) and pairs.kind == "inner")]
        above += [Deduplicate(name=d.name, columns=COLUMNS) for d in before]
        state_format = 2 if store == "hdfs" else rng.choice((2, 3, 4))
        return Spec(steps=(pairs, *above), store=store, watermark=watermark, join_format=state_format)
    if shape == "counter":
        mode = rng.choice(("append", "update"))
        seen = Counter(name="seen", key=rng.choice(("k", "k2")), way=rng.choice(WAYS))
        return Spec(steps=(*steps, *before, seen), mode=mode, store=store)
    if shape == "alarm":
        alarm = Alarm(name="alarm", key=rng.choice(("k", "k2")), after=rng.choice((5, 10, 20)))
        return Spec(steps=(*steps, alarm), mode=rng.choice(("append", "update")), store=store, watermark=watermark)
    if shape == "within":
        first: Step = Deduplicate(name="fresh", columns=rng.choice(DEDUPLICATIONS), within=True)
        return Spec(steps=(*steps, *before, first), store=store, watermark=watermark)
    timed = rng.choice((None, watermark))
    distinct = timed is None and rng.random() < 0.3
    columns = COLUMNS if distinct else rng.choice(DEDUPLICATIONS)
    first = Deduplicate(name="distinct", columns=columns, distinct=distinct)
    limit: list[Step] = [Limit(name="first", rows=rng.randint(2, 8))] if rng.random() < 0.4 else []
    return Spec(
        steps=(*steps, first, *(_stateless(rng) for _ in range(rng.choice((0, 1)))), *limit),
        store=store,
        watermark=timed,
    )


def random_functions(rng: Random) -> tuple[Function, ...]:
    number = rng.choice((1, 1, 2, 2, 3))
    return tuple(random_function(rng, f"f{i}") for i in range(number))


def random_function(rng: Random, alias: str) -> Function:
    if rng.random() < 0.12:
        return Function(rng.choice(PICKS), rng.choice(("a", "b")), alias, by=rng.choice(("a", "b", "k", "k2")))
    name = rng.choice(FUNCTIONS)
    return Function(name, rng.choice(("*", "a", "b") if name == "count" else ("a", "b")), alias)


def random_filter(rng: Random) -> Filter:
    sign = rng.choice("<>")
    return Filter(rng.choice(("a", "b")), sign, rng.randint(0, 3) if sign == ">" else rng.randint(6, 9))


def _stateless(rng: Random) -> Step:
    return rng.choices(
        (random_filter(rng), Select(rng.randrange(1000)), Swap(*rng.choice((("k", "k2"), ("a", "b"))))), (3, 2, 1)
    )[0]


def _above(rng: Random) -> list[Step]:
    """Above an aggregation: its columns in another order."""
    return [Select(rng.randrange(1000))] if rng.random() < 0.3 else []


def random_batches(
    rng: Random, sources: tuple[str, ...], single: bool = False
) -> tuple[list[dict[str, list[Row]]], int]:
    """Batches of rows (`single`: of one row), and how many of them the first version reads. Time goes on with rows that
    come late, and jumps with the last two batches, so that everything before closes and shows itself."""
    number = rng.randint(5, 8) if single else rng.randint(3, 5)
    cut = rng.randint(1, number - 1)
    batches = []
    now = 60
    for _ in range(number):
        now += rng.choice((2, 8, 15, 25))
        batches.append({s: _rows(rng, now, 1 if single else rng.randint(1, 6)) for s in sources})
    for at in (600, 610):
        batches.append({s: [{**_row(rng, at), "a": 5, "b": 5}] for s in sources})
    return batches, cut


def _rows(rng: Random, now: int, number: int) -> list[Row]:
    return [_row(rng, now - rng.choice((0, 0, 1, 3, 7, 12, 30))) for _ in range(number)]


def _row(rng: Random, minute: int) -> Row:
    return {
        "k": rng.choice("abc"),
        "k2": rng.choice("abx"),
        "a": rng.randint(0, 9),
        "b": rng.choice((None, *range(10))),
        "ts": minute,
    }
