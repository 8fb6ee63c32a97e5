"""Whether the product's texts tell apart what computes something else.

An expression's *result* is what one batch query makes of every row of the table: type and values, or that it raises. Its
*meaning* is what the product writes down of it for a stream of the same columns, which is planned and never started.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming.lineage import Lineage
from airflow_provider_streamupdate.streaming.spark_internals import analyzed_plan  # noqa: F401
from airflow_provider_streamupdate.streaming.spark_internals.plans import plan_json
from airflow_provider_streamupdate.streaming.tree import parse_plan
from tests.sweep.corpus import Expression

AT_ONCE = 100
_SAID = re.compile(r"\[([A-Z_0-9.]+)\]")
_OPAQUE = ("variant", "interval", "geometry", "geography")
SETTINGS = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.geospatial.enabled": "true",
    "spark.sql.binaryOutputStyle": "HEX_DISCRETE",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.maxPlanStringLength": "100",
}
SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
}


def meanings(frame: DataFrame) -> list[str]:
    """What the product says of each output column of a streaming frame. The sweep's only contact with it."""
    spark = frame.sparkSession
    analyzed = frame._jdf.queryExecution().analyzed()
    optimized = spark._jsparkSession.sessionState().optimizer().execute(analyzed)
    plan = parse_plan(plan_json(spark, optimized), "update")
    leaves = [n for n in plan.walk() if not n.children and n.streaming]
    stateful = [n for n in plan.walk() if n.stateful]
    lineage = Lineage(
        plan, [f"source-{i}" for i, _ in enumerate(leaves)], [f"stage-{i}" for i, _ in enumerate(stateful)]
    )
    return [text for _, text in lineage.columns(plan)]


def session(spark: SparkSession, **settings: str) -> SparkSession:
    """A session of its own."""
    new = spark.newSession()
    for key, value in {**SETTINGS, **settings}.items():
        new.conf.set(key, value)
    activate(new)
    return new


def activate(spark: SparkSession) -> None:
    """Texts of expressions are parsed under the settings of the thread's active session."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def kind_of(text: str, aggregates: frozenset[str], alone: frozenset[str]) -> str:
    """How an expression is asked for: in a SELECT of many, in an aggregation of many, or in a query of its own."""
    names = {n.lower() for n in re.findall(r"([A-Za-z_][A-Za-z_0-9]*)\s*\(", text)}
    if text.startswith("@") or names & alone or re.search(r"\bOVER\b", text):
        return "alone"
    return "aggregate" if names & aggregates else "scalar"


@attrs.define
class Judged:
    """expression and kind; type and result of the batch; steady: whether it is the same each time; meaning and
    meaning as planned again; why it is left out."""

    expression: Expression
    kind: str
    type: str = ""
    result: str = ""
    steady: bool = True
    meaning: str = ""
    planned_again: str = ""
    left_out: str = ""


class Judge:
    """rows, stream: functions that make the table and the stream of a session."""

    def __init__(
        self,
        spark: SparkSession,
        rows: Callable[[SparkSession], DataFrame],
        stream: Callable[[SparkSession], DataFrame],
        aggregates: frozenset[str],
        alone: frozenset[str],
        settings: dict[str, str] | None = None,
    ) -> None:
        self.aggregates, self.alone = aggregates, alone
        self._sessions = [session(spark, **(settings or {})) for _ in range(2)]
        self._rows, self._streams = [], []
        for i, own in enumerate(self._sessions):
            activate(own)
            self._rows.append(rows(own))
            self._streams.append(stream(own))
            self._rows[i].createOrReplaceTempView("batch_table")
            self._streams[i].createOrReplaceTempView("stream_table")

    def judge(self, expressions: Iterable[Expression]) -> list[Judged]:
        found = [Judged(e, kind_of(e.sql, self.aggregates, self.alone)) for e in expressions]
        for judged in found:
            self._analyze(judged)
        for kind in ("scalar", "aggregate"):
            valid = [j for j in found if j.kind == kind and not j.left_out]
            for chunk in _chunks(valid):
                self._compute(chunk, kind, 0)
                self._plan(chunk, kind, 0, "meaning")
            # again in another session and in another company, so that numbers and places are others
            for chunk in _chunks([j for j in valid[::-1] if not j.left_out], AT_ONCE - 3):
                self._plan(chunk, kind, 1, "planned_again")
        for judged in found:
            if judged.kind == "alone" and not judged.left_out:
                self._compute([judged], "alone", 0)
                self._plan([judged], "alone", 0, "meaning")
                self._plan([judged], "alone", 1, "planned_again")
        for group in _by_meaning(found):
            if len({j.result for j in group}) > 1:
                self._again(group)
        return found

    def _again(self, group: list[Judged]) -> None:
        """Mark those whose result is another when it is computed again: the time, for example."""
        for judged in group:
            before = judged.result
            self._compute([judged], judged.kind, 1)
            judged.steady = judged.steady and judged.result == before
            judged.result = before

    def _analyze(self, judged: Judged) -> None:
        try:
            frame = self._frame(self._rows[0], [judged], judged.kind, 0, "batch_table", bare=True)
            fields = frame.schema.fields
            types = [f.dataType.simpleString() for f in fields]
            judged.type = ", ".join(types) if judged.kind == "alone" else types[-1]
            judged.steady = bool(frame._jdf.queryExecution().analyzed().deterministic())
        except Exception as error:
            judged.left_out = f"refused: {said(error)}"

    def _frame(
        self, table: DataFrame, chunk: list[Judged], kind: str, which: int, view: str, bare: bool = False
    ) -> DataFrame:
        spark = self._sessions[which]
        activate(spark)
        if kind == "alone":
            text = chunk[0].expression.sql
            return spark.sql(text[1:].format(t=view) if text.startswith("@") else f"SELECT id, {text} FROM {view}")
        columns = [F.expr(j.expression.sql).alias(f"x{i}") for i, j in enumerate(chunk)]
        if not bare:
            columns = [_tried(spark, _shown(j), kind).alias(f"x{i}") for i, j in enumerate(chunk)]
        return table.groupBy("g").agg(*columns) if kind == "aggregate" else table.select(*columns)

    def _compute(self, chunk: list[Judged], kind: str, which: int) -> None:
        """The results of a chunk; of its halves where it raises."""
        chunk = [j for j in chunk if not j.left_out]
        if not chunk:
            return
        try:
            frame = self._frame(self._rows[which], chunk, kind, which, "batch_table")
            if kind == "alone":
                rows = frame.select(
                    *[
                        F.col(f"`{f.name}`").cast("string")
                        if _opaque(f.dataType.simpleString())
                        else F.col(f"`{f.name}`")
                        for f in frame.schema.fields
                    ]
                )
                chunk[0].result = _digest(rows.toArrow().to_pylist())
                return
            made = frame.orderBy("g").drop("g").toArrow() if kind == "aggregate" else frame.toArrow()
            for judged, column in zip(chunk, made.columns, strict=True):
                judged.result = _digest(_values(column))
        except Exception as error:
            if len(chunk) == 1:
                chunk[0].result = f"raises {said(error)}"
                return
            half = len(chunk) // 2
            self._compute(chunk[:half], kind, which)
            self._compute(chunk[half:], kind, which)

    def _plan(self, chunk: list[Judged], kind: str, which: int, to: str) -> None:
        chunk = [j for j in chunk if not j.left_out]
        if not chunk:
            return
        try:
            frame = self._frame(self._streams[which], chunk, kind, which, "stream_table", bare=True)
            supported(frame)
            texts = meanings(frame)
            if kind == "alone":
                setattr(chunk[0], to, " | ".join(texts))
                return
            for judged, text in zip(chunk, texts[-len(chunk) :], strict=True):
                setattr(judged, to, text)
        except Exception as error:
            if len(chunk) == 1:
                chunk[0].left_out = f"not on a stream: {said(error)}"
                return
            half = len(chunk) // 2
            self._plan(chunk[:half], kind, which, to)
            self._plan(chunk[half:], kind, which, to)


def supported(frame: DataFrame) -> None:
    """Raises Spark's own error where a stream cannot do it."""
    jvm: Any = frame.sparkSession._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Update()
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)


