"""Commands that bring in a new version: plan, check, update, rollback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..acceptance import Acceptance, accept_options
from ..application import application_argument
from ..messages import echo
from ..option_types import Duration
from ..output import end_with_report, markdown_option, print_facts, print_json, print_result, print_table
from ..progress import progress
from ..settings import Settings, pass_settings, shared
from ..update_options import option_named, update_options
from .snapshots import need_snapshot

if TYPE_CHECKING:
    from ...control.client import StreamUpdateClient
    from ...control.operations.check import CheckOptions
    from ...control.update.options import UpdateOptions
    from ...core.compatibility.report import CompatibilityReport
    from ...core.plan.plan import AppPlan, QueryPlan, StagePlan
    from ...core.registry.application import Application
    from ...core.snapshots.rehearsal import RehearsalReport


@click.command(short_help="Show the queries, stages, sources and sinks of an application file.")
@application_argument
@click.option("--traceback", "whole", is_flag=True, help="Show the whole traceback of an error in the application.")
@shared
@pass_settings
def plan(settings: Settings, application: Application, whole: bool) -> None:
    """Plan APP_FILE with a driver that starts no query (15-30 s), and show its queries, stages, sources and sinks.

    No root is needed.

    \b
    Example:
      streamupdate plan flight_windows/v2.py --set input=/data/in --set output=/data/out
    """
    from ...control.drivers.launcher import SparkSubmit
    from ...control.operations.plan import plan_application
    from ...core.errors import StreamUpdateError

    launcher = SparkSubmit(settings.spark_submit)
    with progress(f"planning {application.file}", "nothing was started"):
        try:
            made = plan_application(launcher, application).plan
        except StreamUpdateError as error:
            if whole and error.traceback:
                echo(error.traceback, err=True)
            raise
    if settings.as_json:
        from ...core.serde import to_document

        print_json(to_document(made))  # what check --plan reads
    else:
        _print_plan(made)


@click.command(short_help="Show the names in an application file, and what to add where one is missing.")
@application_argument
@shared
@pass_settings
def names(settings: Settings, application: Application) -> None:
    """Plan APP_FILE, and show its queries, sources and stages with their names, and what to add for one without a name.

    What has a name keeps its state wherever a change puts it. The others are matched by what they mean, then by their
    order. No root is needed.

    \b
    Example:
      streamupdate names my_app.py --app clicks -- --topic clicks
    """
    from ...control.drivers.launcher import SparkSubmit
    from ...control.operations.plan import plan_application

    with progress(f"planning {application.file}", "nothing was started"):
        made = plan_application(SparkSubmit(settings.spark_submit), application).plan
    rows = [row for query in made.queries for row in _names(query)]
    if settings.as_json:
        return print_json([dict(zip(("query", "thing", "name", "is", "add"), row, strict=True)) for row in rows])
    return print_table(("QUERY", "THING", "NAME", "IS", "ADD"), rows)


def _names(query: QueryPlan) -> Iterator[tuple[str | None, ...]]:
    """Yield a row for each thing of a query that has, or may have, a name."""
    from ...core.names import is_positional
    from ...core.plan.plan import parts
    from ...core.plan.rendering import describe_part

    yield query.name, "query", query.name, query.written or None, None
    for source in query.sources:
        where = " ".join(filter(None, (source.format, source.location)))
        add = None if not is_positional(source.name) else '.alias("NAME") behind load(), json() ...'
        yield query.name, "source", source.name, where, add
    for stage in query.stages:
        told = (f"{name}: {describe_part(value)}" for name, value in sorted(parts(stage.definition).items()))
        add = None if not is_positional(stage.name) else '.alias("NAME") right behind it'
        yield query.name, "stage", stage.name, f"{stage.kind}: {'; '.join(told)}", add


@click.command(short_help="Say whether a new version can continue from saved state.")
@application_argument
@click.option("--snapshot", metavar="NAME", help="Check against this snapshot (else against the current deployment).")
@click.option("--plan", "plan_file", metavar="FILE", help="Check against this plan alone, without state or a root.")
@option_named("agree")
@option_named("renames")
@click.option("--fork", is_flag=True, help="Check it as a fork, which runs beside the app under its own query ids.")
@click.option("--from-app", metavar="APP", help="With --fork: the app whose state it uses (else the file's own).")
@click.option("--verbose", is_flag=True, help="Also print both texts of what differs.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "github", "sarif", "junit")),
    default="text",
    show_default=True,
    help="For people; as --json; as GitHub's workflow commands (annotations of a pull request), SARIF or JUnit's XML.",
)
@markdown_option
@accept_options
@shared
@pass_settings
def check(
    settings: Settings,
    plan_file: str | None,
    verbose: bool,
    form: str,
    markdown: bool,
    acceptance: Acceptance | None,
    **given: Any,
) -> None:
    """Check the new version in APP_FILE against a snapshot, or against what the running deployment has committed.

    Every stage, source and sink gets a verdict. If none refuses, the state is restored into a scratch folder and Spark
    itself checks it. The running app is not touched.

    With --plan only a plan is needed: what `plan --json` printed for the old version, the plan.json of a deployment
    or the snapshot.json of a snapshot. This is meant for the app's own CI. No state is restored, so Spark's own
    checks do not run.

    With --fork the version is checked as a fork, as `submit --fork` and `update --strategy parallel` start it.

    Exit code: 0 compatible, 1 not compatible, 2 wrong usage or unreadable input (no verdict).

    \b
    Examples:
      streamupdate check flight_windows/v2.py --set input=/data/in --set output=/data/out --snapshot nightly
      streamupdate check flight_windows/v2.py --set input=/data/in --set output=/data/out --agree windows/daily
    """
    from ...control.operations.check import CheckOptions

    options = CheckOptions(**given)
    if plan_file is not None and options.snapshot is not None:
        raise click.UsageError("--plan and --snapshot exclude each other")
    if plan_file is not None and options.fork:
        raise click.UsageError("--plan and --fork exclude each other: a fork is checked against what runs")
    if options.from_app is not None and not options.fork:
        raise click.UsageError("--from-app needs --fork")

    if form != "text" and (markdown or settings.as_json):
        raise click.UsageError(f"--format {form} excludes --json and --markdown")
    settings.as_json |= form == "json"

    def show(report: CompatibilityReport) -> None:
        if form == "text":
            return print_compatibility(report, verbose)
        from ...control.annotations import FORMATS, AppFile

        file = Path(options.application.file)
        path = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
        return echo(FORMATS[form](report, AppFile.of(path.as_posix(), file.read_bytes())))

    def work() -> CompatibilityReport:
        if acceptance is None:
            return _check(settings, options, plan_file)
        return acceptance.check(options, lambda options: _check(settings, options, plan_file))[1]

    end_with_report(settings, markdown, work, show)


def _check(settings: Settings, options: CheckOptions, plan_file: str | None) -> CompatibilityReport:
    from ...control.operations.check import check
    from ...control.update.options import UpdateOptions

    against = f"snapshot {options.snapshot}" if options.snapshot else plan_file or "the current deployment"
    client = settings.client() if plan_file is None else None
    if client is not None:
        need_snapshot(client, options.snapshot)
    with progress(f"checking {options.application.file} against {against}", "nothing was changed"):
        if client is None:
            return _against_plan(settings, options, str(plan_file))
        if not options.fork:
            application = client.resolve(UpdateOptions(application=options.application)).application
            options = attrs.evolve(options, application=application)
        return check(client.context, options)


def _check_first(client: StreamUpdateClient, options: UpdateOptions) -> CompatibilityReport:
    """Check what the update will check, before it begins."""
    from ...control.operations.check import CheckOptions, check
    from ...control.update.strategies import STRATEGIES

    beside = STRATEGIES[options.strategy].runs_beside
    given = {name: getattr(options, name) for name in ("application", "snapshot", "agree", "renames")}
    with progress(f"checking {options.application.file}", "nothing was changed"):
        return check(client.context, CheckOptions(**given, fork=beside, in_place=not beside))


@click.command(short_help="Run a new version's first batches on a clone of a snapshot, writing nothing.")
@application_argument
@click.option("--snapshot", metavar="NAME", help="Rehearse on this snapshot (else on the app's newest).")
@click.option(
    "--batches", type=click.IntRange(min=1), default=5, show_default=True, help="How many batches of each query to run."
)
@option_named("agree")
@option_named("renames")
@click.option("--timeout", type=Duration(), default="600", show_default=True, help="How long each version may take.")
@markdown_option
@shared
@pass_settings
def rehearse(settings: Settings, application: Application, snapshot: str | None, markdown: bool, **given: Any) -> None:
    """Rehearse the new version in APP_FILE: its first batches from a snapshot, on the input that follows it.

    Its sources are read up to the input that exists now. Its sinks are muted, and foreachBatch functions are not
    called. The snapshot's own version then runs the same batches, to compare rows, state and times. The running app is
    not touched.

    Exit code: 0 it went well, 1 it failed (not compatible, or its driver died), 2 wrong usage or unreadable input.

    \b
    Examples:
      streamupdate rehearse flight_windows/v2.py --set input=/data/in --set output=/data/out
      streamupdate rehearse flight_windows/v2.py --set input=/data/in --snapshot nightly --batches 3
    """
    from ...control.update.options import UpdateOptions
    from ...core.errors import DriverError, WaitTimeoutError

    def work() -> RehearsalReport:
        client = settings.client()
        need_snapshot(client, snapshot)
        resolved = client.resolve(UpdateOptions(application=application)).application
        with progress("rehearsing", "nothing was changed") as report:
            return client.rehearse(resolved, snapshot=snapshot, progress=report, **given)

    # the new version died, or was too slow
    end_with_report(settings, markdown, work, _print_rehearsal, (DriverError, WaitTimeoutError))


@click.command(short_help="Replace a running app with its next version, keeping its state.")
@update_options
@accept_options
@shared
@pass_settings
def update(settings: Settings, options: UpdateOptions, acceptance: Acceptance | None) -> None:
    """Update the running app that APP_FILE defines.

    The steps: plan, check, stand by, snapshot with cancel, submit from that snapshot, verify, promote.

    An incompatible version is refused while the old one keeps running. If the new version fails after the old one was
    stopped, the old one is started again where it was stopped, and the command fails. After a crash or Ctrl-C, run the
    same command again: it continues the update.

    With strategy parallel both versions run and write until the old one is drained, so the new one needs its own sink
    parameters. Meanwhile rollback drops the new one, and cancel ends both.

    \b
    Examples:
      streamupdate update flight_windows/v2.py --set input=/data/in --set output=/data/out
      streamupdate update flight_windows/v2.py --strategy parallel --set input=/data/in --set output=/data/new
    """

    client = settings.client()
    need_snapshot(client, options.snapshot)
    options = client.resolve(options)
    if unchanged := client.look_ahead(options.application, options.deployment, options.snapshot):
        return print_result(settings, unchanged, str(unchanged))
    if acceptance is not None:
        options = acceptance.check(options, lambda options: _check_first(client, options))[0]
    interrupted = "the update is not complete: run the same command again to continue it, or roll it back with rollback"
    with progress(f"updating to {options.application.file}", interrupted) as report:
        record = client.update(options, report)
    paused = "" if record.pause_seconds is None else f"; the pause was {record.pause_seconds} s"
    how = " with the parameters given" if record.in_place else f", in place of {record.old}{paused}"
    return print_result(settings, record, f"{record.app} runs as deployment {record.runs}{how}")


@click.command(short_help="Go back to the previous deployment.")
@click.argument("app")
@click.option(
    "--deployment",
    metavar="ID",
    help="The deployment to roll back from (else that of an update under way, else the current one).",
)
@click.option(
    "--to",
    metavar="ID",
    help="The deployment to go back to (else the one before, which is refused when it failed or was lost).",
)
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long stop and start may take.")
@click.option(
    "--later-ids",
    multiple=True,
    metavar="QUERY",
    help="The foreachBatch function of QUERY skips batch ids it has seen, and its app does not declare that "
    "(seen_batch): batches that are computed again get ids after those of the newer deployment. Repeatable.",
)
@shared
@pass_settings
def rollback(
    settings: Settings, app: str, deployment: str | None, to: str | None, timeout: float, later_ids: tuple[str, ...]
) -> None:
    """Stop the current deployment of APP and start the one before it, with the state it was stopped with.

    A deployment that failed is not started again without being named (--to): the command is refused, and names the last
    one that did not fail.

    What the stopped deployment wrote stays written; the command names the batches that downstream has seen. It also
    ends an interrupted update: a new version that only runs or stands by beside the current one is dropped.

    The older version computes again what it had not committed. File sinks and tables get these batches under new ids. A
    foreachBatch function gets the old ids, or new ones where the app declares that it skips ids it has seen.

    \b
    Examples:
      streamupdate rollback flight-windows
      streamupdate rollback orders --to v3
      streamupdate rollback orders --later-ids totals
    """
    from ...control.update.rollback import RollbackOptions

    client = settings.client_of(app)
    with progress(f"rolling {app} back", "run the same command again to complete the rollback") as report:
        deployed = client.rollback(app, deployment, timeout, report, RollbackOptions(to=to, later_ids=later_ids))
    said = f"the previous deployment of {app} is running, so it was not started again"
    if deployed is not None:
        said = f"{app} runs as deployment {deployed.deployment} again (epoch {deployed.epoch})"
    print_result(settings, {"app": app, "rolled_back": deployed is not None, "running": deployed}, said)


def _against_plan(settings: Settings, asked: CheckOptions, plan_file: str) -> CompatibilityReport:
    from ...control.drivers.launcher import SparkSubmit
    from ...control.operations.plan import PlanOptions, plan_application

    path = Path(plan_file).absolute()
    if not path.is_file():
        raise click.UsageError(f"{plan_file} is not a file; give the output of plan --json, or a snapshot.json")
    launcher = SparkSubmit(settings.spark_submit)
    options = PlanOptions(against=f"plan:{path}", agree=asked.agree, renames=asked.renames)
    report = plan_application(launcher, asked.application, options).report
    assert report is not None  # a check was asked for
    return report


def print_compatibility(report: CompatibilityReport, verbose: bool = False) -> None:
    """Print a compatibility report for people: each problem once, below the table. verbose: with both texts of what
    differs"""
    from ...core.compatibility.report import BELOW

    print_facts({"app": report.app, "against": report.source, "verdict": report.outcome})
    echo()
    if report.picture is not None:
        from ...core.compatibility.picture import picture_lines

        for line in picture_lines(report.picture):
            echo(line)
        echo()
    agreement = {True: "agreed", False: "needed"}
    print_table(
        ("THING", "NAME", "VERDICT", "AGREEMENT", "REASON"),
        (
            (
                i.thing,
                i.name,
                i.verdict,
                agreement[i.agreed] if i.needs_agreement else None,
                BELOW if i.blocks else i.reason,
            )
            for i in report.items
        ),
    )
    if not report.compatible:
        echo("\nProblems:")
    for item in (item for item in report.items if item.blocks):
        echo(f"  {item.thing} {item.name}: {item.reason}")
        for step in item.next_steps:
            echo(f"    - {step}")
    for item in report.items if verbose else ():
        if item.details:
            echo(f"\n{item.thing} {item.name}, exactly:\n  {item.details}")


def _print_rehearsal(report: RehearsalReport) -> None:
    if report.new is None:
        return print_compatibility(report.compatibility)
    newest = " (the newest)" if report.newest else ""
    print_facts({"app": report.app, "snapshot": f"{report.snapshot}{newest}", "verdict": report.outcome})
    echo()
    columns = tuple(c.upper() for c in report.BATCH_COLUMNS)
    print_table(columns, report.batch_rows(), right=columns[1:])
    echo()
    columns = tuple(c.upper() for c in report.STATE_COLUMNS)
    print_table(columns, report.stage_rows(), right=columns[1:])
    echo()
    for line in (*report.problems, *report.notes()):
        echo(line)
    return None


def _print_plan(made: AppPlan) -> None:
    print_facts({"app": made.app, "Spark": made.spark_version})
    for query in made.queries:
        echo()
        print_facts(
            {
                "query": query.name,
                "output mode": query.output_mode,
                "sink": query.sink.format,
                "sources": "\n".join(" ".join(filter(None, (s.name, s.format, s.location))) for s in query.sources),
                "watermarks": "\n".join(map(str, query.watermarks)),
            }
        )
        print_table(("STAGE", "KIND", "OPERATOR", "DEFINITION"), (_stage(s) for s in query.stages))
    for warning in made.warnings:
        echo(f"warning: {warning}", err=True)


def _stage(stage: StagePlan) -> tuple[Any, ...]:
    from ...core.plan.plan import parts
    from ...core.plan.rendering import describe_part

    told = (f"{name}: {describe_part(value)}" for name, value in sorted(parts(stage.definition).items()))
    return stage.name, stage.kind, stage.operator_id, "; ".join(told)
