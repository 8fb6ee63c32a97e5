"""One pair of versions, run for real: plan, run, drain, snapshot, check, restore, run; compared with the oracle."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter

from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import REFUSED
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import StreamingApp
from airflow_provider_streamupdate.streaming.restore.restorer import check_restorable
from tests.spark.bench import Bench

from .build import STORES, build, store_settings
from .carry import WrongVerdictError, carry
from .generator import random_batches, random_spec
from .hand_over import Version, hand_over
from .meaning import goes_on
from .mutations import Change, mutate
from .oracle import Clock, Oracle, Row
from .outcome import (
    FAILED,
    FALSELY_REFUSED,
    NO_VERSION,
    ORACLE_WRONG,
    RIGHT,
    SILENTLY_WRONG,
    TOO_BUSY,
    Outcome,
    no_version,
)
from .spec import Deduplicate, Join, Limit, Spec, title

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = list[dict[str, list[Row]]]
Planned = tuple[AppPlan, Mapping[str, DataStreamWriter]]


def run_pair(spark: SparkSession, seed: int, folder: Path, handed_over: bool = False) -> Outcome:
    """The pair of a seed, in `folder`."""
    rng = Random(seed)
    old = random_spec(rng)
    change = mutate(old, rng)
    batches, cut = random_batches(
        rng, tuple(dict.fromkeys((*old.sources, *change.spec.sources))), single=_by_order(old) or _by_order(change.spec)
    )
    outcome = Outcome(
        seed=seed,
        old=old,
        new=change.spec,
        mutations=change.names,
        renames=change.renames,
        operators=tuple(sorted({title(s) for spec in (old, change.spec) for s in spec.stages})),
        store=old.store,
        handed_over=handed_over,
    )
    if _undetermined(old) or _undetermined(change.spec):
        return attrs.evolve(outcome, kind=NO_VERSION, details="it keeps the first of rows that come in any order")
    return _run(_Pair(spark, folder, old, change, batches, cut), outcome)


def _by_order(spec: Spec) -> bool:
    """Whether the answer depends on the order of rows after a shuffle, which is not known: a batch has one row then. A
    stage that keeps the first of several rows is fine as the first one, whose input is one file."""
    stages = spec.stages
    return any(isinstance(s, (Deduplicate, Limit)) for s in stages[1:]) or any(isinstance(s, Limit) for s in stages)


def _undetermined(spec: Spec) -> bool:
    """Whether it keeps the first of several rows that leave an outer join's state together, in its store's order."""
    outer = [i for i, s in enumerate(spec.stages) if isinstance(s, Join) and s.kind.endswith("outer")]
    return any(isinstance(s, (Deduplicate, Limit)) for i in outer for s in spec.stages[i + 1 :])


@attrs.frozen
class _Pair:
    spark: SparkSession
    folder: Path
    old: Spec
    change: Change
    batches: Batches
    cut: int

    def bench(self, spec: Spec) -> Bench:
        bench = Bench(self.spark, self.folder, *STORES[spec.store])
        self.use(spec)
        return bench

    def use(self, spec: Spec) -> None:
        """The session as the version's own driver would have it."""
        for key, value in self.settings(spec).items():
            self.spark.conf.set(key, value)

    def settings(self, spec: Spec) -> dict[str, str]:
        return {
            "spark.sql.session.timeZone": spec.zone,
            "spark.sql.streaming.join.stateFormatVersion": str(spec.join_format),
            "spark.sql.streaming.stateStore.checkpointFormatVersion": str(spec.checkpoint_format),
            "spark.sql.shuffle.partitions": str(spec.partitions),
            **store_settings(spec.store),
        }


def _run(pair: _Pair, outcome: Outcome) -> Outcome:
    old, change = pair.old, pair.change
    oracle = Oracle(old)
    bench = pair.bench(old)
    _write(bench, pair.batches[: pair.cut], old)
    try:
        snapshot = bench.run(build(old), old.mode)
    except Exception as error:  # some are planned and cannot run
        return no_version(outcome, error)
    expected = oracle.read(pair.batches[: pair.cut])
    if difference := _difference(bench, expected):
        return attrs.evolve(outcome, kind=ORACLE_WRONG, details=difference)
    pair.use(change.spec)
    try:
        planned = bench.plan(build(change.spec), change.spec.mode, snapshot)
        report = _report(bench, snapshot, change, *planned)
    except Exception as error:
        return no_version(outcome, error)
    outcome = attrs.evolve(outcome, verdicts=tuple(i.verdict for i in report.items))
    if not report.compatible:
        reasons = "; ".join(report.problems)
        if TOO_BUSY in reasons:
            return attrs.evolve(outcome, kind=NO_VERSION, details=reasons)
        harmless = goes_on(old.renamed(change.renames), change.spec)
        if harmless and not _runs_alone(pair):
            return attrs.evolve(outcome, kind=NO_VERSION, details=reasons)
        return attrs.evolve(outcome, kind=FALSELY_REFUSED if harmless else RIGHT, details=reasons)
    return _continue(pair, bench, snapshot, planned, report, oracle, outcome)


