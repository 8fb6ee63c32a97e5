"""The command history: the updates that an app has had, and what one of them changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..messages import echo, one_line, printable
from ..output import moment, number, print_facts, print_json, print_table
from ..settings import Settings, pass_settings, shared

if TYPE_CHECKING:
    from ...control.code_diff import CodeDiff
    from ...control.review.review import Review
    from ...core.registry.registry import AppRegistry
    from ...core.registry.update import UpdateRecord


@click.command(short_help="Show the updates of an app, or what one of them changed.")
@click.argument("app")
@click.argument("update", required=False)
@click.option("--diff", is_flag=True, help="With UPDATE: also show how the code differs.")
@shared
@pass_settings
def history(settings: Settings, app: str, update: str | None, diff: bool) -> None:
    """Show all updates and rollbacks of APP, the newest first; or what UPDATE changed (the deployment it brought in).

    For one update: its steps, who requested it, agreements, findings, the settings that differ, and the figures of the
    hours before and after its cut-over.

    \b
    Examples:
      streamupdate history flight-windows
      streamupdate history flight-windows 3f9c2a71 --diff
    """
    if diff and update is None:
        raise click.UsageError("--diff needs UPDATE: name the deployment that it brought in")
    client = settings.client()
    if update is None:
        return _list(settings, client.registry.existing(app))
    found = client.review(app, update)
    code = client.code_of_update(app, update) if diff else None
    if settings.as_json:
        from ...control.review.review import review_document
        from ...core.serde import to_dict

        document = review_document(found)
        return print_json({**document, "code": to_dict(code)} if diff else document)
    _print(found)
    if code is not None:
        _print_code(code)
    return None


def _list(settings: Settings, registry: AppRegistry) -> None:
    from ...control.overview import update_document
    from ...core.registry.hiding import Hiding
    from ...core.serde import to_dict

    hiding = Hiding.in_app(registry)
    updates = [hiding.update(record) for record in registry.updates()]
    rollbacks = [hiding.rollback(record) for record in registry.rollbacks()]
    if settings.as_json:
        return print_json(
            {"updates": [update_document(u) for u in updates], "rollbacks": [to_dict(r) for r in rollbacks]}
        )
    rows = [
        (u.started_at, u.old, u.new, u.strategy, _outcome(u), _pause(u), u.asked_by, _one_line(u.reason))
        for u in updates
    ]
    for r in rollbacks:
        ended = "rolled back" if r.epoch is not None else "nothing started"
        outcome = ended if r.ended_at else "under way"
        rows.append((r.started_at, r.left, r.back_to, "rollback", outcome, None, r.asked_by, _one_line(r.reason)))
    print_table(
        ("STARTED", "FROM", "TO", "STRATEGY", "OUTCOME", "PAUSE", "REQUESTED BY", "REASON"),
        ((moment(at), *facts) for at, *facts in sorted(rows, key=lambda row: row[0], reverse=True)),
        right=("PAUSE",),
    )
    if not rows:
        echo(f"{registry.name} has not been updated yet", err=True)
    return None


def _print(found: Review) -> None:
    from ...control.update.record import step_seconds

    update = found.update
    paused = "" if update.paused_at is None else f", from {moment(update.paused_at)} on"
    print_facts(
        {
            "app": update.app,
            "update": f"from {update.old} to {update.new}, {update.strategy}",
            "outcome": _outcome(update),
            "reason": update.reason,
            "started": moment(update.started_at),
            "requested by": update.asked_by,
            "pause": None if update.pause_seconds is None else f"{update.pause_seconds} s{paused}",
            "agreed to": "\n".join(found.agreed),
            "verdicts": ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.items()),
            "problems": "\n".join(found.problems),
            "compared": found.compared,
            "verified": "\n".join(update.verified),
            "rolled back": found.rollback and f"{moment(found.rollback.started_at)} by {found.rollback.asked_by}",
        }
    )
    echo()
    print_table(
        ("STEP", "ENDED", "SECONDS"),
        ((name, moment(at), f"{seconds:.1f}") for name, at, seconds in step_seconds(update)),
        right=("SECONDS",),
    )
    echo()
    if found.settings is None:
        echo("The settings cannot be compared: the files of one version are gone.")
    elif found.settings:
        print_table(("PART", "KEY", "BEFORE", "AFTER"), ((c.part, c.key, c.before, c.after) for c in found.settings))
    else:
        echo("No setting differs.")
    echo()
    if found.hours is None:
        echo("No figures are recorded for the hours before and after.")
        return
    echo(f"Before: {_long(found.hours.before)}, after: {_long(found.hours.after)}")
    print_table(
        ("QUERY", "FIGURE", "UNIT", "BEFORE", "AFTER"),
        ((f.query, f.figure, f.unit, _figure(f.before), _figure(f.after)) for f in found.hours.figures),
        right=("BEFORE", "AFTER"),
    )


def _print_code(code: CodeDiff) -> None:
    echo()
    for file in code.files:
        echo(one_line(str(file)))
        for line in file.lines:
            click.secho(printable(line), fg="green" if line[:1] == "+" else "red" if line[:1] == "-" else None)
    if not code.files:
        echo("The code is the same." if not code.notes else "")
    for note in code.notes:
        echo(note)


def _outcome(update: UpdateRecord) -> str:
    return update.outcome or f"under way (after {update.step})"


def _pause(update: UpdateRecord) -> str | None:
    return None if update.pause_seconds is None else f"{update.pause_seconds:.2f} s"


def _figure(value: float | None) -> Any:
    if value is None or abs(value) >= 10 or value == int(value):
        return number(value)
    return f"{value:.3f}"


def _long(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _one_line(text: str | None) -> str | None:
    """Return the first line of a reason."""
    return text.splitlines()[0] if text and text.strip() else None
