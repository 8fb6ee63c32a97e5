"""A stand-in for spark-submit and the driver, so that the Airflow side can be run through without Spark.

It takes the command line SparkSubmitHook builds and behaves to the outside as the real driver does: plan mode answers
with a plan and a report, run mode writes the plan, heartbeats and a checkpoint's logs, and obeys commands. It uses the
real state library for all of it; only Spark is missing. What the real driver does is tested under tests/spark.

The "application" is a Python file of constants:

    APP = "alarm"; STAGES = {"rooms": ["room"]}   stage name -> its keys
    FAIL = None | "plan" (planning raises) | "start" (dies before running) | "run" (fails in its first batch)
         | "adopt" (the checkpoint is not this application's) | "stuck" (commits nothing) | "never" (never gets to run)
    DRAIN_SECONDS = 0.0   how long the last batch takes
    RELOADABLE = ()       the parameters that may change in flight; one with the value "bad" fails the query
    DIES = None | "before" | "after": a change in flight is recorded
    REHEARSAL = None      what a query raises in its rehearsal
    SINK = {"format": "noop"}   its sink: format and options
    STATE = False         whether its batches leave state files (of which a deployment's snapshots share one)
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.fork import compare_fork
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport, ReportItem
from airflow_provider_streamupdate.core.coordination import commands
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.errors import NotFoundError, RefusedError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan, StagePlan
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.deployment import Current, QueryStatus, Status
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest, check_parameters
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_dict, to_json
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.snapshots.fresh_start import NOTHING, compare_fresh, plans_before
from airflow_provider_streamupdate.core.snapshots.rehearsal import Rehearsal, RehearsedBatch, RehearsedQuery
from airflow_provider_streamupdate.core.snapshots.repeated_batches import other_losses
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore

QUERY = "events"


def plan_of(application: dict[str, Any]) -> AppPlan:
    stages = tuple(
        StagePlan(
            name=name,
            named=True,
            kind="aggregate",
            operator="stateStoreSave",
            operator_id=number,
            definition={"keys": keys},
        )
        for number, (name, keys) in enumerate(application.get("STAGES", {"rooms": ["room"]}).items())
    )
    query = QueryPlan(
        name=QUERY,
        output_mode="update",
        sink=SinkPlan(**application.get("SINK", {"format": "noop"})),
        sources=(SourcePlan(name="source-1", named=False, format="rate"),),
        source_order=("source-1",),
        stages=stages,
    )
    return AppPlan(
        app=application["APP"],
        spark_version="4.3.0",
        queries=(query,),
        reloadable=tuple(application.get("RELOADABLE", ())),
    )


def plan(options: argparse.Namespace, application: dict[str, Any]) -> int:
    answer: dict[str, Any] = {"plan": None, "report": None, "error": None}
    answer["warnings"] = application.get("WARNINGS", [])
    if application.get("FAIL") == "plan":
        answer["error"] = {"type": "ApplicationError", "message": "query events raised ValueError: no such column"}
    elif (problem := missing(options, application)) is not None:
        answer["error"] = {"type": type(problem).__name__, "message": str(problem)}
    else:
        made = plan_of(application)
        answer["plan"] = to_dict(made)
        if options.adopt:
            verdict = "carried" if application.get("FAIL") != "adopt" else "refused"
            item = ReportItem(thing="stage", name=f"{QUERY}/rooms", verdict=verdict, reason="as the application says")
            source = f"checkpoint {options.adopt[0].partition('=')[2]}"
            answer["report"] = to_dict(CompatibilityReport(app=made.app, source=source, items=(item,)))
        kind, _, name = (options.against or "").partition(":")
        if kind == NOTHING:
            before = plans_before(Registry(options.root).app(made.app))
            report = compare_fresh(before, made, {}, options.agree)
            answer["report"] = to_dict(report)
        elif kind:
            registry = Registry(options.root).existing(options.from_app or made.app) if kind != "plan" else None
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
            check = compare_fork if options.fork else partial(compare, renames=renames)
            report = check(old, made, source, other_losses(options.agree))
            answer["report"] = to_dict(report)
            if options.rehearse and report.compatible:
                folder = scratch.take(registry, options.scratch)
                assert folder.exists("used-by.json")
                answer["rehearsal"] = to_dict(rehearsal(options, application, snapshot))
    Path(options.out).write_text(json.dumps(answer))
    return 1 if answer["error"] else 0


def missing(options: argparse.Namespace, application: dict[str, Any]) -> NotFoundError | None:
    """What is wrong when the saved state is of an app that is not there, or its newest snapshot is asked for and it has
    none."""
    kind, _, name = (options.against or "").partition(":")
    if kind not in ("current", "snapshot"):
        return None
    try:
        registry = Registry(options.root).existing(options.from_app or application["APP"])
        if kind == "snapshot" and not name:
            SnapshotStore(registry).newest()
    except NotFoundError as error:
        return error
    return None


def rehearsal(options: argparse.Namespace, application: dict[str, Any], snapshot: Snapshot) -> Rehearsal:
    """Two rows a batch; of version v2 one of them comes out. The scratch folder is left, as by a killed driver."""
    saved = snapshot.queries[QUERY]
    batches = tuple(
        RehearsedBatch(
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
    driver = Driver(registry, options.deployment, options.epoch, application, options.standby, options.beside)
    if application.get("FAIL") == "start":
        print("the last words of a driver that dies at start", flush=True)
        return 3
    while application.get("FAIL") == "never":
        driver.report("starting")
        time.sleep(0.1)
    if options.standby and not driver.stand_by():
        return 0
    driver.serve()
    return 0


class Driver:
    """Commits a batch every 50 ms."""

    def __init__(
        self,
        app: AppRegistry,
        deployment: str,
        epoch: int,
        application: dict[str, Any],
        standby: bool = False,
        beside: bool = False,
    ) -> None:
        self.app = app
        self.beside = beside
        self.deployment = deployment
        self.application = application
        self.folder = app.deployment_folder(deployment)
        self.box = CommandBox(self.folder, epoch)
        self.checkpoint = app.checkpoint(deployment, QUERY)
        self.plan = plan_of(application)
        self.folder.write("plan.json", to_json(self.plan))
        self.epoch = epoch
        self.batch = -1 if standby else self.restored()
        self.first = self.batch + 1
        self.first_commit: str | None = None
        self.last_commit: str | None = None
        self.state = Status(
            state="starting",
            epoch=epoch,
            heartbeat_at=clock.now(),
            started_at=clock.now(),
            spark_ui="http://localhost:4040",
            host=socket.gethostname(),
            pid=os.getpid(),
            process=ProcessIdentity.own(),
        )

    def restored(self) -> int:
        """The last committed batch: the checkpoint's own (a restart), else the snapshot's."""
        own = [int(n) for n in self.checkpoint.names("commits")]
        spec = self.app.spec(self.deployment)
        source = spec.from_snapshot
        if own or source is None:
            return max(own, default=-1)
        app = self.app.sibling(spec.from_app) if spec.from_app else self.app
        snapshot = SnapshotStore(app).get(source).queries[QUERY]
        for file in snapshot.files:
            data = app.folder.read(file.object)
            assert data is not None
            self.checkpoint.write(file.path, data)
        return snapshot.batch

    def stand_by(self) -> bool:
        """Until the epoch has begun; False when told to end."""
        while (current := self.app.current()) is None or current.epoch < self.epoch:
            self.report("standby")
            for command in self.box.pending():
                self.box.answer(command.name)
                self.report("cancelled")
                return False
            time.sleep(0.05)
        parent = self.app.spec(self.deployment).parent
        assert parent
        left = self.app.checkpoint(parent, QUERY)
        for name in left.files(""):
            data = left.read(name)
            assert data is not None
            self.checkpoint.write(name, data)
        self.batch = self.restored()
        self.first = self.batch + 1
        return True

    def dropped(self) -> bool:
        """Whether the update that it runs beside the current deployment for has ended without it."""
        if not self.beside:
            return False
        update, current = self.app.update(self.deployment), self.app.current()
        waits = current is not None and current.epoch < self.epoch
        return waits and (update is None or update.outcome is not None)

    def hand_over(self, to: str) -> str | None:
        """None when `to` has committed; else this driver goes on, for the reason returned."""
        successor = Successor(self.app, to, self.epoch + 1)
        successor.check_ready()
        assert self.app.claim(Current(deployment=to, epoch=self.epoch + 1))
        while not successor.committed():
            if death := successor.death():
                self.epoch += 2
                assert self.app.claim(Current(deployment=self.deployment, epoch=self.epoch, promoted=True))
                self.box = CommandBox(self.folder, self.epoch)
                self.report("running", epoch=self.epoch)
                return f"deployment {to} took over and failed: {death}"
            time.sleep(0.05)
        return None

    def change(self, request: ChangeRequest) -> str | None:
        """Why it is not made; None when it is."""
        params = self.app.spec(self.deployment).application.params
        if params == request.params:
            return None
        try:
            check_parameters(params, request.params, self.application.get("RELOADABLE", ()))
        except RefusedError as error:
            return str(error)
        if self.application.get("DIES") == "before":
            os._exit(9)
        made = self.app.add_change(self.deployment, request)
        if self.application.get("DIES") == "after":
            os._exit(9)
        if "bad" in request.params.values():
            back = attrs.evolve(request, params=made.before, digest=made.digest_before)
            self.app.add_change(self.deployment, back, undoes="ValueError: bad")
            return "with these parameters alarm failed, and goes on with the old ones: ValueError: bad"
        return None

    def commit(self) -> None:
        if not self.checkpoint.exists("metadata"):
            self.checkpoint.write("metadata", b'{"id":"11111111-2222-3333-4444-555555555555"}')
        self.batch += 1
        if self.application.get("STATE"):
            from tests.core.builders import CheckpointFiles

            CheckpointFiles(self.checkpoint).rocksdb(0, 0, self.batch + 1, ["000001-shared.sst"])
        self.checkpoint.write(f"offsets/{self.batch}", b'v1\n{"batchWatermarkMs":0,"conf":{}}\n%d' % self.batch)
        self.checkpoint.write(f"commits/{self.batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        self.last_commit = clock.now()
        self.first_commit = self.first_commit or self.last_commit

    def report(self, state: str, **fields: Any) -> None:
        query = QueryStatus(
            batch=self.batch,
            last_commit_at=self.last_commit,
            first_batch=self.first if self.batch >= self.first else None,
            first_commit_at=self.first_commit,
            lag=0.0,
            state_rows={stage.name: 10 for stage in self.plan.queries[0].stages},
        )
        fields |= {"state": state, "heartbeat_at": clock.now(), "beat": self.state.beat + 1}
        self.state = attrs.evolve(self.state, queries={QUERY: query}, **fields)
        self.folder.write("status.json", to_json(self.state))

    def serve(self) -> None:
        fail = self.application.get("FAIL")
        while True:
            if fail not in ("stuck", "run"):
                self.commit()
            if fail == "run" and clock.age(self.state.started_at) > 1.5:
                self.report("failed", error="ValueError: a row the new version cannot read")
                return
            if self.dropped():
                self.report("cancelled", reason="dropped")
                return
            self.report("running")
            for command in self.box.pending():
                if self.obey(command):
                    return
            time.sleep(0.05)  # a batch's length

    def obey(self, command: commands.Command) -> bool:
        """True when the driver ends with it."""
        ends = command.kind in (commands.DRAIN, commands.CANCEL) or command.cancel
        if ends and command.kind != commands.CANCEL:
            self.report("draining")
            time.sleep(self.application.get("DRAIN_SECONDS", 0.0))
        box = self.box
        if command.successor and (failed := self.hand_over(command.successor)):
            box.answer(command.name, error=failed)
            return False
        if command.kind == commands.SNAPSHOT:
            assert command.snapshot
            export(self.app, self.deployment, command.snapshot, self.plan, command.cancel, self.state.queries)
        if command.change:
            box.answer(command.name, error=self.change(command.change))
            return False
        self.box.answer(command.name)
        if ends:
            self.report("cancelled", reason=command.kind)
        return ends


def main(argv: list[str]) -> int:
    if argv == ["--version"]:
        print("version 4.3.0", file=sys.stderr)
        return 0
    number = next(i for i, word in enumerate(argv) if word.endswith(".py") and argv[i + 1] in ("plan", "run"))
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    for option in ("--root", "--app", "--deployment", "--out", "--against"):
        parser.add_argument(option)
    parser.add_argument("--epoch", type=int)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--agree", action="append", default=[])
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--from-app")
    parser.add_argument("--rehearse", type=int)
    parser.add_argument("--scratch")
    parser.add_argument("--adopt", action="append", default=[])
    parser.add_argument("--rename", action="append", default=[])
    options = parser.parse_args(argv[number + 1 :])
    application = runpy.run_path(argv[number])
    return plan(options, application) if options.mode == "plan" else run(options, application)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
