"""The command supervise: start lost and failed drivers again."""

from __future__ import annotations

import signal
from typing import Any

import attrs
import click

from ..messages import echo
from ..option_types import Duration
from ..output import print_json
from ..settings import Settings, pass_settings, shared


@click.command(short_help="Watch apps, and restart their lost and failed drivers.")
@click.argument("apps", nargs=-1, metavar="[APP]...")
@click.option("--once", is_flag=True, help="Check once, wait for what was started, and end.")
@click.option("--interval", type=Duration(), default="5", show_default=True, help="Time between two checks.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Starts in a row without a recovery, after which an app is left alone.",
)
@click.option(
    "--initial-backoff",
    "initial",
    type=Duration(),
    default="5",
    show_default=True,
    help="Delay before the second start in a row; it doubles.",
)
@click.option("--max-backoff", "most", type=Duration(), default="300", show_default=True, help="The longest delay.")
@click.option(
    "--reset-after",
    type=Duration(),
    default="600",
    show_default=True,
    help="How long a driver must have run, and committed, to count as recovered.",
)
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long a start may take.")
@click.option("--off", metavar="WHY", help="Switch the supervision of these apps off, and end.")
@click.option("--on", is_flag=True, help="Switch it on again, and end; an app that was left alone is tried again.")
@shared
@pass_settings
def supervise(
    settings: Settings,
    apps: tuple[str, ...],
    once: bool,
    interval: float,
    timeout: float,
    off: str | None,
    on: bool,
    **backoff: Any,
) -> None:
    """Watch the apps (default: all under the root) until it is interrupted, and start drivers again that are lost or
    failed.

    A driver continues from its own checkpoint in a new epoch, so that an old one that still lives cannot commit. The
    first start has no delay; each further one in a row waits twice as long. After --attempts starts without a recovery
    the app is in a crash loop: it is left alone, and the message says why. Start it with restart, or update it to a
    version that works.

    Apps that were cancelled, suspended or finished are never started, and apps that are being updated are left to their
    update. One supervisor watches an app; others stand by and take over within a minute.

    Exit codes: 0; with --once 1 when an app is dead and was not started.

    \b
    Examples:
      streamupdate supervise
      streamupdate supervise flight-windows --attempts 5 --once
      streamupdate supervise flight-windows --off 'migration of the topic until Friday'
    """
    if (off is not None or on) and not apps:
        raise click.UsageError("--off and --on need the apps they are for")
    if off is not None and (on or not off.strip()):
        raise click.UsageError("--off needs a reason, and does not go with --on")
    if off is not None or on:
        return _switch(settings, apps, off)
    from ...control.supervision.decision import Backoff
    from ...core.processes.threads import Alarm

    client, end = settings.client(), Alarm()
    for app in apps:
        client.registry.existing(app)
    before = signal.signal(signal.SIGTERM, lambda *_: end.set())
    try:
        gave_up = client.supervise(
            apps, Backoff(**backoff), interval, timeout, progress=_print_line, once=once, end=end
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    if settings.as_json:
        print_json([attrs.asdict(one) for one in gave_up])
    if once and gave_up:
        raise click.exceptions.Exit(1)
    return None


def _switch(settings: Settings, apps: tuple[str, ...], off: str | None) -> None:
    """Switch the supervision of apps off for a reason, or on."""
    for app in apps:
        settings.client_of(app).switch_supervision(app, off)
        if not settings.as_json:
            echo(f"the supervision of {app} is {'on' if off is None else 'off: ' + off}")
    if settings.as_json:
        print_json([{"app": app, "off": off} for app in apps])


def _print_line(line: str) -> None:
    from ...core import clock

    echo(f"{clock.now()} {line}", err=True)
