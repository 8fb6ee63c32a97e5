"""What `app.main()` does in its two modes."""

from __future__ import annotations

import argparse
import json
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ..state import storage_options
from ..state.adoption import assign, find_checkpoint
from ..state.checkpoint import Checkpoint
from ..state.compatibility import compare
from ..state.errors import ApplicationError, StreamUpdateError, describe
from ..state.plan import AppPlan
from ..state.plan_file import PlanFile
from ..state.registry import Registry
from ..state.report import CompatibilityReport
from ..state.serde import to_dict
from .adoption import check_adoptable
from .agent import Agent
from .planner import plan_app
from .restorer import SavedState, check_restorable

if TYPE_CHECKING:
    from .app import StreamingApp


def run(app: StreamingApp, options: argparse.Namespace) -> int:
    """Run a deployment until it ends; the exit code. The agent leaves a final state in every case."""
    registry = Registry(options.root, storage_options.from_environment()).existing(options.app)
    agent = Agent(registry, options.deployment, options.epoch, options.standby)
    return agent.run(app)


def plan(app: StreamingApp, options: argparse.Namespace) -> int:
    """Write ``{"plan", "report", "error"}`` to --out. With --against, compare; against saved state, restore into a
    scratch folder as well, and let Spark check the result. Nothing of the running app is touched. The exit code is 0
    unless something raised."""
    result: dict[str, Any] = {"plan": None, "report": None, "error": None}
    try:
        made, report = _plan(app, options)
        result["plan"] = to_dict(made)
        result["report"] = to_dict(report) if report else None
    except Exception as error:
        kind = type(error) if isinstance(error, StreamUpdateError) else ApplicationError
        result["error"] = {"type": kind.__name__, "message": describe(error)}
        traceback.print_exc()
    Path(options.out).write_text(json.dumps(result))
    return 1 if result["error"] else 0


def _plan(app: StreamingApp, options: argparse.Namespace) -> tuple[AppPlan, CompatibilityReport | None]:
    from .app import parse_settings

    spark = SparkSession.builder.appName(f"{app.name} plan").getOrCreate()
    writers = app.build(spark, parse_settings(options.set))

    def planned(recorded: dict[str, dict[str, str]] | None = None) -> AppPlan:
        return plan_app(spark, app.name, writers, app.require_names, recorded, app.migrations)

    if options.adopt:
        return _adoptable(parse_settings(options.adopt), planned, writers)
    if not options.against:
        return planned(), None
    kind, _, path = options.against.partition(":")
    renames = parse_settings(options.rename)
    if kind == "plan":
        file = PlanFile.read(path)
        made = planned(file.recorded)
        return made, compare(file.plan, made, file.source, options.agree, renames)
    registry = Registry(options.root, storage_options.from_environment()).existing(options.from_app or app.name)
    saved = SavedState.find(registry, options.against).under(renames)
    saved = saved.forked(registry) if options.fork else saved
    made = planned(saved.recorded())
    report = saved.compare(made, options.agree)
    if report.compatible:
        with tempfile.TemporaryDirectory(prefix="streamupdate-check-") as scratch:
            report = check_restorable(saved, report, made, writers, Path(scratch))
    return made, report


def _adoptable(
    given: Mapping[str, str],
    planned: Callable[[dict[str, dict[str, str]]], AppPlan],
    writers: Mapping[str, DataStreamWriter],
) -> tuple[AppPlan, CompatibilityReport]:
    """The plan under the configuration the checkpoints recorded, and whether they are this plan's."""
    options = storage_options.from_environment()
    folders = {query: find_checkpoint(uri, options) for query, uri in assign(tuple(writers), given).items()}
    recorded = {}
    for query, folder in folders.items():
        checkpoint = Checkpoint(folder)
        batch = checkpoint.committed_batch()
        assert batch is not None  # find_checkpoint looked
        recorded[query] = checkpoint.offsets(batch).conf
    made = planned(recorded)
    with tempfile.TemporaryDirectory(prefix="streamupdate-adopt-") as scratch:
        return made, check_adoptable(made, writers, folders, Path(scratch))
