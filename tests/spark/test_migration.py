"""State rewritten for a changed plan, on both stores, against an oracle in plain Python."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from bench import ROCKSDB, Bench, by, feed, row, stores
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.cases import one_is_fast

FIRST = [[row("a", 1, 5, 1), row("b", 2, 6, 2), row("a", 3, 7, 3)], [row("c", 4, 8, 4), row("a", 5, 9, 5, k2="y")]]
SECOND = [[row("a", 10, 1, 6), row("d", 20, 2, 7)], [row("b", 30, 3, 8, k2="y"), row("a", 1, 4, 9)]]


@pytest.fixture(params=stores("rocksdb changelog hdfs"))
def bench(request, spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, *request.param)


def groups(rows: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    found = defaultdict(list)
    for r in rows:
        found[tuple(r[k] for k in keys)].append(r)
    return found


COUNTS = by("k", "count(*) n")
WITH_LATEST = by("k", "count(*) n", "max(ts) latest")


def test_a_running_count_gains_a_maximum_timestamp_without_losing_its_counts(bench: Bench) -> None:
    before = feed(bench, FIRST)
    first = bench.run(COUNTS)
    found = bench.item(first, WITH_LATEST)
    assert (found.verdict, found.needs_agreement) == ("carried with loss", True)
    assert "max(ts) will cover only rows from this update on" in found.reason
    after = feed(bench, SECOND)
    second = bench.run(WITH_LATEST, snapshot=first, agree=("q/totals",))
    expected = {key: len(rows) for key, rows in groups(before + after, "k").items()}
    assert {key: r["n"] for key, r in bench.last("k").items()} == expected
    latest = {key: max(r["ts"] for r in rows) for key, rows in groups(after, "k").items()}
    seen = {k: f"{r['latest']:%Y-%m-%dT%H:%M:%SZ}" for k, r in bench.last("k").items() if r.get("latest")}
    assert seen == latest
    # and it goes on from there: batch ids, and the migrated state itself
    assert sorted(bench.emitted) == [0, 1, 2, 3]
    more = feed(bench, [[row("c", 1, minute=20), row("a", 2, minute=21)]])
    bench.run(WITH_LATEST, snapshot=second)
    assert bench.last("k")[("c",)]["n"] == len(groups(before + after + more, "k")[("c",)])


EVERYTHING = {
    "n": "count(*)",
    "some": "count(CASE WHEN a > 3 THEN 1 END)",
    "total": "sum(a)",
    "exact": "sum(cast(b as decimal(10,2)))",
    "least": "min(a)",
    "most": "max(ts)",
    "mean": "avg(b)",
    "fine": "avg(cast(a as decimal(12,1)))",
}
ALL = [f"{text} {name}" for name, text in EVERYTHING.items()]


def everything(rows: list[dict]) -> dict:
    a, b = [r["a"] for r in rows], [r["b"] for r in rows]
    return {
        "n": len(rows),
        "some": sum(x > 3 for x in a),
        "total": sum(a),
        "exact": sum(b),
        "least": min(a),
        "most": max(r["ts"] for r in rows),
        "mean": sum(b) / len(b),
        "fine": sum(a) / len(a),
    }


def now(bench: Bench, batch: int, *keys: str) -> dict[tuple, dict]:
    """What one batch emitted, by key, in the oracle's form."""
    found = {}
    for r in bench.emitted[batch]:
        values = {name: r[name] for name in EVERYTHING}
        values |= {"exact": float(r["exact"]), "fine": float(r["fine"]), "most": f"{r['most']:%Y-%m-%dT%H:%M:%SZ}"}
        found[tuple(r[k] for k in keys)] = values
    return found


def expected(rows: list[dict], *keys: str) -> dict:
    return {key: pytest.approx(everything(found), abs=1e-4) for key, found in groups(rows, *keys).items()}


def many(count: int, seed: int, keys: int = 40) -> list[dict]:
    """Rows over enough keys for every partition to have some; every key comes in every call."""
    return [
        row(f"k{i % keys}", (i * 7 + seed) % 23, (i * 5 + seed) % 11, minute=(i + seed) % 600, k2=f"y{i % 3}")
        for i in range(count)
    ]


