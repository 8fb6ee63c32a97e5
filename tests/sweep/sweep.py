"""One sweep: functions, their seed expressions and changes of these, judged; and what is said of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import attrs
from pyspark.sql import SparkSession

from tests.sweep.corpus import WITHOUT, Expression, Function, registry, seeds, syntax
from tests.sweep.judge import Judge, Judged, Verdict, session, verdict
from tests.sweep.mutations import mutants
from tests.sweep.table import retyped_table, stream, table

RETYPED_SOURCE = "source's types"
# Generators and time windows: one of them in a query.
_ALONE = ("generator_funcs", "table_funcs")
_ALONE_NAMES = {"window", "session_window", "window_time", "json_tuple", "variant_explode", "variant_explode_outer"}


@attrs.define
class Sweep:
    """seed: of the rows and changes; covered: functions with a judged expression; left_out: others, with reasons."""

    seed: int
    ansi: str
    registry: int
    covered: set[str]
    left_out: dict[str, str]
    verdict: Verdict
    seconds: float


def sweep(
    spark: SparkSession,
    folder: str,
    seed: int,
    most: int = 12,
    most_seeds: int = 8,
    ansi: str = "true",
    only: list[str] | None = None,
) -> Sweep:
    """only: the names of functions (none: all); most: changes of one expression; most_seeds: expressions of one
    function that are changed"""
    begin = time.monotonic()
    every = registry(spark)
    chosen = [f for f in every if not only or f.name in only]
    more = [f for f in syntax(every) if not only or f.name in only]
    judged = judged_changes(
        spark, folder, chosen + sorted(more, key=lambda f: f.name), random.Random(seed), most, most_seeds, ansi
    )
    covered = {j.expression.function for j in judged if not j.left_out} & {f.name for f in chosen}
    missing = {f.name: WITHOUT.get(f.name) or _why(judged, f.name) for f in chosen if f.name not in covered}
    return Sweep(seed, ansi, len(chosen), covered, missing, verdict(judged), time.monotonic() - begin)


def judged_changes(
    spark: SparkSession,
    folder: str,
    functions: list[Function],
    of: random.Random,
    most: int,
    most_seeds: int,
    ansi: str,
) -> list[Judged]:
    """Judge changes of the functions' seed expressions, and each of them over a source of other types."""
    every = registry(spark)
    rows = table(session(spark), of.randrange(1 << 30))
    settings = {"spark.sql.ansi.enabled": ansi}
    by_function: dict[str, list[Expression]] = {}
    for expression in seeds(spark, functions):
        by_function.setdefault(expression.function, []).append(expression)
    expressions: dict[str, Expression] = {}
    retyped: list[Expression] = []
    for found in by_function.values():
        drawn = found[:2] + of.sample(found[2:], min(max(most_seeds - 2, 0), len(found[2:])))
        retyped += [attrs.evolve(e, change=RETYPED_SOURCE) for e in drawn if "c_" in e.sql]
        for expression in drawn:
            for each in [expression, *mutants(expression, every, of, most)]:
                expressions.setdefault(each.sql, each)
    judge = judge_of(spark, folder, rows, settings, every)
    judged = judge.judge(expressions.values())
    other = judge_of(spark, folder, retyped_table(session(spark), rows), settings, every, retyped=True)
    return judged + other.judge(retyped)


def judge_of(
    spark: SparkSession,
    folder: str,
    rows: Any,
    settings: dict[str, str],
    functions: list[Function],
    retyped: bool = False,
) -> Judge:
    """A judge of rows (a plan), under settings; `retyped`: those of the source's other version."""
    return Judge(
        spark,
        rows,
        lambda own: stream(own, folder, retyped),
        frozenset(f.name for f in functions if f.group == "agg_funcs"),
        frozenset({f.name for f in functions if f.group in _ALONE} | _ALONE_NAMES),
        settings,
    )


def _why(judged: list[Judged], function: str) -> str:
    reasons = Counter(j.left_out for j in judged if j.expression.function == function and j.expression.change == "seed")
    return reasons.most_common(1)[0][0] if reasons else "no example in the registry"


def report(done: Sweep) -> str:
    """What is printed: counts, and each silently wrong pair and identity failure."""
    found = done.verdict
    lines = [f"function sweep: seed {done.seed}, ansi {done.ansi}"]
    lines += [f"  left out: {name}: {why}" for name, why in sorted(done.left_out.items())]
    refused = Counter(j.left_out for j in found.judged if j.left_out)
    lines += [
        f"  texts Spark refuses: {sum(refused.values())}, most often {refused.most_common(4)}",
        f"  distinguished needlessly: {found.needless} pairs",
    ]
    for group in found.wrong:
        lines += [f"SILENTLY WRONG {len(group)} results, one meaning: {group[0].meaning[:300]}"]
        lines += [f"    {j.expression.sql[:300]}   [{j.expression.change}] {j.type[:80]} {j.result}" for j in group[:4]]
    for j in found.unequal:
        at = next((i for i, (x, y) in enumerate(zip(j.meaning, j.planned_again, strict=False)) if x != y), 0)
        lines += [
            f"IDENTITY FAILURE {j.expression.sql[:200]}",
            f"    {j.meaning[max(at - 60, 0) : at + 120]}",
            f"    {j.planned_again[max(at - 60, 0) : at + 120]}",
        ]
    judged = [j for j in found.judged if not j.left_out]
    lines += [
        f"functions covered {len(done.covered)} of {done.registry}; expressions {len(judged)}; pairs {found.pairs} "
        f"({found.different} with different results); silently wrong {len(found.wrong)}; identity failures "
        f"{len(found.unequal)}; {done.seconds:.0f} s"
    ]
    return "\n".join(lines)
