"""Pairs of expressions with different results, put into each place of a stage (`positions`)."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.streaming.spark_internals import activate
from tests.sweep.corpus import Expression, registry
from tests.sweep.judge import Judge, Judged, session
from tests.sweep.positions import AGGREGATES, CONDITIONS, STEADY, TWICE, VALUES, Placed, condition, placed
from tests.sweep.sweep import judge_of, judged_seeds
from tests.sweep.table import stream, table

_OPAQUE = ("MAP", "VARIANT", "INTERVAL ", "VOID", "GEO")


@attrs.define
class Places:
    """wrong: with different results, and carried; unequal: updated to itself, and not carried."""

    seed: int
    counted: Counter[str] = attrs.field(factory=Counter)
    left_out: Counter[str] = attrs.field(factory=Counter)
    wrong: list[Placed] = attrs.field(factory=list)
    unequal: list[Placed] = attrs.field(factory=list)
    seconds: float = 0

    def report(self) -> str:
        lines = [f"positions: seed {self.seed}, {dict(self.counted)}"]
        lines += [f"  left out {count} times: {why}" for why, count in self.left_out.most_common(8)]
        lines += [f"SILENTLY WRONG as {p.position}:\n    {p.old[:300]}\n    {p.new[:300]}" for p in self.wrong]
        lines += [f"IDENTITY FAILURE as {p.position}: {p.old[:300]}: {p.problems[0][:400]}" for p in self.unequal]
        lines += [f"pairs {sum(self.counted.values())}; silently wrong {len(self.wrong)}; identity failures "
                  f"{len(self.unequal)}; {self.seconds:.0f} s"]  # fmt: skip
        return "\n".join(lines)


def place(spark: SparkSession, folder: str, seed: int, each: int, only: list[str] | None = None) -> Places:
    """`each` pairs in each place, drawn from all functions."""
    begin = time.monotonic()
    of = random.Random(seed)
    every = registry(spark)
    judge = judge_of(spark, folder, table(session(spark), seed), {}, every)
    judged = judged_seeds(spark, judge, [f for f in every if not only or f.name in only], of, 3 * each)
    found = Places(seed)
    own = judge.sessions[0]
    rows = stream(own, folder)
    for position in [*VALUES, *AGGREGATES, *CONDITIONS]:
        kind = "aggregate" if position in AGGREGATES else "scalar"
        pairs = _pairs([j for j in judged if j.kind == kind])
        if position in CONDITIONS:
            pairs = _pairs(_conditions(judge, of.sample(pairs, min(len(pairs), 4 * each))))
        for old, new in of.sample(pairs, min(each, len(pairs))):
            activate(own)
            changed = placed(own, rows, position, old.expression.sql, new.expression.sql)
            if changed.left_out:
                found.left_out[f"{position}: {changed.left_out[:120]}"] += 1
                continue
            found.counted[position] += 1
            if changed.carried:
                found.wrong.append(changed)
            same = placed(own, rows, position, old.expression.sql, old.expression.sql)
            if same.problems and not same.left_out:
                found.unequal.append(same)
    for position, texts in (("key", STEADY), ("aggregate", TWICE)):
        for text in texts:
            activate(own)
            same = placed(own, rows, position, text, text)
            if same.left_out:
                found.left_out[f"{text}: {same.left_out[:120]}"] += 1
            elif not same.carried:
                found.unequal.append(same)
    found.seconds = time.monotonic() - begin
    return found


def _pairs(judged: list[Judged]) -> list[tuple[Judged, Judged]]:
    """Two of one seed with different results."""
    by_seed: dict[str, list[Judged]] = defaultdict(list)
    for j in judged:
        if j.steady and not j.left_out and not any(word in j.type for word in _OPAQUE):
            by_seed[j.expression.seed].append(j)
    return [
        (group[0], other)
        for group in by_seed.values()
        for other in group[1:]
        if (other.type, other.result) != (group[0].type, group[0].result)
    ]


def _conditions(judge: Judge, pairs: list[tuple[Judged, Judged]]) -> list[Judged]:
    """The same as conditions, judged again: two values may give one condition."""
    made = {
        condition(j.expression.sql, j.type): Expression(
            condition(j.expression.sql, j.type), j.expression.function, pair[0].expression.seed, j.expression.change
        )
        for pair in pairs
        for j in pair
    }
    return judge.judge(made.values())
