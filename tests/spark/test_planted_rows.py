"""A wrong row that a bug of the new version makes, planted at a random place of the followed batches, and versions that
are written otherwise and give the same rows: each follows the same running version, records its rows, and they are
compared with those of the old version's code. Only the processes are missing. (A bug below a stage is not followed,
test_following_refused.py.)"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench import Bench, row, stage
from followed_pair import Pair, running_pair
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison
from airflow_provider_streamupdate.core.difference.request import ComparisonRequest
from airflow_provider_streamupdate.core.difference.row_difference import RowDifference
from airflow_provider_streamupdate.streaming.engine.row_comparison import compare_recorded, recorder

BATCHES, FOLLOWED, KEYS = 6, 2, "abcdefgh"
Version = Callable[[Bench], DataFrame]
Place = tuple[str, int]  # a row that is given once: a key and its count then


def plain(bench: Bench) -> DataFrame:
    """Counts, with a column of each type that a sink may get."""
    made = F.count("*").alias("n"), F.sum("a").alias("s"), F.max("ts").alias("at")
    return stage("counts", bench.source().groupBy("k").agg(*made)).selectExpr(
        *("k", "n", "s", "at", "upper(k) name", "s / n mean", "s % 2 = 0 even", "cast(s as decimal(20, 2)) price"),
        *("date_add(date'2026-01-01', int(n)) day", "encode(k, 'UTF-8') raw", "array(n, s) both", "struct(n, k) pair"),
    )


def here(place: Place) -> Column:
    return (F.col("k") == place[0]) & (F.col("n") == place[1])


def changed(name: str, to: Callable[[], Column]) -> Callable[[Place], Version]:
    """A bug above the stage: another value of one column in one row."""
    return lambda place: lambda b: plain(b).withColumn(name, F.when(here(place), to()).otherwise(F.col(name)))


BUGS: dict[str, Callable[[Place], Version]] = {
    "one more": changed("n", lambda: F.col("n") + 1),
    "a null text": changed("name", lambda: F.lit(None)),
    "a blank at the end": changed("name", lambda: F.concat("name", F.lit(" "))),
    "the last bit of a double": changed("mean", lambda: F.col("mean") * (1 + 2.3e-16)),
    "a microsecond": changed("at", lambda: F.timestamp_micros(F.unix_micros("at") + 1)),
    "a cent": changed("price", lambda: (F.col("price") + 0.01).cast("decimal(20, 2)")),
    "the order of an array": changed("both", lambda: F.reverse("both")),
    "a field of a struct": changed("pair", lambda: F.col("pair").withField("n", F.col("pair.n") + 1)),
    "a row is gone": lambda place: lambda b: plain(b).where(~here(place)),
    "a row comes twice": lambda place: lambda b: plain(b).withColumn(
        "k", F.explode(F.when(here(place), F.array("k", "k")).otherwise(F.array("k")))
    ),
    "the key": lambda place: lambda b: plain(b).withColumn("k", F.when(here(place), F.lit("z")).otherwise(F.col("k"))),
}  # fmt: skip


def written(name: str, to: Callable[[], Column]) -> Version:
    """The same value of a column, written otherwise."""
    return lambda b: plain(b).withColumn(name, to())


SAME: dict[str, Version] = {
    "the same code": plain,
    "there and back": written("s", lambda: F.col("s") + 1 - 1),
    "through texts": written("n", lambda: F.col("n").cast("string").cast("long")),
    "microseconds": written("at", lambda: F.timestamp_micros(F.unix_micros("at"))),
    "an array that is mapped": written("both", lambda: F.transform("both", lambda x: x)),
    "a filter that all pass": lambda b: plain(b).where("n > 0"),
    "columns in another order": lambda b: plain(b).select(*reversed(plain(b).columns)),
    "other partitions": lambda b: plain(b).repartition(3),
}


class Followed:
    """A version that has run `BATCHES` batches; others are compared over the last `FOLLOWED` of them."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.made = pair, 0
        seen = dict.fromkeys(KEYS, 0)
        self.places: list[Place] = []
        dice = random.Random(16)
        for batch in range(BATCHES):
            keys = dice.sample(KEYS, 5)
            for key in keys:
                seen[key] += 1
            if batch >= BATCHES - FOLLOWED:
                self.places += [(key, seen[key]) for key in keys]
            pair.write([row(key, seen[key], minute=batch) for key in keys])
        pair.start_old()
        pair.old_reads_all()
        self.witnessed = self.follow(plain, OLD)

    def follow(self, version: Version, whose: str) -> Comparison:
        """Have a version run the last batches, and record its rows."""
        pair, name = self.pair, f"d{self.made}"
        self.made += 1
        comparison = Comparison(pair.bench.registry.deployment_folder(name))
        pair.new = version
        pair.follow(name=name, again=FOLLOWED, record=recorder(comparison.rows(whose, "q")))
        try:
            pair.catch_up(pair.running.committed_batch())
        finally:
            pair.stop_follower()
        return comparison

    def compared(self, version: Version) -> RowDifference:
        comparison = self.follow(version, NEW)
        comparison.ask(ComparisonRequest(keys={"q": ("k",)}))
        comparison.expect([])
        shutil.copytree(local(self.witnessed), local(comparison), dirs_exist_ok=True)
        compare_recorded(self.pair.bench.spark, comparison)
        [found] = comparison.findings().values()
        assert found.batches == tuple(range(BATCHES - FOLLOWED, BATCHES))
        return found


def local(comparison: Comparison) -> Path:
    """Where its rows are."""
    return Path(comparison.folder.sub("rows").uri.removeprefix("file://"))


@pytest.fixture(scope="module")
def followed(spark_session, tmp_path_factory) -> Iterator[Followed]:
    before = dict(spark_session.conf.getAll)
    with running_pair(Bench(spark_session, tmp_path_factory.mktemp("planted")), plain) as pair:
        yield Followed(pair)
    for key, value in dict(spark_session.conf.getAll).items():
        if before.get(key) != value and spark_session.conf.isModifiable(key):
            spark_session.conf.unset(key) if key not in before else spark_session.conf.set(key, before[key])


def some(cases: list) -> list:
    """Every tenth with the slow tests, the others with the sweep: each takes seconds."""
    marks = [pytest.mark.sweep if number % 10 else pytest.mark.slow for number in range(len(cases))]
    return [pytest.param(*case, marks=mark) for case, mark in zip(cases, marks, strict=True)]


# Of each kind three, each at a place of its own dice
PLANTED = [(list(BUGS)[seed % len(BUGS)], seed) for seed in range(3 * len(BUGS))]


@pytest.mark.parametrize(("bug", "seed"), some(PLANTED))
def test_a_planted_row_is_found(followed: Followed, bug: str, seed: int) -> None:
    place = random.Random(seed).choice(followed.places)
    found = followed.compared(BUGS[bug](place))
    assert found.differ >= 1, f"{bug} at {place} was not found"
    assert found.problems and any(place[0] in str(sample) for sample in found.samples)


@pytest.mark.parametrize("name", some([(name,) for name in SAME]))
def test_what_is_only_written_otherwise_is_equal(followed: Followed, name: str) -> None:
    found = followed.compared(SAME[name])
    assert (found.differ, found.problems) == (0, [])
    assert found.equal == len(followed.places)
