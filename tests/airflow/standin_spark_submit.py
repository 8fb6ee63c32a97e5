"""A stand-in for spark-submit, so that the Airflow side can be run through without Spark.

It takes the command line SparkSubmitHook builds. In run mode the driver's real lifecycle runs, over an engine without
Spark (fake_engine.py, which says what an "application" is here). In plan mode it answers with a plan and a report.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from functools import cache
from pathlib import Path
from traceback import format_exc
from typing import Any

from fake_engine import QUERY, FakeEngine, plan_of

from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, REFUSED, ReportItem
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.errors import NotFoundError
from airflow_provider_streamupdate.core.formats import format_of
from airflow_provider_streamupdate.core.plan.rename import rename
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_dict
from airflow_provider_streamupdate.core.snapshots.fresh_start import NOTHING, compare_fresh, plans_before
from airflow_provider_streamupdate.core.snapshots.plan_answer import PlanAnswer, PlanError
from airflow_provider_streamupdate.core.snapshots.rehearsal import Rehearsal, RehearsedQuery
from airflow_provider_streamupdate.core.snapshots.repeated_batches import other_losses
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.streaming.agent.context import Pace
from airflow_provider_streamupdate.streaming.agent.lifecycle import Agent
from airflow_provider_streamupdate.streaming.agent.roles import role_of

PACE = Pace(commands=0.05, standby=0.05, heartbeat=0.1)  # a test waits for what a driver does next
PACES = {"busy": Pace(), "idle": Pace(idle_after=0.0)}  # a real driver's; for those who count its requests


def in_spark() -> Exception:
    """An error as Spark's JVM tells it: it quotes the traceback of a Python worker."""
    try:
        raise KeyError("vat")
    except KeyError:
        return RuntimeError(f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker:\n{format_exc()}")


def plan(options: argparse.Namespace, application: dict[str, Any]) -> int:
    answer: dict[str, Any] = {"plan": None, "report": None, "error": None}
    answer["warnings"] = application.get("WARNINGS", [])
    if application.get("FAIL") == "plan":
        answer["error"] = {"type": "ApplicationError", "message": "query events raised ValueError: no such column"}
    elif application.get("FAIL") == "in Spark":
        answer["error"] = to_dict(PlanError.of(in_spark()))
    elif (problem := missing(options, application)) is not None:
        answer["error"] = {"type": type(problem).__name__, "message": str(problem)}
    else:
        made = plan_of(application)
        answer["plan"] = to_dict(made)
        if options.adopt:
            verdict = CARRIED if application.get("FAIL") != "adopt" else REFUSED
            item = ReportItem(thing="stage", name=f"{QUERY}/rooms", verdict=verdict, reason="as the application says")
            source = f"checkpoint {options.adopt[0].partition('=')[2]}"
            answer["report"] = to_dict(CompatibilityReport(app=made.app, source=source, items=(item,)))
        kind, _, name = (options.against or "").partition(":")
        if kind == NOTHING:
            before = plans_before(Registry(options.root).app(made.app))
            report = compare_fresh(before, made, {}, options.agree)
            answer["report"] = to_dict(report)
        elif kind:
            registry = Registry(options.root).with_snapshots(options.from_app or made.app) if kind != "plan" else None
            if registry is None:
                file = PlanFile.read(name)
                old, source = file.plan, file.source
            elif kind == "snapshot":
                store = SnapshotStore(registry)
                snapshot = store.get(name) if name else store.newest()
                old, source = snapshot.plan, f"snapshot {snapshot.name}"
            else:
                current = registry.current()
                saved = registry.plan(current.deployment) if current else None
                assert current and saved
                old, source = saved, f"deployment {current.deployment}"
            renames = dict(pair.split("=", 1) for pair in options.rename)
            old, beside = rename(old, renames), () if options.fork else None
            report = compare(old, made, source, other_losses(options.agree), renames, beside)
            answer["report"] = to_dict(report)
            if options.rehearse and report.compatible:
                assert registry is not None
                folder = scratch.take(registry, options.scratch)
                assert folder.exists("used-by.json")
                answer["rehearsal"] = to_dict(rehearsal(options, application, snapshot))
    form = format_of(PlanAnswer)
    assert form is not None
    Path(options.out).write_text(json.dumps(form.stamped(answer)))
    return 1 if answer["error"] else 0


def missing(options: argparse.Namespace, application: dict[str, Any]) -> NotFoundError | None:
    """What is wrong when the saved state is of an app that is not there, or its newest snapshot is asked for and it has
    none."""
    kind, _, name = (options.against or "").partition(":")
    if kind not in ("current", "snapshot"):
        return None
    try:
        registry = Registry(options.root).with_snapshots(options.from_app or application["APP"])
        if kind == "snapshot" and not name:
            SnapshotStore(registry).newest()
    except NotFoundError as error:
        return error
    return None


def rehearsal(options: argparse.Namespace, application: dict[str, Any], snapshot: Snapshot) -> Rehearsal:
    """Two rows a batch; of version v2 one of them comes out. The scratch folder is left, as by a killed driver."""
    saved = snapshot.queries[QUERY]
    batches = tuple(
        BatchFigures(
            batch=saved.batch + 1 + n,
            seconds=0.5,
            rows_in=2,
            rows_out=1 if application["VERSION"] == "v2" else 2,
            state_rows={s.name: 10 + n for s in plan_of(application).queries[0].stages},
        )
        for n in range(options.rehearse)
    )
    error = application.get("REHEARSAL")
    query = RehearsedQuery(
        name=QUERY, batches=() if error else batches, ended="error" if error else "batches", error=error
    )
    return Rehearsal(
        snapshot=snapshot.name,
        deployment=snapshot.deployment,
        queries=(query,),
        state_rows={QUERY: dict(saved.state_rows)},
    )


def run(options: argparse.Namespace, application: dict[str, Any]) -> int:
    registry = Registry(options.root).existing(options.app)
    engine = FakeEngine(application, registry, options.deployment)
    return agent_of(options, registry, engine, PACES.get(os.environ.get("STANDIN_PACE", ""), PACE)).run()


def agent_of(options: argparse.Namespace, registry: AppRegistry, engine: FakeEngine, pace: Pace) -> Agent:
    """The lifecycle of the driver that a command line starts."""
    role = role_of(options.role, options.follow, options.compare_with)
    return Agent(registry, options.deployment, options.epoch, engine, role, pace)


def main(argv: list[str]) -> int:
    if argv == ["--version"]:
        print("version 4.3.0", file=sys.stderr)
        return 0
    file, options = parsed(argv)
    application = runpy.run_path(file)
    return plan(options, application) if options.mode == "plan" else run(options, application)


def parsed(argv: list[str]) -> tuple[str, argparse.Namespace]:
    """The application file of a command line, and its options."""
    number = next(i for i, word in enumerate(argv) if word.endswith(".py") and argv[i + 1] in ("plan", "run"))
    return argv[number], _parser().parse_args(argv[number + 1 :])


@cache
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    for option in ("--root", "--app", "--deployment", "--out", "--against"):
        parser.add_argument(option)
    parser.add_argument("--epoch", type=int)
    parser.add_argument("--role", default="run")
    parser.add_argument("--follow", type=int, default=0)
    parser.add_argument("--compare-with")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--agree", action="append", default=[])
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--from-app")
    parser.add_argument("--rehearse", type=int)
    parser.add_argument("--scratch")
    parser.add_argument("--adopt", action="append", default=[])
    parser.add_argument("--rename", action="append", default=[])
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
