"""Whether the product's texts tell apart what computes something else.

An expression's *result* is what one batch query makes of every row of the table: type and values, or that it raises.
Its *meaning* is what the product writes down of it for a stream of the same columns, planned and never started.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import py4j.java_gateway
import py4j.protocol
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_streamupdate.core.plan.expressions import to_rows
from airflow_provider_streamupdate.streaming.catalyst.tree import parse_plan
from airflow_provider_streamupdate.streaming.planning.lineage.lineage import Lineage
from airflow_provider_streamupdate.streaming.spark_internals import activate
from airflow_provider_streamupdate.streaming.spark_internals.plans.plans import plan_json
from tests.sweep.corpus import Expression

AT_ONCE, BATCH = 100, 400
# It computes what is selected of local rows before the optimizer has seen it, as no stream is computed.
_EARLY = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_ROWS, _STREAM = "batch_table", "stream_table"
# What Spark makes a literal of while it plans: another one each time. An update sees them in the plan as it was written
# (definition.with_clocks).
_ONCE = {
    r"\b(?:now|curdate|current_(?:date|time|timestamp)|localtime(?:stamp)?)\b|\bunix_timestamp\(\)": "the clock",
    r"\baes_encrypt\(": "random bytes, which Spark folds",
    r"\b(?:rand|randn|random|randstr|shuffle|uniform|uuid)\(": "a seed that Spark draws",
}
_ADDRESS = re.compile(r"\[B@[0-9a-f]+")  # to_json of a map by bytes
_GONE = (py4j.protocol.Py4JNetworkError, ConnectionError)  # the JVM has ended: nothing was judged
_SAID = re.compile(r"\[([A-Z_0-9.]+)\]")
_OPAQUE = ("VARIANT", "INTERVAL", "GEOMETRY", "GEOGRAPHY")
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
    "spark.driver.memory": "4g",
    # an expression whose result has no room raises, and does not end the JVM (Executor.isFatalError)
    "spark.executor.killOnFatalError.depth": "0",
    # most of what runs here runs a few times: the second compiler costs more than it saves
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
}


def meanings(frame: DataFrame, keys: bool = False) -> list[str]:
    """What the product says of each output column of a streaming frame, and before that of its stages' keys, which need
    not be among its columns. The sweep's only contact with it."""
    spark = frame.sparkSession
    analyzed = frame._jdf.queryExecution().analyzed()
    optimized = spark._jsparkSession.sessionState().optimizer().execute(analyzed)
    plan = parse_plan(plan_json(spark, optimized), "update")
    leaves = [n for n in plan.walk() if not n.children and n.streaming]
    stateful = [n for n in plan.walk() if n.stateful]
    lineage = Lineage(
        plan, [f"source-{i}" for i, _ in enumerate(leaves)], [f"stage-{i}" for i, _ in enumerate(stateful)]
    )
    by = [each for n in stateful if keys for each in lineage.expressions(n, "groupingExpressions")]
    return [str(to_rows(each)) for each in (*by, *(each for _, each in lineage.columns(plan)))]


def session(spark: SparkSession, **settings: str) -> SparkSession:
    """A session of its own."""
    new = spark.newSession()
    for key, value in {**SETTINGS, **settings}.items():
        new.conf.set(key, value)
    activate(new)
    return new


def kind_of(text: str, aggregates: frozenset[str], alone: frozenset[str]) -> str:
    """How an expression is asked for: in a SELECT of many, in an aggregation of many, or in a query of its own."""
    names = {n.lower() for n in re.findall(r"([A-Za-z_][A-Za-z_0-9]*)\s*\(", text)}
    if text.startswith("@") or names & alone or re.search(r"\bOVER\b", text):
        return "alone"
    return "aggregate" if names & aggregates else "scalar"


@attrs.define
class Judged:
    """expression and kind; type and result of the batch; steady: whether it is the same each time; meaning and
    meaning as planned again, and whether that was alone; why it is left out."""

    expression: Expression
    kind: str
    type: str = ""
    result: str = ""
    steady: bool = True
    meaning: str = ""
    planned_again: str = ""
    alone: bool = False
    left_out: str = ""


class _Tried:
    """The function ``tried``: null where its argument raises (Catalyst's TryEval around any expression)."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def apply(self, arguments: Any) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.expressions.TryEval(arguments.apply(0))

    class Java:
        implements = ["scala.Function1"]


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors as Py4J has them: PySpark asks the JVM a dozen questions of each, and thousands are raised here."""
    ours, protocols = py4j.java_gateway.get_return_value, py4j.protocol.get_return_value
    py4j.java_gateway.get_return_value = protocols
    try:
        yield
    finally:
        py4j.java_gateway.get_return_value = ours


