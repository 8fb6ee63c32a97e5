"""What `app.main()` does in its two modes."""

from __future__ import annotations

import argparse
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.compatibility.compatibility import compare
from ...core.compatibility.plan_file import PlanFile
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.self_update import check_updatable
from ...core.plan.plan import AppPlan
from ...core.plan.rename import rename
from ...core.registry import scratch
from ...core.registry.deployment import FAILED
from ...core.registry.registry import AppRegistry, Registry
from ...core.serde import to_json
from ...core.snapshots.adoption import assign, find_checkpoint
from ...core.snapshots.fresh_start import NOTHING
from ...core.snapshots.plan_answer import PlanAnswer, PlanError
from ...core.snapshots.rehearsal import Rehearsal, check_harmless
from ...core.snapshots.snapshots import SnapshotStore
from ...core.storage import options as storage_options
from ..engine.spark_engine import SparkEngine
from ..parameters import parse_settings
from ..planning.planner import App, plan_app
from ..restore.adoption import check_adoptable
from ..restore.fresh_start import judge_start
from ..restore.rehearsal import rehearse, saved_rows
from ..restore.restorer import check_restorable
from ..restore.saved_state import SavedState
from .lifecycle import Agent
from .roles import role_of

PLANNING = "STREAMUPDATE_PLANNING"  # in the environment of a driver that only plans, for scripts that ask


def run(app: App, options: argparse.Namespace) -> int:
    """Run a deployment until it ends and return the exit code. The agent leaves a final state in every case."""
    registry = Registry(options.root, storage_options.from_environment()).existing(options.app)
    engine = SparkEngine(app, registry, options.deployment)
    role = role_of(options.role, options.follow, options.compare_with)
    agent = Agent(registry, options.deployment, options.epoch, engine, role)
    try:
        return agent.run()
    finally:
        app.finish(failed=agent.driver.reporter.state == FAILED)


def plan(app: App, options: argparse.Namespace) -> int:
    """Write a `PlanAnswer` to --out. With --against, compare; against saved
    state, restore into a scratch folder as well, and let Spark check the result; with --rehearse, run batches from it.
    Nothing of the running app is touched. The exit code is 0 unless something raised."""
    os.environ[PLANNING] = "1"
    try:
        made, report, rehearsal = _plan(app, options)
        unread = tuple(app.unread(parse_settings(options.set)))
        own = app.checkpoints() if options.adopt_own else {}
        answer = PlanAnswer(plan=made, report=report, rehearsal=rehearsal, warnings=unread, checkpoints=own)
    except Exception as error:
        answer = PlanAnswer(error=PlanError.of(error))
        traceback.print_exc()
    Path(options.out).write_bytes(to_json(answer))
    return 1 if answer.error else 0


def _plan(app: App, options: argparse.Namespace) -> tuple[AppPlan, CompatibilityReport | None, Rehearsal | None]:
    spark = SparkSession.builder.appName(f"{app.name} plan").getOrCreate()
    writers = app.build(spark, parse_settings(options.set))

    def planned(recorded: dict[str, dict[str, str]] | None = None) -> AppPlan:
        return plan_app(spark, app.declarations(), writers, recorded)

    if options.adopt or options.adopt_own:
        return *_adoptable(parse_settings(options.adopt) or app.checkpoints(), planned, writers), None
    if options.against == NOTHING:
        made = planned()
        writers = app.build(spark, parse_settings(options.set))
        check_updatable(made, options.agree, again=planned())
        registry = Registry(options.root, storage_options.from_environment()).app(app.name)
        return made, judge_start(registry, made, options.agree), None
    if not options.against:
        return planned(), None, None
    kind, _, path = options.against.partition(":")
    renames = parse_settings(options.rename)
    if kind == "plan":
        file = PlanFile.read(path)
        made = planned(file.recorded)
        return made, compare(rename(file.plan, renames), made, file.source, options.agree, renames), None
    registry = Registry(options.root, storage_options.from_environment()).with_snapshots(options.from_app or app.name)
    if options.rehearse:
        return _rehearsed(app, options, registry, planned, writers, renames)
    saved = SavedState.find(registry, options.against).renamed(renames)
    saved = saved.forked(registry) if options.fork else saved
    made = planned(saved.recorded())
    report = saved.compare(made, options.agree)
    if report.compatible:
        with tempfile.TemporaryDirectory(prefix="streamupdate-check-") as restored:
            report = check_restorable(saved, report, made, writers, Path(restored))
    return made, report, None


def _rehearsed(
    app: App,
    options: argparse.Namespace,
    registry: AppRegistry,
    planned: Callable[[dict[str, dict[str, str]]], AppPlan],
    writers: Mapping[str, DataStreamWriter],
    renames: Mapping[str, str],
) -> tuple[AppPlan, CompatibilityReport, Rehearsal | None]:
    """Return the plan, its report with what cannot be rehearsed, and the rehearsal when nothing blocks it."""
    name = options.against.partition(":")[2] or SnapshotStore(registry).newest().name
    snapshot = SnapshotStore(registry).get(name)
    saved = SavedState.find(registry, f"snapshot:{name}").renamed(renames)
    saved = saved.forked(registry) if options.fork else saved
    made = planned(saved.recorded())
    report = saved.compare(made, options.agree)
    report = attrs.evolve(report, items=(*report.items, *check_harmless(made)))
    if not report.compatible:
        return made, report, None
    folder = scratch.take(registry, options.scratch)
    try:
        with tempfile.TemporaryDirectory(prefix="streamupdate-check-") as restored:
            report = check_restorable(saved, report, made, writers, Path(restored))
        if not report.compatible:
            return made, report, None
        queries = rehearse(saved, made, writers, app.migrations, options.rehearse, folder)
    finally:
        scratch.remove(registry, options.scratch)
    rows = saved_rows(snapshot, saved.continued_by(made))
    return made, report, Rehearsal(snapshot=name, deployment=snapshot.deployment, queries=queries, state_rows=rows)


def _adoptable(
    given: Mapping[str, str],
    planned: Callable[[dict[str, dict[str, str]]], AppPlan],
    writers: Mapping[str, DataStreamWriter],
) -> tuple[AppPlan, CompatibilityReport]:
    """Return the plan under the configuration that the checkpoints recorded, and the report whether they belong to this
    plan."""
    options = storage_options.from_environment()
    folders = {query: find_checkpoint(uri, options) for query, uri in assign(tuple(writers), given).items()}
    recorded = {}
    for query, folder in folders.items():
        checkpoint = Checkpoint(folder)
        batch = checkpoint.committed_batch()
        assert batch is not None  # find_checkpoint looked
        recorded[query] = checkpoint.offsets(batch).conf
    made = planned(recorded)
    with tempfile.TemporaryDirectory(prefix="streamupdate-adopt-") as restored:
        return made, check_adoptable(made, writers, folders, Path(restored))