def test_a_dropped_key_merges_its_groups_into_the_partition_they_belong_to(bench: Bench) -> None:
    fine, coarse = by("k; k2", *ALL), by("k", *ALL)
    before = feed(bench, [many(150, 1), many(150, 5)])
    bench.spark.conf.set("spark.sql.shuffle.partitions", "5")
    first = bench.run(fine)
    bench.spark.conf.set("spark.sql.shuffle.partitions", "3")
    found = bench.item(first, coarse)
    assert (found.verdict, found.needs_agreement) == ("migrated", False)
    assert found.reason.startswith("drops key k2 and merges its groups; state moves from 5 partitions to 3")
    after = feed(bench, [many(40, 9)])
    bench.run(coarse, snapshot=first)
    # Only the second version's rows have no k2: every key came again, and found what both its groups had.
    assert now(bench, 2, "k") == expected(before + after, "k")


def test_all_keys_can_be_dropped(bench: Bench) -> None:
    before = feed(bench, [many(60, 1)])
    first = bench.run(by("k", *ALL))
    after = feed(bench, [many(20, 2)])
    second = bench.run(by("", *ALL), snapshot=first)
    assert now(bench, 1) == expected(before + after)
    more = feed(bench, [many(5, 3)])
    bench.run(by("", *ALL), snapshot=second)
    assert now(bench, 2) == expected(before + after + more)


def test_dropped_added_and_reordered_aggregates(bench: Bench) -> None:
    """Two sums have columns of one name and type in the state: only their places tell them apart."""
    names = ("a", "b")
    one, other = by("k", "count(*) n", "sum(a) a", "sum(b) b", "avg(a) mean"), by("k", "sum(b) b", "sum(a) a")
    before = feed(bench, FIRST)
    first = bench.run(one)
    found = bench.item(first, other)
    assert (found.verdict, found.needs_agreement) == ("migrated", False)
    assert "order" in found.reason and "drops count(1) with its values" in found.reason
    after = feed(bench, SECOND)
    second = bench.run(other, snapshot=first)
    want = {key: {n: sum(r[n] for r in rows) for n in names} for key, rows in groups(before + after, "k").items()}
    assert {key: {n: r[n] for n in names} for key, r in bench.last("k").items()} == want
    # and added again: from now on
    third = feed(bench, [[row("a", 6, 1), row("z", 7, 2)]])
    spread, mean = "stddev(a) spread", "avg(cast(a as decimal(9,2))) mean"
    every, top = "sort_array(collect_list(a)) every", "max_by(k2, a) top"
    richer = by("k", spread, every, "sum(b) b", top, "sum(a) a", mean)
    found = bench.item(second, richer)
    assert (found.verdict, found.needs_agreement) == ("carried with loss", True)
    bench.run(richer, snapshot=second, agree=("q/totals",))
    last = bench.last("k")
    for key, rows in groups(before + after + third, "k").items():
        assert {n: last[key][n] for n in names} == {n: sum(r[n] for r in rows) for n in names}
    for key, rows in groups(third, "k").items():
        found = last[key]
        assert (found["every"], found["top"]) == (sorted(r["a"] for r in rows), "x")
        assert (float(found["mean"]), found["spread"]) == (rows[0]["a"], None)  # one value has no deviation


TYPED = ("max(i) most", "max(f) high", "sum(d) sum", "max(s) one", "max(arr) all")


def test_wider_numbers_and_longer_structs(bench: Bench) -> None:
    before = "g int, i int, f float, d decimal(10,2), s struct<x int, y string>, arr array<int>"
    after = "g bigint, i bigint, f float, d decimal(12,3), s struct<x bigint, y string, z struct<w int>>"
    old, new = by("g", *TYPED, schema=before), by("g", *TYPED, schema=f"{after}, arr array<bigint>")
    rows = [
        {"g": g, "i": g * 10 - 7, "f": g + 0.5, "d": f"{g}.25", "s": {"x": g, "y": f"t{g}"}, "arr": [g, -g]}
        for g in range(-20, 20)
    ]
    feed(bench, [rows])
    first = bench.run(old)
    found = bench.item(first, new)
    assert (found.verdict, found.needs_agreement) == ("migrated", False)
    assert "widens key g from int to bigint" in found.reason
    later = [
        {"g": g, "i": 2**40 * (g % 2), "f": 0.1, "d": "0.001", "s": {"x": -(2**40), "y": "n"}} for g in range(-20, 20)
    ]
    feed(bench, [later])
    bench.run(new, snapshot=first)
    last = bench.last("g")
    for before, after in zip(rows, later, strict=True):
        found = last[(before["g"],)]
        assert found["most"] == max(before["i"], after["i"])
        assert found["high"] == pytest.approx(max(before["f"], 0.1))
        assert float(found["sum"]) == pytest.approx(float(before["d"]) + 0.001)
        assert found["one"] == {"x": before["s"]["x"], "y": before["s"]["y"], "z": None}
        assert found["all"] == before["arr"]