class Judge:
    """rows: the table's plan; stream: a function that makes the stream of a session."""

    def __init__(
        self,
        spark: SparkSession,
        rows: Any,
        stream: Callable[[SparkSession], DataFrame],
        aggregates: frozenset[str],
        alone: frozenset[str],
        settings: dict[str, str] | None = None,
    ) -> None:
        self.aggregates, self.alone = aggregates, alone
        self.sessions = [
            session(spark, **{"spark.sql.optimizer.excludedRules": _EARLY, **(settings or {})}) for _ in range(2)
        ]
        ensure_callback_server_started(spark.sparkContext._gateway)
        jvm: Any = spark._jvm
        for own in self.sessions:
            activate(own)
            jvm.org.apache.spark.sql.classic.Dataset.ofRows(own._jsparkSession, rows).createOrReplaceTempView(_ROWS)
            stream(own).createOrReplaceTempView(_STREAM)
            functions = own._jsparkSession.sessionState().functionRegistry()
            functions.createOrReplaceTempFunction("tried", _Tried(jvm), "built-in")

    def judge(self, expressions: Iterable[Expression]) -> list[Judged]:
        """All expressions judged, a batch after the other."""
        found = [Judged(e, kind_of(e.sql, self.aggregates, self.alone)) for e in expressions]
        with _plain_errors():
            for batch in _chunks(found, BATCH):
                self._judge(batch)
            suspect = [j for j in found if j.meaning != j.planned_again and not j.left_out]
            for judged in [*suspect, *(j for group in by_meaning(found) if _differ(group) for j in group)]:
                self._by_itself(judged)
            for group in by_meaning(found):
                if _differ(group):
                    self._again(group)
        return found

    def _by_itself(self, judged: Judged) -> None:
        """Plan it without others: of two that are equal for Spark (it takes the operands of AND for commutative, also
        where one raises) a query computes one."""
        if not judged.alone:
            judged.alone = True
            for which, to in enumerate(("meaning", "planned_again")):
                self._plan([judged], judged.kind, which, to)

    def _judge(self, found: list[Judged]) -> None:
        for judged in found:
            self._analyze(judged)
        for kind in ("scalar", "aggregate", "alone"):
            size = 1 if kind == "alone" else AT_ONCE
            valid = [j for j in found if j.kind == kind and not j.left_out]
            for chunk in _chunks(valid, size):
                self._plan(chunk, kind, 0, "meaning")
            # again in another session and in other company, so that numbers and places are others
            valid = [j for j in valid[::-1] if not j.left_out]
            for chunk in _chunks(valid, max(size - 3, 1)):
                self._plan(chunk, kind, 1, "planned_again")
            for chunk in _chunks([j for j in valid[::-1] if not j.left_out], size):
                self._compute(chunk, kind, 0)

    def _again(self, group: list[Judged]) -> None:
        """Mark those whose result is another when it is computed again: the time, for example."""
        for judged in group:
            before = judged.result
            self._compute([judged], judged.kind, 1)
            judged.steady = judged.steady and judged.result == before
            judged.result = before

    def _sql(self, which: int, text: str) -> Any:
        activate(self.sessions[which])
        return self.sessions[which]._jsparkSession.sql(text)

    def _analyze(self, judged: Judged) -> None:
        try:
            frame = self._sql(0, _text([judged], judged.kind, _ROWS))
            kinds = frame.schema().sql().removeprefix("STRUCT<").removesuffix(">").replace(" NOT NULL", "")
            judged.type = re.sub(r"^.*?\bx0: ", "", kinds) if judged.kind != "alone" else kinds
            judged.steady = bool(frame.queryExecution().analyzed().deterministic()) and not _any_of_equal(judged)
        except _GONE:
            raise
        except Exception as error:
            judged.left_out = f"refused: {said(error)}"

    def _compute(self, chunk: list[Judged], kind: str, which: int) -> None:
        """The results of a chunk; of its halves where it raises."""
        if not chunk:
            return
        try:
            frame = DataFrame(self._sql(which, _text(chunk, kind, _ROWS, tried=True)), self.sessions[which])
            if kind == "alone":
                if _opaque(chunk[0].type):
                    names = [f"x{i}" for i in range(len(frame.columns))]
                    frame = frame.toDF(*names).selectExpr(*[f"CAST({n} AS STRING)" for n in names])
                chunk[0].result = _digest([_values(c) for c in frame.toArrow().columns])
                return
            for judged, column in zip(chunk, frame.toArrow().columns[-len(chunk) :], strict=True):
                judged.result = _digest(_values(column))
        except _GONE:
            raise
        except Exception as error:
            if len(chunk) == 1:
                chunk[0].result = f"raises {said(error)}"
                return
            for part in _chunks(chunk, max(len(chunk) // 4, 1)):
                self._compute(part, kind, which)

    def _plan(self, chunk: list[Judged], kind: str, which: int, to: str) -> None:
        """What the product says of a chunk; of its parts where a stream cannot do it."""
        try:
            frame = DataFrame(self._sql(which, _text(chunk, kind, _STREAM)), self.sessions[which])
            supported(frame)
            texts = meanings(frame, keys=kind == "alone")
        except _GONE:
            raise
        except Exception as error:
            if len(chunk) == 1:
                chunk[0].left_out = f"not on a stream: {said(error)}"
                return
            for part in _chunks(chunk, max(len(chunk) // 4, 1)):
                self._plan(part, kind, which, to)
            return
        for judged, text in zip(chunk, [" | ".join(texts)] if kind == "alone" else texts[-len(chunk) :], strict=True):
            setattr(judged, to, text)


def _text(chunk: list[Judged], kind: str, view: str, tried: bool = False) -> str:
    """The query that asks for all of a chunk."""
    if kind == "alone":
        text = chunk[0].expression.sql
        return text[1:].format(t=view) if text.startswith("@") else f"SELECT id, {text} FROM {view}"
    texts = [_shown(j) if tried else j.expression.sql for j in chunk]
    if tried and kind == "scalar":
        # nullable, because a struct that is null may not have fields that cannot be (Arrow)
        texts = [f"tried(named_struct('v', IF(id >= 0, {text}, NULL)))" for text in texts]
    columns = ", ".join(f"{text} AS x{i}" for i, text in enumerate(texts))
    if kind == "scalar":
        return f"SELECT id, {columns} FROM {view}"  # else SELECT would take an ALL( or DISTINCT( for its own
    return f"SELECT g, {columns} FROM {view} GROUP BY g" + (" ORDER BY g" if tried else "")


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


def _any_of_equal(judged: Judged) -> bool:
    """Whether its result is one of values that are equal by a collation: which of them, the order of rows says."""
    return judged.kind == "aggregate" and judged.type.startswith("STRING COLLATE")


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


def _chunks(items: list[Judged], size: int) -> Iterator[list[Judged]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


@attrs.define
class Verdict:
    """What a sweep found.

    pairs, different: two expressions of one seed, and those of them with different results
    needless: pairs with one result and two meanings
    wrong: groups of expressions with one meaning and several results, one expression of each result
    unequal: expressions with another meaning when planned again, but those for which that is right (`why_unequal`)
    """

    judged: list[Judged]
    pairs: int = 0
    different: int = 0
    needless: int = 0
    wrong: list[list[Judged]] = attrs.field(factory=list)
    unequal: list[Judged] = attrs.field(factory=list)


def verdict(judged: list[Judged]) -> Verdict:
    """Every two expressions of one seed are a pair; beyond that any two of the sweep may not share a meaning and differ
    in their results."""
    counted = [j for j in judged if not j.left_out]
    found = Verdict(judged)
    found.unequal = [j for j in counted if j.meaning != j.planned_again and not why_unequal(j)]
    by_seed: dict[str, list[Judged]] = defaultdict(list)
    for j in counted:
        by_seed[j.expression.seed].append(j)
    for group in by_seed.values():
        for i, a in enumerate(group):
            for b in group[i + 1 :]:
                found.pairs += 1
                same = a.steady and b.steady and (a.type, a.result) == (b.type, b.result)
                found.different += not same
                found.needless += same and a.meaning != b.meaning
    for group in by_meaning(counted):
        each = {(j.type, j.result): j for j in reversed(group)}
        if len(each) > 1:
            found.wrong.append(list(each.values()))
    return found


def _differ(group: list[Judged]) -> bool:
    return len({j.result for j in group}) > 1


def why_once(sql: str) -> str:
    """Why an expression cannot be planned twice to one meaning; empty for one that can."""
    return next((why for pattern, why in _ONCE.items() if re.search(pattern, sql, re.IGNORECASE)), "")


def why_unequal(judged: Judged) -> str:
    """`why_once`, and what only shows when it is planned."""
    if _ADDRESS.search(judged.meaning):
        return "an address, which Spark writes for bytes"
    return why_once(judged.expression.sql)


def by_meaning(judged: Iterable[Judged]) -> list[list[Judged]]:
    """Those of one kind with one meaning, where the result is the same each time."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for j in judged:
        if j.steady and not j.left_out:
            groups[(j.kind, j.meaning)].append(j)
    return list(groups.values())
