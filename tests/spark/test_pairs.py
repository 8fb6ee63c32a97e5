"""What decides a result is part of a stage's meaning: pairs of versions that differ in one thing, planned by real Spark
and compared by the rules. In `DIFFER` the state of the one is wrong for the other, in `SAME` it is right, in `REFUSED`
it is wrong in this direction. The rows are in pairs_of_*.py.

Each pair is the smallest of its class. Outside reviews found updates like these that were called carried and computed
wrong results (of many the run with its result is in test_traps.py), and apps that could not be updated to themselves.
"""

from __future__ import annotations

import pairs_of_aggregates
import pairs_of_constants
import pairs_of_expressions
import pairs_of_names
import pairs_of_partitions
import pairs_of_tables
import pairs_of_ways
import pytest
from bench import Bench, row, stage
from pairs import ROWS, Ground, N, Version, count, per_key, verdict
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.streaming.planning.expressions.expression import _NULL_INTOLERANT
from airflow_provider_streamupdate.streaming.spark_internals.jvm import identity_function, sequence
from tests.cases import one_is_fast

KINDS = (pairs_of_constants, pairs_of_expressions, pairs_of_names, pairs_of_partitions, pairs_of_tables, pairs_of_ways)
DIFFER = {subject: rows for kind in KINDS for subject, rows in kind.DIFFER.items()}
SAME = {name: row for kind in KINDS for name, row in kind.SAME.items()}
REFUSED = pairs_of_aggregates.REFUSED
FAST_SAME = {name for kind in KINDS for name in list(kind.SAME)[::3]}

# The rule that names the difference, of some.
RULES = {
    "a join's other conditions": "stage.join-condition",
    "a select above a join": "stage.join-rows",
    "a sliding window or a session": "stage.kind",
    "digits": "stage.type",
    "a product": "stage.rows",
    "a filter on the time": "stage.ways",
    "an in-set in a key": "stage.keys",
    "operands of which one may raise": "stage.keys",
    "operands of which one may divide by zero": "stage.keys",
}
CASES = [
    pytest.param(subject, name, id=f"{subject}: {name}", marks=[] if number < 4 or name in RULES else pytest.mark.slow)
    for subject, pairs in DIFFER.items()
    for number, name in enumerate(pairs)
]


@pytest.mark.parametrize(("subject", "name"), CASES)
def test_what_decides_a_result_is_not_carried_and_a_version_is_itself(ground: Ground, subject: str, name: str) -> None:
    one, other, *mode = DIFFER[subject][name]
    old, new, again = (ground.plan(version, *mode) for version in (one, other, other))
    verdicts = {verdict(old, new), verdict(new, old)}
    assert verdicts <= {"asked", "refused"} or (subject == "buffers" and verdicts == {"migrated"})
    assert RULES.get(name) in [None, *(rule for item in compare(old, new, "test").items for rule in item.rules)]
    assert verdict(new, again) == "carried"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FAST_SAME else pytest.mark.slow) for n in SAME])
def test_what_decides_no_result_is_carried(ground: Ground, name: str) -> None:
    if name == "a shape on the map" and ground.spark.version < "4.2":
        pytest.skip("Spark before 4.2 has geospatial functions switched off, or none")
    *versions, mode = (*SAME[name], "update")[:3]
    old, new = (ground.plan(version, mode) for version in versions)
    report = compare(old, new, "test")
    assert verdict(old, new) in ("carried", "empty") and report.compatible, report.to_markdown()


@pytest.mark.parametrize("name", one_is_fast(REFUSED, 8))
def test_what_does_not_follow_from_the_state_is_refused_or_asked_about(ground: Ground, name: str) -> None:
    one, other, words, *settings = REFUSED[name]
    for key, value in settings:
        ground.spark.conf.set(key, value)
    old, new = (ground.plan(version) for version in (one, other))
    [item] = [i for i in compare(old, new, "test").items if i.thing == "stage"]
    assert item.verdict == "refused" or (item.needs_agreement and words == pairs_of_aggregates.FROM_NOW_ON)
    assert words in f"{item.reason} {item.details}", item


@pytest.mark.parametrize("name", one_is_fast(pairs_of_constants.OTHER_CLOCKS, 2))
def test_another_filter_that_asks_for_the_time_is_told(ground: Ground, name: str) -> None:
    *versions, mode = (*pairs_of_constants.OTHER_CLOCKS[name], "update")[:3]
    before, after = (ground.plan(version, mode) for version in versions)
    assert after.queries[0].stages[0].filters is not None
    items = [i for i in compare(before, after, "s1").items if i.thing == "stage"]
    assert len([i for i in items if i.rules != ("stage.same",)]) == 1


def test_what_is_decided_by_the_time_alone_is_planned_as_it_is_now(bench: Bench) -> None:
    """Such a filter is none now, and drops all rows later; then there is no stage."""

    def build(bench: Bench):
        rows = bench.source().where("ts > now() - interval 30000 days and now() < timestamp'2200-01-01 00:00:00'")
        return stage("t", rows.groupBy("k").count())

    bench.write([row("x", 1)])
    snapshot = bench.run(build)
    assert "2200" not in str(bench.registry.plan("d1").queries[0].stages[0].filters)
    bench.write([row("x", 1)])
    bench.run(build, snapshot=snapshot)
    assert bench.last("k") == {("x",): {"k": "x", "count": 2}}


