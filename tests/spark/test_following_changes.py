"""What changes between the two versions: stages and sources that come, go and change places, a migrated aggregation,
a filter above a stage. The answer is that of an update by a restart, and every row is given once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import HDFS, Bench, by, once, passed, row, stage, totals_of
from followed_pair import Pair, check_followed, counts, minutes, running_pair, states, updated, windows
from pyspark.sql import functions as F
from test_sources import EVOLUTION, ours, sparks, totals

from airflow_provider_streamupdate.streaming import source
from tests.cases import one_is_fast


def rows_of(pair: Pair, *parts: list) -> list[dict]:
    return [r for part in parts for f in part for r in (f[0] if isinstance(f, tuple) else f)]


def test_an_aggregation_gains_an_aggregate(bench: Bench) -> None:
    now = by("k", "count(*) n", "sum(a) s", "max(a) most", name="counts")
    parts = minutes(0, 1), minutes(2, 3, keys="abc"), minutes(5, 6, keys="bc")
    with running_pair(bench, counts, now) as pair:
        updated(pair, *parts, states=None)
        by_key = defaultdict(list)
        for r in rows_of(pair, *parts):
            by_key[r["k"]].append(r)
        found = pair.last("k")
        assert {k: r["n"] for (k,), r in found.items()} == {k: len(rows) for k, rows in by_key.items()}
        # The new one covers only rows from where the following began on, as it would from a restart on.
        assert {k: r.get("most") for (k,), r in found.items()} == {"a": None, "b": 6, "c": 6}


def test_an_aggregation_loses_an_aggregate(bench: Bench) -> None:
    before, now = (by("k", *columns, name="counts") for columns in (("count(*) n", "sum(a) s"), ("sum(a) s",)))
    parts = minutes(0, 1), minutes(2, 3, keys="abc"), minutes(5, 6, keys="bc")
    with running_pair(bench, before, now) as pair:
        updated(pair, *parts, states=None)
        total: Counter[str] = Counter()
        for r in rows_of(pair, *parts):
            total[r["k"]] += r["a"]
        found = {k: r["s"] for (k,), r in pair.last("k").items()}
        assert found == {k: total[k] for k in found} and found.keys() >= {"b", "c"}


def test_a_filter_above_a_stage(spark, tmp_path) -> None:
    """What the old version has written stays; from the takeover on the new filter holds."""

    def above(bench: Bench):
        return counts(bench).where("n % 2 = 0")

    parts = minutes(0, 1), minutes(2, 3, keys="abc"), minutes(5, 6, 7, keys="bc")
    with running_pair(Bench(spark, tmp_path), counts, above) as pair:
        updated(pair, *parts)
        assert pair.bench.emitted
        seen: Counter = Counter()
        expected: dict[int, list[tuple]] = {}
        for batch, rows in enumerate(f for part in parts for f in part):
            seen.update(r["k"] for r in rows)
            told = [(r["k"], seen[r["k"]]) for r in rows]
            expected[batch] = sorted(t for t in told if batch <= pair.last_old or t[1] % 2 == 0)
        both = {**pair.before, **pair.bench.emitted}
        assert {b: sorted((r["k"], r["n"]) for r in rows) for b, rows in both.items()} == expected


def kept(bench: Bench):
    return bench.late("1 minute").select("k", F.lit(1).cast("long").alias("n"))


def window_counts(bench: Bench):
    return windows(bench).select("k", "n")


def branches(first: str, second: str) -> Callable:
    def build(bench: Bench):
        made = [
            stage(f"of-{name}", source(name, bench.source(name=name)).dropDuplicates(["k"])).select(
                F.concat(F.lit(name), "k").alias("k"), "a"
            )
            for name in (first, second)
        ]
        return made[0].union(made[1])

    return build


def both(bench: Bench):
    return ours(bench, "a").union(ours(bench, "b"))


def file(to: str, **rows: int) -> tuple[list[dict], str]:
    return [row(k, a) for k, a in rows.items()], to


# The old version, the new one, files before, meanwhile and after, and what is written.
CHANGES: dict[str, tuple] = {
    # As after a restart: what the old version wrote while it was followed is not in it.
    "a stage is added and begins without state": (
        passed, once,
        [file("in", a=1)], [file("in", b=2), file("in", b=3, c=4)], [file("in", b=5, d=6), file("in", d=7)],
        "a1 b2 b3 c4 b5 d6"),
    # All rows of minutes 0 to 4 were written; the windows that close count those of 5 and 9.
    "windows are added and count no row that was written before": (
        kept, window_counts, minutes(0), minutes(1, 2, 4), minutes(5, 9, 12), "a1 b1 " * 4 + "a1 b1 " * 2),
    # Each stage keeps its state under another operator id.
    "stages change places": (
        branches("x", "y"), branches("y", "x"),
        [file("x", a=1), file("y", a=2)], [file("x", a=3, b=4), file("y", c=5)],
        [file("x", b=6, c=7), file("y", c=8, b=9)], "xa1 ya2 xb4 yc5 xc7 yb9"),
    "a source goes from a query without state": (
        both, lambda b: ours(b, "a"), [file("a", x=1), file("b", x=2)], [file("b", y=3), file("a", y=4)],
        [file("a", z=5), file("b", z=6)], "x1 x2 y3 y4 z5"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_gives_every_row_once(spark, tmp_path, name: str) -> None:
    old, new, *files, rows = CHANGES[name]
    expected = Counter((text[:-1], int(text[-1])) for text in rows.split())
    pair = check_followed(Bench(spark, tmp_path), old, new, *files, expected=expected)
    places = [[(s.name, s.operator_id) for s in p.query("q").stages] for p in (pair.old_plan, pair.plan)]
    assert "places" not in name or sorted(places[0]) != sorted(places[1])


@pytest.mark.parametrize("below", one_is_fast([True, False]))
def test_a_stage_is_added_above_another_and_goes_again(spark, tmp_path, below: bool) -> None:
    """The stage that stays gets another operator id; its state is the old one's."""

    def more(bench: Bench):
        return stage("once", counts(bench).dropDuplicates(["k", "n", "s"]))

    old, new = (more, counts) if below else (counts, more)
    bench = Bench(spark, tmp_path, HDFS)
    with running_pair(bench, old, new) as pair:
        parts = minutes(0, 1), minutes(2, 3, keys="abc"), minutes(5, 6)
        updated(pair, *parts, states=None)
        ids = [plan.query("q").stage("counts").operator_id for plan in (pair.old_plan, pair.plan)]
        assert sorted(ids) == [0, 1]
        pair.right(counts)