def windows(size: str, delay: str = "", *more: str):
    window = f"window(ts, {', '.join(map(repr, (size, *more)))})"
    counted = by(f"{window}; k", "count(*) n", "sum(a) s", name="w", delay=delay)
    return lambda bench: counted(bench).select(F.date_format("window.start", "HH:mm").alias("start"), "k", "n", "s")


def by_window(rows: list[dict], minutes: int, offset: int = 0) -> dict[tuple, dict]:
    found = defaultdict(list)
    for r in rows:
        at = int(r["ts"][11:13]) * 60 + int(r["ts"][14:16])
        start = (at - offset) // minutes * minutes + offset
        found[f"{start // 60:02d}:{start % 60:02d}", r["k"]].append(r["a"])
    return {(s, k): {"start": s, "k": k, "n": len(v), "s": sum(v)} for (s, k), v in found.items()}


def test_tumbling_windows_become_a_multiple(bench: Bench) -> None:
    """Without a watermark nothing has left the state: each hour is the sum of its windows."""
    before = feed(bench, [many(150, 1, keys=5), many(100, 77, keys=5)])
    first = bench.run(windows("10 minutes"))
    found = bench.item(first, windows("1 hour"))
    assert (found.verdict, found.needs_agreement) == ("migrated", False)
    assert found.reason == "merges windows of ts to 1 hour"
    after = feed(bench, [many(600, 3, keys=5)])
    bench.run(windows("1 hour"), snapshot=first)
    hours = by_window(before + after, 60)
    assert len(hours) > 40
    late = {(r["start"], r["k"]): r for r in bench.emitted[2]}
    assert {k: late[k] for k in hours} == hours


def test_windows_with_an_offset_keep_it_when_merged(rocksdb: Bench) -> None:
    before = feed(rocksdb, [[row("a", i, minute=i) for i in range(0, 100, 3)]])
    old, new = (
        windows("10 minutes", "", "10 minutes", "3 minutes"),
        windows("30 minutes", "", "30 minutes", "13 minutes"),
    )
    first = rocksdb.run(old)
    after = feed(rocksdb, [[row("a", 1, minute=m) for m in (40, 50, 60, 80)]])
    rocksdb.run(new, snapshot=first)
    want = by_window(before + after, 30, 13)
    touched = {(r["start"], r["k"]): r for r in rocksdb.emitted[1]}
    assert len(touched) == 3 and all(want[k] == r for k, r in touched.items())


def test_with_a_watermark_what_was_closed_is_missing_from_a_merged_window_and_has_to_be_agreed_to(bench: Bench) -> None:
    old, new = windows("10 minutes", "1 minute"), windows("1 hour", "1 minute")
    closed = feed(bench, [[row("a", 1, minute=2)]])
    opened = feed(bench, [[row("a", 2, minute=35), row("a", 4, minute=31)], [row("a", 8, minute=36)]])
    first = bench.run(old, "append")
    found = bench.item(first, new, "append")
    assert (found.verdict, found.needs_agreement) == ("carried with loss", True)
    assert "lacks the rows of its parts" in found.reason
    late = feed(bench, [[row("a", 16, minute=50)], [row("a", 32, minute=90)], [row("a", 64, minute=91)]])
    bench.run(new, "append", snapshot=first, agree=("q/w",))
    assert closed and bench.all() == [
        {"start": "00:00", "k": "a", "n": 1, "s": 1},  # by the first version
        {"start": "00:00", "k": "a", "n": len(opened) + 1, "s": 2 + 4 + 8 + 16},
    ]
    assert len(late) == 3