def test_a_type_that_the_state_does_not_show(ground: Ground) -> None:
    old, new = (ground.plan(version) for version in DIFFER["types"]["a list of longs"])
    [item] = [i for i in compare(old, new, "test").items if i.thing == "stage"]
    assert item.rules == ("stage.column-type",)
    assert "a from int to bigint" in item.reason


def test_the_author_may_know_better(ground: Ground) -> None:
    old, new = ground.plan("k2 || 'a'"), ground.plan("substr(k2 || 'a', 1)")
    assert [i.offer for i in compare(old, new, "test").items if i.thing == "stage"] == ["q/t:same"]
    with pytest.raises(InvalidInputError, match="without a reason"):
        compare(old, new, "test", ["q/t:same"])
    agreed = compare(old, new, "test", ["q/t:same=it is the whole text"])
    [item] = [i for i in agreed.items if i.thing == "stage"]
    assert agreed.compatible and (item.verdict, item.agreed) == ("carried with loss", True)
    assert item.because == "it is the whole text"


def test_another_number_of_partitions_that_are_looked_at_is_agreed_to(ground: Ground) -> None:
    versions = [
        pairs_of_partitions.located(lambda rows: rows.repartition("k"), key) for key in ("spark_partition_id()", "k")
    ]
    before = [ground.plan(version) for version in versions]
    ground.spark.conf.set("spark.sql.shuffle.partitions", "5")
    after = [ground.plan(version) for version in versions]
    assert [verdict(*pair) for pair in zip(before, after, strict=True)] == ["asked", "migrated"]


def test_a_hidden_filter_that_is_not_implied_is_agreed_to_when_it_goes(ground: Ground) -> None:
    """When it comes, no group is told again in update mode."""
    below = per_key(N, "(select * from rws where coalesce(k, 'q') <> 'zz')")
    old, new = ground.plan(lambda g: g.made(below).where("k is not null")), ground.plan(below)
    assert verdict(old, new) == "asked"


def test_a_stage_s_rows_that_come_from_one_stage_less(ground: Ground) -> None:
    """Counts of one deduplication's rows or of two's, which are both there."""

    def version(both: bool) -> Version:
        def build(g: Ground) -> DataFrame:
            one, two = (stage(n, g.read().dropDuplicates([key])).select("k") for n, key in (("d1", "k"), ("d2", "k2")))
            counted = count(one.union(two) if both else one, "k").select("k")
            return counted if both else counted.union(two)

        return build

    items = compare(ground.plan(version(True)), ground.plan(version(False)), "test").items
    assert any(i.blocks and i.name == "q/t" for i in items)


def test_rows_go_to_the_key_that_a_batch_gives_them(bench: Bench) -> None:
    """Saved with the old fields, continued with the new ones: as one batch over all input says."""
    key = "concat(exists(l, e -> e.q > 1), size(l), l[0].n, s is null, d[0].i[0].v)"

    def grouped(schema: str):
        return lambda bench: stage("counts", bench.source(schema).groupBy(F.expr(key).alias("key")).count())

    line = {"l": [{"n": "a", "q": 2, "z": "u"}], "d": [{"w": 1, "i": [{"v": 1, "z": "x"}]}], "s": {"x": 1, "z": 5}}
    bench.write([line, {**line, "s": None}])
    saved = bench.run(grouped(pairs_of_expressions.NESTED))
    bench.write([line, {**line, "l": [{"z": "u", "n": "b"}]}])
    new = grouped(pairs_of_expressions.ADDED)
    assert not bench.rules(saved, new)
    bench.run(new, snapshot=saved)
    assert bench.last("key") == {(r["key"],): r for r in bench.batch(new)}


# An expression with each of those that are taken for null when an operand is.
INTOLERANT = """a = b; a < b; a <= b; a > b; a >= b; not (a = b); cast(a as string); a + b; a - b; a * b; a / b; a % b;
pmod(a, b); a div b; -a; abs(a); k like k2; k rlike k2; startswith(k, k2); endswith(k, k2); contains(k, k2);
upper(k); lower(k); length(k); substring(k, 1, 2); a & b; a | b; a ^ b; ~a; s.x; hour(ts); minute(ts); second(ts);
year(ts); month(ts); dayofmonth(ts)"""


def test_what_is_taken_for_null_intolerant_is_so_for_spark(spark) -> None:
    rows = spark.createDataFrame([], ROWS)
    seen, other = set(), set()
    for text in INTOLERANT.split(";"):
        plan = rows.select(F.expr(text))._jdf.queryExecution().analyzed()
        for node in sequence(plan.expressions().apply(0).map(identity_function(spark._jvm))):
            name = node.getClass().getSimpleName()
            if name in _NULL_INTOLERANT:
                seen.add(name)
                other |= set() if node.nullIntolerant() else {name}
    assert other == set()
    assert seen == _NULL_INTOLERANT - {"PreciseTimestampConversion"}  # which only Spark's own rules make