@pytest.mark.parametrize("read", one_is_fast([ours, sparks]), ids=["source", "name"])
def test_sources_change_their_order_and_one_comes(spark, tmp_path, read: Callable) -> None:
    if read is sparks and spark.version < "4.3":
        pytest.skip(
            "Spark before 4.3 logs the offsets of such sources by position and keeps their logs by name: no snapshot"
        )
    bench = Bench(spark, tmp_path, HDFS)
    if read is sparks:
        spark.conf.set(EVOLUTION, "true")
    first = [([row("x", 1), row("y", 2)], "a"), ([row("x", 3)], "a"), ([row("x", 10)], "b")]
    meanwhile = [([row("y", 20)], "b"), ([row("y", 4), row("z", 5)], "a")]
    # c has data before the takeover, which is read after it
    after = [([row("z", 6)], "a"), ([row("x", 30)], "b"), ([row("x", 200)], "c")]
    bench.write([row("x", 100), row("z", 100)], "c")
    with running_pair(bench, totals(read, "a", "b"), totals(read, "c", "b", "a")) as pair:
        updated(pair, first, meanwhile, after)
        assert pair.last("k") == totals_of([*rows_of(pair, first, meanwhile, after), row("x", 100), row("z", 100)])


def test_a_source_with_a_watermark_comes_and_the_watermark_does_not_go_back(spark, tmp_path) -> None:
    """The slowest source decides."""

    def reads(*names: str) -> Callable:
        def build(bench: Bench):
            parts = [source(n, bench.source(name=n)).withWatermark("ts", "1 minute") for n in names]
            rows = parts[0] if len(parts) == 1 else parts[0].union(parts[1])
            counted = rows.groupBy(F.window("ts", "2 minutes"), "k").agg(F.count("*").alias("n"))
            return stage("w", counted).select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n")

        return build

    with running_pair(Bench(spark, tmp_path), reads("a"), reads("a", "b"), mode="append") as pair:
        first = [([row("x", 1, minute=0)], "a")]
        meanwhile = [([row("x", 1, minute=5)], "a"), ([row("x", 1, minute=20)], "a")]
        after = [([row("x", 1, minute=1)], "a"), ([row("x", 1, minute=40)], "a"), ([row("x", 1, minute=41)], "b")]
        after += [([row("x", 1, minute=60)], "a"), ([row("x", 1, minute=60)], "b")]
        updated(pair, first, meanwhile, after, states=None)
        found = Counter(r["start"] for r in pair.all())
        assert found["00:00"] == 1 and max(found.values()) == 1
        starts = [pair.own.offsets(b).watermark_ms for b in (pair.last_old, pair.last_old + 1)]
        assert starts[0] <= starts[1]
        assert starts[1] == pair.running.next_watermark_ms(pair.last_old)


