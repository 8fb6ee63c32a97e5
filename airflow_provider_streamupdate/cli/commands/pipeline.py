"""The commands ``pipeline ...``: Spark Declarative Pipelines."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..application import driver_options, make_application
from ..output import batch_text, end_with_report, markdown_option, print_facts, print_json, print_result, print_table
from ..progress import progress
from ..settings import Settings, pass_settings, shared
from ..update_options import option_named
from .updates import print_compatibility

if TYPE_CHECKING:
    from ...core.compatibility.report import CompatibilityReport
    from ...pipelines.operations import Pipeline
    from ...pipelines.record import PipelineAnswer


@click.group(short_help="Run a Spark Declarative Pipeline whose code changes, without a full refresh.")
@shared
def pipeline() -> None:
    """Run a Spark Declarative Pipeline (spark-pipelines) whose code changes, and keep the state of its flows.

    `run` takes the place of `spark-pipelines run`. Before Spark runs the pipeline, every flow is compared with the code
    that its checkpoint belongs to. Where the code has changed, the state gets a new version of the checkpoint. Where it
    cannot continue, nothing runs. `adopt` is needed once, for a pipeline that ran with spark-pipelines so far.

    \b
    Examples:
      streamupdate pipeline adopt flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
      streamupdate pipeline run flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
    """


def _on_pipeline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command to get the settings and, in place of SPEC and all other options, the pipeline."""

    @click.argument("spec", metavar="SPEC")
    @driver_options
    @shared
    @pass_settings
    @functools.wraps(function)
    def wrapper(settings: Settings, spec: str, agree: Any = (), renames: Any = None, **given: Any) -> Any:
        from ...control.drivers.launcher import SparkSubmit
        from ...pipelines.operations import Pipeline

        launcher, application = SparkSubmit(settings.spark_submit), make_application(spec, given)
        return function(settings, Pipeline(launcher, application, agree, renames or {}, settings.options), **given)

    return wrapper


@pipeline.command(short_help="Say whether its flows can continue from their checkpoints.")
@_on_pipeline
@option_named("agree")
@option_named("renames")
@markdown_option
def check(settings: Settings, asked: Pipeline, markdown: bool) -> None:
    """Check the pipeline of SPEC (spark-pipeline.yml) against the checkpoints in its storage. Nothing is run.

    Exit code: 0 its flows can continue, 1 they cannot, 2 wrong usage or unreadable input (no verdict).

    \b
    Example:
      streamupdate pipeline check flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
    """
    from ...pipelines.operations import check_pipeline

    def work() -> CompatibilityReport:
        with progress(f"checking {asked.spec}", "nothing was changed"):
            return check_pipeline(asked)

    end_with_report(settings, markdown, work, print_compatibility)


@pipeline.command(short_help="Record that its checkpoints belong to this code.")
@_on_pipeline
def adopt(settings: Settings, asked: Pipeline) -> None:
    """Record that the checkpoints in the storage of SPEC belong to its code: that code ran last, by spark-pipelines.

    Every source, stage and sink of its flows is compared with what the checkpoints hold, and Spark checks it on a
    clone. The checkpoints are only read. The record is written beside them, as _streamupdate/pipeline.json.

    \b
    Example:
      streamupdate pipeline adopt flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
    """
    from ...pipelines.operations import adopt_pipeline

    with progress(f"adopting the checkpoints of {asked.spec}", "run the same command again"):
        answer = adopt_pipeline(asked)
    assert answer.record is not None  # there was no error
    flows = (
        f"flow {name}: version {flow.version} of its checkpoint, after batch {batch_text(flow.batch)}"
        for name, flow in sorted(answer.record.flows.items())
    )
    next_step = f"next: change the code, and streamupdate pipeline run {asked.spec} (with the same options)"
    print_result(settings, _document(answer), *flows, next_step)


@pipeline.command(short_help="Carry the state over to changed code, and run it.")
@_on_pipeline
@option_named("agree")
@option_named("renames")
def run(settings: Settings, asked: Pipeline) -> None:
    """Run the pipeline of SPEC to its end, as `spark-pipelines run` does; its flows continue from their state.

    If a flow cannot continue, nothing is written or run. If the run fails before a flow has used its new checkpoint,
    the previous checkpoints are in use again.

    \b
    Examples:
      streamupdate pipeline run flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
      streamupdate pipeline run flights/spark-pipeline.yml --agree spark_catalog.default.old_counts
    """
    from ...pipelines.operations import run_pipeline

    interrupted = (
        "run the same command again: it completes what was begun, and every flow continues after its last batch"
    )
    with progress(f"running {asked.spec}", interrupted) as report:
        answer = run_pipeline(asked, report)
    carried = ", ".join(answer.carried) or "none"
    said = f"the run is complete; flows whose state was carried over to changed code: {carried}"
    print_result(settings, _document(answer), said)


@pipeline.command(short_help="Show which code and batch its checkpoints are at.")
@click.argument("storage", metavar="STORAGE")
@shared
@pass_settings
def status(settings: Settings, storage: str) -> None:
    """Show what is recorded of the pipeline with this STORAGE (the path or URI in its spec).

    \b
    Example:
      streamupdate pipeline status /data/pipelines/flights
    """
    from ...core.serde import to_document
    from ...pipelines.operations import pipeline_record

    record = pipeline_record(storage, settings.options)
    if settings.as_json:
        print_json(to_document(record))
        return
    print_facts({"pipeline": record.pipeline, "phase": record.phase, "since": record.changed_at})
    rows = [
        [name, flow.version, batch_text(flow.batch), ", ".join(s.name for s in flow.plan.stages) or "none"]
        for name, flow in sorted(record.flows.items())
    ]
    print_table(["FLOW", "VERSION", "BATCH", "STAGES"], rows)


def _document(answer: PipelineAnswer) -> dict[str, Any]:
    from ...control.report_data import report_data

    record, report = answer.record, answer.report
    known = {"pipeline": record.pipeline if record else None, "report": report_data(report) if report else None}
    return {**answer.summary(), **known}
