"""Read-only commands: list, status, log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ...core.redaction import each_text, hide, redacted
from ..messages import FAILED, echo
from ..output import ago, batches_text, heartbeat_age, moment, number, print_facts, print_json, print_table
from ..settings import Settings, pass_settings, shared


def shown_plan(made: AppPlan | None) -> Any:
    """Return a plan as JSON, without what looks like a secret, and without settings whose names suggest one."""
    from ...core.serde import to_dict

    document = each_text(to_dict(made), hide)
    for query in document["queries"] if document else ():
        for part in (query, query["sink"], *query["sources"]):
            part |= {name: redacted(part[name]) for name in ("options", "given", "hadoop") if name in part}
    return document


BATCHES_WIDTH = 30  # of a cell of the list, which fits 120 columns with usual names
LINES = 30  # that `log` shows

if TYPE_CHECKING:
    from ...control.client import AppStatus, StreamUpdateClient
    from ...control.status import Glance, UnpromotedVersion
    from ...core.plan.plan import AppPlan
    from ...core.registry.application import Application
    from ...core.registry.deployment import Status


@click.command("list", short_help="List the apps.")
@shared
@click.pass_context
def list_apps(ctx: click.Context) -> None:
    """List all apps under the root, one per line.

    BATCH is the last committed batch, ROWS/S what the app's queries process, STATE ROWS what their stages hold,
    HEARTBEAT the age of the driver's last heartbeat, by this machine's clock. The process of a silent driver cannot be
    inspected from here; commands that depend on its state watch its heartbeat first. A second line of an app is the new
    version that runs beside the current one (update --strategy parallel). An app whose files cannot be read is listed
    as unreadable, and the exit code is 1.

    Apps that need a person come first, the most urgent at the top; NEEDS says what for. The reason and what to do are
    printed on standard error.

    \b
    Example:
      streamupdate list --root /data/streams
    """
    from ...control.overview import gc_paused

    with gc_paused():
        broken = _list(ctx.ensure_object(Settings))
    if broken:
        ctx.exit(FAILED)


@click.command(short_help="Show everything about an app.")
@click.argument("app")
@shared
@pass_settings
def status(settings: Settings, app: str) -> None:
    """Show the current deployment of APP, its queries and stages, an update under way, and all its deployments.

    \b
    Example:
      streamupdate status flight-windows
    """
    from ...control import overview
    from ...core.serde import to_dict

    client = settings.client()
    found = _hidden(client, client.status(app, watch=False))
    made = client.registry.app(app).plan(found.current.deployment) if found.current else None
    deployments = overview.deployments(client.context, app)
    if settings.as_json:
        document = {**to_dict(found), "update": to_dict(found.update), "plan": shown_plan(made)}
        del document["last_update"]
        print_json({**document, "deployments": deployments})
        return
    changes = [change for one in deployments if one["current"] for change in one["changes"]]
    print_facts({**_facts(found), "changed in flight": "\n".join(map(_change, changes))})
    if found.status and found.status.queries:
        echo()
        _print_queries(found.status, made)
    echo()
    print_table(
        ("DEPLOYMENT", "STATE", "SUBMITTED", "PARENT", "FROM SNAPSHOT", "UPDATE"),
        (
            (d["deployment"], d["state"], moment(d["submitted_at"]), d["parent"], d["from_snapshot"], d["update"])
            for d in deployments
        ),
    )


@click.command(short_help="Show the end of a driver's log.")
@click.argument("app")
@click.option("--deployment", metavar="ID", help="Whose driver (else the current deployment's).")
@click.option("-n", "--lines", type=click.IntRange(min=1), help="How many of the last lines.  [default: 30]")
@click.option("-f", "--follow", is_flag=True, help="Print each new line until the driver ends.")
@shared
@pass_settings
def log(settings: Settings, app: str, deployment: str | None, lines: int | None, follow: bool) -> None:
    """Show the last lines of the log of APP's newest driver, if that driver was started on this machine or runs in a
    pod.

    For a driver that failed, the lines around its error are shown, without JVM stacks; -n shows the plain end.

    \b
    Example:
      streamupdate log flight-windows -n 100
    """
    from ...core.errors import NotRunningError
    from ...core.serde import to_dict

    client = settings.client()
    found = client.status(app, watch=False)
    if deployment is None:
        if found.current is None:
            raise NotRunningError(f"app {app} has no current deployment, so it has no driver log")
        deployment = found.current.deployment
    client.deployment_state(app, deployment)  # NotFoundError for an unknown one
    if follow:
        for line in client.follow_log(app, deployment, lines or LINES):
            print_json({"line": line}) if settings.as_json else echo(line)
        return
    end = client.driver_log(app, deployment, lines or LINES, end=lines is not None)
    if settings.as_json:
        print_json({"app": app, **to_dict(end)})
        return
    for line in end.lines:
        echo(line)
    if end.note:
        echo(f"{end.path or 'The log'}: {end.note}", err=True)


def _list(settings: Settings) -> bool:
    """Print the list. Return whether an app could not be read."""
    from ...control.attention import INFO
    from ...control.overview import glances, summary
    from ...core.errors import StreamUpdateError

    found = glances(settings.context())
    broken = [(app, problem) for app, problem in found if isinstance(problem, StreamUpdateError)]
    if settings.as_json:
        print_json([summary(app, glance) for app, glance in found])
    else:
        print_table(
            ("NAME", "STATE", "DEPLOYMENT", "EPOCH", "BATCH", "ROWS/S", "STATE ROWS", "HEARTBEAT", "NEEDS"),
            (row for app, glance in found for row in _rows(app, glance)),
            right=("EPOCH", "BATCH", "ROWS/S", "STATE ROWS"),
        )
        if not found:
            echo(f"no apps under {settings.root}", err=True)
        for app, problem in broken:
            echo(f"Error: {app}: {problem}", err=True)
        for app, glance in found:
            for need in () if isinstance(glance, Exception) else glance.needs:
                if need.severity != INFO:
                    echo(f"{app}: {need}", err=True)
    return bool(broken)


def _rows(app: str, found: Glance | Exception) -> Iterator[tuple[Any, ...]]:
    """Yield a row for the app's current deployment, and one for the deployment that runs beside it."""
    from ...control.overview import needs_of

    wanted = ", ".join(dict.fromkeys(str(need.kind) for need in needs_of(app, found)))
    if isinstance(found, Exception):
        yield app, "unreadable", *(None,) * 6, wanted
        return
    place = (found.current.deployment, found.current.epoch) if found.current else (None, None)
    yield app, found.state, *place, *_figures(found), wanted
    if found.beside:
        yield app, found.beside.state, found.beside.deployment, "beside", *_figures(found.beside), None