def test_the_time_of_a_batch_is_the_old_one_s(spark, tmp_path) -> None:
    """current_timestamp() is the batch's: of thirteen rows the one passes that the millisecond says."""

    def timed(bench: Bench):
        rows = bench.source().where("a = unix_millis(current_timestamp()) % 13")
        return stage("timed", rows.dropDuplicates(["k"])).select("k")

    def thirteen(*files: int) -> list[list[dict]]:
        return [[row(f"{f}-{n}", n) for n in range(13)] for f in files]

    with running_pair(Bench(spark, tmp_path), timed, mode="append") as pair:
        updated(pair, thirteen(0), thirteen(1, 2, 3, 4), thirteen(5))  # the states are compared there
        assert sorted(r["k"].split("-")[0] for r in pair.all()) == [str(f) for f in range(6)]
        assert sorted(states(spark, pair.own)) != []


def test_another_filter_below_an_aggregation_counts_from_where_the_following_began(spark, tmp_path) -> None:
    def now(bench: Bench):
        made = F.count("*").alias("n"), F.sum("a").alias("s")
        return stage("counts", bench.source().where("a > 0").groupBy("k").agg(*made))

    def rows(*values: int) -> list[list[dict]]:
        return [[row("a", value), row("b", value)] for value in values]

    first, meanwhile, after = rows(0, 1, 0), rows(0, 2, 0), rows(0, 3)
    with running_pair(Bench(spark, tmp_path), counts, now, mode="complete") as pair:
        updated(pair, first, meanwhile, after, states=None)
        values = [r["a"] for file in first for r in file if r["k"] == "a"]
        values += [r["a"] for file in (*meanwhile, *after) for r in file if r["k"] == "a" and r["a"] > 0]
        last = {r["k"]: (r["n"], r["s"]) for r in pair.all()}
        assert last == {key: (len(values), sum(values)) for key in "ab"}


def test_another_filter_below_windows_gives_each_window_once(bench: Bench) -> None:
    def at_least(least: int) -> Callable:
        def build(bench: Bench):
            rows = bench.source().where(F.col("a") >= least).withWatermark("ts", "1 minute")
            return stage("windows", rows.groupBy(F.window("ts", "2 minutes"), "k").agg(F.count("*").alias("n")))

        return build

    def rows(*numbers: int) -> list[list[dict]]:
        return [[row(k, a, minute=n) for k in "ab" for a in (0, 1)] for n in numbers]

    first, meanwhile, after = rows(0, 1, 2, 3), rows(4, 5, 6, 7, 8, 9), rows(*range(10, 20))
    with running_pair(bench, at_least(0), at_least(1), mode="append") as pair:
        updated(pair, first, meanwhile, after, states=None)
        found = [((r["window"]["start"].minute, r["k"]), r["n"]) for r in pair.all()]
        assert len(found) == len(dict(found)), "each window is given once"
        starts = sorted({start for (start, _), _ in found})
        assert starts == list(range(starts[0], starts[-1] + 1, 2)) and starts[0] == 0 and starts[-1] >= 14
        assert {key for key, _ in found} == {(start, k) for start in starts for k in "ab"}, "none is left out"
        ended = {key for r in pair.before.values() for key in ((x["window"]["start"].minute, x["k"]) for x in r)}
        for (start, key), n in found:
            if (start, key) in ended or start + 2 <= 4:
                assert n == 4, "by the old version's filter"
            elif start >= 4:
                assert n == 2, "by the new one's"