def _continue(
    pair: _Pair,
    bench: Bench,
    snapshot: str,
    planned: Planned,
    report: CompatibilityReport,
    before: Oracle,
    outcome: Outcome,
) -> Outcome:
    new, renames = pair.change.spec, pair.change.renames
    agreed = tuple(i.name for i in report.items if i.needs_agreement)
    verdicts = {i.name.split("/")[1]: i.verdict for i in report.items if i.thing == "stage"}
    states = {renames.get(name, name): copy.deepcopy(state) for name, state in before.states.items()}
    bench.emitted.clear()
    try:
        _go_on(pair, bench, snapshot, planned, agreed, outcome.handed_over)
    except Exception as error:
        kind = NO_VERSION if TOO_BUSY in str(error) or not _runs_alone(pair) else FAILED
        return attrs.evolve(outcome, kind=kind, details=traceback.format_exc()[-1500:])
    try:
        carried = carry(pair.old.renamed(renames), states, new, verdicts, before.clock)
    except WrongVerdictError as error:
        return attrs.evolve(outcome, kind=SILENTLY_WRONG, details=str(error))
    oracle = Oracle(new, carried, Clock(before.clock.late, before.clock.now))
    difference = _difference(bench, oracle.read(pair.batches[pair.cut :]))
    return attrs.evolve(outcome, kind=SILENTLY_WRONG, details=difference) if difference else outcome


def _go_on(
    pair: _Pair, bench: Bench, snapshot: str, planned: Planned, agreed: tuple[str, ...], handed_over: bool
) -> None:
    old, new, renames = pair.old, pair.change.spec, pair.change.renames

    def more() -> None:
        _write(bench, pair.batches[pair.cut :], new)

    if not handed_over:
        more()
        bench.run(build(new), new.mode, snapshot=snapshot, agree=agreed, renames=renames, planned=planned)
        return
    first, second = (Version(app=partial(_app, v), settings=pair.settings(v)) for v in (old, new))
    hand_over(bench, first, second, snapshot, more, agreed, renames)


def _app(version: Spec, bench: Bench) -> StreamingApp:
    return bench.app(build(version), version.mode)


def _runs_alone(pair: _Pair) -> bool:
    """Whether Spark can run the second version at all: on its own, from the start."""
    bench = Bench(pair.spark, pair.folder / "alone", *STORES[pair.change.spec.store])
    bench.folder.mkdir()
    _write(bench, pair.batches, pair.change.spec)
    try:
        bench.run(build(pair.change.spec), pair.change.spec.mode)
    except StreamingQueryException:
        return False
    return True


def _report(
    bench: Bench, snapshot: str, change: Change, plan: AppPlan, writers: Mapping[str, DataStreamWriter]
) -> CompatibilityReport:
    """The rules' verdicts with every loss agreed to, and Spark's own check of the restored checkpoint."""
    saved = bench.saved(snapshot).renamed(change.renames)
    report = saved.compare(plan, ())
    report = saved.compare(plan, [i.name for i in report.items if i.needs_agreement])
    if any(i.verdict == REFUSED for i in report.items):
        return report
    scratch = bench.folder / "scratch"
    scratch.mkdir()
    return check_restorable(saved, report, plan, writers, scratch)


def _write(bench: Bench, batches: Batches, reader: Spec) -> None:
    """A file a batch for each of the reader's sources."""
    for batch in batches:
        for source in reader.sources:
            bench.write(map(_stamped, batch[source]), source)


def _stamped(row: Row) -> Row:
    minute = row["ts"]
    return {**row, "ts": f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"}


_EPOCH = 29_453_760  # minutes of 2026-01-01T00:00:00Z


def _difference(bench: Bench, expected: list[list[Row]]) -> str:
    """Where the batches that emitted something are not those of the oracle; empty when they are."""
    batches = [bench.emitted[b] for b in sorted(bench.emitted)]
    found = [[_unstamped(r) for r in rows] for rows in batches if rows]
    for number, (made, wanted) in enumerate(zip(found, expected, strict=False)):
        if _sorted(made) != _sorted(wanted):
            return f"batch {number}: emitted {_sorted(made)}, expected {_sorted(wanted)}"
    if len(found) != len(expected):
        return f"{len(found)} batches emitted {found}, expected {len(expected)}: {expected}"
    return ""


def _unstamped(row: Row) -> Row:
    return {c: v - _EPOCH if c in ("ts", "w") and v is not None else v for c, v in row.items()}


def _sorted(rows: list[Row]) -> list[str]:
    return sorted(str(sorted(r.items())) for r in rows)