def _figures(found: Glance | UnpromotedVersion) -> tuple[Any, ...]:
    from ...control.overview import figures

    known = figures(found.status)
    return (
        _batches_in_short(known["batches"]),
        number(known["rows_per_second"]),
        number(known["state_rows"]),
        heartbeat_age(found.state, known["heartbeat_at"]),
    )


def _hidden(client: StreamUpdateClient, found: AppStatus) -> AppStatus:
    """Return the status without secrets in what the app was given and in what drivers and updates report."""
    import attrs

    from ...core.registry.hiding import Hiding

    hiding = Hiding.in_app(client.registry.app(found.app))
    beside = found.beside
    if beside is not None and beside.status is not None:
        beside = attrs.evolve(beside, status=hiding.status(beside.status))
    return attrs.evolve(
        found,
        spec=found.spec and attrs.evolve(found.spec, application=hiding.application(found.spec.application)),
        status=found.status and hiding.status(found.status),
        last_update=found.last_update and hiding.update(found.last_update),
        beside=beside,
    )


def _facts(found: AppStatus) -> dict[str, Any]:
    from ...control.overview import figures
    from ...core.registry.hot_standby import snapshot_of

    facts: dict[str, Any] = {"app": found.app, "state": found.state, "needs": "\n".join(map(str, found.needs))}
    status, spec, current = found.status, found.spec, found.current
    if current and spec:
        promoted = "promoted" if current.promoted else "not promoted"
        facts["deployment"] = f"{current.deployment} (epoch {current.epoch}, {promoted})"
        facts["submitted"] = moment(spec.submitted_at)
        facts["from snapshot"] = snapshot_of(spec)
        if spec.fork:
            facts["from snapshot"] = f"{spec.from_snapshot} of {spec.from_app or spec.app} (fork)"
        facts["took over from"] = spec.parent
        facts |= _application(spec.application)
        facts["digest"] = spec.digest[:12]
    if status:
        facts["heartbeat"] = f"{heartbeat_age(found.state, status.heartbeat_at)}, process {status.pid} on {status.host}"
        facts["started"] = moment(status.started_at)
        facts["Spark"] = " ".join(filter(None, (status.spark_version, status.spark_app_id)))
        facts["Spark UI"] = status.spark_ui
        facts["reason"] = status.reason
        facts["error"] = status.error
    facts["cluster"] = found.cluster
    facts["driver log"] = found.launch.log if found.launch else None
    if update := found.update:
        snapshot = f", snapshot {update.snapshot}" if update.snapshot else ""
        facts["update"] = f"to {update.new}, begun {moment(update.started_at)}: {update.step}{snapshot}"
    if found.beside:
        batches = f", {text}" if (text := batches_text(figures(found.beside.status)["batches"])) else ""
        facts["beside it"] = f"{found.beside.deployment} is {found.beside.state}{batches}"
    if found.hot_standby:
        behind = found.hot_standby.behind
        batches = "" if behind is None else f", {behind} {'batch' if behind == 1 else 'batches'} behind"
        shown = f"{found.hot_standby.deployment} is {found.hot_standby.state}{batches}"
        facts["hot standby"] = "none yet: the previous one took over" if found.hot_standby.took_over else shown
    return facts