def restarted(bench: Bench, old: Callable, new: Callable, before: list, after: list) -> Counter:
    """What both versions write when the new one starts where the old one has ended."""
    saved = None
    for version, files in ((old, before), (new, after)):
        for each in files:
            bench.write(*each) if isinstance(each, tuple) else bench.write(each)
        saved = bench.run(version, "append", saved)
    return Counter(map(str, bench.all()))


def as_restarted(
    spark, folder: Path, old: Callable, new: Callable, first: list, meanwhile: list, after: list
) -> Counter:
    (folder / "r").mkdir()
    expected = restarted(Bench(spark, folder / "r"), old, new, first + meanwhile, after)
    with running_pair(Bench(spark, folder), old, new, mode="append") as pair:
        updated(pair, first, meanwhile, after, states=None)
        assert Counter(map(str, pair.all())) == expected
    return expected


def joined(kind: str, once: bool) -> Callable:
    """A join of two streams; once: with a deduplication above it."""

    def side(bench: Bench, name: str):
        rows = source(name, bench.source(name=name)).withWatermark("ts", "10 minutes")
        return rows.select(*(F.col(c).alias(f"{c}_{name}") for c in ("k", "a", "ts")))

    def build(bench: Bench):
        near = "ts_r between ts_l - interval 5 minutes and ts_l + interval 5 minutes"
        both = stage("both", side(bench, "l").join(side(bench, "r"), F.expr(f"k_l = k_r and {near}"), kind))
        names = ["k_l", "a_l"] + ([] if kind == "left_semi" else ["k_r", "a_r"])
        if not once:
            return both.select(names)
        timed = [*names, "ts_r" if kind == "right_outer" else "ts_l"]
        return stage("once", both.select(timed).dropDuplicates()).select(names)

    return build


@pytest.mark.parametrize("kind", ["full_outer", "inner", "left_outer", "right_outer", "left_semi"])
@pytest.mark.slow
def test_a_stage_comes_above_a_join_which_keeps_the_rows_it_was_given(spark, tmp_path, kind: str) -> None:
    """Left rows that come while the new version follows find their partners after the takeover."""
    first = [([row("s", 0)], "l"), ([row("s", 0)], "r")]
    meanwhile = [([row("x", 1, minute=1), row("y", 2, minute=1)], "l"), ([row("z", 3, minute=1)], "l")]
    after = [([row(k, a, minute=2) for k, a in (("x", 10), ("y", 20), ("z", 30))], "r")]
    after += [([row("end", 0, minute=m)], side) for m in (100, 101) for side in "lr"]
    old, new = joined(kind, False), joined(kind, True)
    as_restarted(spark, tmp_path, old, new, first, meanwhile, after)


@pytest.mark.parametrize("opaque", one_is_fast([False, True]))
def test_rows_that_were_followed_move_no_watermark_of_a_new_stage(spark, tmp_path, opaque: bool) -> None:
    """A row that a restart would count is not late. opaque: a column through which Spark pushes no filter."""

    def plain(bench: Bench):
        return bench.source().select("k", F.lit(1).cast("long").alias("n"))

    def windows(bench: Bench):
        rows = bench.late("1 minute").withColumn("id", F.expr("uuid()" if opaque else "'x'"))
        counted = rows.groupBy(F.window("ts", "2 minutes"), "k").agg(F.count("*").alias("n"), F.max("id").alias("id"))
        return stage("windows", counted).select("k", "n")

    first, meanwhile = [[row("v1", 1)]], [[row("v1", 1, minute=30)], [row("v1", 1, minute=31)]]
    after = [[row(k, 1, minute=m)] for k, m in (("x", 10), ("y", 12), ("end", 50), ("end", 51))]
    assert any("'k': 'x'" in r for r in as_restarted(spark, tmp_path, plain, windows, first, meanwhile, after))
