"""The commands ``pipeline ...``: Spark Declarative Pipelines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..application import absolute_paths, driver_options
from ..messages import FAILED, USAGE, Failure, echo
from ..output import batch_text, print_facts, print_json, print_report, print_table
from ..progress import note, progress
from ..settings import Settings, pass_settings, shared
from ..update_options import option_named

if TYPE_CHECKING:
    from ...core.compatibility.report import CompatibilityReport
    from ...pipelines.operations import PipelineDriver
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


def _driver(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command to get the argument SPEC, and a `driver` in place of its options."""

    @click.argument("spec", metavar="SPEC")
    @driver_options
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        conf: Sequence[tuple[str, str]],
        master: str | None,
        py_files: Sequence[str],
        files: Sequence[str],
        env_vars: Sequence[tuple[str, str]],
        **kwargs: Any,
    ) -> Any:
        from ...pipelines.operations import PipelineDriver

        driver = PipelineDriver(
            conf=dict(conf),
            master=master,
            py_files=absolute_paths(py_files),
            files=absolute_paths(files),
            env_vars=dict(env_vars),
        )
        return function(*args, driver=driver, **kwargs)

    return wrapper


@pipeline.command(short_help="Say whether its flows can continue from their checkpoints.")
@_driver
@option_named("agree")
@option_named("renames")
@click.option("--markdown", is_flag=True, help="Print the report as Markdown.")
@shared
@click.pass_context
def check(
    ctx: click.Context,
    spec: str,
    driver: PipelineDriver,
    agree: tuple[str, ...],
    renames: dict[str, str],
    markdown: bool,
) -> None:
    """Check the pipeline of SPEC (spark-pipeline.yml) against the checkpoints in its storage. Nothing is run.

    Exit code: 0 its flows can continue, 1 they cannot, 2 wrong usage or unreadable input (no verdict).

    \b
    Example:
      streamupdate pipeline check flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
    """
    from ...control.drivers.launcher import SparkSubmit
    from ...core.errors import StreamUpdateError
    from ...pipelines.operations import check_pipeline

    settings = ctx.ensure_object(Settings)
    if markdown and settings.as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    launcher = SparkSubmit(settings.spark_submit)
    try:
        with progress(f"checking {spec}", "nothing was changed"):
            answer = check_pipeline(launcher, spec, driver, agree, renames, settings.options)
    except StreamUpdateError as error:
        raise Failure.of(error, USAGE) from error
    report = answer.report
    assert report is not None  # there was no error
    print_report(settings.as_json, report, markdown, _print_verdicts)
    ctx.exit(0 if report.compatible else FAILED)


@pipeline.command(short_help="Record that its checkpoints belong to this code.")
@_driver
@shared
@pass_settings
def adopt(settings: Settings, spec: str, driver: PipelineDriver) -> None:
    """Record that the checkpoints in the storage of SPEC belong to its code: that code ran last, by spark-pipelines.

    Every source, stage and sink of its flows is compared with what the checkpoints hold, and Spark checks it on a
    clone. The checkpoints are only read. The record is written beside them, as _streamupdate/pipeline.json.

    \b
    Example:
      streamupdate pipeline adopt flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
    """
    from ...control.drivers.launcher import SparkSubmit
    from ...pipelines.operations import adopt_pipeline

    with progress(f"adopting the checkpoints of {spec}", "run the same command again"):
        answer = adopt_pipeline(SparkSubmit(settings.spark_submit), spec, driver, settings.options)
    if settings.as_json:
        print_json(_document(answer))
    assert answer.record is not None  # there was no error
    for name, flow in sorted(answer.record.flows.items()):
        note(settings, f"flow {name}: version {flow.version} of its checkpoint, after batch {batch_text(flow.batch)}")
    note(settings, f"next: change the code, and streamupdate pipeline run {spec} (with the same options)")


@pipeline.command(short_help="Carry the state over to changed code, and run it.")
@_driver
@option_named("agree")
@option_named("renames")
@shared
@pass_settings
def run(settings: Settings, spec: str, driver: PipelineDriver, agree: tuple[str, ...], renames: dict[str, str]) -> None:
    """Run the pipeline of SPEC to its end, as `spark-pipelines run` does; its flows continue from their state.

    If a flow cannot continue, nothing is written or run. If the run fails before a flow has used its new checkpoint,
    the previous checkpoints are in use again.

    \b
    Examples:
      streamupdate pipeline run flights/spark-pipeline.yml --conf spark.sql.catalogImplementation=hive
      streamupdate pipeline run flights/spark-pipeline.yml --agree spark_catalog.default.old_counts
    """
    from ...control.drivers.launcher import SparkSubmit
    from ...pipelines.operations import run_pipeline

    interrupted = (
        "run the same command again: it completes what was begun, and every flow continues after its last batch"
    )
    with progress(f"running {spec}", interrupted) as report:
        answer = run_pipeline(
            SparkSubmit(settings.spark_submit), spec, driver, agree, renames, settings.options, report
        )
    if settings.as_json:
        print_json(_document(answer))
    carried = ", ".join(answer.carried) or "none"
    note(settings, f"the run is complete; flows whose state was carried over to changed code: {carried}")


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


def _print_verdicts(report: CompatibilityReport) -> None:
    echo(f"{report.app} against {report.source}: {report.outcome}")
    rows = [[item.thing, item.name, item.verdict, item.reason] for item in report.items]
    print_table(["THING", "NAME", "VERDICT", "REASON"], rows)


def _document(answer: PipelineAnswer) -> dict[str, Any]:
    from ...control.report_data import report_data

    record, report = answer.record, answer.report
    flows = record.flows.items() if record else ()
    return {
        "pipeline": record.pipeline if record else None,
        "flows": {name: {"version": flow.version, "batch": flow.batch} for name, flow in flows},
        "new": answer.new,
        "carried": answer.carried,
        "report": report_data(report) if report else None,
    }
