"""One drawn pair, run for real, and its answer compared with that of one Spark batch over all input."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.self_update import check_updatable
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import StreamingApp, source
from airflow_provider_streamupdate.streaming.restore.restorer import check_restorable
from tests.fuzz.build import STORES, store_settings
from tests.fuzz.drawn.draw import Pair, draw_pair
from tests.fuzz.drawn.places import DELAY, PLACES, SETTINGS, Rows, build
from tests.fuzz.drawn.rows import BATCHES, Files, stream_schema
from tests.fuzz.drawn.spec import Drawn
from tests.fuzz.hand_over import Version, hand_over
from tests.fuzz.outcome import FAILED, FALSELY_REFUSED, NO_VERSION, ORACLE_WRONG, SILENTLY_WRONG, Outcome, no_version
from tests.fuzz.session import setting
from tests.spark.bench import Bench

Row = dict[str, Any]

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
JOIN_FORMATS = ("2", "3", "4")
# Orders of the rows; an answer that is the same under all of them is taken for one that no order changes.
ORDERS = ("", "id DESC", *(f"xxhash64(id, {n})" for n in range(6)))


def run_drawn(spark: SparkSession, seed: int, folder: Path, handed_over: bool) -> Outcome:
    """The drawn pair of a seed, in `folder`. The input lies beside it, for other pairs, too."""
    with setting(spark, SETTINGS):
        files = Files(spark, folder.parent, seed)
        pair = draw_pair(spark, Random(seed), _at_rest(files, False), _at_rest(files, True))
        if pair is None:
            return Outcome(seed=seed, old=None, new=None, kind=NO_VERSION, details="no pair was found")
        outcome = Outcome(
            seed=seed,
            old=pair.old,
            new=pair.new,
            mutations=(f"drawn: {pair.change}",),
            operators=(f"drawn: {pair.old.place}",),
            store=pair.old.store,
            handed_over=handed_over,
        )
        return _Run(spark, folder, files, pair, outcome).run()


@attrs.define
class _Run:
    spark: SparkSession
    folder: Path
    files: Files
    pair: Pair
    outcome: Outcome

    def run(self) -> Outcome:
        old, new, cut = self.pair.old, self.pair.new, self.pair.cut
        bench = Bench(self.spark, self.folder, *STORES[old.store])
        try:
            with self.using(old):
                expected = self.answer(old, old, cut)
                self.give(bench, old, range(cut))
                check_updatable(bench.plan(self.stream(old), old.mode)[0], ())
                snapshot = bench.run(self.stream(old), old.mode)
        except Exception as error:
            return no_version(self.outcome, error, everything=True)
        before = _in_order(bench.emitted)
        if difference := self.difference(old, [], before, expected, None):
            return self.unless_by_order(old, cut, ORACLE_WRONG, difference)
        try:
            with self.using(new):
                expected = self.answer(old, new, BATCHES)
                touched = self.touched(new, expected)
                planned = bench.plan(self.stream(new), new.mode, snapshot)
                report = self.report(bench, snapshot, *planned)
        except Exception as error:
            return no_version(self.outcome, error, everything=True)
        self.outcome = attrs.evolve(self.outcome, verdicts=tuple(i.verdict for i in report.items))
        if asked := _asked(report):
            return self.ended(FALSELY_REFUSED, asked) if self.pair.harmless else self.ended(details=asked)
        bench.emitted.clear()
        try:
            self.go_on(bench, snapshot, planned)
        except Exception:
            return self.ended(FAILED, traceback.format_exc()[-1500:])
        difference = self.difference(new, before, _in_order(bench.emitted), expected, touched)
        return self.unless_by_order(new, BATCHES, SILENTLY_WRONG, difference) if difference else self.outcome

    def unless_by_order(self, drawn: Drawn, until: int, kind: str, difference: str) -> Outcome:
        """Nothing can be said of an aggregate that depends on the order of rows: of ties, for example."""
        with self.using(drawn):
            first, *others = (Counter(map(_text, self.answer(drawn, drawn, until, order=o))) for o in ORDERS)
        return self.ended(kind if all(other == first for other in others) else NO_VERSION, difference)

    def go_on(self, bench: Bench, snapshot: str, planned: tuple[Any, Any]) -> None:
        old, new, rest = self.pair.old, self.pair.new, range(self.pair.cut, BATCHES)
        if not self.outcome.handed_over:
            with self.using(new):
                self.give(bench, new, rest)
                bench.run(self.stream(new), new.mode, snapshot=snapshot, planned=planned)
            return
        first, second = (Version(app=partial(self.app, v), settings=self.settings(v)) for v in (old, new))
        hand_over(bench, first, second, snapshot, partial(self.give, bench, new, rest))

    def app(self, drawn: Drawn, bench: Bench) -> StreamingApp:
        return bench.app(self.stream(drawn), drawn.mode)

    def report(self, bench: Bench, snapshot: str, plan: AppPlan, writers: Any) -> CompatibilityReport:
        """The rules' verdicts, and Spark's own check of the restored checkpoint; nothing is agreed to."""
        saved = bench.saved(snapshot)
        report = saved.compare(plan, ())
        if not report.compatible:
            return report
        scratch = bench.folder / "scratch"
        scratch.mkdir()
        return check_restorable(saved, report, plan, writers, scratch)

    def ended(self, kind: str | None = None, details: str = "") -> Outcome:
        return attrs.evolve(self.outcome, kind=kind or self.outcome.kind, details=details)

    def using(self, drawn: Drawn) -> Any:
        """The session as the version's own driver would have it."""
        return setting(self.spark, self.settings(drawn))

    def settings(self, drawn: Drawn) -> dict[str, str]:
        return {
            **store_settings(drawn.store),
            # what is asked of joins must matter to nothing else: Spark has another one on the default store
            JOIN_FORMAT: JOIN_FORMATS[self.outcome.seed // 2 % len(JOIN_FORMATS)],
            **dict(drawn.settings),
        }

    def give(self, bench: Bench, drawn: Drawn, batches: Iterable[int]) -> None:
        for batch in batches:
            for name in PLACES[drawn.place].sources:
                self.files.give(bench, batch, drawn.retyped, name)

    def stream(self, drawn: Drawn) -> Any:
        """A version for `Bench`."""

        def made(bench: Bench) -> DataFrame:
            def rows(name: str) -> DataFrame:
                if name == "lookup":
                    return self.files.read(drawn.retyped, range(1), bench.spark)
                reader = bench.spark.readStream.schema(stream_schema(drawn.retyped)).option("maxFilesPerTrigger", 1)
                return source(name, reader.parquet(str(bench.input(name))))

            return build(drawn, rows)

        return made

    def answer(self, old: Drawn, new: Drawn, until: int, since: int = 0, order: str = "") -> list[Row]:
        """What a version makes of the batches, in one. The old version's filter below the stage was that of its
        batches. order: what the rows are sorted by first."""

        def rows(name: str) -> DataFrame:
            if name == "lookup":
                return self.files.read(new.retyped, range(1))
            read = range(since, until)
            if old.where == new.where:
                found = self.files.read(new.retyped, read)
                return found.coalesce(1).sortWithinPartitions(F.expr(order)) if order else found
            cut = min(until, self.pair.cut)
            first, then = (self.files.read(new.retyped, r) for r in (range(since, cut), range(cut, until)))
            return (first.where(old.where) if old.where else first).union(then.where(new.where) if new.where else then)

        whole = new if old.where == new.where else attrs.evolve(new, where="")
        found = [row.asDict(recursive=True) for row in build(whole, rows).collect()]
        ends = PLACES[new.place].ends
        if not ends:
            return found
        closed = self.closed(until)
        return [r for r in found if r[ends] <= closed]

    def touched(self, new: Drawn, expected: list[Row]) -> list[Row]:
        """The rows of `expected` that the new version has to tell: of groups it has read a row of; above a stage that
        drops rows, those that were other ones before."""
        if not PLACES[new.place].dropping:
            return self.answer(new, new, BATCHES, self.pair.cut)
        before = self.answer(new, new, self.pair.cut)
        return [row for row in expected if row not in before]

    def closed(self, until: int) -> int:
        """The minute up to which windows have been emitted when so many batches have been read."""
        latest = self.files.read(False, range(until)).selectExpr("max(unix_seconds(ts)) div 60").first()
        assert latest is not None
        return int(latest[0]) - DELAY

    def difference(
        self,
        drawn: Drawn,
        before: Sequence[Row],
        emitted: Sequence[Row],
        expected: list[Row],
        touched: list[Row] | None,
    ) -> str:
        """Where what was emitted is not the answer. touched: what has to be in what the new version emitted in update
        mode, by its key; None: all of `expected`."""
        key = tuple(k for k in PLACES[drawn.place].key if not expected or k in expected[0])
        if drawn.mode == "append":
            return _compared(Counter(map(_text, [*before, *emitted])), Counter(map(_text, expected)))
        found = {_of(row, key): row for row in emitted}
        wanted = {_of(row, key): row for row in expected}
        if touched is not None and drawn.mode == "update":
            keys = {_of(row, key) for row in touched}
            wanted = {k: row for k, row in wanted.items() if k in keys}
        return _compared(Counter(map(_text, found.values())), Counter(map(_text, wanted.values())))


def _at_rest(files: Files, retyped: bool) -> Rows:
    return lambda name: files.read(retyped)


def _in_order(emitted: dict[int, list[Row]]) -> list[Row]:
    return [row for batch in sorted(emitted) for row in emitted[batch]]


def _asked(report: CompatibilityReport) -> str:
    """What an update would ask or refuse."""
    questions = [f"{i.name}: {i.verdict}: {i.reason}" for i in report.items if i.needs_agreement]
    return "; ".join([*report.problems, *questions])


def _of(row: Row, key: tuple[str, ...]) -> str:
    return str([row.get(k) for k in key])


def _text(row: Row) -> str:
    return str(sorted(row.items()))


def _compared(found: Counter[str], wanted: Counter[str]) -> str:
    more, missing = found - wanted, wanted - found
    if not more and not missing:
        return ""
    wrong, absent = (sorted(rows.elements())[:5] for rows in (more, missing))
    return f"emitted and not expected {wrong}, expected and not emitted {absent}"
