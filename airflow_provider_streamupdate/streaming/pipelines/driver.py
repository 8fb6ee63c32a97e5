"""The command line of a pipeline's driver: ``check``, ``adopt`` and ``run``."""

from __future__ import annotations

import argparse
import contextlib
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from ...core import clock
from ...core.checkpoint.checkpoint import Checkpoint
from ...core.compatibility.report import CompatibilityReport, ReportItem
from ...core.coordination import lease
from ...core.coordination.lease import Lease
from ...core.coordination.renewing import renewing
from ...core.errors import NotFoundError, RefusedError
from ...core.pipelines import steps
from ...core.pipelines.record import (
    FlowRecord,
    PipelineAnswer,
    PipelineRecord,
    logged_batch,
    newest_version,
    read,
    still_as,
    version_folder,
    write,
)
from ...core.processes.process_identity import ProcessIdentity
from ...core.serde import to_json
from ...core.snapshots.plan_answer import PlanError
from ...core.storage import Folder
from ..parameters import parse_settings
from .adopting import adopted
from .carrying import carried
from .judging import judge
from .pipeline import Pipeline

CHECK, ADOPT, RUN = "check", "adopt", "run"


def main(argv: Sequence[str] | None = None) -> int:
    """Do it and write a `PipelineAnswer` to --out; 0, or 1 when it failed or was refused."""
    options = _parser().parse_args(argv)
    work = {CHECK: _check, ADOPT: _adopt, RUN: _run}[options.mode]
    try:
        with Pipeline.opened(Path(options.spec).absolute()) as pipeline:
            answer = work(pipeline, options)
    except Exception as error:
        answer = PipelineAnswer(error=PlanError.of(error))
        traceback.print_exc()
    Path(options.out).write_bytes(to_json(answer))
    refused = answer.report is not None and not answer.report.compatible
    return 1 if answer.error or refused else 0


def _check(pipeline: Pipeline, options: argparse.Namespace) -> PipelineAnswer:
    """Nothing is written. A run that is under way, or that died, is taken for what it has logged."""
    storage = pipeline.storage
    record = read(storage)
    record = steps.foreseen(storage, record) if record else None
    judged = judge(pipeline, storage, record, options.agree, parse_settings(options.rename))
    return PipelineAnswer(record=record, report=judged.report, new=judged.new)


def _adopt(pipeline: Pipeline, options: argparse.Namespace) -> PipelineAnswer:
    """Record that this is the code of the checkpoints that are there."""
    storage = pipeline.storage
    with _holding(storage, ADOPT):
        record = read(storage)
        record = steps.settle(storage, record) if record else None
        flows: dict[str, FlowRecord] = {}
        items: list[ReportItem] = []
        for name, flow in pipeline.flows.items():
            found = adopted(pipeline, storage, flow, record.flows.get(name) if record else None)
            if found is not None:
                flows[name] = found[0]
                items += found[1]
        if not flows:
            raise NotFoundError(
                f"no flow of {pipeline.name} has a checkpoint in {storage.path()}, so there is nothing to adopt; run "
                "the pipeline"
            )
        report = CompatibilityReport(app=pipeline.name, source=f"the checkpoints in {storage.path()}", items=(*items,))
        if not report.compatible:
            return PipelineAnswer(report=report)
        record = _record(pipeline, flows)
        write(storage, record)
        return PipelineAnswer(record=record, report=report)


def _run(pipeline: Pipeline, options: argparse.Namespace) -> PipelineAnswer:
    storage = pipeline.storage
    with _holding(storage, RUN), open(options.told, "ab", buffering=0) as lines:

        def tell(line: str) -> None:
            with contextlib.suppress(OSError):  # a full disk, say: a run does not end for what is told of it
                lines.write(f"{line}\n".encode())

        record = read(storage)
        record = steps.settle(storage, record) if record else None
        judged = judge(pipeline, storage, record, options.agree, parse_settings(options.rename))
        answer = PipelineAnswer(record=record, report=judged.report, new=judged.new)
        if not judged.report.compatible:
            return answer
        flows = carried(pipeline, storage, record, judged)
        _check_still(storage, record)
        record = steps.carry(storage, record or _record(pipeline, {}), flows)
        answer = attrs.evolve(answer, carried=tuple(sorted(record.before.keys() & record.flows.keys())))
        for name in answer.carried:
            told = record.flows[name]
            did = f"its state goes on after batch {told.batch}," if told.batch >= 0 else "it begins anew"
            tell(f"flow {name}: {did} as version {told.version}")
        record = steps.begin(storage, record, _beginning(pipeline, judged.new))
        try:
            pipeline.run(tell)
        except Exception as error:
            traceback.print_exc()
            answer = attrs.evolve(answer, error=PlanError.of(error))
            if steps.unused(storage, record):
                record = steps.go_back(storage, record)
                answer = attrs.evolve(answer, went_back=bool(answer.carried))
        if not answer.went_back:
            record = attrs.evolve(record, spark_version=pipeline.version)
        record, problem = _noted(pipeline, storage, record)
        return attrs.evolve(answer, record=record, error=answer.error or problem)