def _shown(judged: Judged) -> str:
    """The text in a form Arrow can carry."""
    return f"CAST(({judged.expression.sql}) AS STRING)" if _opaque(judged.type) else judged.expression.sql


def _opaque(kind: str) -> bool:
    return any(word in kind for word in _OPAQUE)


def _tried(spark: SparkSession, text: str, kind: str) -> Column:
    """A value in a struct, or no struct where the expression raises."""
    if kind == "aggregate":
        return F.expr(text)
    from pyspark.sql.classic.column import Column as Classic

    jvm: Any = spark._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner = utils.expression(F.expr(f"named_struct('v', {text})")._jc)
    return Classic(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)))


def _values(column: Any) -> Any:
    try:
        return column.to_pylist()
    except Exception:  # bytes that are no UTF-8, years that Python has not: as Arrow holds them
        merged = column.combine_chunks()
        return [None if b is None else b.to_pybytes().hex() for b in merged.buffers()]


def _digest(values: Any) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def said(error: Exception) -> str:
    """Spark's name for an error, or the exception's."""
    found = _SAID.search(str(error))
    return (
        found.group(1) if found else f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"
    )


def _chunks(items: list[Judged], size: int = AT_ONCE) -> Iterator[list[Judged]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


@attrs.define
class Verdict:
    """What a sweep found. wrong: groups of expressions with one meaning and several results, one of each result;
    unequal: expressions with another meaning when planned again."""

    judged: list[Judged]
    pairs: int = 0
    different: int = 0
    needless: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    wrong: list[list[Judged]] = attrs.field(factory=list)
    unequal: list[Judged] = attrs.field(factory=list)
    unsteady: list[Judged] = attrs.field(factory=list)


def verdict(judged: list[Judged]) -> Verdict:
    """Every two expressions of one seed are a pair; beyond that any two of the sweep may not share a meaning and differ
    in their results."""
    counted = [j for j in judged if not j.left_out]
    found = Verdict(judged, unsteady=[j for j in counted if not j.steady])
    found.unequal = [j for j in counted if j.meaning != j.planned_again]
    by_seed: dict[str, list[Judged]] = defaultdict(list)
    for j in counted:
        by_seed[j.expression.seed].append(j)
    for group in by_seed.values():
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                found.pairs += 1
                same = a.steady and b.steady and (a.type, a.result) == (b.type, b.result)
                found.different += not same
                if same and a.meaning != b.meaning:
                    found.needless[b.expression.change] += 1
    for group in _by_meaning(counted):
        each = {(j.type, j.result): j for j in reversed(group)}
        if len(each) > 1:
            found.wrong.append(list(each.values()))
    return found


def _by_meaning(judged: Iterable[Judged]) -> list[list[Judged]]:
    """Those of one kind with one meaning, where the result is the same each time."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for j in judged:
        if j.steady and not j.left_out:
            groups[(j.kind, j.meaning)].append(j)
    return list(groups.values())
