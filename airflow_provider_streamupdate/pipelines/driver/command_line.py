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
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.verdict import ReportItem
from ...core.coordination import lease
from ...core.coordination.lease import Lease, renewing
from ...core.errors import NotFoundError, RefusedError
from ...core.processes.process_identity import ProcessIdentity
from ...core.serde import to_json
from ...core.snapshots.plan_answer import PlanError
from ...core.storage import Folder
from ...streaming.parameters import parse_settings
from .. import steps
from ..record import (
    FlowRecord,
    PipelineAnswer,
    PipelineRecord,
    is_unchanged,
    logged_batch,
    newest_version,
    read,
    version_folder,
    write,
)
from .adoption import adopt_flow
from .pipeline import Pipeline
from .transfer import transfer_state
from .verdict import compare_flows

CHECK, ADOPT, RUN = "check", "adopt", "run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and write a `PipelineAnswer` to --out. Return 0, or 1 when it failed or was refused."""
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
    """Compare without writing anything. A run under way, or one that died, counts with what it has logged."""
    storage = pipeline.storage
    record = read(storage)
    record = steps.expected_record(storage, record) if record else None
    verdicts = compare_flows(pipeline, storage, record, options.agree, parse_settings(options.rename))
    return PipelineAnswer(record=record, report=verdicts.report, new=verdicts.new)


def _adopt(pipeline: Pipeline, options: argparse.Namespace) -> PipelineAnswer:
    """Record that this is the code of the checkpoints that are there."""
    storage = pipeline.storage
    with _holding(storage, ADOPT):
        record = read(storage)
        record = steps.complete_interrupted(storage, record) if record else None
        flows: dict[str, FlowRecord] = {}
        items: list[ReportItem] = []
        for name, flow in pipeline.flows.items():
            found = adopt_flow(pipeline, storage, flow, record.flows.get(name) if record else None)
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
    with _holding(storage, RUN), open(options.progress, "ab", buffering=0) as lines:

        def write_line(line: str) -> None:
            with contextlib.suppress(OSError):  # a full disk, say: it must not end the run
                lines.write(f"{line}\n".encode())

        record = read(storage)
        record = steps.complete_interrupted(storage, record) if record else None
        verdicts = compare_flows(pipeline, storage, record, options.agree, parse_settings(options.rename))
        answer = PipelineAnswer(record=record, report=verdicts.report, new=verdicts.new)
        if not verdicts.report.compatible:
            return answer
        flows = transfer_state(pipeline, storage, record, verdicts)
        _check_unchanged(storage, record)
        record = steps.carry(storage, record or _record(pipeline, {}), flows)
        answer = attrs.evolve(answer, carried=tuple(sorted(record.before.keys() & record.flows.keys())))
        for name in answer.carried:
            flow = record.flows[name]
            did = f"its state goes on after batch {flow.batch}," if flow.batch >= 0 else "it begins anew"
            write_line(f"flow {name}: {did} as version {flow.version}")
        record = steps.begin(storage, record, _new_flows(pipeline, verdicts.new))
        try:
            pipeline.run(write_line)
        except Exception as error:
            traceback.print_exc()
            answer = attrs.evolve(answer, error=PlanError.of(error))
            if steps.can_go_back(storage, record):
                record = steps.go_back(storage, record)
                answer = attrs.evolve(answer, went_back=bool(answer.carried))
        if not answer.went_back:
            record = attrs.evolve(record, spark_version=pipeline.version)
        record, problem = _finish_record(pipeline, storage, record)
        return attrs.evolve(answer, record=record, error=answer.error or problem)


def _check_unchanged(storage: Folder, record: PipelineRecord | None) -> None:
    """RefusedError when another process has run flows since their state was read."""
    for name, flow in (record.flows if record else {}).items():
        if not is_unchanged(storage, flow):
            raise RefusedError(
                f"flow {name} has run meanwhile, outside of `streamupdate pipeline run`; nothing was changed. Let "
                "nothing else run the pipeline, tell which code that was (streamupdate pipeline adopt), and run the "
                "command again"
            )


def _new_flows(pipeline: Pipeline, new: Iterable[str]) -> dict[str, FlowRecord]:
    """Return the flows that begin with this run. Their code is recorded before it, in case this process dies."""
    found = {}
    for name in new:
        flow = pipeline.flows[name]
        if flow.unknown or pipeline.changed_inputs(flow):
            continue
        with contextlib.suppress(Exception):  # a table that it reads is made in the run: `_finish_record` looks again
            found[name] = FlowRecord(plan=pipeline.plan(flow), folder=flow.folder)
    return found


def _finish_record(
    pipeline: Pipeline, storage: Folder, record: PipelineRecord
) -> tuple[PipelineRecord, PlanError | None]:
    """Record the latest batches, and the code of the flows that began with this run. The error says why a flow's code
    could not be recorded."""
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
    return steps.write_idle(storage, attrs.evolve(record, flows=flows)), problem


def _recorded(storage: Folder, folder: str) -> dict[str, str] | None:
    """The configuration in the offset log of a flow's newest checkpoint; None before its first commit."""
    checkpoint = Checkpoint(storage.sub(version_folder(folder, newest_version(storage, folder))))
    batch = checkpoint.committed_batch()
    return None if batch is None else checkpoint.offsets(batch).conf


def _record(pipeline: Pipeline, flows: dict[str, FlowRecord]) -> PipelineRecord:
    return PipelineRecord(pipeline=pipeline.name, spark_version=pipeline.version, flows=flows, changed_at=clock.now())


@contextlib.contextmanager
def _holding(storage: Folder, work: str) -> Iterator[None]:
    """Hold the lease of the pipeline's storage for a block. LeaseHeldError when somebody else has it."""
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
    parser.add_argument("--progress", required=True, help="file to append progress lines to")
    parser.add_argument("--agree", action="append", default=[], metavar="NAME")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    return parser