def _check_still(storage: Folder, record: PipelineRecord | None) -> None:
    """RefusedError when another process has run flows since their state was read."""
    for name, flow in (record.flows if record else {}).items():
        if not still_as(storage, flow):
            raise RefusedError(
                f"flow {name} has run meanwhile, outside of `streamupdate pipeline run`; nothing was changed. Let "
                "nothing else run the pipeline, tell which code that was (streamupdate pipeline adopt), and run the "
                "command again"
            )


def _beginning(pipeline: Pipeline, new: Iterable[str]) -> dict[str, FlowRecord]:
    """Flows that begin with this run, whose code is known before it: it stays known if this process dies."""
    found = {}
    for name in new:
        flow = pipeline.flows[name]
        if flow.unknown or pipeline.changed_inputs(flow):
            continue
        with contextlib.suppress(Exception):  # a table that it reads is made in the run: `_noted` looks again
            found[name] = FlowRecord(plan=pipeline.plan(flow), folder=flow.folder)
    return found


def _noted(pipeline: Pipeline, storage: Folder, record: PipelineRecord) -> tuple[PipelineRecord, PlanError | None]:
    """Note how far the flows are, and the code of those that began with this run; and why one has no code that is
    known: the others have."""
    begun, problem = {}, None
    for name, flow in pipeline.flows.items():
        logged = logged_batch(storage, flow.folder, newest_version(storage, flow.folder))
        known = record.flows.get(name)
        if (known and known.version >= 0) or flow.unknown or logged < 0:
            continue
        try:
            begun[name] = FlowRecord(plan=pipeline.plan(flow, _recorded(storage, flow.folder)), folder=flow.folder)
        except Exception as error:
            traceback.print_exc()
            problem = problem or PlanError.of(error)
    flows = {**record.flows, **begun}
    return steps.noted(storage, attrs.evolve(record, flows=flows)), problem


def _recorded(storage: Folder, folder: str) -> dict[str, str] | None:
    """The configuration in the offset log of a flow's newest checkpoint; None before its first commit."""
    checkpoint = Checkpoint(storage.sub(version_folder(folder, newest_version(storage, folder))))
    batch = checkpoint.committed_batch()
    return None if batch is None else checkpoint.offsets(batch).conf


def _record(pipeline: Pipeline, flows: dict[str, FlowRecord]) -> PipelineRecord:
    return PipelineRecord(pipeline=pipeline.name, spark_version=pipeline.version, flows=flows, changed_at=clock.now())


@contextlib.contextmanager
def _holding(storage: Folder, work: str) -> Iterator[None]:
    """Nobody else works on the pipeline's storage inside the block. LeaseHeldError when somebody does."""
    folder = storage.sub("_streamupdate")

    def alive(other: Lease) -> bool:
        lives = other.holder.lives() if other.holder else False
        return lease.held(folder, other) if lives is None else lives

    def needed(other: Lease) -> bool:
        return False  # whoever comes next completes what was begun

    held = lease.acquire(folder, "pipeline", ProcessIdentity.own(), alive, needed, work=f"streamupdate pipeline {work}")
    try:
        with renewing(folder, held):
            yield
    finally:
        with contextlib.suppress(Exception):
            lease.release(folder, held)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Started by `streamupdate pipeline` through spark-submit.")
    parser.add_argument("mode", choices=(CHECK, ADOPT, RUN))
    parser.add_argument("--spec", required=True)
    parser.add_argument("--out", required=True, help="file to write the answer (JSON) to")
    parser.add_argument("--told", required=True, help="file to append the lines to that say how a run goes on")
    parser.add_argument("--agree", action="append", default=[], metavar="NAME")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    return parser
