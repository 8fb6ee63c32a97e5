"""What `app.main()` does in its two modes."""

from __future__ import annotations

import argparse
import json
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ..state.errors import ApplicationError, StreamUpdateError, describe
from ..state.registry import Registry
from ..state.report import CompatibilityReport
from ..state.serde import to_dict
from .agent import Agent
from .planner import plan_app
from .restorer import SavedState, check_restorable

if TYPE_CHECKING:
    from .app import StreamingApp


def run(app: StreamingApp, options: argparse.Namespace) -> int:
    """Run a deployment until it ends; the exit code. The agent leaves a final state in every case."""
    registry = Registry(options.root, json.loads(options.storage_options)).existing(options.app)
    agent = Agent(registry, options.deployment, options.epoch)
    return agent.run(app)


def plan(app: StreamingApp, options: argparse.Namespace) -> int:
    """Write ``{"plan", "report", "error"}`` to --out. With --against, restore into a scratch folder as well, and let
    Spark check the result; nothing of the running app is touched. The exit code is 0 unless something raised."""
    from .app import parse_settings

    result: dict[str, Any] = {"plan": None, "report": None, "error": None}
    try:
        spark = SparkSession.builder.appName(f"{app.name} plan").getOrCreate()
        writers = app.build(spark, parse_settings(options.set))
        made = plan_app(spark, app.name, writers, app.require_names, app.migrations)
        result["plan"] = to_dict(made)
        if options.against:
            registry = Registry(options.root, json.loads(options.storage_options)).existing(app.name)
            saved = SavedState.find(registry, options.against)
            report: CompatibilityReport = saved.compare(made, options.agree)
            if report.compatible:
                with tempfile.TemporaryDirectory(prefix="streamupdate-check-") as scratch:
                    report = check_restorable(saved, report, made, writers, Path(scratch))
            result["report"] = to_dict(report)
    except Exception as error:
        kind = type(error) if isinstance(error, StreamUpdateError) else ApplicationError
        result["error"] = {"type": kind.__name__, "message": describe(error)}
        traceback.print_exc()
    Path(options.out).write_text(json.dumps(result))
    return 1 if result["error"] else 0