def test_a_migrated_stage_beside_others_and_with_another_operator_id(bench: Bench) -> None:
    """The second version also has a deduplication above the aggregation, whose id changes, and another branch."""

    def one(bench: Bench):
        made = by("k", "sum(a) s")(bench)
        return made.selectExpr("'totals' stage", "k", "s", "cast(null as timestamp) t")

    def two(bench: Bench):
        stream = bench.source()
        kept = stage("kept", stream.groupBy("k").agg(F.sum("b").alias("s")))
        totals = stage("totals", stream.groupBy("k").agg(F.sum("a").alias("s"), F.max("ts").alias("t")))
        others = kept.selectExpr("'kept' stage", "k", "s", "cast(null as timestamp) t")
        return others.union(totals.selectExpr("'totals' stage", "k", "s", "t"))

    before = feed(bench, [many(60, 1)])
    first = bench.run(one)
    after = feed(bench, [many(60, 2)])
    second = bench.run(two, snapshot=first, agree=("q/totals",))
    plan = bench.registry.plan("d2").query("q")
    assert (plan.stage("totals").operator_id, plan.stage("kept").operator_id) == (1, 0)
    more = feed(bench, [many(40, 3)])
    bench.run(one, snapshot=second, agree=("q/kept",))
    last = bench.last("stage", "k")
    for (k,), rows in groups(before + after + more, "k").items():
        assert last["totals", k]["s"] == sum(r["a"] for r in rows)
    for (k,), rows in groups(after, "k").items():
        assert last["kept", k]["s"] == sum(r["b"] for r in rows)


def initials(state):
    """From counts by k to counts and totals by its first letter."""
    made = state.groupBy(F.substring("key.k", 1, 1).alias("letter")).agg(F.sum("value.count").alias("n"))
    return made.select(F.struct("letter").alias("key"), F.struct("n", (F.col("n") * 100).alias("s")).alias("value"))


by_letter = by("substring(k, 1, 1) letter", "count(*) n", "sum(a) s")
STATE = ("totals", "k string -> count bigint")


def test_the_apps_own_function_makes_any_change(bench: Bench) -> None:
    before = feed(bench, [many(60, 1), [row("other", 5)]])
    first = bench.run(COUNTS)
    assert bench.item(first, by_letter).verdict == "refused"
    bench.migrations[STATE] = initials
    found = bench.item(first, by_letter)
    assert (found.verdict, found.reason) == ("migrated", "the app's own function rewrites k string -> count bigint")
    after = feed(bench, [many(30, 2)])
    second = bench.run(by_letter, snapshot=first)
    assert bench.emitted[2] == [{"letter": "k", "n": 90, "s": 6000 + sum(r["a"] for r in after)}]
    # the function stays in the file, and is not called for a state it is not meant for
    assert bench.item(second, by_letter).verdict == "carried"
    feed(bench, [[row("only", 1)]])
    bench.run(by_letter, snapshot=second)
    assert bench.emitted[3] == [{"letter": "o", "n": 2, "s": 101}] and len(before) == 61


ONES = "named_struct('count', 1L, 's', 1L) AS value"
WRONG = {
    "no DataFrame": (lambda state: None, "returned None; return a DataFrame"),
    "another type": (lambda state: state, "returned a value of type struct<count:bigint>"),
    "other columns": (lambda state: state.select("key"), "return a DataFrame(key struct<"),
    "a key twice": (
        lambda state: state.selectExpr("named_struct('letter', 'x') AS key", ONES), "2 rows with the key ('x',)"),
    "no key": (
        lambda state: state.selectExpr("cast(null as struct<letter:string>) AS key", ONES),
        "a row whose key or value is null"),
}  # fmt: skip


@pytest.mark.parametrize("name", one_is_fast(WRONG, 2))
def test_a_function_that_does_not_keep_its_word_is_an_error_that_names_it(name: str, rocksdb: Bench) -> None:
    function, words = WRONG[name]
    feed(rocksdb, [[row("a", 1), row("b", 2)]])
    first = rocksdb.run(COUNTS)
    rocksdb.migrations[STATE] = function
    with pytest.raises(ApplicationError) as raised:
        rocksdb.run(by_letter, snapshot=first)
    assert words in str(raised.value)
    assert "migration function of stage totals" in str(raised.value)