def _change(change: dict[str, Any]) -> str:
    """Return a change in flight as a line: what was changed, when and by whom."""
    pairs = (
        (key, change["before"][key] or "not given", after or "not given") for key, after in change["after"].items()
    )
    values = ", ".join(f"{key}: {before} -> {after}" for key, before, after in pairs)
    why = f" (undone: {change['undoes']})" if change["undoes"] else ""
    return f"{moment(change['at'])} by {change['by']}: {values}{why}"


def _application(application: Application) -> dict[str, str]:
    groups = (
        ("parameters", application.params),
        ("conf", application.conf),
        ("environment", application.env_vars),
    )
    facts = {name: "\n".join(f"{key}={value}" for key, value in sorted(group.items())) for name, group in groups}
    return {
        "application": application.file,
        "master": application.master or "not given: that of spark-submit or the Spark connection",
        **facts,
    }


def _print_queries(status: Status, made: AppPlan | None) -> None:
    from ...control.overview import stages

    print_table(
        ("QUERY", "BATCH", "COMMITTED", "ROWS/S IN", "ROWS/S PROCESSED", "BATCH TIME", "LAG", "WATERMARK", "STATE"),
        (
            (
                name,
                q.batch if q.batch >= 0 else None,
                ago(q.last_commit_at),
                number(q.input_rows_per_second),
                number(q.processed_rows_per_second),
                f"{q.batch_seconds:.1f} s" if q.batch_seconds is not None else None,
                f"{q.lag:.0f} rows" if q.lag is not None else None,
                q.watermark,
                "waiting for data" if q.idle else "processing" if q.active else "stopped",
            )
            for name, q in sorted(status.queries.items())
        ),
        right=("BATCH", "ROWS/S IN", "ROWS/S PROCESSED", "BATCH TIME", "LAG"),
    )
    rows = [(s["name"], s["kind"], s["operator_id"], number(s["state_rows"])) for s in stages(status, made)]
    if rows:
        echo()
        print_table(("STAGE", "KIND", "OPERATOR", "STATE ROWS"), rows, right=("OPERATOR", "STATE ROWS"))


def _batches_in_short(batches: dict[str, int]) -> str:
    """Return the last batch of each query, or only how many queries there are where that would widen the list."""
    text, committed = batches_text(batches), [batch for batch in batches.values() if batch >= 0]
    if len(text) <= BATCHES_WIDTH:
        return text
    span = f"{min(committed)} to {max(committed)}" if committed else "none yet"
    return f"{span} in {len(batches)} queries"
