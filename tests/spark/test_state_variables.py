"""State variables of transformWithState that change, each on its own: by the app's own function, or because fields were
added and numbers widened; against an oracle in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest
from bench import ROCKSDB, Bench, feed, row
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from test_stages import emitted

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS
from airflow_provider_streamupdate.streaming import stage

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
SCHEMA = "k string, at string, n long, listed string, best string, last string"
KEYS = [f"key{i}" for i in range(10)]


@pytest.fixture
def make(spark, tmp_path) -> Callable[..., Bench]:
    def made(encoding: str = "unsaferow", changelog: bool = False, version: int = 1) -> Bench:
        spark.conf.set(ENCODING, encoding)
        return Bench(spark, tmp_path, ROCKSDB, changelog, version)

    return made


DAY = 24 * 3600 * 1000
AT_ONCE = 1  # expired before the next version has begun


class Old(StatefulProcessor):
    """How many rows a key had, what they were and the largest of each k2; and a timer ten minutes after its first."""

    total, listed, best, ttl = "n int", "a long", "a long", None

    def init(self, handle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", self.total, ttlDurationMs=self.ttl)
        self.amounts = handle.getListState("amounts", self.listed, ttlDurationMs=self.ttl)
        self.largest = handle.getMapState("largest", "k2 string", self.best, ttlDurationMs=self.ttl)
        self.more(handle)

    def more(self, handle) -> None:
        self.gone = handle.getValueState("gone", "x long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        rows = sorted(rows, key=lambda r: r.a)
        if not self.count.exists():
            first = min(r.ts for r in rows)
            self.handle.registerTimer(int((first + timedelta(minutes=10)).timestamp() * 1000))
        self.keep(rows)
        self.left()
        yield self.told(key, "")

    def keep(self, rows: list) -> None:
        before = self.count.get() if self.count.exists() else (0,)
        for r in rows:
            self.amounts.appendValue(self.element(r.a))
            if not self.largest.containsKey((r.k2,)) or self.largest.getValue((r.k2,))[0] < r.a:
                self.largest.updateValue((r.k2,), (self.number(r.a),))
        self.count.update(self.counted(before[0] + len(rows), before))

    def left(self) -> None:
        self.gone.update((7,))

    def element(self, a: int) -> tuple:
        return (a,)

    def number(self, a: int):
        return a

    def counted(self, n: int, before: tuple) -> tuple:
        return (n,)

    def told(self, key, at: str) -> Row:
        count = self.count.get()
        listed = ",".join(str(v[0]) for v in self.amounts.get())
        best = ",".join(sorted(f"{k[0]}={int(v[0])}" for k, v in self.largest.iterator()))
        return Row(k=key[0], at=at, n=count[0], listed=listed, best=best, last=str(count[1]) if len(count) > 1 else "")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        at = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, timezone.utc)
        yield self.told(key, at.strftime("%H:%M"))

    def close(self) -> None:
        pass


class Rewritten:
    """The list holds texts, the map fractions."""

    listed, best = "text string, twice long", "b double"

    def element(self, a: int) -> tuple:
        return (f"#{a}", 2 * a)

    def number(self, a: int) -> float:
        return float(a)


class New(Rewritten, Old):
    """The count knows the row before the last."""

    total = "n long, last string"

    def more(self, handle) -> None:
        pass

    def left(self) -> None:
        pass

    def counted(self, n: int, before: tuple) -> tuple:
        return (n, before[1] if before[0] else "none")


class Again(New):
    """With a variable of a name that there was before, of another type."""

    def more(self, handle) -> None:
        self.gone = handle.getValueState("gone", "x string")

    def told(self, key, at: str) -> Row:
        made = super().told(key, at).asDict()
        return Row(**{**made, "last": self.gone.get()[0] if self.gone.exists() else "empty"})


class Ending(Old):
    """All of it lives for a day, and a value has ended by the next version. There are no timers."""

    ttl, short = DAY, "n int"

    def more(self, handle) -> None:
        self.brief = handle.getValueState("brief", self.short, ttlDurationMs=AT_ONCE)

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        there = "brief" if self.brief.exists() else "ended"
        self.keep(sorted(rows, key=lambda r: r.a))
        self.brief.update((1,))
        yield Row(**{**self.told(key, "").asDict(), "last": there})


class EndingLater(Rewritten, Ending):
    total, short = "n long", "n long"


def kept(processor: type[StatefulProcessor], mode: str = "EventTime") -> Callable:
    def build(bench: Bench):
        return stage("kept", bench.late().groupBy("k").transformWithState(processor(), SCHEMA, "Append", mode))

    return build


def texts(state: DataFrame) -> DataFrame:
    made = F.transform("value", lambda v: F.struct(F.concat(F.lit("#"), v["a"]).alias("text"), (v["a"] * 2).alias("t")))
    return state.select("key", made.alias("value"))


def fractions(state: DataFrame) -> DataFrame:
    made = F.transform_values("value", lambda _, v: F.struct(v["a"].cast("double").alias("b")))
    return state.select("key", made.alias("value"))


AMOUNTS = ("kept/amounts", "k string -> array<struct<a:bigint>>")
LARGEST = ("kept/largest", "k string -> map<struct<k2:string>,struct<a:bigint>>")
FIRST = [[row(k, i, minute=1, k2="xyz"[i % 3]) for i, k in enumerate(KEYS)], [row(k, 30, minute=3) for k in KEYS[::2]]]
SECOND = [
    [row(k, 20 + i, minute=5, k2="y") for i, k in enumerate(KEYS)],
    [row("new", 1, minute=40)],
    [row("new", 2, minute=41)],
]


def entry(key: str, rows: list[dict], at: str = "") -> tuple:
    """What is told of a key: how many rows, which, the largest of each k2."""
    best: dict[str, int] = {}
    for r in rows:
        best[r["k2"]] = max(best.get(r["k2"], -1), r["a"])
    return key, at, len(rows), tuple(r["a"] for r in rows), ",".join(sorted(f"{k}={v}" for k, v in best.items()))


def understood(bench: Bench) -> Counter:
    """What was emitted, the list as numbers, without the last column."""
    return Counter(
        (k, at, n, tuple(int(v.lstrip("#")) for v in listed.split(",")), best)
        for (k, at, n, listed, best, _), times in emitted(bench).items()
        for _ in range(times)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "partitions"), [(("unsaferow", False, 1), 3), (("avro", True, 1), 2), (("unsaferow", True, 2), 2)]
)
def test_values_lists_and_maps_change_and_timers_fire(make, store: tuple, partitions: int) -> None:
    bench = make(*store)
    feed(bench, FIRST)
    first = bench.run(kept(Old), "append")
    refused = bench.item(first, kept(New), "append")
    assert refused.verdict == "refused"
    [_, write, *_] = refused.next_steps
    assert write.startswith(
        "carry it: write a migration function for kept/amounts from 'k string -> array<struct<a:bigint>>'"
    )
    bench.migrations.update({AMOUNTS: texts, LARGEST: fractions})
    bench.spark.conf.set(PARTITIONS, str(partitions))
    found = bench.item(first, kept(New), "append")
    assert (
        found.verdict == "carried with loss" and "removes gone" in found.reason + found.details
    )  # `gone`, and the code
    feed(bench, SECOND)
    second = bench.run(kept(New), "append", snapshot=first, agree=("q/kept",))
    wanted: Counter = Counter()
    seen: dict[str, list[dict]] = defaultdict(list)
    for rows in FIRST + SECOND:
        for r in rows:
            seen[r["k"]].append(r)
        for k in {r["k"] for r in rows}:
            wanted[entry(k, seen[k])] += 1
    for k in KEYS:
        wanted[entry(k, seen[k], "00:11")] += 1
    assert understood(bench) == wanted
    last = {r["k"]: r["last"] for b in sorted(bench.emitted) if b >= 2 for r in bench.emitted[b]}
    assert last == {**dict.fromkeys(KEYS, "None"), "new": "none"}  # the added field is null in what was there
    bench.write([row(KEYS[0], 50, minute=42)])
    again = bench.item(second, kept(Again), "append")
    assert "gone are new and start empty" in again.reason
    before = set(bench.emitted)
    bench.run(kept(Again), "append", snapshot=second, agree=("q/kept",))
    [told_again] = [r for b in set(bench.emitted) - before for r in bench.emitted[b]]
    assert (told_again["k"], told_again["n"], told_again["last"]) == (KEYS[0], len(seen[KEYS[0]]) + 1, "empty")


class Alone(StatefulProcessor):
    """One variable, and neither timers nor times to live."""

    total = "n int"

    def init(self, handle) -> None:
        self.count = handle.getValueState("count", self.total)

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        n = (self.count.get()[0] if self.count.exists() else 0) + len(list(rows))
        self.count.update((n,))
        yield Row(k=key[0], at="", n=n, listed="", best="", last="")

    def close(self) -> None:
        pass


class Wide(Alone):
    total = "n long"


def test_a_variable_that_is_alone_widens(make) -> None:
    """No column family is left to carry."""
    bench = make()
    bench.write([row(k, 1) for k in KEYS])
    first = bench.run(kept(Alone, "None"), "append")
    bench.spark.conf.set(PARTITIONS, "3")
    bench.write([row(k, 1) for k in KEYS])
    bench.run(kept(Wide, "None"), "append", snapshot=first, agree=("q/kept",))
    assert Counter(r["n"] for r in bench.all()) == Counter({1: len(KEYS), 2: len(KEYS)})


WRONG = {
    "null element": (
        AMOUNTS,
        lambda s: s.select("key", F.array(F.lit(None).cast("struct<a:string,b:bigint>")).alias("value")),
        "a row whose key or value is null",
    ),
    "another type": (AMOUNTS, lambda s: s, "return a DataFrame(key struct<k string>, value array<struct<text:string"),
    "key twice": (LARGEST, lambda s: fractions(s).union(fractions(s)), "2 rows with the key"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_variable_s_function_that_does_not_keep_its_word_is_named(make, name: str) -> None:
    which, function, words = WRONG[name]
    bench = make()
    bench.write(FIRST[0])
    first = bench.run(kept(Old), "append")
    bench.migrations.update({AMOUNTS: texts, LARGEST: fractions, which: function})
    with pytest.raises(ApplicationError) as raised:
        bench.run(kept(New), "append", snapshot=first, agree=("q/kept",))
    assert words in str(raised.value) and f"migration function of {which[0]}" in str(raised.value)


TEXTS = "transform(value, v -> struct(struct(concat('#', v.value.a), v.value.a * 2), v.ttlExpirationMs))"
FRACTIONS = "transform_values(value, (k, v) -> struct(struct(double(v.value.a)), v.ttlExpirationMs))"
UNENDING = TEXTS.replace("v.ttlExpirationMs", "v.ttlExpirationMs + 1")


def rewritten(expression: str) -> Callable[[DataFrame], DataFrame]:
    return lambda state: state.select("key", F.expr(expression).alias("value"))


@pytest.mark.slow
@pytest.mark.parametrize(("changelog", "version", "partitions"), [(False, 1, 3), (True, 2, 2)])
def test_values_with_a_time_to_live_change_and_end_when_they_would_have(
    make, changelog: bool, version: int, partitions: int
) -> None:
    bench = make("unsaferow", changelog, version)
    old, new = (kept(processor, "ProcessingTime") for processor in (Ending, EndingLater))
    feed(bench, FIRST)
    first = bench.run(old, "append")
    amounts = "k string -> array<struct<value:struct<a:bigint>,ttlExpirationMs:bigint>>"
    largest = "k string -> map<struct<k2:string>,struct<value:struct<a:bigint>,ttlExpirationMs:bigint>>"
    functions = {("kept/amounts", amounts): rewritten(TEXTS), ("kept/largest", largest): rewritten(FRACTIONS)}
    bench.migrations.update(functions)
    bench.spark.conf.set(PARTITIONS, str(partitions))
    before = set(bench.emitted)
    bench.write(SECOND[0])
    bench.run(new, "append", snapshot=first, agree=("q/kept",))
    seen: dict[str, list[dict]] = defaultdict(list)
    for rows in [*FIRST, SECOND[0]]:
        for r in rows:
            seen[r["k"]].append(r)
    bench.emitted = {b: [r for r in bench.emitted[b] if r["n"] is not None] for b in set(bench.emitted) - before}
    assert set(understood(bench)) == {entry(k, seen[k]) for k in KEYS}
    assert {r["last"] for r in bench.all()} == {"ended"}


@pytest.mark.slow
def test_a_function_that_changes_when_values_end_is_named(make) -> None:
    bench = make()
    old, new = (kept(processor, "ProcessingTime") for processor in (Ending, EndingLater))
    bench.write(FIRST[0])
    first = bench.run(old, "append")
    for _ in range(2):
        item = bench.item(first, new, "append")
        where, _, rest = " ".join(item.next_steps).rpartition("write a migration function for ")[2].partition(" from '")
        if item.verdict == "refused":
            expression = UNENDING if where.endswith("amounts") else FRACTIONS
            bench.migrations[where, rest.partition("' (@app.migrate)")[0]] = rewritten(expression)
    with pytest.raises(ApplicationError, match=r"migration function of kept/amounts .* when they expire"):
        bench.run(new, "append", snapshot=first, agree=("q/kept",))