def test_a_migration_that_died_is_begun_anew(bench: Bench) -> None:
    before = feed(bench, [many(60, 1)])
    first = bench.run(COUNTS)

    def dies(state):
        raise OSError("the machine is gone")

    bench.migrations[STATE] = dies
    plan, writers = bench.plan(by_letter)
    saved = SavedState.find(bench.registry, f"snapshot:{first}")
    with pytest.raises(OSError, match="the machine is gone"):
        restore_app(saved, plan, writers, bench.registry, "half", bench.migrations)
    half = bench.registry.checkpoint("half", "q")
    assert half.exists("offsets/0") and not bench.registry.folder.exists("deployments/half/restored/q.json")
    bench.migrations[STATE] = initials
    restore_app(saved, plan, writers, bench.registry, "half", bench.migrations)
    assert bench.registry.folder.exists("deployments/half/restored/q.json")
    assert not half.exists("migration") and len(before) == 60
    state = bench.spark.read.format("statestore").load(half.uri).select("key.*", "value.*")
    assert [tuple(r) for r in state.collect()] == [("k", 60, 6000)]


def test_the_check_reads_no_state(rocksdb: Bench) -> None:
    """Spark's own check of a migrated plan passes without any row being rewritten."""
    feed(rocksdb, FIRST)
    first = rocksdb.run(COUNTS)

    def never(state):
        raise AssertionError("called by the check")

    rocksdb.migrations[STATE] = never
    report = rocksdb.spark_check(first, by_letter)
    assert report.compatible, report.problems


VALUES = {
    "deep": "array(named_struct('t', array(k2 collate UNICODE_CI)))",
    "text": "k2 collate UTF8_LCASE",
    "list": "array(k2 collate UTF8_LCASE)",
    "field": "named_struct('t', k2 collate UTF8_LCASE)",
}


@pytest.mark.parametrize("merged", one_is_fast(["key", "window"]))
@pytest.mark.parametrize("value", one_is_fast(VALUES))
def test_texts_are_compared_as_the_aggregate_compares_them(rocksdb: Bench, value: str, merged: str) -> None:
    """Found from outside: of 'a' and 'B' the larger one was 'a', by its bytes."""
    made = [f"string({f}({VALUES[value]})) {name}" for f, name in (("max", "most"), ("min", "least"))]
    keys = ("k; k2", "k") if merged == "key" else ("k; window(ts, '10 minutes')", "k; window(ts, '1 hour')")
    old, new = (by(each, *made) for each in keys)
    for k, k2 in (("a", "aB"), ("b", "Ab")):
        rocksdb.write([row(k, 1, 1, k2=k2[0]), row(k, 1, 31, k2=k2[1])])
    first = rocksdb.run(old)
    assert (found := rocksdb.item(first, new)).verdict == "migrated" and not found.needs_agreement
    feed(rocksdb, [[row("a", 1, 51, k2="0"), row("b", 1, 51, k2="c")]])
    rocksdb.run(new, snapshot=first)
    got = {r["k"]: tuple(r[n].strip("[{}]") for n in ("most", "least")) for r in rocksdb.emitted[max(rocksdb.emitted)]}
    assert got == {"a": ("B", "0"), "b": ("c", "A")}


def test_a_query_s_name_may_hold_what_uris_quote_and_a_root_is_refused_by_the_check(spark, tmp_path: Path) -> None:
    """Spark's state reader looks for ``per%20key`` where the folder is ``per key``."""
    bench = Bench(spark, tmp_path, ROCKSDB)
    bench.query = "per key"
    before = feed(bench, FIRST)
    first = bench.run(COUNTS)
    after = feed(bench, SECOND)
    bench.run(WITH_LATEST, snapshot=first, agree=(f"{bench.query}/totals",))
    expected = {key: len(rows) for key, rows in groups(before + after, "k").items()}
    assert {key: r["n"] for key, r in bench.last("k").items()} == expected
    checkpoints = tmp_path / "root" / "bench" / "deployments" / "d2" / "checkpoint"
    assert [path.name for path in checkpoints.iterdir()] == [bench.query]

    (tmp_path / "my root").mkdir()
    spaced = Bench(spark, tmp_path / "my root", ROCKSDB)
    feed(spaced, FIRST)
    snapshot = spaced.run(COUNTS)
    report = spaced.spark_check(snapshot, WITH_LATEST)
    assert "Spark's state reader finds none below" in str(report.problems) and "my root" in str(report.problems)
